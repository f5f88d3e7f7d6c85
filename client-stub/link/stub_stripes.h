/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection stripes: further connections to a distant server, for bulk data.
 *
 * GPUPOOL_CONNECTIONS=auto|N. auto: once a link has moved some MiB, a thread of the
 * stub measures its round trip; where that is long it opens more connections and lets
 * the transport find out whether they are faster.  N: that many in all (1: no more),
 * without measuring first.
 *
 * One decision per connection, and per link of one that is replaced (stub_resume.h):
 * the connections break with the link and are made again for the next one, once that
 * has as much need of them.  What fails although the link is whole is tried again a few
 * times.  The transport owns the connections.
 */
#ifndef STUB_STRIPES_H
#define STUB_STRIPES_H

#include <stdbool.h>
#include <stdint.h>

struct stub_feature;

/* Counts payloads until the decision is made (stub_hooks.h). */
extern const struct stub_feature stub_stripes_feature;

/* Read GPUPOOL_CONNECTIONS; -EINVAL: it is not an allowed value. */
int stub_stripes_settings(void);

#endif
