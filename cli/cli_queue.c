/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool queue: who waits for room, why, and what tenants hold. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_view.h"
#include "ctl_json.h"
#include "gp_err.h"
#include "gp_size.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* -------------------------------------------------------------------- table -- */

static void
add_time(struct cli_table *table, bool known, uint64_t ms)
{
    if (known)
        cli_table_add(table, "%" PRIu64 "s", (ms + 999) / 1000);
    else
        cli_table_add(table, "unknown");
}

/* A scheduler before 0.3 does not count those that match. */
static uint64_t
left_off(const Gpupool__Ctl__CtlQueueReply *queue)
{
    uint32_t all = queue->matching ? queue->matching : queue->waiting;

    return all > queue->n_waiters ? all - queue->n_waiters : 0;
}

static int
print_waiters(const struct cli_view_query *q, const struct cli_view *view,
              const Gpupool__Ctl__CtlQueueReply *queue)
{
    CLEANUP(cli_table_fini) struct cli_table table;
    char memory[GP_SIZE_TEXT];

    cli_view_table_init(&table, view, q);
    for (size_t i = 0; i < queue->n_waiters; i++) {
        const Gpupool__Ctl__CtlWaiter *w = queue->waiters[i];

        cli_table_add(&table, "%u", w->position);
        cli_table_add(&table, "%s", w->owner);
        cli_table_add(&table, "%s", w->tenant);
        cli_table_add(&table, "%s", w->priority);
        cli_table_add(&table, "%u", w->cards);
        cli_table_add(&table, "%u%%", w->core);
        if (w->memory_bytes)
            cli_table_add(&table, "%s", gp_size_format(w->memory_bytes, memory));
        else
            cli_table_add(&table, "all"); /* of whole cards */
        add_time(&table, true, w->waited_ms);
        add_time(&table, w->estimated, w->estimate_ms);
        cli_table_add(&table, "%zu", w->n_held_cards);
        cli_table_add(&table, "%s", w->program);
        cli_table_add(&table, "%s", w->reason);
    }
    return cli_view_table_end(&table, view, q, left_off(queue));
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
print_tenants(const struct cli_view_query *q, const struct cli_view *view,
              const Gpupool__Ctl__CtlQueueReply *queue)
{
    CLEANUP(cli_table_fini) struct cli_table table;
    char held[40], max[40];

    cli_view_table_init(&table, view, q);
    for (size_t i = 0; i < queue->n_tenants; i++) {
        const Gpupool__Ctl__CtlTenantUse *t = queue->tenants[i];

        cli_table_add(&table, "%s", t->tenant);
        cli_table_add(&table, "%u", t->weight);
        cli_table_add(&table, "%.1f%%", t->share_ppm / 1e4);
        snprintf(held, sizeof(held), "%" PRIu64 "%%", t->core);
        snprintf(max, sizeof(max), "%" PRIu64 "%%", t->core_max);
        add_use(&table, held, t->core_max, max);
        add_use(&table, gp_size_format(t->memory_bytes, held), t->memory_max,
                gp_size_format(t->memory_max, max));
        snprintf(held, sizeof(held), "%" PRIu64, t->cards);
        snprintf(max, sizeof(max), "%" PRIu64, t->cards_max);
        add_use(&table, held, t->cards_max, max);
    }
    return cli_view_table_end(&table, view, q, 0);
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
print_reservations(const struct cli_view_query *q, const struct cli_view *view,
                   const Gpupool__Ctl__CtlQueueReply *queue)
{
    CLEANUP(cli_table_fini) struct cli_table table;

    cli_view_table_init(&table, view, q);
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
    return cli_view_table_end(&table, view, q, 0);
}

static int
print_tables(const struct cli_view_query *q, const struct cli_view *view,
             const Gpupool__Ctl__CtlQueueReply *queue)
{
    const struct cli_view *tenants = view->then, *reservations = tenants->then;
    bool filtered = q->filters.owner || q->filters.tenant;
    int r = 0;

    cli_view_begin_tables(q);
    if (queue->n_waiters)
        r = print_waiters(q, view, queue);
    else if (!q->output.headless)
        puts(filtered ? view->none_such : view->none);
    if (!r && queue->n_tenants) {
        putchar('\n');
        r = print_tenants(q, tenants, queue);
    }
    if (!r && queue->n_reservations) {
        putchar('\n');
        r = print_reservations(q, reservations, queue);
    }
    return r;
}

/* --------------------------------------------------------------------- JSON -- */

static int
print_document(const struct cli_view_query *q, const Gpupool__Ctl__CtlQueueReply *queue)
{
    json_t *waiters = json_array(), *tenants = json_array();
    json_t *reservations = json_array(), *whole;

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
    if (whole && q->filters.limit)
        json_object_set_new(whole, "requests_left_off",
                            json_integer((json_int_t)left_off(queue)));
    return cli_output_print(&q->output, whole);
}

/* ------------------------------------------------------------------ command -- */

static int
ask(const struct cli_view_query *q, bool sorted, Gpupool__Ctl__CtlReply **ret,
    struct gp_err *err)
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
    body.most = sorted ? 0 : q->filters.limit;
    if (q->filters.owner)
        body.owner = (char *)(uintptr_t)q->filters.owner;
    if (q->filters.tenant)
        body.tenant = (char *)(uintptr_t)q->filters.tenant;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE;
    req.queue = &body;
    r = cli_ctl_call(&ctl, &req, CLI_DEADLINE_NS, ret, err);
    if (!r && (*ret)->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_QUEUE)
        r = gp_err_set(err, -EPROTO, "the scheduler answered something else");
    return r;
}

static int
look(struct cli_view_query *q, const struct cli_view *view, struct gp_err *err)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r = ask(q, q->sort && cli_view_has_tables(q), &reply, err);

    if (r < 0)
        return r;
    return cli_view_has_tables(q) ? print_tables(q, view, reply->queue)
                                  : print_document(q, reply->queue);
}

