/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool for people and programs that look at it over HTTP: a page at "/", a JSON API
 * below "/api/v1/", and nothing that changes anything.
 *
 * A thread of its own reads requests, speaks TLS and writes JSON.  Of the scheduler's
 * event loop it needs one bounded call per request (view_call.h), which checks who asks
 * and packs a page of rows (sched_list.h); so however slow a reader is, decisions wait
 * for a page at most.
 *
 * Who may look: whoever shows the client's or the administrator's token in a header
 * "Authorization: Bearer TOKEN"; over a Unix socket also the scheduler's own user and
 * root; everybody, when clients need no token (--allow-anonymous client) or when the
 * view is open by choice (--http-public).  In clear text over TCP a token would be read
 * by others, so without a certificate the view listens on loopback only, unless it is
 * open.
 */
#ifndef VIEW_H
#define VIEW_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct sched;
struct view;

#define VIEW_DEFAULT_PORT 7482

int view_start(struct sched *sched, struct view **ret, struct gp_err *err);
void view_stop(struct view *view); /* NULL is a no-op */

/* The certificate and the key of --http-cert and --http-key as their files are now, for
 * connections that come from view_cert_use() on; those that are open end with their
 * next answer.  *ret is NULL where nothing has changed, where the view is in clear
 * text, and without one. */
struct view_cert;
int view_cert_read(struct view *view, struct view_cert **ret, struct gp_err *err);
void view_cert_free(struct view_cert *cert); /* NULL is a no-op */
DEFINE_CLEANUP(struct view_cert, view_cert_free)
/* Takes @cert over; NULL is a no-op. */
void view_cert_use(struct view *view, struct view_cert *cert);

/* Until when the certificate holds that is shown, in seconds since 1970; 0: there is
 * none.  The scheduler's loop. */
int64_t view_cert_until(const struct view *view);

#endif
