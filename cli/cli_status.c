/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool status, servers, sessions, events: what the pool looks like, page by page. */
#include "cli.h"
#include "cli_json.h"
#include "cli_list.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_table.h"
#include "ctl_json.h"
#include "gp_err.h"
#include "gp_size.h"
#include "ticket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define KIND(name) GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_##name
/* Between two looks of --watch. */
#define WATCH_MS 2000
#define UUID_SHOWN 12 /* of a uuid: "GPU-" and its first group */

struct query {
    struct cli_where where;
    char *token;
    bool watch;
    const char
        *sort; /* the head of a column, after '-' for the largest first; or NULL */
    struct cli_output output;
    struct cli_filters filters;
};

struct view {
    const char *program, *about, *none, *none_such;
    Gpupool__Ctl__CtlListKind kind;
    const char *const *states;
    const struct view *then; /* a second table, where it has rows; NULL: none */
    const char *const *heads;
    unsigned n_heads;
    void (*rows)(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page);
};

/* ------------------------------------------------------------------ tables -- */

static const char *
size_text(uint64_t bytes, char buf[GP_SIZE_TEXT])
{
    return gp_size_format(bytes, buf);
}

/* "GPU-5ad3f4c8", which --card takes as well, or with @whole all of it. */
static void
add_uuid(struct cli_table *t, const ProtobufCBinaryData *uuid, bool whole)
{
    char text[TICKET_UUID_TEXT] = "";

    if (uuid->len == TICKET_UUID_SIZE)
        ticket_uuid_format(uuid->data, text);
    cli_table_add(t, "%.*s", whole ? TICKET_UUID_TEXT : UUID_SHOWN, text);
}

/* A server that drains and has no sessions any more can be stopped. */
static const char *
server_state(const Gpupool__Ctl__CtlServerStatus *server)
{
    uint32_t slices = 0;

    for (size_t i = 0; i < server->n_cards; i++)
        slices += server->cards[i]->slices;
    return server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DRAINING && !slices
               ? "drained"
               : ctl_server_state(server->state);
}

static const char *
card_state(const Gpupool__Ctl__CtlServerStatus *server,
           const Gpupool__Ctl__CtlCardStatus *card)
{
    if (*card->card->fault)
        return "out of use";
    if (card->cordoned && server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE)
        return "cordoned";
    if (*card->reserved && server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE)
        return "reserved";
    return server_state(server);
}

static void
add_card(struct cli_table *t, const Gpupool__Ctl__CtlServerStatus *server,
         const Gpupool__Ctl__CtlCardStatus *c)
{
    char total[GP_SIZE_TEXT], given[GP_SIZE_TEXT], used[GP_SIZE_TEXT];

    cli_table_add(t, "%s", server->server);
    cli_table_add(t, "%u", c->card->index);
    add_uuid(t, &c->card->uuid, t->wide);
    cli_table_add(t, "%s", c->card->name);
    cli_table_add(t, "%u of %u", c->slices, c->slices_max);
    cli_table_add(t, "%u %%", c->core_given);
    cli_table_add(t, "%s of %s", size_text(c->memory_given, given),
                  size_text(c->card->memory_bytes, total));
    cli_table_add(t, "%s", size_text(c->card->used_bytes, used));
    cli_table_add(t, "%u %%", c->card->busy_percent);
    cli_table_add(t, "%s", card_state(server, c));
    cli_table_add(t, "%s", server->driver);
    cli_table_add(t, "%s", server->endpoint);
}

static void
card_rows(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_servers; i++)
        for (size_t k = 0; k < page->servers[i]->n_cards; k++)
            add_card(t, page->servers[i], page->servers[i]->cards[k]);
}

