/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a page of a list ended (CtlList.next), as text: two numbers of an index.
 *
 * Servers come in the order in which a scheduler has met them, so a page of servers or
 * cards can only be followed by another of the same scheduler.  Of several that share a
 * store, the one that leads marks its own; a follower that is asked for the next page
 * then asks the leader.  Pure; any thread.
 */
#ifndef SCHED_LIST_NEXT_H
#define SCHED_LIST_NEXT_H

#include "control.pb-c.h"
#include "ctl_limits.h"

#include <stdbool.h>
#include <stdint.h>

void sched_list_next_write(char text[CTL_LIST_NEXT_MAX], uint64_t a, uint64_t b,
                           bool of_leader);
/* False: it is not such a text.  An empty one is the beginning, two zeros. */
bool sched_list_next_read(const char *text, uint64_t ret[2]);

/* Must the page that @want asks for come from the scheduler whose copy, or from the
 * leader whose list, the page before was of?  Neither, if it may come from both. */
bool sched_list_next_is_of_copy(const Gpupool__Ctl__CtlList *want);
bool sched_list_next_is_of_leader(const Gpupool__Ctl__CtlList *want);

#endif
