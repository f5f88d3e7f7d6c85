/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that tells the client stub where its server is: gpupool-session(5).
 *
 *     gpupool-session 1
 *     session NAME
 *     server HOST:PORT
 *     local unix:/PATH
 *     ticket TEXT
 *
 * Mode 0600 in the user's private folder, replaced as a whole at each renewal, removed
 * at the end.  No state, one thread.
 */
#ifndef CLI_SESSION_FILE_H
#define CLI_SESSION_FILE_H

#include "control.pb-c.h"
#include "gp_base.h"

struct gp_err;

/* A path for the session @name of this process, malloc'ed.  Also removes files that a
 * killed `gpupool run` left behind. */
int cli_session_file_path(const char *name, char **ret_path, struct gp_err *err);
int cli_session_file_write(const char *path, const Gpupool__Ctl__CtlGrant *grant,
                           struct gp_err *err);

#endif
