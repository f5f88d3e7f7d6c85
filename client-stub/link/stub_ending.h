/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out why a link ended, and reports it to `gpupool run`.
 *
 * A server that ends a session says so over the connection.  A worker that is killed
 * cannot, so the supervisor is queried, once, over a new connection.  Used by
 * stub_link_lose() only, which lets one thread at a time in.
 */
#ifndef STUB_ENDING_H
#define STUB_ENDING_H

#include "gp_base.h"

#include <stddef.h>

struct stub_link;

/* The longest that all queries take together. */
#define STUB_ENDING_MS 500

/* The words of one cause, with the NUL. */
#define STUB_ENDING_MAX 256

/* Words for the transport's error @r (-errno); may ask the supervisor. */
void stub_ending_of(const struct stub_link *link, int r, char words[STUB_ENDING_MAX]);

/* Leave @line, why the session ended, to `gpupool run`, if that has started this
 * program. */
void stub_ending_leave(const char *line);

/* The same for the first @len bytes of @words, why a call fails: `gpupool run` repeats
 * them if the program fails.  Only the first such words of a process count. */
void stub_ending_cause(const char *words, uint32_t len);

#endif
