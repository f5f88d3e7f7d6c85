/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connections are to end when all peers together read too little of their
 * answers: of the address with most unread bytes, the connection with most of them, and
 * so on.  Addresses are told apart as in sched_crowd.h.
 *
 * No state of its own; it ends nothing itself.  Event loop thread only.
 */
#ifndef SCHED_UNREAD_H
#define SCHED_UNREAD_H

#include "sched_types.h"

struct sched_unread {
    struct sched_conn *conn;
    size_t bytes, bucket;
};

/* Those without which at most @most bytes are unread, in the order in which they are
 * to end; the caller frees the list.  *@ret_total: of all connections, in bytes.  Takes
 * the time of sorting the connections once, however many have to end.
 *
 * -ENOMEM. */
int sched_unread_choose(const struct sched *sched, size_t most,
                        struct sched_unread **ret_list, size_t *ret_n,
                        size_t *ret_total);

#endif
