/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool top: what the sessions really use, live. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_json.h"
#include "cli_table.h"
#include "gp_err.h"
#include "gp_size.h"
#include "gp_str.h"
#include "gp_time.h"
#include "ticket.h"

#include <errno.h>
#include <getopt.h>
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
    "SHARE is the part of the card's time that the slice used between two looks.\n";

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
    Gpupool__Ctl__CtlReply *before; /* the look before this one */
    uint64_t before_ns;
};

/* GPU time of slice @k of session @id in the earlier look; @now when it was not there.
 */
static uint64_t
gpu_ns_before(const struct top *top, uint64_t id, size_t k, uint64_t now)
{
    const Gpupool__Ctl__CtlStatusReply *status =
        top->before ? top->before->status : NULL;

    for (size_t i = 0; status && i < status->n_sessions; i++)
        if (status->sessions[i]->session_id == id && k < status->sessions[i]->n_use)
            return gp_min(status->sessions[i]->use[k]->gpu_ns, now);
    return now;
}

static void
add_rows(struct cli_table *t, const struct top *top, uint64_t elapsed,
         const Gpupool__Ctl__CtlSessionStatus *s)
{
    char used[GP_SIZE_TEXT], limit[GP_SIZE_TEXT];

    for (size_t k = 0; k < s->n_slices && k < s->n_use; k++) {
        uint64_t now = s->use[k]->gpu_ns;
        uint64_t spent = now - gpu_ns_before(top, s->session_id, k, now);

        cli_table_add(t, "%s", s->session);
        cli_table_add(t, "%s", s->slices[k]->server);
        cli_table_add(t, "%u %%", s->slices[k]->core);
        if (top->before)
            cli_table_add(t, "%.1f %%", 100.0 * (double)spent / (double)elapsed);
        else
            cli_table_add(t, "%s", "");
        cli_table_add(t, "%.1f ms", (double)now / 1e6);
        cli_table_add(t, "%s", gp_size_format(s->use[k]->used_bytes, used));
        cli_table_add(t, "%s", gp_size_format(s->slices[k]->memory_bytes, limit));
        cli_table_add(t, "%s", ticket_policy_name((enum ticket_policy)s->policy));
        cli_table_add(t, "%s", cli_session_state(s));
        cli_table_add(t, "%u", s->attachments);
        cli_table_add(t, "%s", s->owner);
        cli_table_add(t, "%s", s->program);
    }
}

static int
print_look(const struct top *top, const Gpupool__Ctl__CtlStatusReply *status,
           uint64_t elapsed)
{
    static const char *const heads[] = {"SESSION",   "SERVER", ">CORE",   ">SHARE",
                                        ">GPU TIME", ">USED",  ">MEMORY", "POLICY",
                                        "STATE",     ">PROCS", "OWNER",   "PROGRAM"};
    CLEANUP(cli_table_fini) struct cli_table t;

    cli_table_init(&t, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < status->n_sessions; i++)
        add_rows(&t, top, gp_max(elapsed, (uint64_t)1), status->sessions[i]);
    if (isatty(STDOUT_FILENO))
        fputs("\033[H\033[J", stdout);
    return cli_table_print(&t, stdout);
}

static int
look(struct top *top, struct gp_err *err)
{
    Gpupool__Ctl__CtlReply *reply = NULL;
    uint64_t now;
    int r = cli_ctl_status(top->scheduler, top->token, &reply, err);

    if (r < 0) {
        if (reply)
            cli_reply_free(reply);
        return r;
    }
    now = gp_now_ns();
    r = print_look(top, reply->status, now - top->before_ns);
    if (top->before)
        cli_reply_free(top->before);
    top->before = reply;
    top->before_ns = now;
    if (fflush(stdout) != 0)
        return -errno;
    return r;
}

static int
repeat(struct top *top, struct gp_err *err)
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
    r = cli_token(top.token_file, &top.token, &err);
    if (!r)
        r = repeat(&top, &err);
    free(top.token);
    if (top.before)
        cli_reply_free(top.before);
    return r < 0 ? cli_fail(CLI_FAILED, "top: %s", gp_err_msg(&err, r)) : CLI_OK;
}
