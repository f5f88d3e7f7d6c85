/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_view.h"

#include "cli.h"
#include "cli_json.h"
#include "ctl_json.h"
#include "gp_err.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define KIND(name) GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_##name
#define INTERVAL_MS 2000
/* Beyond a limit, until they are sorted and what is behind it is dropped: so the first
 * rows of a large pool do not take the memory of all. */
#define ROWS_UNSORTED 5000

/* The word after "gpupool ". */
static const char *
name_of(const struct cli_view *view)
{
    return strchr(view->program, ' ') + 1;
}

/* ------------------------------------------------------------------ tables -- */

/* The column of @view that it is sorted by; -1: it stays in its order. */
static int
sort_column(const struct cli_view *view, const char *sort)
{
    return sort ? cli_table_column(view->heads, view->n_heads, sort + (*sort == '-'))
                : -1;
}

bool
cli_view_has_tables(const struct cli_view_query *q)
{
    return q->output.form < CLI_FORM_JSON;
}

void
cli_view_begin_tables(const struct cli_view_query *q)
{
    if (q->watch && isatty(STDOUT_FILENO))
        fputs("\033[H\033[J", stdout);
}

void
cli_view_table_init(struct cli_table *t, const struct cli_view *view,
                    const struct cli_view_query *q)
{
    cli_table_init(t, view->heads, view->n_heads);
    t->wide = q->output.form == CLI_FORM_WIDE;
    t->headless = q->output.headless;
}

/* "and 12 more sessions"; a table for programs has rows only. */
static void
print_left_off(const struct cli_view *view, const struct cli_view_query *q,
               uint64_t left_off)
{
    if (!left_off || q->output.headless)
        return;
    if (left_off == CLI_LEFT_OFF_UNKNOWN)
        printf("and more %s\n", view->things);
    else
        printf("and %" PRIu64 " more %.*s\n", left_off,
               (int)strlen(view->things) - (left_off == 1), view->things);
}

/* Put the rows in the order of @column; returns how many fall behind the limit. */
static size_t
sort_rows(struct cli_table *t, int column, const struct cli_view_query *q)
{
    cli_table_sort(t, (unsigned)column, *q->sort == '-');
    return q->filters.limit ? cli_table_cut(t, q->filters.limit) : 0;
}

int
cli_view_table_end(struct cli_table *t, const struct cli_view *view,
                   const struct cli_view_query *q, uint64_t left_off)
{
    int column = sort_column(view, q->sort), r;
    size_t cut = column < 0 ? 0 : sort_rows(t, column, q);

    r = cli_table_flush(t, stdout);
    print_left_off(view, q,
                   left_off == CLI_LEFT_OFF_UNKNOWN ? left_off : left_off + cut);
    return r;
}

static bool
is_empty(const Gpupool__Ctl__CtlListReply *page)
{
    return !page->n_servers && !page->n_sessions && !page->n_events;
}

/* All pages of one table.  @after: a line of its own comes before the first row, and
 * nothing at all where there is none. */
static int
print_table(struct cli_list *list, const struct cli_view *view,
            const struct cli_view_query *q, bool after, struct gp_err *err)
{
    CLEANUP(cli_table_fini) struct cli_table t;
    const Gpupool__Ctl__CtlListReply *page;
    struct cli_filters filters = q->filters;
    int column = sort_column(view, q->sort), r;
    bool sorted = column >= 0, any = false, begun = after;
    uint64_t cut = 0, left_off;

    if (sorted)
        filters.limit = 0; /* the first rows are known when all are there */
    cli_view_table_init(&t, view, q);
    cli_list_begin(list, view->kind, &filters);
    while ((r = cli_list_next(list, &page, err)) > 0) {
        if (!begun)
            cli_view_begin_tables(q);
        begun = true;
        if (is_empty(page))
            continue;
        if (after && !any)
            putchar('\n');
        any = true;
        view->rows(&t, page);
        if (!sorted)
            r = cli_table_flush(&t, stdout);
        else if (q->filters.limit &&
                 cli_table_rows(&t) > q->filters.limit + (size_t)ROWS_UNSORTED)
            cut += sort_rows(&t, column, q);
        if (r < 0)
            return r;
    }
    left_off = cli_list_left_off(list);
    if (r >= 0 && any)
        r = cli_view_table_end(
            &t, view, q, left_off == CLI_LEFT_OFF_UNKNOWN ? left_off : left_off + cut);
    if (r >= 0 && !any && !after && !t.headless)
        printf("%s\n", q->filters.server || q->filters.owner || q->filters.state
                           ? view->none_such
                           : view->none);
    return r;
}

