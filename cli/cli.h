/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of gpupool, and what they all need: where things are, how to speak
 * to the user.
 *
 * One command per process and per file (cli_<command>.c); one thread.  Results go to
 * stdout, everything else to stderr.
 */
#ifndef CLI_H
#define CLI_H

#include "gp_base.h"

struct gp_err;

/* Exit status: 0 good; what `run` returns is the program's. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,  /* it was tried */
    CLI_USAGE = 2,   /* it makes no sense */
    CLI_REFUSED = 3, /* `run`: the pool has no room, or does not allow it */
    CLI_NO_POOL = 4, /* `run`: the scheduler cannot be reached */
    CLI_NO_EXEC = 126,
    CLI_NOT_FOUND = 127,
};

int cli_up(int argc, char **argv);
int cli_down(int argc, char **argv);
int cli_job(int argc, char **argv);
int cli_init(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_status(int argc, char **argv);
int cli_servers(int argc, char **argv);
int cli_sessions(int argc, char **argv);
int cli_events(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_queue(int argc, char **argv);
int cli_pools(int argc, char **argv);
int cli_usage(int argc, char **argv);
int cli_cordon(int argc, char **argv);
int cli_uncordon(int argc, char **argv);
int cli_drain(int argc, char **argv);
int cli_forget(int argc, char **argv);
int cli_close(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_smi(int argc, char **argv);
int cli_ptxas(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_kube(int argc, char **argv);
int cli_describe(int argc, char **argv);
int cli_get(int argc, char **argv);
int cli_logs(int argc, char **argv);
int cli_context(int argc, char **argv);
int cli_complete(int argc, char **argv);

/* "gpupool: words" on stderr; returns @status. */
int cli_fail(int status, const char *fmt, ...) GP_PRINTF(2, 3);

/* Absolute path of a file of this installation; malloc'ed, NULL when it is not there.
 */
char *cli_path_bin(const char *name); /* beside the running gpupool */
char *cli_path_lib(void);             /* the folder that holds libcuda.so.1 */

/* "user@host" for sessions; static storage. */
const char *cli_owner(void);

#endif
