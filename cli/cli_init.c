/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool init: the keys and tokens of a pool on several hosts. */
#include "cli.h"
#include "cli_bundle.h"
#include "cli_options.h"
#include "gp_err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER CLI_BUNDLE_DIR

struct init {
    struct cli_bundle bundle;
    bool force, check;
};

#define TEXT(flag, field, text, words_)                                                \
    {                                                                                  \
        .name = flag, .value = text, .set = gp_option_text, .help = words_,            \
        .offset = offsetof(struct init, bundle.field)                                  \
    }
#define SWITCH(flag, field, words_)                                                    \
    {                                                                                  \
        .name = flag, .set = gp_option_yes, .help = words_,                            \
        .offset = offsetof(struct init, field)                                         \
    }

static const struct gp_option INIT_OPTIONS[] = {
    TEXT("scheduler", scheduler, "HOST:PORT",
         "where servers and clients will reach the scheduler"),
    TEXT("dir", dir, "DIR", "where the folders are made (" FOLDER ")"),
    TEXT("target", target, "DIR",
         "where they will be on their hosts, as the units have it (" FOLDER ")"),
    TEXT(
        "servers", servers, "NAME,...",
        "a token for each of these servers, good for its name only, instead of one for "
        "all"),
    TEXT(
        "users", users, "NAME:RIGHT+RIGHT,...",
        "a token for each of these users, whose name is then the owner of what it "
        "opens, instead of one for all; rights are open, read, end, drain and forward"),
    SWITCH("force", force, "replace keys that are there"),
    SWITCH("check", check, "make nothing: look at the folders in --dir"),
};

static int
parse(struct init *init, int argc, char **argv)
{
    const struct gp_option_set_of set = {INIT_OPTIONS, ARRAY_SIZE(INIT_OPTIONS), init};
    const struct gp_options options = {
        .program = "gpupool init",
        .about = "Make the keys, tokens and settings of a pool on several hosts: a "
                 "folder for the\nscheduler, one for servers, one for clients.",
        .after = "The folders hold secrets: copy them over a link that you trust.  "
                 "gpupool(1) says how\nkeys and tokens are changed later.\n",
        .sets = &set,
        .n_sets = 1,
    };
    int first;

    return cli_options(&options, argc, argv, &first);
}

static void
say_what_next(const struct cli_bundle *b)
{
    printf("The keys and tokens of a pool are in %s.\n"
           "\n"
           "  scheduler/%s  to %s/scheduler on the scheduler's host\n"
           "  server%s  to %s/server on %s\n"
           "  client%s  to %s/client on hosts of %s\n"
           "  admin/      for who drains servers and ends sessions of others\n"
           "\n"
           "On the scheduler's host: systemctl enable --now gpupool-scheduler\n"
           "On servers:              systemctl enable --now gpupool-server\n"
           "For users:               set -a; . %s/client/client.env; gpupool run ...\n",
           b->dir, "", b->target, b->servers ? "-*/ " : "/   ", b->target,
           b->servers ? "the server of that name" : "each server",
           b->users ? "-*/ " : "/   ", b->target,
           b->users ? "the user of that name" : "users", b->target);
}

int
cli_init(int argc, char **argv)
{
    struct init init = {.bundle = {.dir = FOLDER, .target = FOLDER}};
    struct gp_err err = {0};
    int r = parse(&init, argc, argv);

    if (r >= 0)
        return r;
    umask(077);
    if (init.check) {
        r = cli_bundle_check(init.bundle.dir, &err);
        return r < 0   ? cli_fail(CLI_FAILED, "init: %s", gp_err_msg(&err, r))
               : r > 0 ? CLI_FAILED
                       : CLI_OK;
    }
    if (!init.bundle.scheduler)
        return cli_fail(CLI_USAGE,
                        "init: --scheduler HOST:PORT is needed: where servers and "
                        "clients will reach the scheduler");
    r = cli_bundle_make(&init.bundle, init.force, &err);
    if (r < 0)
        return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, "init: %s",
                        gp_err_msg(&err, r));
    say_what_next(&init.bundle);
    return CLI_OK;
}