static void
add_slice(struct cli_table *t, const Gpupool__Ctl__CtlSessionStatus *s, size_t k)
{
    const Gpupool__Ctl__CtlSlice *slice = s->slices[k];
    char limit[GP_SIZE_TEXT], used[GP_SIZE_TEXT];

    cli_table_add(t, "%s", s->session);
    cli_table_add(t, "%s", s->owner);
    cli_table_add(t, "%s", slice->server);
    add_uuid(t, &slice->card_uuid, t->wide);
    cli_table_add(t, "%u %%", slice->core);
    cli_table_add(t, "%s", size_text(slice->memory_bytes, limit));
    cli_table_add(t, "%s", size_text(k < s->n_use ? s->use[k]->used_bytes : 0, used));
    cli_table_add(t, "%s", ctl_session_state(s));
    cli_table_add(t, "%u", s->attachments);
    cli_table_add(t, "%s", s->links);
    cli_table_add(t, "%s", ticket_policy_name((enum ticket_policy)s->policy));
    cli_table_add(t, "%s", s->program);
}

static void
slice_rows(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_sessions; i++)
        for (size_t k = 0; k < page->sessions[i]->n_slices; k++)
            add_slice(t, page->sessions[i], k);
}

/* What only heartbeats tell: empty where whoever answers has had none. */
static void
add_life(struct cli_table *t, const Gpupool__Ctl__CtlServerStatus *s)
{
    if (s->unseen) {
        cli_table_add(t, "%s", "");
        cli_table_add(t, "%s", "");
    } else {
        cli_table_add(t, "%u", s->pid);
        cli_table_add(t, "%.1f s", s->silent_ms / 1000.0);
    }
}

static void
server_rows(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_servers; i++) {
        const Gpupool__Ctl__CtlServerStatus *s = page->servers[i];
        uint32_t slices = 0, reserved = 0;

        for (size_t k = 0; k < s->n_cards; k++) {
            slices += s->cards[k]->slices;
            reserved += !!*s->cards[k]->reserved;
        }
        cli_table_add(t, "%s", s->server);
        cli_table_add(t, "%s", server_state(s));
        cli_table_add(t, "%s", s->endpoint);
        cli_table_add(t, "%s", s->driver);
        cli_table_add(t, "%u.%u", s->driver_version / 1000,
                      s->driver_version % 1000 / 10);
        cli_table_add(t, "%zu", s->n_cards);
        cli_table_add(t, "%u", slices);
        add_life(t, s);
        cli_table_add(t, "%s", s->version);
        cli_table_add(t, "%s", s->local);
        cli_table_add(t, "%s", s->rdma);
        cli_table_add(t, "%u", reserved);
    }
}

/* The servers of a session's slices, with commas between. */
static void
add_servers(struct cli_table *t, const Gpupool__Ctl__CtlSessionStatus *s)
{
    char names[TICKET_SLICES_MAX * CTL_NAME_MAX] = "";
    size_t at = 0;

    for (size_t i = 0; i < s->n_slices; i++) {
        bool known = false;

        for (size_t k = 0; k < i; k++)
            known |= strcmp(s->slices[k]->server, s->slices[i]->server) == 0;
        if (!known && at < sizeof(names))
            at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
                                   at ? "," : "", s->slices[i]->server);
    }
    cli_table_add(t, "%s", names);
}

static void
session_rows(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page)
{
    char buf[GP_SIZE_TEXT];

    for (size_t i = 0; i < page->n_sessions; i++) {
        const Gpupool__Ctl__CtlSessionStatus *s = page->sessions[i];
        uint64_t memory = 0, used = 0;
        uint32_t core = 0;

        for (size_t k = 0; k < s->n_slices; k++) {
            core += s->slices[k]->core;
            memory += s->slices[k]->memory_bytes;
            used += k < s->n_use ? s->use[k]->used_bytes : 0;
        }
        cli_table_add(t, "%s", s->session);
        cli_table_add(t, "%s", ctl_session_state(s));
        cli_table_add(t, "%s", s->owner);
        cli_table_add(t, "%s", ticket_policy_name((enum ticket_policy)s->policy));
        add_servers(t, s);
        cli_table_add(t, "%zu", s->n_slices);
        cli_table_add(t, "%u %%", core);
        cli_table_add(t, "%s", size_text(memory, buf));
        cli_table_add(t, "%s", size_text(used, buf));
        cli_table_add(t, "%u of %u", s->attachments, s->max_attachments);
        cli_table_add(t, "%.1f s", s->lease_left_ms / 1000.0);
        cli_table_add(t, "%s", ctl_session_class(s));
        cli_table_add(t, "%s", ticket_spatial_name((enum ticket_spatial)s->spatial));
        cli_table_add(t, "%s", s->links);
        cli_table_add(t, "%s", s->program);
    }
}