/* The option's name before views had one in common. */
static const char *
old_name(const char *name, const char *value)
{
    (void)value;
    return strcmp(name, "most") == 0 ? "limit" : name;
}

int
cli_queue(int argc, char **argv)
{
    static const char *const heads[] = {">#",     "OWNER",  "TENANT",   "CLASS",
                                        ">CARDS", ">CORE",  ">MEMORY",  ">WAITED",
                                        ">ABOUT", "+>KEPT", "+PROGRAM", "WHY"};
    static const char *const tenant_heads[] = {"TENANT", ">WEIGHT", ">SHARE",
                                               ">CORE",  ">MEMORY", ">CARDS"};
    static const char *const reservation_heads[] = {"RESERVATION", "STATE",  "FROM",
                                                    "UNTIL",       ">CARDS", ">KEPT",
                                                    "OWNERS",      "SERVERS"};
    static const struct cli_view reservations = {.things = "reservations",
                                                 .heads = reservation_heads,
                                                 .n_heads =
                                                     ARRAY_SIZE(reservation_heads)};
    static const struct cli_view tenants = {.things = "tenants",
                                            .then = &reservations,
                                            .heads = tenant_heads,
                                            .n_heads = ARRAY_SIZE(tenant_heads)};
    static const struct cli_view view = {
        .program = "gpupool queue",
        .about =
            "The requests that wait for room, in their order, what each tenant holds,"
            "\nand the reservations.",
        .none = "nobody waits",
        .none_such = "no such request waits",
        .things = "requests",
        .takes = CLI_VIEW_OWNER | CLI_VIEW_TENANT,
        .alias = old_name,
        .then = &tenants,
        .heads = heads,
        .n_heads = ARRAY_SIZE(heads),
        .look = look};

    return cli_view_run(&view, argc, argv);
}
