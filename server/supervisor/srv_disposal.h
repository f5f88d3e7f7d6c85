/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that closes and removes what workers have left, because that can take long:
 * the last descriptor of a memory file frees its pages, a folder of exported memory may
 * have a million files.  In the event loop it would keep every session waiting.
 *
 * The supervisor has one from before the first worker until no more sessions are there,
 * and the keeper has one.  The functions are for the thread that made it; with NULL
 * they do the work themselves.
 */
#ifndef SRV_DISPOSAL_H
#define SRV_DISPOSAL_H

#include <stdbool.h>

struct gp_err;
struct srv_disposal;

int srv_disposal_new(struct srv_disposal **ret, struct gp_err *err);
/* With @all, after everything is done; else as soon as possible: descriptors are
 * closed, and folders are left for whoever calls srv_disposal_folder() next. */
void srv_disposal_free(struct srv_disposal *d, bool all); /* NULL is a no-op */

/* Close @fd; -1 is none. */
void srv_disposal_fd(struct srv_disposal *d, int fd);

/* Remove the folder @name, in which are only files, in the folder @at, which has to
 * stay open until srv_disposal_free(). */
void srv_disposal_folder(struct srv_disposal *d, int at, const char *name);

#endif
