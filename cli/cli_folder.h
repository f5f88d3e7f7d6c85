/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's private folder for what runs: the local pool's files, session files.
 *
 *   $GPUPOOL_RUN_DIR, else $XDG_RUNTIME_DIR/gpupool, else /tmp/gpupool-UID
 *
 *   pool            the local pool (cli_pool.h)
 *   pool.d/         its state, logs and token
 *   sessions/       one session file per `gpupool run`
 *
 * No state, one thread.
 */
#ifndef CLI_FOLDER_H
#define CLI_FOLDER_H

#include "gp_base.h"

struct gp_err;

/* Make the folder if need be and return its path, malloc'ed.
 *
 * -EPERM: it exists but belongs to somebody else or others may write there, which in
 * /tmp can be an attack; nothing is read or written then.
 */
int cli_folder(char **ret_path, struct gp_err *err);

/* Path of @name in it, malloc'ed. */
int cli_folder_file(const char *name, char **ret_path, struct gp_err *err);

#endif
