/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log of a daemon: who was given, denied or ordered what, and from where; one
 * JSON object in a line, appended to a file of mode 0600.
 *
 * Not the log for people (gp_log.h): every event of its kinds is here, and no secret
 * ever is.  Denials, which anybody can provoke, are limited; how many were left out
 * is said in the next one ("denials_left_out").  So is how many lines a disk did not
 * take ("lines_lost"), as a full one; when it has room again, the log goes on with a
 * line of its own.  One file per process; event-loop thread only.
 */
#ifndef GP_AUDIT_H
#define GP_AUDIT_H

struct gp_err;

/* Append to @path from now on; without it gp_audit() does nothing. */
int gp_audit_open(const char *path, struct gp_err *err);

/* Open the file of that path again, as after it was renamed by log rotation.  On
 * failure the old one stays; 0 without an audit log. */
int gp_audit_reopen(struct gp_err *err);

/* Write {"time":..., "event":@event, ...} with the pairs of strings (name, value) that
 * follow, up to a NULL name.  A NULL value leaves its pair out. */
void gp_audit(const char *event, ...) __attribute__((sentinel));
/* The same for what was denied. */
void gp_audit_deny(const char *event, ...) __attribute__((sentinel));

#endif
