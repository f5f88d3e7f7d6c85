/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time between two events, asked for together with the wait before it.
 *
 * A program that measures asks for the time between the same two events again and
 * again, each time behind a wait.  So pairs that were asked for are remembered, and the
 * next wait that covers a pair goes out as gp_wait_elapsed, whose reply has the time as
 * well.  It is the program's answer only while both events are still those of the
 * records that were in front of the wait (stub_event.h has their positions), so an
 * event that was recorded again or destroyed is asked about anew.
 *
 * The pairs belong to the process's only link, under its send lock: nothing is
 * remembered in sessions of several servers.  Any thread.
 */
#ifndef STUB_ELAPSED_H
#define STUB_ELAPSED_H

#include "cuda_abi.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_elapsed_wait {
    enum wire_wait what;
    uint64_t stream, event; /* what for, as the wire names it */
    CUresult result;        /* of the wait */
    uint64_t position;      /* of its frame */
};

/* Make the program's wait together with a question.  False: there is no question, and
 * nothing was done. */
bool stub_elapsed_wait(struct stub_elapsed_wait *wait);

#endif
