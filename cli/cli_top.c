/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool top: what the sessions really use, live. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_json.h"
#include "cli_table.h"
#include "gp_err.h"
#include "gp_size.h"
#include "gp_str.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "Usage: gpupool top [OPTION...]\n"
    "What each slice was given and what it uses, again and again.\n"
    "\n"
    "  --interval S        seconds between two looks (2)\n"
    "  --count N           look N times, then end (for ever)\n"
    "  --scheduler H:P     else GPUPOOL_SCHEDULER, else the pool of `gpupool up`\n"
    "  --token-file FILE   else GPUPOOL_TOKEN_FILE: the pool's client token\n"
    "\n"
    "SHARE is the part of the card's time that the slice used lately (between the last "
    "two\n"
    "reports of its server), WAITED the time that ready work was held back to keep "
    "shares,\n"
    "HIGH the most memory it ever used at a time.\n";

enum {
    OPT_INTERVAL = 256,
    OPT_COUNT,
    OPT_SCHEDULER,
    OPT_TOKEN,
    OPT_HELP,
};

static const struct option OPTIONS[] = {
    {"interval", required_argument, NULL, OPT_INTERVAL},
    {"count", required_argument, NULL, OPT_COUNT},
    {"scheduler", required_argument, NULL, OPT_SCHEDULER},
    {"token-file", required_argument, NULL, OPT_TOKEN},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct top {
    const char *scheduler, *token_file;
    char *token;
    uint64_t interval_s, count;
};

static void
add_rows(struct cli_table *t, const Gpupool__Ctl__CtlSessionStatus *s)
{
    char buf[GP_SIZE_TEXT];

    for (size_t k = 0; k < s->n_slices && k < s->n_use; k++) {
        const Gpupool__Ctl__CtlSliceUse *use = s->use[k];

        cli_table_add(t, "%s", s->session);
        cli_table_add(t, "%s", s->slices[k]->server);
        cli_table_add(t, "%u %%", s->slices[k]->core);
        cli_table_add(t, "%.1f %%", use->share_permille / 10.0);
        cli_table_add(t, "%.1f ms", (double)use->gpu_ns / 1e6);
        cli_table_add(t, "%.1f ms", (double)use->wait_ns / 1e6);
        cli_table_add(t, "%" PRIu64, use->launches);
        cli_table_add(t, "%s", gp_size_format(use->moved_bytes, buf));
        cli_table_add(t, "%s", gp_size_format(use->used_bytes, buf));
        cli_table_add(t, "%s", gp_size_format(use->high_bytes, buf));
        cli_table_add(t, "%s", gp_size_format(s->slices[k]->memory_bytes, buf));
        cli_table_add(t, "%s", cli_session_state(s));
        cli_table_add(t, "%u", s->attachments);
        cli_table_add(t, "%s", s->owner);
        cli_table_add(t, "%s", s->program);
    }
}

static int
print_look(const Gpupool__Ctl__CtlStatusReply *status)
{
    static const char *const heads[] = {">SESSION",  "SERVER",  ">CORE",     ">SHARE",
                                        ">GPU TIME", ">WAITED", ">LAUNCHES", ">MOVED",
                                        ">USED",     ">HIGH",   ">MEMORY",   "STATE",
                                        ">PROCS",    "OWNER",   "PROGRAM"};
    CLEANUP(cli_table_fini) struct cli_table t;

    cli_table_init(&t, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < status->n_sessions; i++)
        add_rows(&t, status->sessions[i]);
    if (isatty(STDOUT_FILENO))
        fputs("\033[H\033[J", stdout);
    return cli_table_print(&t, stdout);
}

static int
look(const struct top *top, struct gp_err *err)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r = cli_ctl_status(top->scheduler, top->token, &reply, err);

    if (!r)
        r = print_look(reply->status);
    if (!r && fflush(stdout) != 0)
        r = -errno;
    return r;
}

static int
repeat(const struct top *top, struct gp_err *err)
{
    int r;

    for (uint64_t i = 1;; i++) {
        r = look(top, err);
        if (r < 0 || i == top->count)
            return r;
        poll(NULL, 0, (int)(top->interval_s * 1000));
    }
}

static int
parse(struct top *top, int argc, char **argv)
{
    int opt, r = 0;

    while (!r && (opt = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (opt == OPT_INTERVAL)
            r = gp_str_u64(optarg, 1, 3600, &top->interval_s);
        else if (opt == OPT_COUNT)
            r = gp_str_u64(optarg, 1, 1000000000, &top->count);
        else if (opt == OPT_SCHEDULER)
            top->scheduler = optarg;
        else if (opt == OPT_TOKEN)
            top->token_file = optarg;
        else
            r = opt == OPT_HELP ? 1 : -EINVAL;
    }
    return !r && optind < argc ? -EINVAL : r;
}

int
cli_top(int argc, char **argv)
{
    struct top top = {.interval_s = 2};
    struct gp_err err = {0};
    int r = parse(&top, argc, argv);

    if (r > 0) {
        fputs(HELP, stdout);
        return CLI_OK;
    }
    if (r < 0)
        return cli_fail(CLI_USAGE, "top: bad usage, see gpupool top --help");
    r = cli_token(top.token_file, top.scheduler, CLI_TOKEN_CLIENT, &top.token, &err);
    if (!r)
        r = repeat(&top, &err);
    free(top.token);
    return r < 0 ? cli_fail(CLI_FAILED, "top: %s", gp_err_msg(&err, r)) : CLI_OK;
}
