/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of pools: a request that does not fit here is handed to another pool.
 *
 *   does not fit -> the pools of the rules file, in their order, one after the other
 *                -> a grant: the client's from then on, who renews it there
 *                -> none: the request is decided here again, and waits or is refused;
 *                   while it waits, the others are asked again now and then
 *
 * The other pool knows this scheduler as a user with the right to forward; a request
 * that was handed on is handed on no further, so it cannot go in circles.
 *
 * Owned by struct sched.  Event loop thread only; the asking is done by threads
 * (sched_fed_link.h).
 */
#ifndef SCHED_FED_H
#define SCHED_FED_H

#include "control.pb-c.h"
#include "gp_base.h"
#include "sched_said.h"

struct gp_err;
struct gp_loop;
struct sched;
struct sched_conn;
struct sched_fed;
struct sched_fed_link;
struct sched_rules;

/* The pools that @rules name, their keys and tokens read from their files.  Those that
 * are the same in @old (may be NULL) keep their connections.  -EINVAL and errors of
 * files: words name the section. */
int sched_fed_new(struct gp_loop *loop, const struct sched_rules *rules,
                  const struct sched_fed *old, struct sched_fed **ret,
                  struct gp_err *err);
/* Requests under way are still answered. */
void sched_fed_free(struct sched_fed *fed); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_fed, sched_fed_free)
/* The scheduler ends; its connections are gone already. */
void sched_fed_cancel(struct sched_fed *fed); /* NULL is a no-op */

unsigned sched_fed_count(const struct sched_fed *fed); /* NULL: 0 */
struct sched_fed_link *sched_fed_at(const struct sched_fed *fed, unsigned i);

/* May @msg be handed to another pool when it does not fit here? */
bool sched_fed_wanted(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg);
/* -ENOENT: there is no pool of the name that @msg asks for; words name those there are.
 */
int sched_fed_check(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg,
                    struct gp_err *err);

/* Ask the others for @msg, the request @id of @conn that @owner makes.  It is answered,
 * or handled again with what they said (sched_handle_open_again()), later.  -ENOMEM. */
int sched_fed_ask(struct sched_conn *conn, uint32_t id,
                  const Gpupool__Ctl__CtlOpen *msg, const char *owner);
/* Its connection is gone, or it was served here.  Nothing is asked: a no-op. */
void sched_fed_end(struct sched_conn *conn);
/* Are the others being asked for a request of @conn that does not wait here? */
bool sched_fed_asks(const struct sched_conn *conn);
/* Ask again for one of those who wait.  Every tick. */
void sched_fed_tick(struct sched *sched, uint64_t now);

#endif
