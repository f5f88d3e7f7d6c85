/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that tells the client stub where its server is: gpupool-session(5).
 *
 *     gpupool-session 1
 *     session NAME
 *     secret BASE64URL
 *     server HOST:PORT
 *     local unix:/PATH
 *     ticket TEXT
 *
 * Mode 0600 in the user's private folder, replaced as a whole at each renewal, removed
 * at the end.  No state, one thread.
 *
 * PATH.end beside it takes words back: what the stub says when the session is lost.
 */
#ifndef CLI_SESSION_FILE_H
#define CLI_SESSION_FILE_H

#include "control.pb-c.h"
#include "gp_base.h"
#include "gp_x25519.h"

struct gp_err;

/* A path for the session @name of this process, malloc'ed.  Also removes files that a
 * killed `gpupool run` left behind. */
int cli_session_file_path(const char *name, char **ret_path, struct gp_err *err);

/* An empty file beside @path, in which a program leaves lines: why its session was
 * lost, and why calls failed (WIRE_ENDING_CAUSE). */
int cli_session_file_await_end(const char *path, struct gp_err *err);

/* The first line that says why the session was lost; if there is none and the program
 * has @failed, the first that says why a call did.  Without newline and prefix;
 * malloc'ed, NULL: none.  *ret_found: whether a checked card has found something
 * (WIRE_ENDING_CHECK).  The file is removed. */
char *cli_session_file_take_end(const char *path, bool failed, bool *ret_found);

/* @secret: what the tickets are bound to; NULL: they are not. */
int cli_session_file_write(const char *path, const Gpupool__Ctl__CtlGrant *grant,
                           const uint8_t *secret, struct gp_err *err);

#endif
