/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of the control plane: register with the scheduler, report,
 * obey.
 *
 * One connection, made again and again for as long as the server lives; sessions
 * go on while it is down and are reported at the next registration.  The event
 * loop owns it; connecting alone runs in a short-lived thread, because resolving
 * a name can block.
 */
#ifndef SRV_REGISTER_H
#define SRV_REGISTER_H

#include "gp_base.h"

#include <stdbool.h>

struct gp_err;
struct srv;
struct srv_register;

/* Begin; with no --scheduler this is a no-op and *ret is NULL. */
int srv_register_start(struct srv *srv, struct srv_register **ret, struct gp_err *err);

/* Something changed: report within a few milliseconds.  NULL is a no-op. */
void srv_register_changed(struct srv_register *reg);

/* Read the token again; a link to a scheduler whose key is not trusted any more ends.
 * On failure the old token stays.  NULL is a no-op. */
int srv_register_reload(struct srv_register *reg, struct gp_err *err);

/* Say goodbye, as far as the socket takes it.  NULL is a no-op. */
void srv_register_leave(struct srv_register *reg);
void srv_register_free(struct srv_register *reg);

/* Whether a scheduler has accepted the registration and the connection lives. */
bool srv_register_connected(const struct srv_register *reg);

#endif
