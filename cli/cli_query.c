/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_query.h"

#include "cli.h"
#include "cli_ctl.h"
#include "gp_err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
exit_code(int r)
{
    return r == -EINVAL ? CLI_USAGE : r == -ESRCH ? CLI_REFUSED : cli_ctl_exit(r, NULL);
}

int
cli_query_run(struct cli_query *query, const struct gp_options *options, int argc,
              char **argv,
              int (*show)(struct cli_query *query, char **args, int n,
                          struct gp_err *err))
{
    const char *name = strchr(options->program, ' ') + 1; /* "gpupool NAME" */
    struct gp_err err = {0};
    int first, status = cli_options(options, argc, argv, &first), r;

    if (status >= 0)
        return status;
    r = cli_token(query->where.token_file, query->where.scheduler, CLI_TOKEN_CLIENT,
                  &query->token, &err);
    if (!r)
        r = show(query, argv + first, argc - first, &err);
    free(query->token);
    query->token = NULL;
    return r < 0 ? cli_fail(exit_code(r), "%s: %s", name, gp_err_msg(&err, r)) : CLI_OK;
}