static void
event_rows(struct cli_table *t, const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_events; i++) {
        const Gpupool__Ctl__CtlEvent *e = page->events[i];
        time_t at = (time_t)(e->unix_ms / 1000);
        struct tm tm;
        char time[32];

        localtime_r(&at, &tm);
        strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &tm);
        cli_table_add(t, "%s", time);
        cli_table_add(t, "%s", e->kind);
        cli_table_add(t, "%s", e->session);
        cli_table_add(t, "%s", e->server);
        cli_table_add(t, "%s", e->owner);
        cli_table_add(t, "%s", e->words);
    }
}

/* -------------------------------------------------------------------- showing -- */

/* The column of @view that it is sorted by; -1: it stays in its order. */
static int
sort_column(const struct view *view, const char *sort)
{
    return sort ? cli_table_column(view->heads, view->n_heads, sort + (*sort == '-'))
                : -1;
}

/* All pages of one table.  @after: a line of its own comes before the first row, and
 * nothing at all where there is none. */
static int
print_table(struct cli_list *list, const struct view *view, const struct query *q,
            bool after, struct gp_err *err)
{
    CLEANUP(cli_table_fini) struct cli_table t;
    const Gpupool__Ctl__CtlListReply *page;
    int r, column = sort_column(view, q->sort);
    bool any = false;

    cli_table_init(&t, view->heads, view->n_heads);
    t.wide = q->output.form == CLI_FORM_WIDE;
    t.headless = q->output.headless;
    cli_list_begin(list, view->kind, &q->filters);
    while ((r = cli_list_next(list, &page, err)) > 0) {
        if (!page->n_servers && !page->n_sessions && !page->n_events)
            continue;
        if (after && !any)
            putchar('\n');
        any = true;
        view->rows(&t, page);
        if (column < 0)
            r = cli_table_flush(&t, stdout);
        if (r < 0)
            return r;
    }
    if (r >= 0 && any && column >= 0) {
        cli_table_sort(&t, (unsigned)column, *q->sort == '-');
        r = cli_table_flush(&t, stdout);
    }
    if (r < 0 || any || after)
        return r;
    if (!t.headless)
        printf("%s\n", q->filters.server || q->filters.owner || q->filters.state
                           ? view->none_such
                           : view->none);
    return 0;
}

/* The second one is of other objects, whose states are others. */
static int
print_tables(struct cli_list *list, const struct view *view, const struct query *q,
             struct gp_err *err)
{
    struct query then = *q;
    int r = print_table(list, view, q, false, err);

    then.filters.state = NULL;
    return r < 0 || !view->then ? r : print_table(list, view->then, &then, true, err);
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

/* What is not filtered is there as a whole. */
static int
print_json(struct cli_list *list, const struct view *view, const struct query *q,
           struct gp_err *err)
{
    static const struct cli_filters all = {0};
    const struct cli_filters *filters = &q->filters;
    const struct cli_filters *of_servers = view->kind == KIND(SERVERS) ? filters : &all;
    const struct cli_filters *of_sessions =
        view->kind == KIND(SESSIONS) ? filters : &all;
    struct cli_filters servers = *of_servers;
    const Gpupool__Ctl__CtlListReply *page;
    struct cli_json json;
    int r;

