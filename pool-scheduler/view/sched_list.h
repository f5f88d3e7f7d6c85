/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of what the pool has (CtlList), for the command line and for the JSON API.
 *
 * A page looks at a bounded number of objects, however large the pool is: it goes on in
 * an index where the page before ended.  With a filter for which there is no index it
 * may therefore have fewer rows than asked for, and still name a next page.  Between
 * two pages the pool may change; a row that is there all the time is in exactly one
 * page.
 *
 * Sessions that are being opened, whose transaction is not on disk yet, are left out.
 * Event loop thread only.
 */
#ifndef SCHED_LIST_H
#define SCHED_LIST_H

#include "control.pb-c.h"

struct gp_err;
struct sched;
struct sched_conn;

/* Objects that one page looks at, most: two milliseconds or so. */
#define SCHED_LIST_LOOKS 2000
/* A page of servers or cards with their sessions ends early when it has so many. */
#define SCHED_LIST_SLICES 2000

/* Make the page that @want describes and give it to @take, once; it is gone when that
 * returns.  -EINVAL with words: @want is nonsense.  -ENOMEM. */
int sched_list(const struct sched *sched, const Gpupool__Ctl__CtlList *want,
               void (*take)(void *arg, Gpupool__Ctl__CtlReply *reply), void *arg,
               struct gp_err *err);

/* A CtlList of a peer. */
void sched_handle_list(struct sched_conn *conn, uint32_t id,
                       const Gpupool__Ctl__CtlList *msg);

#endif
