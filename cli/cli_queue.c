/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool queue: who waits for room, why, and what tenants hold. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_table.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "Usage: gpupool queue [OPTION...]\n"
    "The requests that wait for room, in their order, and what each tenant holds.\n"
    "\n"
    "  --json              the same as JSON\n"
    "  --most N            only the first N requests (1000)\n"
    "  --scheduler H:P     else GPUPOOL_SCHEDULER, else the pool of `gpupool up`\n"
    "  --token-file FILE   else GPUPOOL_TOKEN_FILE: the pool's client token\n";

enum { OPT_HELP = 256, OPT_JSON, OPT_MOST, OPT_SCHEDULER, OPT_TOKEN };

struct query {
    const char *scheduler, *token_file;
    char *token;
    bool json;
    uint32_t most;
};

/* -------------------------------------------------------------------- table -- */

static double
gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024 * 1024);
}

static void
add_time(struct cli_table *table, bool known, uint64_t ms)
{
    if (known)
        cli_table_add(table, "%" PRIu64 "s", (ms + 999) / 1000);
    else
        cli_table_add(table, "unknown");
}

static int
print_waiters(const Gpupool__Ctl__CtlQueueReply *queue)
{
    static const char *const heads[] = {">#",     "OWNER", "TENANT",  "CLASS",
                                        ">CARDS", ">CORE", ">MEMORY", ">WAITED",
                                        ">ABOUT", "WHY"};
    CLEANUP(cli_table_fini) struct cli_table table;

    cli_table_init(&table, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < queue->n_waiters; i++) {
        const Gpupool__Ctl__CtlWaiter *w = queue->waiters[i];

        cli_table_add(&table, "%u", w->position);
        cli_table_add(&table, "%s", w->owner);
        cli_table_add(&table, "%s", w->tenant);
        cli_table_add(&table, "%s", w->priority);
        cli_table_add(&table, "%u", w->cards);
        cli_table_add(&table, "%u%%", w->core);
        cli_table_add(&table, "%.1fGiB", gib(w->memory_bytes));
        add_time(&table, true, w->waited_ms);
        add_time(&table, w->estimated, w->estimate_ms);
        cli_table_add(&table, "%s", w->reason);
    }
    return cli_table_print(&table, stdout);
}

static void
add_use(struct cli_table *table, const char *held, uint64_t max, const char *max_words)
{
    if (max)
        cli_table_add(table, "%s of %s", held, max_words);
    else
        cli_table_add(table, "%s", held);
}

static int
print_tenants(const Gpupool__Ctl__CtlQueueReply *queue)
{
    static const char *const heads[] = {"TENANT", ">WEIGHT", ">SHARE",
                                        ">CORE",  ">MEMORY", ">CARDS"};
    CLEANUP(cli_table_fini) struct cli_table table;
    char held[40], max[40];

    cli_table_init(&table, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < queue->n_tenants; i++) {
        const Gpupool__Ctl__CtlTenantUse *t = queue->tenants[i];

        cli_table_add(&table, "%s", t->tenant);
        cli_table_add(&table, "%u", t->weight);
        cli_table_add(&table, "%.1f%%", t->share_ppm / 1e4);
        snprintf(held, sizeof(held), "%" PRIu64 "%%", t->core);
        snprintf(max, sizeof(max), "%" PRIu64 "%%", t->core_max);
        add_use(&table, held, t->core_max, max);
        snprintf(held, sizeof(held), "%.1f", gib(t->memory_bytes));
        snprintf(max, sizeof(max), "%.1fGiB", gib(t->memory_max));
        add_use(&table, held, t->memory_max, max);
        snprintf(held, sizeof(held), "%" PRIu64, t->cards);
        snprintf(max, sizeof(max), "%" PRIu64, t->cards_max);
        add_use(&table, held, t->cards_max, max);
    }
    return cli_table_print(&table, stdout);
}

static int
print_tables(const Gpupool__Ctl__CtlQueueReply *queue)
{
    int r = 0;

    if (!queue->waiting)
        printf("nobody waits\n");
    else
        r = print_waiters(queue);
    if (queue->waiting > queue->n_waiters)
        printf("and %zu more\n", queue->waiting - queue->n_waiters);
    if (!r && queue->n_tenants) {
        printf("\n");
        r = print_tenants(queue);
    }
    return r;
}

/* --------------------------------------------------------------------- JSON -- */

