/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool usage: who held and used how much, in sums over days. */
#include "cli.h"
#include "cli_list.h"
#include "cli_query.h"
#include "cli_table.h"
#include "ctl_json.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum by { BY_OWNER, BY_TENANT, BY_DAY };

/* Sums of what has the same name. */
struct sum {
    char name[CTL_OWNER_MAX], tenant[CTL_OWNER_MAX];
    Gpupool__Ctl__CtlAccount all; /* its strings are not set */
};

struct query {
    struct cli_query common;
    unsigned by;
    uint32_t from_day, to_day;
    const char *owner, *sort;
    struct sum *sums;
    size_t n, cap;
};

/* -------------------------------------------------------------------- options -- */

static const char *const BY[] = {"owner", "tenant", "day", NULL};
static const char *const NAMES[] = {"OWNER", "TENANT", "DAY"};

static uint32_t
day_number(const struct tm *tm)
{
    return (uint32_t)((tm->tm_year + 1900) * 10000 + (tm->tm_mon + 1) * 100 +
                      tm->tm_mday);
}

/* Has the month this day?  timegm() makes 3 March of 31 February. */
static bool
is_day(struct tm tm)
{
    int day = tm.tm_mday;

    return timegm(&tm) != -1 && tm.tm_mday == day;
}

/* "2026-11-23", or "7d": the last seven days, today among them. */
static int
set_day(void *target, const struct gp_option *option, const char *value,
        struct gp_err *err)
{
    uint32_t *day = (uint32_t *)(void *)((char *)target + option->offset);
    size_t len = strlen(value);
    struct tm tm = {0};
    uint64_t days;
    char number[8];
    time_t then;

    if (len && len < sizeof(number) && value[len - 1] == 'd') {
        snprintf(number, sizeof(number), "%.*s", (int)len - 1, value);
        if (!gp_str_u64(number, 1, 9999, &days)) {
            then = (time_t)(gp_wall_ns() / GP_NS_PER_S - (days - 1) * 86400);
            gmtime_r(&then, &tm);
            *day = day_number(&tm);
            return 0;
        }
    }
    if (len == 10 && strptime(value, "%Y-%m-%d", &tm) && is_day(tm)) {
        *day = day_number(&tm);
        return 0;
    }
    return gp_err_set(err, -EINVAL,
                      "a day like 2026-11-23, or a number of days like 7d, is wanted");
}

static const struct gp_option OWN[] = {
    {.name = "by",
     .value = "owner|tenant|day",
     .help = "what the sums are of (owner)",
     .set = gp_option_choice,
     .words = BY,
     .min = BY_OWNER,
     .offset = offsetof(struct query, by)},
    {.name = "since",
     .value = "DAY",
     .help =
         "from this day on: 2026-11-23, or 7d for the last seven (all that is kept); "
         "days are of UTC",
     .set = set_day,
     .offset = offsetof(struct query, from_day)},
    {.name = "until",
     .value = "DAY",
     .help = "up to this day, and with it (today)",
     .set = set_day,
     .offset = offsetof(struct query, to_day)},
    {.name = "owner",
     .value = "OWNER",
     .help = "only this owner's",
     .set = gp_option_text,
     .offset = offsetof(struct query, owner)},
    {.name = "sort",
     .value = "COLUMN",
     .help = "rows of a table in the order of this column; -COLUMN: the largest first "
             "(-CARD-HOURS; by day: DAY)",
     .set = gp_option_text,
     .offset = offsetof(struct query, sort)},
};

/* ----------------------------------------------------------------------- sums -- */

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct sum *)a)->name, ((const struct sum *)b)->name);
}

static void
add_up(Gpupool__Ctl__CtlAccount *to, const Gpupool__Ctl__CtlAccount *from)
{
    to->sessions += from->sessions;
    to->core_ms += from->core_ms;
    to->memory_mib_ms += from->memory_mib_ms;
    to->slice_ms += from->slice_ms;
    to->gpu_ns += from->gpu_ns;
    to->wait_ns += from->wait_ns;
    to->launches += from->launches;
    to->moved_bytes += from->moved_bytes;
}

/* Rows of one name become one. */
static void
merge(struct query *q)
{
    size_t n = 0;

    if (q->n)
        qsort(q->sums, q->n, sizeof(q->sums[0]), by_name);
    for (size_t i = 0; i < q->n; i++)
        if (n && !strcmp(q->sums[n - 1].name, q->sums[i].name)) {
            add_up(&q->sums[n - 1].all, &q->sums[i].all);
            if (strcmp(q->sums[n - 1].tenant, q->sums[i].tenant) != 0)
                gp_str_copy(q->sums[n - 1].tenant, sizeof(q->sums[0].tenant),
                            "several");
        } else {
            q->sums[n++] = q->sums[i];
        }
    q->n = n;
}

static void
name_sum(struct sum *sum, enum by by, const Gpupool__Ctl__CtlAccount *row)
{
    if (by == BY_DAY)
        snprintf(sum->name, sizeof(sum->name), "%04u-%02u-%02u", row->day / 10000,
                 row->day / 100 % 100, row->day % 100);
    else
        gp_utf8_copy(sum->name, sizeof(sum->name),
                     by == BY_OWNER ? row->owner : row->tenant);
    gp_utf8_copy(sum->tenant, sizeof(sum->tenant), row->tenant);
}

