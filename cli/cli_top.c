/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool top: what the sessions really use, live. */
#include "cli.h"
#include "cli_list.h"
#include "cli_options.h"
#include "cli_table.h"
#include "ctl_json.h"
#include "gp_err.h"
#include "gp_size.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

struct top {
    struct cli_where where;
    char *token;
    uint64_t interval_ms, count;
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
        cli_table_add(t, "%s", ctl_session_state(s));
        cli_table_add(t, "%u", s->attachments);
        cli_table_add(t, "%s", s->owner);
        cli_table_add(t, "%s", s->program);
    }
}

static int
print_look(struct cli_list *list, struct gp_err *err)
{
    static const char *const heads[] = {">SESSION",  "SERVER",  ">CORE",     ">SHARE",
                                        ">GPU TIME", ">WAITED", ">LAUNCHES", ">MOVED",
                                        ">USED",     ">HIGH",   ">MEMORY",   "STATE",
                                        ">PROCS",    "OWNER",   "PROGRAM"};
    static const struct cli_filters all = {0};
    CLEANUP(cli_table_fini) struct cli_table t;
    const Gpupool__Ctl__CtlListReply *page;
    int r;

    cli_table_init(&t, heads, ARRAY_SIZE(heads));
    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS, &all);
    if (isatty(STDOUT_FILENO))
        fputs("\033[H\033[J", stdout);
    while ((r = cli_list_next(list, &page, err)) > 0) {
        for (size_t i = 0; i < page->n_sessions; i++)
            add_rows(&t, page->sessions[i]);
        r = cli_table_flush(&t, stdout);
        if (r < 0)
            return r;
    }
    return r;
}

static int
look(const struct top *top, struct gp_err *err)
{
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    int r = cli_list_open(&list, top->where.scheduler, top->token, err);

    if (!r)
        r = print_look(&list, err);
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
        poll(NULL, 0, (int)top->interval_ms);
    }
}

/* Seconds, with a fraction. */
static int
set_interval(void *target, const struct gp_option *option, const char *value,
             struct gp_err *err)
{
    char *end;
    double seconds = strtod(value, &end);

    if (end == value || *end || !(seconds >= 0.1 && seconds <= 3600))
        return gp_err_set(err, -EINVAL, "seconds from 0.1 to 3600 are wanted");
    *(uint64_t *)((char *)target + option->offset) = (uint64_t)(seconds * 1000);
    return 0;
}

static int
parse(struct top *top, int argc, char **argv)
{
    static const struct gp_option own[] = {
        {.name = "interval",
         .letter = 'd',
         .value = "S",
         .help = "seconds between two looks, such as 0.5 (2)",
         .set = set_interval,
         .offset = offsetof(struct top, interval_ms)},
        {.name = "count",
         .letter = 'n',
         .value = "N",
         .help = "look N times, then end (for ever)",
         .set = gp_option_u64,
         .min = 1,
         .max = 1000000000,
         .offset = offsetof(struct top, count)},
    };
    const struct gp_option_set_of sets[] = {{own, ARRAY_SIZE(own), top},
                                            cli_where_client(&top->where)};
    const struct gp_options options = {
        .program = "gpupool top",
        .about = "What each slice was given and what it uses, again and again.",
        .after =
            "SHARE is the part of the card's time that the slice used lately (between "
            "the last two\nreports of its server), WAITED the time that ready work was "
            "held back to keep shares,\nHIGH the most memory it ever used at a time.\n",
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };
    int first;

    return cli_options(&options, argc, argv, &first);
}

int
cli_top(int argc, char **argv)
{
    struct top top = {.interval_ms = 2000};
    struct gp_err err = {0};
    int r, status = parse(&top, argc, argv);

    if (status >= 0)
        return status;
    r = cli_token(top.where.token_file, top.where.scheduler, CLI_TOKEN_CLIENT,
                  &top.token, &err);
    if (r < 0)
        return cli_fail(CLI_FAILED, "top: %s", gp_err_msg(&err, r));
    r = repeat(&top, &err);
    free(top.token);
    return r < 0 ? cli_fail(cli_ctl_exit(r, NULL), "top: %s", gp_err_msg(&err, r))
                 : CLI_OK;
}
