/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say which pool is meant, and parsing as all commands do it
 * (gp_option.h).
 *
 * Plain values; strings belong to argv or the environment.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "gp_option.h"

struct cli_where {
    const char *context, *scheduler, *token_file;
};

/* Sets of one program: which pool, with the token of a client or of an administrator.
 */
struct gp_option_set_of cli_where_client(struct cli_where *where);
struct gp_option_set_of cli_where_admin(struct cli_where *where);

/* Parse, and find the pool that is meant (cli_context.h) where the tables ask for one.
 * -1: go on, *ret_first is the first argument; else the exit status of the command,
 * which has said why. */
int cli_options(const struct gp_options *options, int argc, char **argv,
                int *ret_first);

#endif
