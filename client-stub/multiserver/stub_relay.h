/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relay: asynchronous work between servers, such as a stream that waits for an event of
 * another server, or a copy in the order of a stream.
 *
 * Each job waits on a thread of its own for the work before it, does its work, and
 * releases the semaphore that holds back the work behind it (stub_internal_stream.h). A
 * job that fails releases its semaphore as well, so that nothing hangs.  Its error is
 * returned by a later call that waits for that server, like CUDA's errors of
 * asynchronous work.
 */
#ifndef STUB_RELAY_H
#define STUB_RELAY_H

#include "stub_internal_stream.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_link;

/* Jobs that wait at a time; a thread each. */
#define STUB_RELAYS_MAX 512u

struct stub_move;

/* When @fence is reached: make @move (NULL: nothing to move), then release @semaphore.
 */
CUresult stub_relay(const struct stub_fence *fence, const struct stub_move *move,
                    const struct stub_semaphore *semaphore);

/* For a call of the program's at @link whose own result is @r: the error of a relay
 * that concerns the link, once.  Calls of ours in the middle of one leave it to the
 * program. */
CUresult stub_relay_result(struct stub_link *link, CUresult r);

#endif
