/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hardware errors of the cards, as NVML reports them: a process
 * (`gpupool-worker --probe --events`) waits for them, because the supervisor loads no
 * driver, and srv_health decides what follows.
 *
 * Runs while the server does, where the probe found that NVML reports errors.  When the
 * process ends, the cards are checked, since a card that is lost may be the cause, and
 * it is started again after a pause.  Owned by struct srv; event-loop thread only.
 */
#ifndef SRV_WATCH_H
#define SRV_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

struct gp_err;
struct srv;
struct srv_watch;

/* The inventory is there.  *ret NULL: nothing reports errors. */
int srv_watch_start(struct srv *srv, struct srv_watch **ret, struct gp_err *err);
void srv_watch_free(struct srv_watch *watch); /* NULL is a no-op */
/* SIGCHLD: true when @pid was the process. */
bool srv_watch_reaped(struct srv_watch *watch, pid_t pid, int status);

#endif
