/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modules, libraries, graphs, nodes and user objects exist: a handle of one that
 * is gone is refused, and not followed into memory that was freed.  Any thread.
 */
#ifndef NULL_LIVE_H
#define NULL_LIVE_H

#include <stdbool.h>

enum null_live {
    NULL_LIVE_GRAPH = 1,
    NULL_LIVE_NODE,
    NULL_LIVE_OBJECT,
    NULL_LIVE_MODULE,
    NULL_LIVE_LIBRARY, /* which is its own module */
    NULL_LIVE_PIECE,   /* of physical memory */
};

bool null_live_enter(const void *what, enum null_live kind); /* false: no memory */
void null_live_leave(const void *what);                      /* it may not be there */
bool null_live_is(const void *what, enum null_live kind);

#endif
