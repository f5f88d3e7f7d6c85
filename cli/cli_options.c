/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_options.h"

#include "cli.h"
#include "gp_err.h"

#include <errno.h>
#include <string.h>

/* An empty address would be looked up, and refused in words that name nothing. */
static int
set_scheduler(void *target, const struct gp_option *option, const char *value,
              struct gp_err *err)
{
    if (!*value)
        return gp_err_set(err, -EINVAL, "HOST:PORT is wanted");
    return gp_option_text(target, option, value, err);
}

#define SCHEDULER                                                                      \
    {                                                                                  \
        .name = "scheduler", .value = "HOST:PORT",                                     \
        .help = "else GPUPOOL_SCHEDULER, else the pool of `gpupool up`",               \
        .env = "GPUPOOL_SCHEDULER", .set = set_scheduler,                              \
        .offset = offsetof(struct cli_where, scheduler)                                \
    }
#define TOKEN(words_)                                                                  \
    {                                                                                  \
        .name = "token-file", .value = "FILE", .help = words_, .set = gp_option_text,  \
        .env = "GPUPOOL_TOKEN_FILE", .offset = offsetof(struct cli_where, token_file)  \
    }

struct gp_option_set_of
cli_where_client(struct cli_where *where)
{
    static const struct gp_option options[] = {
        SCHEDULER, TOKEN("else GPUPOOL_TOKEN_FILE: the pool's client token")};

    return (struct gp_option_set_of){options, ARRAY_SIZE(options), where};
}

struct gp_option_set_of
cli_where_admin(struct cli_where *where)
{
    static const struct gp_option options[] = {
        SCHEDULER, TOKEN("else GPUPOOL_TOKEN_FILE: the pool's admin token; the local "
                         "pool knows its own user without one")};

    return (struct gp_option_set_of){options, ARRAY_SIZE(options), where};
}

int
cli_options(const struct gp_options *options, int argc, char **argv, int *ret_first)
{
    const char *name = strchr(options->program, ' ');
    struct gp_err err = {0};
    int r = gp_options_parse(options, argc, argv, ret_first, &err);

    if (r == 0)
        return -1;
    return r > 0 ? CLI_OK
                 : cli_fail(CLI_USAGE, "%s: %s", name ? name + 1 : options->program,
                            gp_err_msg(&err, r));
}
