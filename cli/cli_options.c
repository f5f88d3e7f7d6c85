/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_options.h"

#include "cli.h"
#include "cli_context.h"
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

#define CONTEXT                                                                        \
    {                                                                                  \
        .name = "context", .value = "NAME",                                            \
        .help = "a pool of `gpupool context list` (GPUPOOL_CONTEXT)",                  \
        .env = "GPUPOOL_CONTEXT", .complete = "contexts", .set = gp_option_text,       \
        .offset = offsetof(struct cli_where, context)                                  \
    }
#define SCHEDULER                                                                      \
    {                                                                                  \
        .name = "scheduler", .value = "HOST:PORT",                                     \
        .help = "else GPUPOOL_SCHEDULER, the context, or the pool of `gpupool up`",    \
        .env = "GPUPOOL_SCHEDULER", .set = set_scheduler,                              \
        .offset = offsetof(struct cli_where, scheduler)                                \
    }
#define TOKEN(words_)                                                                  \
    {                                                                                  \
        .name = "token-file", .value = "FILE", .help = words_, .set = gp_option_text,  \
        .env = "GPUPOOL_TOKEN_FILE", .offset = offsetof(struct cli_where, token_file)  \
    }

static const struct gp_option CLIENT[] = {
    CONTEXT, SCHEDULER, TOKEN("else GPUPOOL_TOKEN_FILE: the pool's client token")};

static const struct gp_option ADMIN[] = {
    CONTEXT, SCHEDULER,
    TOKEN(
        "else GPUPOOL_TOKEN_FILE: the pool's admin token; the local pool knows its own "
        "user without one")};

struct gp_option_set_of
cli_where_client(struct cli_where *where)
{
    return (struct gp_option_set_of){CLIENT, ARRAY_SIZE(CLIENT), where};
}

struct gp_option_set_of
cli_where_admin(struct cli_where *where)
{
    return (struct gp_option_set_of){ADMIN, ARRAY_SIZE(ADMIN), where};
}

static int
resolve(const struct gp_options *options, struct gp_err *err)
{
    for (size_t i = 0; i < options->n_sets; i++)
        if (options->sets[i].options == CLIENT || options->sets[i].options == ADMIN)
            return cli_context_resolve(options->sets[i].target, err);
    return 0;
}

int
cli_options(const struct gp_options *options, int argc, char **argv, int *ret_first)
{
    const char *name = strchr(options->program, ' ');
    struct gp_err err = {0};
    int r = gp_options_parse(options, argc, argv, ret_first, &err);

    if (r == 0)
        r = resolve(options, &err);
    if (r == 0)
        return -1;
    return r > 0 ? CLI_OK
                 : cli_fail(CLI_USAGE, "%s: %s", name ? name + 1 : options->program,
                            gp_err_msg(&err, r));
}