/* The second one is of other objects, whose states are others. */
static int
print_tables(struct cli_list *list, const struct cli_view *view,
             const struct cli_view_query *q, struct gp_err *err)
{
    struct cli_view_query then = *q;
    int r = print_table(list, view, q, false, err);

    then.filters.state = NULL;
    return r < 0 || !view->then ? r : print_table(list, view->then, &then, true, err);
}

/* --------------------------------------------------------------- documents -- */

static void
put_left_off(struct cli_json *json, const struct cli_list *list, const char *name)
{
    uint64_t left_off = cli_list_left_off(list);
    char member[32];

    snprintf(member, sizeof(member), "%s_left_off", name);
    cli_json_member(json, member,
                    left_off == CLI_LEFT_OFF_UNKNOWN
                        ? json_null()
                        : json_integer((json_int_t)left_off));
}

static int
put_array(struct cli_json *json, struct cli_list *list, const char *name,
          Gpupool__Ctl__CtlListKind kind, const struct cli_filters *filters,
          struct gp_err *err)
{
    const Gpupool__Ctl__CtlListReply *page;
    int r;

    cli_json_array(json, name);
    cli_list_begin(list, kind, filters);
    while ((r = cli_list_next(list, &page, err)) > 0) {
        for (size_t i = 0; i < page->n_servers; i++)
            cli_json_element(json, ctl_json_server(page->servers[i]));
        for (size_t i = 0; i < page->n_sessions; i++)
            cli_json_element(json, ctl_json_session(page->sessions[i]));
        for (size_t i = 0; i < page->n_events; i++)
            cli_json_element(json, ctl_json_event(page->events[i]));
    }
    cli_json_array_end(json);
    if (r >= 0 && filters->limit)
        put_left_off(json, list, name);
    return r;
}

static void
put_pool(struct cli_json *json, const Gpupool__Ctl__CtlPoolStatus *pool)
{
    cli_json_member(json, "heartbeat_ms", json_integer(pool->heartbeat_ms));
    cli_json_member(json, "key_id", json_string(pool->scheduler_key_id));
    cli_json_member(json, "lease_ms", json_integer(pool->lease_ms));
    cli_json_member(json, "placement",
                    json_string(ctl_placement_name(pool->placement)));
    cli_json_member(json, "up_ms", json_integer((json_int_t)pool->up_ms));
    cli_json_member(json, "version", json_string(pool->version));
}

/* What is not filtered is there as a whole, up to the limit. */
static int
put_lists(struct cli_json *json, struct cli_list *list, const struct cli_view *view,
          const struct cli_filters *filters, struct gp_err *err)
{
    const struct cli_filters all = {.limit = filters->limit};
    bool of_sessions = view->kind == KIND(SESSIONS);
    int r = 0;

    if (view->kind == KIND(EVENTS))
        return put_array(json, list, "events", KIND(EVENTS), filters, err);
    if (!view->sessions_only)
        r = put_array(json, list, "servers", KIND(SERVERS),
                      of_sessions ? &all : filters, err);
    if (!r)
        r = put_array(json, list, "sessions", KIND(SESSIONS),
                      of_sessions ? filters : &all, err);
    return r;
}

static int
print_document(struct cli_list *list, const struct cli_view *view,
               struct cli_view_query *q, struct gp_err *err)
{
    static const struct cli_filters all = {0};
    const Gpupool__Ctl__CtlListReply *page;
    struct cli_json json;
    int r;

