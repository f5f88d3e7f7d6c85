/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a daemon in the background and waiting until it is ready or dead.
 *
 * No state, one thread.  The daemon gets its own session, no terminal, its output in a
 * log file.
 */
#ifndef CLI_DAEMON_H
#define CLI_DAEMON_H

#include "cli_pool.h"
#include "gp_base.h"

struct gp_err;

/* Start @argv, with "NAME=value" @env added to the environment unless NULL;
 * *ret_process is filled and *ret_pidfd is the caller's. */
int cli_daemon_start(const char *name, const char *const *argv, const char *env,
                     const char *log_path, struct cli_process *ret_process,
                     int *ret_pidfd, struct gp_err *err);

/* Wait until @path exists, which the daemon writes when it is ready.  The folder of
 * @path must exist.  -ECHILD: it ended instead; -ETIMEDOUT. */
int cli_daemon_await_file(const char *folder, const char *path, int pidfd,
                          uint64_t deadline_ns, struct gp_err *err);

/* The last lines of a log file, on stderr, indented. */
void cli_daemon_show_log(const char *log_path);

#endif
