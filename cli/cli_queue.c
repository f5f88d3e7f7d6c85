/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool queue: who waits for room, why, and what tenants hold. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_options.h"
#include "cli_table.h"
#include "ctl_json.h"
#include "gp_err.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct query {
    struct cli_where where;
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
        if (w->memory_bytes)
            cli_table_add(&table, "%.1fGiB", gib(w->memory_bytes));
        else
            cli_table_add(&table, "all"); /* of whole cards */
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
        snprintf(held, sizeof(held), "%.1fGiB", gib(t->memory_bytes));
        snprintf(max, sizeof(max), "%.1fGiB", gib(t->memory_max));
        add_use(&table, held, t->memory_max, max);
        snprintf(held, sizeof(held), "%" PRIu64, t->cards);
        snprintf(max, sizeof(max), "%" PRIu64, t->cards_max);
        add_use(&table, held, t->cards_max, max);
    }
    return cli_table_print(&table, stdout);
}

static void
add_moment(struct cli_table *table, uint64_t unix_s)
{
    time_t at = (time_t)unix_s;
    struct tm tm;
    char text[32];

    localtime_r(&at, &tm);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
    cli_table_add(table, "%s", text);
}

static int
print_reservations(const Gpupool__Ctl__CtlQueueReply *queue)
{
    static const char *const heads[] = {"RESERVATION", "STATE", "FROM",   "UNTIL",
                                        ">CARDS",      ">KEPT", "OWNERS", "SERVERS"};
    CLEANUP(cli_table_fini) struct cli_table table;

    cli_table_init(&table, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < queue->n_reservations; i++) {
        const Gpupool__Ctl__CtlReservation *r = queue->reservations[i];

        cli_table_add(&table, "%s", r->name);
        cli_table_add(&table, "%s", ctl_reservation_state(r, (uint64_t)time(NULL)));
        add_moment(&table, r->from_unix);
        add_moment(&table, r->until_unix);
        cli_table_add(&table, "%u", r->cards);
        cli_table_add(&table, "%u", r->kept);
        cli_table_add(&table, "%s", r->owners);
        cli_table_add(&table, "%s", r->servers);
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
    if (!r && queue->n_reservations) {
        printf("\n");
        r = print_reservations(queue);
    }
    return r;
}

/* --------------------------------------------------------------------- JSON -- */

static int
print_json(const Gpupool__Ctl__CtlQueueReply *queue)
{
    json_t *waiters = json_array(), *tenants = json_array(), *whole;
    json_t *reservations = json_array();
    int r;

    for (size_t i = 0; i < queue->n_waiters; i++)
        json_array_append_new(waiters, ctl_json_waiter(queue->waiters[i]));
    for (size_t i = 0; i < queue->n_tenants; i++)
        json_array_append_new(tenants, ctl_json_tenant(queue->tenants[i]));
    for (size_t i = 0; i < queue->n_reservations; i++)
        json_array_append_new(reservations, ctl_json_reservation(queue->reservations[i],
                                                                 (uint64_t)time(NULL)));
    whole = json_pack("{s:I, s:o, s:o, s:o}", "waiting", (json_int_t)queue->waiting,
                      "requests", waiters, "tenants", tenants, "reservations",
                      reservations);
    if (!whole)
        return -ENOMEM;
    r = json_dumpf(whole, stdout, JSON_INDENT(2));
    json_decref(whole);
    printf("\n");
    return r < 0 ? -EIO : 0;
}

/* ------------------------------------------------------------------ command -- */

static int
ask(const struct query *q, Gpupool__Ctl__CtlReply **ret, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlQueueQuery body = GPUPOOL__CTL__CTL_QUEUE_QUERY__INIT;
    CLEANUP(cli_ctl_close) struct cli_ctl ctl = {.link.fd = -1};
    int r = cli_ctl_open(&ctl, q->where.scheduler, err);

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
    int r = cli_token(q->where.token_file, q->where.scheduler, CLI_TOKEN_CLIENT,
                      &q->token, &err);

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
    static const struct gp_option own[] = {
        {.name = "json",
         .help = "the same as JSON",
         .set = gp_option_yes,
         .offset = offsetof(struct query, json)},
        {.name = "most",
         .value = "N",
         .help = "only the first N requests (1000)",
         .set = gp_option_u32,
         .min = 1,
         .max = 1000000,
         .offset = offsetof(struct query, most)},
    };
    struct query q = {.most = 0};
    const struct gp_option_set_of sets[] = {{own, ARRAY_SIZE(own), &q},
                                            cli_where_client(&q.where)};
    const struct gp_options options = {
        .program = "gpupool queue",
        .about =
            "The requests that wait for room, in their order, what each tenant holds, "
            "and the reservations.",
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };
    int first, status = cli_options(&options, argc, argv, &first);

    if (status >= 0)
        return status;
    status = show(&q);
    free(q.token);
    return status;
}