    cli_list_begin(list, KIND(POOL), &all);
    r = cli_list_next(list, &page, err);
    if (r <= 0 || !page->pool)
        return r < 0 ? r : gp_err_set(err, -EPROTO, "the scheduler says nothing");
    q->torn = true;
    cli_json_begin(&json, q->output.form == CLI_FORM_YAML);
    put_pool(&json, page->pool);
    r = put_lists(&json, list, view, &q->filters, err);
    if (r < 0)
        return r;
    q->torn = false;
    return cli_json_end(&json);
}

/* ----------------------------------------------------------------- options -- */

static int
no_such_column(const struct cli_view *view, const char *sort)
{
    char columns[512] = "";

    for (const struct cli_view *v = view; v; v = v->then)
        cli_table_names(v->heads, v->n_heads, columns, sizeof(columns));
    return cli_fail(CLI_USAGE, "%s: --sort %s: there is no such column, but %s",
                    name_of(view), sort, columns);
}

static bool
has_column(const struct cli_view *view, const char *sort)
{
    for (; view; view = view->then)
        if (sort_column(view, sort) >= 0)
            return true;
    return false;
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

#define FIELD(field) offsetof(struct cli_view_query, field)

static const struct gp_option WATCH = {.name = "watch",
                                       .letter = 'w',
                                       .help = "again and again, until it is "
                                               "interrupted",
                                       .set = gp_option_yes,
                                       .offset = FIELD(watch)};

static const struct gp_option COMMON[] = {
    {.name = "interval",
     .letter = 'd',
     .value = "S",
     .help = "seconds between two looks, such as 0.5 (2)",
     .set = set_interval,
     .offset = FIELD(interval_ms)},
    {.name = "count",
     .letter = 'n',
     .value = "N",
     .help = "look N times, then end (for ever)",
     .set = gp_option_u64,
     .min = 1,
     .max = 1000000000,
     .offset = FIELD(count)},
    {.name = "sort",
     .value = "COLUMN",
     .help = "rows of a table in the order of this column; -COLUMN: the largest first",
     .set = gp_option_text,
     .offset = FIELD(sort)},
    {.name = "limit",
     .value = "N",
     .help = "the first N rows of each table or list, and how many more there are "
             "(all)",
     .set = gp_option_u32,
     .min = 1,
     .max = 1000000000,
     .offset = FIELD(filters.limit)},
};

/* The filters that @view takes; returns how many. */
static size_t
filter_options(const struct cli_view *view, struct gp_option ret[4])
{
    const struct {
        unsigned taken;
        struct gp_option option;
    } all[] = {
        {CLI_VIEW_SERVER,
         {.name = "server",
          .value = "NAME",
          .complete = "servers",
          .help = "only this server and what is on it",
          .set = gp_option_text,
          .offset = FIELD(filters.server)}},
        {CLI_VIEW_STATE,
         {.name = "state",
          .value = "STATE",
          .help = view->states ? view->states->help : NULL,
          .set = gp_option_word,
          .words = view->states ? view->states->words : NULL,
          .offset = FIELD(filters.state)}},
        {CLI_VIEW_OWNER,
         {.name = "owner",
          .value = "OWNER",
          .help = "only this owner's",
          .set = gp_option_text,
          .offset = FIELD(filters.owner)}},
        {CLI_VIEW_TENANT,
         {.name = "tenant",
          .value = "NAME",
          .help = "only this tenant's",
          .set = gp_option_text,
          .offset = FIELD(filters.tenant)}},
    };
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (view->takes & all[i].taken)
            ret[n++] = all[i].option;
    return n;
}

/* -1: go on; else the exit status. */
static int
parse(struct cli_view_query *q, const struct cli_view *view, int argc, char **argv)
{
    struct gp_option filters[4];
    const struct gp_option_set_of sets[] = {cli_output_options(&q->output),
                                            {&WATCH, view->again ? 0 : 1, q},
                                            {COMMON, ARRAY_SIZE(COMMON), q},
                                            {filters, filter_options(view, filters), q},
                                            cli_where_client(&q->where)};
    const struct gp_options options = {.program = view->program,
                                       .about = view->about,
                                       .after = view->after,
                                       .alias = view->alias,
                                       .sets = sets,
                                       .n_sets = ARRAY_SIZE(sets)};
    struct gp_err err = {0};
    int first, r = cli_options(&options, argc, argv, &first);

    if (r >= 0)
        return r;
    if (q->sort && !has_column(view, q->sort))
        return no_such_column(view, q->sort);
    q->watch |= view->again;
    r = cli_token(q->where.token_file, q->where.scheduler, CLI_TOKEN_CLIENT, &q->token,
                  &err);
    return r < 0 ? cli_fail(CLI_FAILED, "%s: %s", name_of(view), gp_err_msg(&err, r))
                 : -1;
}

/* -------------------------------------------------------------------- looks -- */

#define NAMES_SHOWN 8 /* of servers, where the one that was asked for is not there */

/* -EREMOTE, as if the scheduler had refused it, in its words: the pool has no such
 * server.  Events may be of one that has left. */
static int
check_server(struct cli_list *list, const struct cli_view *view, const char *name,
             struct gp_err *err)
{
    const struct cli_filters one = {.server = name}, some = {.limit = NAMES_SHOWN};
    const Gpupool__Ctl__CtlListReply *page;
    char names[160] = "";
    size_t at = 0;
    int r;

    if (!name || view->kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_EVENTS)
        return 0;
    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &one);
    r = cli_list_next(list, &page, err);
    if (r < 0 || (r && page->n_servers))
        return r < 0 ? r : 0;
    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &some);
    while ((r = cli_list_next(list, &page, err)) > 0)
        for (size_t i = 0; i < page->n_servers && at < sizeof(names); i++)
            at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
                                   at ? ", " : "", page->servers[i]->server);
    if (r < 0)
        return r;
    if (!at)
        return gp_err_set(err, -EREMOTE, "no server %s: no server has registered",
                          name);
    return gp_err_set(err, -EREMOTE, "no server %s; known servers: %s%s", name, names,
                      cli_list_left_off(list) ? " and others" : "");
}

