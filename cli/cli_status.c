/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool status, servers, sessions, events: what the pool looks like, page by page. */
#include "cli.h"
#include "cli_view.h"
#include "ctl_json.h"
#include "gp_size.h"
#include "ticket.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define KIND(name) GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_##name
#define UUID_SHOWN 12 /* of a uuid: "GPU-" and its first group */

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

/* Who made it says little where all cards are of one make. */
static const char *
short_name(const char *name)
{
    static const char MAKER[] = "NVIDIA ";
    bool made = strncmp(name, MAKER, sizeof(MAKER) - 1) == 0;

    return made ? name + sizeof(MAKER) - 1 : name;
}

static void
add_card(struct cli_table *t, const Gpupool__Ctl__CtlServerStatus *server,
         const Gpupool__Ctl__CtlCardStatus *c)
{
    char total[GP_SIZE_TEXT], given[GP_SIZE_TEXT], used[GP_SIZE_TEXT];

    cli_table_add(t, "%s", server->server);
    cli_table_add(t, "%u", c->card->index);
    add_uuid(t, &c->card->uuid, t->wide);
    cli_table_add(t, "%s", t->wide ? c->card->name : short_name(c->card->name));
    cli_table_add(t, "%u of %u", c->slices, c->slices_max);
    cli_table_add(t, "%u %%", c->core_given);
    cli_table_add(t, "%s of %s", size_text(c->memory_given, given),
                  size_text(c->card->memory_bytes, total));
    if (server->unseen) { /* whoever answers has had no report */
        cli_table_add(t, "%s", "");
        cli_table_add(t, "%s", "");
    } else {
        cli_table_add(t, "%s", size_text(c->card->used_bytes, used));
        cli_table_add(t, "%u %%", c->card->busy_percent);
    }
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
    if (slice->card_number)
        cli_table_add(t, "%u", slice->card_number - 1);
    else
        cli_table_add(t, "%s", "");
    add_uuid(t, &slice->card_uuid, t->wide);
    cli_table_add(t, "%u %%", slice->core);
    cli_table_add(t, "%s", size_text(slice->memory_bytes, limit));
    if (s->unseen)
        cli_table_add(t, "%s", "");
    else
        cli_table_add(t, "%s",
                      size_text(k < s->n_use ? s->use[k]->used_bytes : 0, used));
    cli_table_add(t, "%s", ctl_session_state(s));
    if (s->unseen)
        cli_table_add(t, "%s", "");
    else
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

/* Empty where whoever answers has had no report of it. */
static void
add_session_use(struct cli_table *t, const Gpupool__Ctl__CtlSessionStatus *s,
                uint64_t used)
{
    char buf[GP_SIZE_TEXT];

    if (s->unseen) {
        for (int i = 0; i < 3; i++)
            cli_table_add(t, "%s", "");
        return;
    }
    cli_table_add(t, "%s", size_text(used, buf));
    cli_table_add(t, "%u of %u", s->attachments, s->max_attachments);
    cli_table_add(t, "%.1f s", s->lease_left_ms / 1000.0);
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
        add_session_use(t, s, used);
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

/* ------------------------------------------------------------------- views -- */

static const struct cli_states server_states = {
    {"alive", "dead", "draining", NULL},
    "only servers in this state, alive, dead or draining, and what is on them"};
static const struct cli_states session_states = {
    {"running", "idle", "closing", "server-dead", "unknown", NULL},
    "only those in this state: running, idle, closing, server-dead or unknown"};

int
cli_status(int argc, char **argv)
{
    static const char *const heads[] = {"SERVER", ">CARD", "+UUID",   "NAME",
                                        "SLICES", ">CORE", ">MEMORY", ">USED",
                                        ">BUSY",  "STATE", "+DRIVER", "+ENDPOINT"};
    static const char *const slice_heads[] = {
        "SESSION", "OWNER", "SERVER",  ">CARD",  "+UUID",   ">CORE",  ">MEMORY",
        ">USED",   "STATE", "+>PROCS", "+LINKS", "+POLICY", "PROGRAM"};
    static const struct cli_view slices = {.things = "sessions",
                                           .kind = KIND(SESSIONS),
                                           .heads = slice_heads,
                                           .n_heads = ARRAY_SIZE(slice_heads),
                                           .rows = slice_rows};
    static const struct cli_view view = {
        .program = "gpupool status",
        .about =
            "Every card with its server, then every slice with its session and owner.",
        .none = "no server has registered yet",
        .none_such = "no servers",
        .things = "cards",
        .kind = KIND(CARDS),
        .takes = CLI_VIEW_SERVER | CLI_VIEW_STATE | CLI_VIEW_OWNER,
        .states = &server_states,
        .then = &slices,
        .heads = heads,
        .n_heads = ARRAY_SIZE(heads),
        .rows = card_rows};

    return cli_view_run(&view, argc, argv);
}

int
cli_servers(int argc, char **argv)
{
    static const char *const heads[] = {
        "SERVER", "STATE",   "ENDPOINT", "DRIVER", ">CUDA", ">CARDS",    ">SLICES",
        ">PID",   ">SILENT", "VERSION",  "+LOCAL", "+RDMA", "+>RESERVED"};
    static const struct cli_view view = {.program = "gpupool servers",
                                         .about = "The pool servers, one per line.",
                                         .none = "no server has registered yet",
                                         .none_such = "no servers",
                                         .things = "servers",
                                         .kind = KIND(SERVERS),
                                         .takes = CLI_VIEW_SERVER | CLI_VIEW_STATE,
                                         .states = &server_states,
                                         .heads = heads,
                                         .n_heads = ARRAY_SIZE(heads),
                                         .rows = server_rows};

    return cli_view_run(&view, argc, argv);
}

int
cli_sessions(int argc, char **argv)
{
    static const char *const heads[] = {"SESSION",  "STATE",   "OWNER",  "POLICY",
                                        "SERVER",   ">SLICES", ">CORE",  ">MEMORY",
                                        ">USED",    ">PROCS",  ">LEASE", "+CLASS",
                                        "+SPATIAL", "+LINKS",  "PROGRAM"};
    static const struct cli_view view = {.program = "gpupool sessions",
                                         .about = "The sessions, one per line.",
                                         .none = "no sessions",
                                         .none_such = "no sessions",
                                         .things = "sessions",
                                         .kind = KIND(SESSIONS),
                                         .takes = CLI_VIEW_SERVER | CLI_VIEW_STATE |
                                                  CLI_VIEW_OWNER,
                                         .states = &session_states,
                                         .heads = heads,
                                         .n_heads = ARRAY_SIZE(heads),
                                         .rows = session_rows};

    return cli_view_run(&view, argc, argv);
}

int
cli_events(int argc, char **argv)
{
    static const char *const heads[] = {"TIME",   "EVENT", "SESSION",
                                        "SERVER", "OWNER", "DETAIL"};
    static const struct cli_view view = {
        .program = "gpupool events",
        .about =
            "What happened in the pool since its scheduler started, newest first;\n"
            "the last 4096 events.",
        .none = "nothing has happened yet",
        .none_such = "no events",
        .things = "events",
        .kind = KIND(EVENTS),
        .takes = CLI_VIEW_SERVER | CLI_VIEW_OWNER,
        .heads = heads,
        .n_heads = ARRAY_SIZE(heads),
        .rows = event_rows};

    return cli_view_run(&view, argc, argv);
}
