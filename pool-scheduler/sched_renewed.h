/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to a CtlRenewMany: a draft (sched_draft.h) with a place for each session
 * of the request.
 *
 * Made and filled on the event loop's thread, then packed: there, if no tickets have to
 * be signed, else on a signing thread.
 */
#ifndef SCHED_RENEWED_H
#define SCHED_RENEWED_H

#include "control.pb-c.h"
#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

struct sched;
struct sched_draft;
struct sched_grant;
struct sched_renewed;

/* The answer to @request about @n sessions, none of them filled in.  NULL: out of
 * memory. */
struct sched_renewed *sched_renewed_new(struct sched *sched, uint32_t request,
                                        size_t n);
void sched_renewed_free(struct sched_renewed *renewed); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_renewed, sched_renewed_free)

/* The next session is renewed for @lease_ms.  @grant: new tickets, @renewed's from now
 * on; or NULL. */
void sched_renewed_add(struct sched_renewed *renewed, uint64_t id, uint32_t lease_ms,
                       struct sched_grant *grant);
/* The next session is not renewed. */
void sched_renewed_refuse(struct sched_renewed *renewed, uint64_t id,
                          Gpupool__Ctl__CtlCode code, const char *words);

/* How many are renewed. */
size_t sched_renewed_count(const struct sched_renewed *renewed);
/* Are there tickets to sign? */
bool sched_renewed_signs(const struct sched_renewed *renewed);
struct sched_draft *sched_renewed_draft(struct sched_renewed *renewed);

#endif
