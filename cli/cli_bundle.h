/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders that `gpupool init` makes, one for each kind of host, and what belongs
 * into each: keys, tokens, and the environment of a unit or a shell.
 *
 *   scheduler/                 ticket-key.pem, tokens of all roles, scheduler.env
 *   server/ or server-NAME/    scheduler-key.pub, token, server.env
 *   client/ or client-NAME/    scheduler-key.pub, token, client.env
 *   admin/                     the same with the admin token
 *
 * Plain values, one thread.  The check is cli_bundle_check.c's.
 */
#ifndef CLI_BUNDLE_H
#define CLI_BUNDLE_H

#include "gp_base.h"

struct gp_err;

/* Random bytes of a token, before base64url. */
#define CLI_TOKEN_BYTES 32
/* Servers and users that are named on one command line. */
#define CLI_BUNDLE_NAMES_MAX 256

struct cli_bundle {
    const char *dir;       /* where the folders are made */
    const char *target;    /* where they are on their hosts */
    const char *scheduler; /* HOST:PORT */
    const char *servers;   /* NAME,...; NULL: all have one token */
    const char *users;     /* NAME:RIGHT+RIGHT,...; NULL: all have one token */
};

/* Where the units look. */
#define CLI_BUNDLE_DIR "/etc/gpupool"
/* The group that a scheduler's unit may read its folder by (deploy/systemd). */
#define CLI_BUNDLE_GROUP "gpupool"

/* Make keys, tokens and folders.  -EEXIST: there are some, and @force is not given.
 * -EINVAL: a name, a right or an address that daemons would refuse; nothing was made.
 */
int cli_bundle_make(const struct cli_bundle *bundle, bool force, struct gp_err *err);

/* Is @text HOST:PORT, or several with commas between, as daemons take it?  @listens:
 * the host may be missing. */
int cli_bundle_check_address(const char *text, bool listens, struct gp_err *err);
/* Are all of @rights, with commas between, rights of users?  -EINVAL: the words name
 * the one that is not. */
int cli_bundle_check_rights(const char *rights, struct gp_err *err);

/* Look at the folders of @dir that are there and print what is wrong with them.
 * Returns the number of faults; -ENOENT: none of the folders is there. */
int cli_bundle_check(const char *dir, struct gp_err *err);

#endif