    servers.with_sessions = false;
    cli_list_begin(list, KIND(POOL), &all);
    r = cli_list_next(list, &page, err);
    if (r <= 0 || !page->pool)
        return r < 0 ? r : gp_err_set(err, -EPROTO, "the scheduler says nothing");
    cli_json_begin(&json, q->output.form == CLI_FORM_YAML);
    put_pool(&json, page->pool);
    if (view->kind == KIND(EVENTS))
        r = put_array(&json, list, "events", KIND(EVENTS), filters, err);
    else
        r = put_array(&json, list, "servers", KIND(SERVERS), &servers, err);
    if (!r && view->kind != KIND(EVENTS))
        r = put_array(&json, list, "sessions", KIND(SESSIONS), of_sessions, err);
    return r < 0 ? r : cli_json_end(&json);
}

/* ------------------------------------------------------------------------ ask -- */

/* The word after "gpupool ". */
static const char *
name_of(const struct view *view)
{
    return strchr(view->program, ' ') + 1;
}

static void
name_columns(const struct view *view, char *text, size_t size)
{
    for (unsigned i = 0; i < view->n_heads; i++) {
        size_t at = strlen(text);

        snprintf(text + at, size - at, "%s%s", at ? ", " : "",
                 view->heads[i] + strspn(view->heads[i], "+>"));
    }
}

static int
no_such_column(const struct view *view, const char *sort)
{
    char columns[512] = "";

    name_columns(view, columns, sizeof(columns));
    if (view->then)
        name_columns(view->then, columns, sizeof(columns));
    return cli_fail(CLI_USAGE, "%s: --sort %s: there is no such column, but %s",
                    name_of(view), sort, columns);
}

#define FILTER(field) offsetof(struct query, filters.field)

/* -1: go on; else the exit status. */
static int
parse(struct query *q, const struct view *view, int argc, char **argv)
{
    const struct gp_option own[] = {
        {.name = "watch",
         .letter = 'w',
         .help = "again every two seconds, until it is interrupted",
         .set = gp_option_yes,
         .offset = offsetof(struct query, watch)},
        {.name = "server",
         .value = "NAME",
         .complete = "servers",
         .help = "only this server and what is on it",
         .set = gp_option_text,
         .offset = FILTER(server)},
        {.name = "state",
         .value = "STATE",
         .help = "only those in this state",
         .set = gp_option_word,
         .words = view->states,
         .offset = FILTER(state)},
        {.name = "owner",
         .value = "OWNER",
         .help = "only this owner's",
         .set = gp_option_text,
         .offset = FILTER(owner)},
        {.name = "sort",
         .value = "COLUMN",
         .help = "rows of a table in the order of this column; -COLUMN: the largest "
                 "first",
         .set = gp_option_text,
         .offset = offsetof(struct query, sort)},
    };
    bool no_state = view->kind == KIND(EVENTS), no_owner = view->kind == KIND(SERVERS);
    struct gp_option taken[ARRAY_SIZE(own)];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (!(no_state && own[i].offset == FILTER(state)) &&
            !(no_owner && own[i].offset == FILTER(owner)))
            taken[n++] = own[i];
    const struct gp_option_set_of sets[] = {
        cli_output_options(&q->output), {taken, n, q}, cli_where_client(&q->where)};
    const struct gp_options options = {.program = view->program,
                                       .about = view->about,
                                       .sets = sets,
                                       .n_sets = ARRAY_SIZE(sets)};
    struct gp_err err = {0};
    int first, r = cli_options(&options, argc, argv, &first);

    if (r >= 0)
        return r;
    if (q->sort && sort_column(view, q->sort) < 0 &&
        (!view->then || sort_column(view->then, q->sort) < 0))
        return no_such_column(view, q->sort);
    r = cli_token(q->where.token_file, q->where.scheduler, CLI_TOKEN_CLIENT, &q->token,
                  &err);
    return r < 0 ? cli_fail(CLI_FAILED, "%s: %s", name_of(view), gp_err_msg(&err, r))
                 : -1;
}

static int
look(const struct query *q, const struct view *view, struct gp_err *err)
{
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    int r = cli_list_open(&list, q->where.scheduler, q->token, err);

    if (!r)
        r = q->output.form >= CLI_FORM_JSON ? print_json(&list, view, q, err)
                                            : print_tables(&list, view, q, err);
    if (!r && fflush(stdout) != 0)
        r = -errno;
    return r;
}

static int
show(const struct query *q, const struct view *view)
{
    struct gp_err err = {0};
    int r;

    for (;;) {
        if (q->watch && q->output.form < CLI_FORM_JSON && isatty(STDOUT_FILENO))
            fputs("\033[H\033[J", stdout);
        r = look(q, view, &err);
        if (r < 0)
            return cli_fail(cli_ctl_exit(r, NULL), "%s: %s", name_of(view),
                            gp_err_msg(&err, r));
        if (!q->watch)
            return CLI_OK;
        poll(NULL, 0, WATCH_MS);
    }
}

static int
view_once(const struct view *view, int argc, char **argv)
{
    struct query q = {0};
    int status = parse(&q, view, argc, argv);

    if (status < 0)
        status = show(&q, view);
    free(q.token);
    return status;
}

static const char *const server_states[] = {"alive", "dead", "draining", NULL};
static const char *const session_states[] = {"running", "idle", "closing",
                                             "server-dead", NULL};

int
cli_status(int argc, char **argv)
{
    static const char *const heads[] = {"SERVER", ">CARD", "UUID",    "NAME",
                                        "SLICES", ">CORE", ">MEMORY", ">USED",
                                        ">BUSY",  "STATE", "+DRIVER", "+ENDPOINT"};
    static const char *const slice_heads[] = {
        "SESSION", "OWNER", "SERVER", "UUID",  ">CORE",   ">MEMORY",
        ">USED",   "STATE", ">PROCS", "LINKS", "+POLICY", "PROGRAM"};
    static const struct view slices = {.kind = KIND(SESSIONS),
                                       .heads = slice_heads,
                                       .n_heads = ARRAY_SIZE(slice_heads),
                                       .rows = slice_rows};
    static const struct view view = {
        .program = "gpupool status",
        .about =
            "Every card with its server, then every slice with its session and owner.",
        .none = "no server has registered yet",
        .none_such = "no servers",
        .kind = KIND(SERVERS),
        .states = server_states,
        .then = &slices,
        .heads = heads,
        .n_heads = ARRAY_SIZE(heads),
        .rows = card_rows};

    return view_once(&view, argc, argv);
}

int
cli_servers(int argc, char **argv)
{
    static const char *const heads[] = {
        "SERVER", "STATE",   "ENDPOINT", "DRIVER", ">CUDA", ">CARDS",    ">SLICES",
        ">PID",   ">SILENT", "VERSION",  "+LOCAL", "+RDMA", "+>RESERVED"};
    static const struct view view = {.program = "gpupool servers",
                                     .about = "The pool servers, one per line.",
                                     .none = "no server has registered yet",
                                     .none_such = "no servers",
                                     .kind = KIND(SERVERS),
                                     .states = server_states,
                                     .heads = heads,
                                     .n_heads = ARRAY_SIZE(heads),
                                     .rows = server_rows};

    return view_once(&view, argc, argv);
}

int
cli_sessions(int argc, char **argv)
{
    static const char *const heads[] = {"SESSION",  "STATE",   "OWNER",  "POLICY",
                                        "SERVER",   ">SLICES", ">CORE",  ">MEMORY",
                                        ">USED",    ">PROCS",  ">LEASE", "+CLASS",
                                        "+SPATIAL", "+LINKS",  "PROGRAM"};
    static const struct view view = {.program = "gpupool sessions",
                                     .about = "The sessions, one per line.",
                                     .none = "no sessions",
                                     .none_such = "no sessions",
                                     .kind = KIND(SESSIONS),
                                     .states = session_states,
                                     .heads = heads,
                                     .n_heads = ARRAY_SIZE(heads),
                                     .rows = session_rows};

    return view_once(&view, argc, argv);
}

int
cli_events(int argc, char **argv)
{
    static const char *const heads[] = {"TIME",   "EVENT", "SESSION",
                                        "SERVER", "OWNER", "WORDS"};
    static const struct view view = {
        .program = "gpupool events",
        .about = "What happened in the pool since its scheduler started, newest first; "
                 "the last 4096 events.",
        .none = "nothing has happened yet",
        .none_such = "no events",
        .kind = KIND(EVENTS),
        .heads = heads,
        .n_heads = ARRAY_SIZE(heads),
        .rows = event_rows};

    return view_once(&view, argc, argv);
}
