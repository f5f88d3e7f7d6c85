/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `gpupool run` is asked for, so that others (`gpupool doctor -- PROGRAM`) take
 * the same options and run a program the same way.
 *
 * A plain value of the caller's around the request for a session (cli_want.h): made
 * with cli_want_init(&request.want), ended with cli_want_fini().  One thread.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli_want.h"

#define CLI_RUN_VARIABLES_MAX 256 /* --env; more belong into a file */

struct cli_run_request {
    struct cli_want want;
    char **program;   /* with its arguments and a NULL */
    const char *name; /* shown instead of the program; NULL: that */
    const char *variables[CLI_RUN_VARIABLES_MAX];
    unsigned n_variables;
    bool verbose, unbound, dry_run, wait, keep_ptx;
    bool detached;       /* a job, which waits whether --wait is given or not */
    bool reports;        /* the program writes into a memory file of this process */
    uint32_t wait_ms;    /* 0: no limit */
    uint32_t check_exit; /* 0: the program's own */
    char gang[64];       /* its name; "": none */
    /* It has a session, or NULL. */
    void (*began)(void *arg, const char *session);
    void *began_arg;
};

/* The options of `gpupool run` for @request: CLI_RUN_SETS sets are written to @sets. */
#define CLI_RUN_SETS 4
unsigned cli_run_sets(struct cli_run_request *request, struct gp_option_set_of *sets);

/* Read the options and the program's name and arguments; @program is "gpupool run" or
 * what else takes the same.  -1: go on; else the exit status. */
int cli_run_parse(struct cli_run_request *request, const char *program,
                  const char *about, const char *after, int argc, char **argv);

/* Whether the program can be started: 0, or the exit status that says it cannot, with
 * words of @command ("run"). */
int cli_run_check_program(const struct cli_run_request *request, const char *command);

/* Run the program to its end; returns the exit status. */
int cli_run_program(struct cli_run_request *request);

#endif