/* As many sums as names stay in memory, and twice as many rows at most. */
static int
add_row(struct query *q, const Gpupool__Ctl__CtlAccount *row)
{
    struct sum *sum;

    if (q->n == q->cap) {
        merge(q);
        if (q->n >= q->cap / 2) {
            size_t cap = q->cap ? 2 * q->cap : 1024;
            struct sum *more = reallocarray(q->sums, cap, sizeof(*more));

            if (!more)
                return -ENOMEM;
            q->sums = more;
            q->cap = cap;
        }
    }
    sum = &q->sums[q->n++];
    memset(sum, 0, sizeof(*sum));
    name_sum(sum, (enum by)q->by, row);
    add_up(&sum->all, row);
    return 0;
}

static int
read_rows(struct query *q, struct gp_err *err)
{
    const struct cli_filters filters = {.owner = q->owner};
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    const Gpupool__Ctl__CtlListReply *page;
    int r = cli_list_open(&list, q->common.where.scheduler, q->common.token, err),
        more = 1;

    if (r < 0)
        return r;
    cli_list_begin(&list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_ACCOUNT, &filters);
    list.want.from_day = q->from_day;
    list.want.to_day = q->to_day;
    while (!r && (more = cli_list_next(&list, &page, err)) > 0)
        for (size_t i = 0; !r && i < page->n_accounts; i++)
            r = add_row(q, page->accounts[i]);
    merge(q);
    return r < 0 ? r : more;
}

/* ---------------------------------------------------------------------- print -- */

static void
add_cells(struct cli_table *table, const struct query *q, const struct sum *sum)
{
    const Gpupool__Ctl__CtlAccount *a = &sum->all;

    cli_table_add(table, "%s", sum->name);
    if (q->by == BY_OWNER)
        cli_table_add(table, "%s", sum->tenant);
    cli_table_add(table, "%" PRIu64, a->sessions);
    cli_table_add(table, "%.2f", (double)a->core_ms / 100 / 3.6e6);
    cli_table_add(table, "%.2f", (double)a->memory_mib_ms / 1024 / 3.6e6);
    cli_table_add(table, "%.2f", (double)a->gpu_ns / 3.6e12);
    cli_table_add(table, "%" PRIu64, a->launches);
    cli_table_add(table, "%.1fGiB", (double)a->moved_bytes / (1 << 30));
    cli_table_add(table, "%.2f", (double)a->wait_ns / 3.6e12);
}

static int
print_table(const struct query *q, struct gp_err *err)
{
    const char *heads[] = {NAMES[q->by],  "+TENANT",    ">SESSIONS",
                           ">CARD-HOURS", ">GIB-HOURS", ">GPU-HOURS",
                           ">LAUNCHES",   "+>MOVED",    "+>WAIT-HOURS"};
    const char *sort = q->sort ? q->sort : q->by == BY_DAY ? "DAY" : "-CARD-HOURS";
    bool down = *sort == '-';
    CLEANUP(cli_table_fini) struct cli_table table;
    unsigned n = ARRAY_SIZE(heads);
    int column;

    if (q->by != BY_OWNER) {
        memmove(&heads[1], &heads[2], (n - 2) * sizeof(heads[0]));
        n--;
    }
    cli_table_init(&table, heads, n);
    column = cli_table_column(heads, n, sort + down);
    if (column < 0) {
        char columns[160] = "";

        cli_table_names(heads, n, columns, sizeof(columns));
        return gp_err_set(err, -EINVAL, "--sort %s: there is no such column, but %s",
                          sort, columns);
    }
    table.wide = q->common.output.form == CLI_FORM_WIDE;
    table.headless = q->common.output.headless;
    for (size_t i = 0; i < q->n; i++)
        add_cells(&table, q, &q->sums[i]);
    cli_table_sort(&table, (unsigned)column, down);
    if (!q->n)
        printf("nothing was used\n");
    return q->n ? cli_table_print(&table, stdout) : 0;
}

static int
print_json(struct query *q)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < q->n; i++) {
        struct sum *sum = &q->sums[i];
        Gpupool__Ctl__CtlAccount row = sum->all;
        json_t *object;

        row.owner = q->by == BY_OWNER ? sum->name : (char *)"";
        row.tenant = q->by == BY_DAY ? (char *)"" : sum->tenant;
        object = ctl_json_account(&row);
        if (q->by == BY_DAY)
            json_object_set_new(object, "day", json_string(sum->name));
        json_array_append_new(rows, object);
    }
    return cli_output_print(&q->common.output, json_pack("{s:o}", "usage", rows));
}

static int
show(struct cli_query *query, char **args, int n, struct gp_err *err)
{
    struct query *q = container_of(query, struct query, common);
    int r = read_rows(q, err);

    (void)args;
    (void)n; /* none are taken */
    if (!r)
        r = query->output.form >= CLI_FORM_JSON ? print_json(q) : print_table(q, err);
    free(q->sums);
    return r;
}

int
cli_usage(int argc, char **argv)
{
    struct query q = {.by = BY_OWNER};
    const struct gp_option_set_of sets[] = {cli_output_options(&q.common.output),
                                            {OWN, ARRAY_SIZE(OWN), &q},
                                            cli_where_client(&q.common.where)};
    const struct gp_options options = {
        .program = "gpupool usage",
        .about = "What owners or tenants held and used, in sums over days; up to a "
                 "minute ago.",
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };

    return cli_query_run(&q.common, &options, argc, argv, show);
}
