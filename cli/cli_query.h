/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that asks the pool with the client's token and prints what it is told: its
 * common options, the token, and the code that it exits with.
 *
 * The object is the first member of the command's own, on its stack.
 */
#ifndef CLI_QUERY_H
#define CLI_QUERY_H

#include "cli_options.h"
#include "cli_output.h"

struct gp_err;
struct gp_options;

struct cli_query {
    struct cli_where where;
    struct cli_output output;
    char *token; /* while @show runs */
};

/* Read the options, among which those of @query must be, and let @show do the rest with
 * the @n arguments behind them.  @show returns 0, or -errno with words: -EINVAL is a
 * mistake of the user's, -ESRCH a thing that is not there.  Returns the exit code. */
int cli_query_run(struct cli_query *query, const struct gp_options *options, int argc,
                  char **argv,
                  int (*show)(struct cli_query *query, char **args, int n,
                              struct gp_err *err));

#endif