static json_t *
waiter_json(const Gpupool__Ctl__CtlWaiter *w)
{
    json_t *held = json_array();

    for (size_t i = 0; i < w->n_held_cards; i++)
        json_array_append_new(held, json_string(w->held_cards[i]));
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:o, s:o}", "position",
        (json_int_t)w->position, "owner", w->owner, "tenant", w->tenant, "priority",
        w->priority, "program", w->program, "core_percent", (json_int_t)w->core,
        "cards", (json_int_t)w->cards, "memory_bytes", (json_int_t)w->memory_bytes,
        "waited_ms", (json_int_t)w->waited_ms, "reason", w->reason, "estimate_ms",
        w->estimated ? json_integer((json_int_t)w->estimate_ms) : json_null(),
        "held_cards", held);
}

static json_t *
tenant_json(const Gpupool__Ctl__CtlTenantUse *t)
{
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "tenant", t->tenant, "weight",
        (json_int_t)t->weight, "share_ppm", (json_int_t)t->share_ppm, "core_percent",
        (json_int_t)t->core, "memory_bytes", (json_int_t)t->memory_bytes, "cards",
        (json_int_t)t->cards, "core_quota_percent", (json_int_t)t->core_max,
        "memory_quota_bytes", (json_int_t)t->memory_max, "cards_quota",
        (json_int_t)t->cards_max);
}

static int
print_json(const Gpupool__Ctl__CtlQueueReply *queue)
{
    json_t *waiters = json_array(), *tenants = json_array(), *whole;
    int r;

    for (size_t i = 0; i < queue->n_waiters; i++)
        json_array_append_new(waiters, waiter_json(queue->waiters[i]));
    for (size_t i = 0; i < queue->n_tenants; i++)
        json_array_append_new(tenants, tenant_json(queue->tenants[i]));
    whole = json_pack("{s:I, s:o, s:o}", "waiting", (json_int_t)queue->waiting,
                      "requests", waiters, "tenants", tenants);
    if (!whole)
        return -ENOMEM;
    r = json_dumpf(whole, stdout, JSON_INDENT(2));
    json_decref(whole);
    printf("\n");
    return r < 0 ? -EIO : 0;
}

/* ------------------------------------------------------------------ command -- */

static int
take_option(struct query *q, int opt, struct gp_err *err)
{
    uint64_t n;

    switch (opt) {
    case OPT_JSON:
        q->json = true;
        return 0;
    case OPT_MOST:
        if (gp_str_u64(optarg, 1, 1000000, &n) < 0)
            return gp_err_set(err, -EINVAL, "--most %s: a number is wanted", optarg);
        q->most = (uint32_t)n;
        return 0;
    case OPT_SCHEDULER:
        q->scheduler = optarg;
        return 0;
    case OPT_TOKEN:
        q->token_file = optarg;
        return 0;
    default:
        return gp_err_set(err, -EINVAL, "see gpupool queue --help");
    }
}

static int
ask(const struct query *q, Gpupool__Ctl__CtlReply **ret, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlQueueQuery body = GPUPOOL__CTL__CTL_QUEUE_QUERY__INIT;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    int r = cli_ctl_open(&ctl, q->scheduler, err);

    if (!r)
        r = cli_ctl_prove(&ctl, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT, q->token, err);
    if (r < 0)
        return r;
    body.token = cli_ctl_shown(q->token);
    body.most = q->most;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE;
    req.queue = &body;
    r = cli_ctl_call(&ctl, &req, CLI_DEADLINE_NS, ret, err);
    if (!r && (*ret)->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_QUEUE)
        r = gp_err_set(err, -EPROTO, "the scheduler answered something else");
    return r;
}

static int
show(struct query *q)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    struct gp_err err = {0};
    int r = cli_token(q->token_file, q->scheduler, CLI_TOKEN_CLIENT, &q->token, &err);

    if (!r)
        r = ask(q, &reply, &err);
    if (!r)
        r = q->json ? print_json(reply->queue) : print_tables(reply->queue);
    if (!r && fflush(stdout) != 0)
        r = -errno;
    return r < 0 ? cli_fail(CLI_FAILED, "queue: %s", gp_err_msg(&err, r)) : CLI_OK;
}

int
cli_queue(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, OPT_JSON},
        {"most", required_argument, NULL, OPT_MOST},
        {"scheduler", required_argument, NULL, OPT_SCHEDULER},
        {"token-file", required_argument, NULL, OPT_TOKEN},
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
    };
    struct query q = {0};
    struct gp_err err = {0};
    int opt, r = 0, status;

    while (!r && (opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == OPT_HELP) {
            fputs(HELP, stdout);
            return CLI_OK;
        }
        r = take_option(&q, opt, &err);
    }
    if (!r && optind < argc)
        r = gp_err_set(&err, -EINVAL, "%s: unexpected argument", argv[optind]);
    if (r < 0)
        return cli_fail(CLI_USAGE, "queue: %s", gp_err_msg(&err, r));
    status = show(&q);
    free(q.token);
    return status;
}
