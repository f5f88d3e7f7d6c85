/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the cards work: one that does not is reported to the scheduler, which gives
 * it to nobody until it works again.
 *
 * A worker that ends with a hardware error of its driver, by a signal, or before it
 * could serve makes the cards of its session suspect.  That is no proof, because a
 * program can crash its worker as often as it likes: `gpupool-worker --probe --check N`
 * then uses the card in a process of its own, one at a time, and only what that finds
 * counts.  A card that failed is checked again and again until it works.
 *
 * An error that NVML reports (srv_watch.h) is proof: the card is out of use at once,
 * and comes back by a check that began later.
 *
 * Not kept over a restart: a card that is still broken is found again at the first
 * worker.  Owned by struct srv; event-loop thread only.
 */
#ifndef SRV_HEALTH_H
#define SRV_HEALTH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_err;
struct srv;
struct srv_health;
struct srv_session;

#define SRV_FAULT_MAX 128 /* words, with the NUL; as SCHED_FAULT_MAX */

int srv_health_new(struct srv *srv, struct srv_health **ret, struct gp_err *err);
void srv_health_free(struct srv_health *health); /* NULL is a no-op */

/* A worker of @session ended, which had seen a hardware @error, or @crashed. */
void srv_health_worker_ended(struct srv *srv, const struct srv_session *session,
                             bool error, bool crashed);
/* NVML reports an error of the card with @uuid.  It is out of use from now on, until a
 * check passes; but not for an Xid that a program's own mistake causes. */
void srv_health_xid(struct srv *srv, const uint8_t *uuid, uint64_t code);
void srv_health_ecc(struct srv *srv, const uint8_t *uuid);
/* Something is wrong, and it is not known with which card. */
void srv_health_check_all(struct srv *srv);
/* SIGCHLD: true when @pid was a check. */
bool srv_health_reaped(struct srv_health *health, pid_t pid, int status);
/* What is wrong with card @at of the inventory; "": nothing. */
const char *srv_health_fault(const struct srv_health *health, uint32_t at);

#endif
