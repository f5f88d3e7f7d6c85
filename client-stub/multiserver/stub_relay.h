/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work between servers that nobody waits for: an event of one that a stream of another
 * waits for, a copy in the order of a stream.
 *
 * Each piece waits on a thread of its own for what comes before it, does what is to be
 * done, and opens the gate that holds back what comes after it
 * (stub_internal_stream.h).  A piece that fails opens its gate as well, so that nothing
 * hangs, and its error is returned by a later call of the thread that deals with that
 * server, as CUDA does with work that fails behind the program's back.
 */
#ifndef STUB_RELAY_H
#define STUB_RELAY_H

#include "stub_internal_stream.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_link;

/* Pieces that wait at a time; a thread each. */
#define STUB_RELAYS_MAX 512u

struct stub_move;

/* When @mark is reached: make @move (NULL: nothing to move), then open @gate. */
CUresult stub_relay(const struct stub_fence *mark, const struct stub_move *move,
                    const struct stub_semaphore *gate);

/* The error of a relay that concerns @link, once. */
CUresult stub_relay_result(struct stub_link *link, CUresult r);

#endif