static int
look_at_lists(struct cli_view_query *q, const struct cli_view *view, struct gp_err *err)
{
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    int r = cli_list_open(&list, q->where.scheduler, q->token, err);

    if (!r)
        r = check_server(&list, view, q->filters.server, err);
    if (r < 0)
        return r;
    return cli_view_has_tables(q) ? print_tables(&list, view, q, err)
                                  : print_document(&list, view, q, err);
}

static int
look(struct cli_view_query *q, const struct cli_view *view, struct gp_err *err)
{
    int r;

    if (q->watch && q->output.form == CLI_FORM_YAML)
        puts("---");
    r = view->look ? view->look(q, view, err) : look_at_lists(q, view, err);
    cli_output_flush();
    return r;
}

/* One look after another.  A failed one does not end a view that has shown something:
 * schedulers are restarted.  Half of a document does, as does nobody who reads. */
static int
repeat(struct cli_view_query *q, const struct cli_view *view)
{
    int r;

    for (uint64_t i = 1;; i++) {
        struct gp_err err = {0};
        bool last = !q->watch || i == q->count;

        r = look(q, view, &err);
        if (r < 0 && (i == 1 || last || q->torn || ferror(stdout)))
            return cli_fail(cli_ctl_exit(r, NULL), "%s: %s", name_of(view),
                            gp_err_msg(&err, r));
        if (cli_output_flush() < 0)
            return CLI_OK; /* main() says so */
        if (r < 0)
            cli_fail(0, "%s: %s; looking again", name_of(view), gp_err_msg(&err, r));
        if (last)
            return CLI_OK;
        poll(NULL, 0, (int)q->interval_ms);
    }
}

int
cli_view_run(const struct cli_view *view, int argc, char **argv)
{
    struct cli_view_query q = {.interval_ms = INTERVAL_MS};
    int status = parse(&q, view, argc, argv);

    if (status < 0)
        status = repeat(&q, view);
    free(q.token);
    return status;
}
