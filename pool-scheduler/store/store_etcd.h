/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared store: etcd, for several schedulers of which one leads.
 *
 * The leader holds a key with a lease.  Every transaction compares two things: that
 * this very key is still there, so that a leader that was cut off writes nothing after
 * another took over; and that the key "fence" is as this scheduler's last transaction
 * left it, so that a request which was given up, and repeated through another member,
 * is done once even when the first one arrives later.
 *
 * Threads: the writer's, one that keeps the lease (or tries to get it), and one that
 * watches.  Each has its own connection.
 */
#ifndef STORE_ETCD_H
#define STORE_ETCD_H

#include "etcd_http.h"

struct store;

/* Keys beside the records. */
#define STORE_LEADER_KEY "leader"
#define STORE_FENCE_KEY "fence"
#define STORE_TICKET_KEY "ticket-key"
#define STORE_IMPORT_KEY                                                               \
    "import" /* while store_etcd_import() has not reached its end */

/* @config outlives it. */
int store_etcd_open(const struct etcd_config *config, struct store **ret_store,
                    struct gp_err *err);

/* Put everything that @from has, and @key (PEM; NULL: none) as the key of tickets, into
 * an etcd that holds no pool.  -EEXIST: it does.  After any other error the etcd may
 * hold a part, which store_ops.load refuses, and which the next import replaces. */
int store_etcd_import(struct store *etcd, struct store *from, const char *key,
                      size_t *ret_n, struct gp_err *err);

#endif
