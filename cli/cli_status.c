/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool status, servers, sessions: what the pool looks like. */
#include "cli.h"
#include "cli_ctl.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_table.h"
#include "ctl_json.h"
#include "gp_err.h"
#include "gp_size.h"
#include "ticket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct view {
    const char *program, *about, *json;
    int (*print)(const Gpupool__Ctl__CtlStatusReply *status);
};

struct query {
    struct cli_where where;
    char *token;
    bool json;
};

/* ------------------------------------------------------------------ tables -- */

static const char *
size_text(uint64_t bytes, char buf[GP_SIZE_TEXT])
{
    return gp_size_format(bytes, buf);
}

static bool
same_uuid(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
    return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

/* One row per slice that lies on @card. */
static void
rows_of_card(struct cli_table *t, const Gpupool__Ctl__CtlStatusReply *status,
             const Gpupool__Ctl__CtlCard *card)
{
    char limit[GP_SIZE_TEXT], used[GP_SIZE_TEXT];

    for (size_t i = 0; i < status->n_sessions; i++) {
        const Gpupool__Ctl__CtlSessionStatus *s = status->sessions[i];

        for (size_t k = 0; k < s->n_slices; k++) {
            const Gpupool__Ctl__CtlSlice *slice = s->slices[k];

            if (!same_uuid(&slice->card_uuid, &card->uuid))
                continue;
            cli_table_add(t, "%s", "");
            cli_table_add(t, "%s", "");
            cli_table_add(t, "%s", s->session);
            cli_table_add(t, "%u %%", slice->core);
            cli_table_add(t, "%s", size_text(slice->memory_bytes, limit));
            cli_table_add(t, "%s",
                          size_text(k < s->n_use ? s->use[k]->used_bytes : 0, used));
            cli_table_add(t, "%s", ticket_policy_name((enum ticket_policy)s->policy));
            cli_table_add(t, "%s", ctl_session_state(s));
            cli_table_add(t, "%u", s->attachments);
            cli_table_add(t, "%s", s->links);
            cli_table_add(t, "%s", s->owner);
            cli_table_add(t, "%s", s->program);
        }
    }
}

static void
row_of_card(struct cli_table *t, const Gpupool__Ctl__CtlServerStatus *server,
            const Gpupool__Ctl__CtlCardStatus *c)
{
    char total[GP_SIZE_TEXT], given[GP_SIZE_TEXT], used[GP_SIZE_TEXT];

    cli_table_add(t, "%s", server->server);
    cli_table_add(t, "%u", c->card->index);
    cli_table_add(t, "%u of %u", c->slices, c->slices_max);
    cli_table_add(t, "%u %%", c->core_given);
    cli_table_add(t, "%s of %s", size_text(c->memory_given, given),
                  size_text(c->card->memory_bytes, total));
    cli_table_add(t, "%s", size_text(c->card->used_bytes, used));
    cli_table_add(t, "%s", server->driver);
    cli_table_add(t, "%s", ctl_server_state(server->state));
    cli_table_add(t, "%s", "");
    cli_table_add(t, "%s", *server->rdma ? "tcp, rdma" : "tcp");
    cli_table_add(t, "%s", server->endpoint);
    cli_table_add(t, "%s", c->card->name);
}

static int
print_status(const Gpupool__Ctl__CtlStatusReply *status)
{
    static const char *const heads[] = {
        "SERVER",        ">CARD", "SLICES", ">CORE", ">MEMORY",        ">USED",
        "POLICY/DRIVER", "STATE", ">PROCS", "LINKS", "OWNER/ENDPOINT", "PROGRAM/CARD"};
    CLEANUP(cli_table_fini) struct cli_table t;

    cli_table_init(&t, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < status->n_servers; i++) {
        const Gpupool__Ctl__CtlServerStatus *server = status->servers[i];

        for (size_t k = 0; k < server->n_cards; k++) {
            row_of_card(&t, server, server->cards[k]);
            rows_of_card(&t, status, server->cards[k]->card);
        }
    }
    if (!status->n_servers)
        printf("no server has registered yet\n");
    return cli_table_print(&t, stdout);
}

static int
print_servers(const Gpupool__Ctl__CtlStatusReply *status)
{
    static const char *const heads[] = {"SERVER",  "STATE",  "ENDPOINT", "DRIVER",
                                        ">CUDA",   ">CARDS", ">SLICES",  ">PID",
                                        ">SILENT", "VERSION"};
    CLEANUP(cli_table_fini) struct cli_table t;

    cli_table_init(&t, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < status->n_servers; i++) {
        const Gpupool__Ctl__CtlServerStatus *s = status->servers[i];
        uint32_t slices = 0;

        for (size_t k = 0; k < s->n_cards; k++)
            slices += s->cards[k]->slices;
        cli_table_add(&t, "%s", s->server);
        cli_table_add(&t, "%s", ctl_server_state(s->state));
        cli_table_add(&t, "%s", s->endpoint);
        cli_table_add(&t, "%s", s->driver);
        cli_table_add(&t, "%u.%u", s->driver_version / 1000,
                      s->driver_version % 1000 / 10);
        cli_table_add(&t, "%zu", s->n_cards);
        cli_table_add(&t, "%u", slices);
        cli_table_add(&t, "%u", s->pid);
        cli_table_add(&t, "%.1f s", s->silent_ms / 1000.0);
        cli_table_add(&t, "%s", s->version);
    }
    return cli_table_print(&t, stdout);
}

static int
print_sessions(const Gpupool__Ctl__CtlStatusReply *status)
{
    static const char *const heads[] = {"SESSION", "STATE",   "OWNER",  "POLICY",
                                        "SERVER",  ">SLICES", ">CORE",  ">MEMORY",
                                        ">USED",   ">PROCS",  ">LEASE", "PROGRAM"};
    CLEANUP(cli_table_fini) struct cli_table t;
    char buf[GP_SIZE_TEXT];

    cli_table_init(&t, heads, ARRAY_SIZE(heads));
    for (size_t i = 0; i < status->n_sessions; i++) {
        const Gpupool__Ctl__CtlSessionStatus *s = status->sessions[i];
        uint64_t memory = 0, used = 0;
        uint32_t core = 0;

        for (size_t k = 0; k < s->n_slices; k++) {
            core += s->slices[k]->core;
            memory += s->slices[k]->memory_bytes;
            used += k < s->n_use ? s->use[k]->used_bytes : 0;
        }
        cli_table_add(&t, "%s", s->session);
        cli_table_add(&t, "%s", ctl_session_state(s));
        cli_table_add(&t, "%s", s->owner);
        cli_table_add(&t, "%s", ticket_policy_name((enum ticket_policy)s->policy));
        cli_table_add(&t, "%s", s->n_slices ? s->slices[0]->server : "");
        cli_table_add(&t, "%zu", s->n_slices);
        cli_table_add(&t, "%u %%", core);
        cli_table_add(&t, "%s", size_text(memory, buf));
        cli_table_add(&t, "%s", size_text(used, buf));
        cli_table_add(&t, "%u of %u", s->attachments, s->max_attachments);
        cli_table_add(&t, "%.1f s", s->lease_left_ms / 1000.0);
        cli_table_add(&t, "%s", s->program);
    }
    return cli_table_print(&t, stdout);
}

/* --------------------------------------------------------------------- ask -- */

/* The word after "gpupool ". */
static const char *
name_of(const struct view *view)
{
    return strchr(view->program, ' ') + 1;
}

/* -1: go on; else the exit status. */
static int
parse(struct query *q, const struct view *view, int argc, char **argv)
{
    const struct gp_option own[] = {{.name = "json",
                                     .help = view->json,
                                     .set = gp_option_yes,
                                     .offset = offsetof(struct query, json)}};
    const struct gp_option_set_of sets[] = {{own, 1, q}, cli_where_client(&q->where)};
    const struct gp_options options = {.program = view->program,
                                       .about = view->about,
                                       .sets = sets,
                                       .n_sets = ARRAY_SIZE(sets)};
    struct gp_err err = {0};
    int first, r = cli_options(&options, argc, argv, &first);

    if (r >= 0)
        return r;
    r = cli_token(q->where.token_file, q->where.scheduler, CLI_TOKEN_CLIENT, &q->token,
                  &err);
    return r < 0 ? cli_fail(CLI_FAILED, "%s: %s", name_of(view), gp_err_msg(&err, r))
                 : -1;
}

static int
show(const struct query *q, const struct view *view)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    struct gp_err err = {0};
    int r = cli_ctl_status(q->where.scheduler, q->token, &reply, &err);

    if (r < 0)
        return cli_fail(cli_ctl_exit(r, NULL), "%s: %s", name_of(view),
                        gp_err_msg(&err, r));
    r = q->json ? cli_json_print(reply->status) : view->print(reply->status);
    if (!r && fflush(stdout) != 0)
        r = -errno;
    return r < 0 ? cli_fail(CLI_FAILED, "%s: %s", name_of(view), gp_err_msg(&err, r))
                 : CLI_OK;
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

int
cli_status(int argc, char **argv)
{
    static const struct view view = {
        "gpupool status", "Every server, card, slice, session and owner, in one table.",
        "the same as JSON", print_status};

    return view_once(&view, argc, argv);
}

int
cli_servers(int argc, char **argv)
{
    static const struct view view = {
        "gpupool servers", "The pool servers, one per line.",
        "everything, as `gpupool status --json`", print_servers};

    return view_once(&view, argc, argv);
}

int
cli_sessions(int argc, char **argv)
{
    static const struct view view = {"gpupool sessions", "The sessions, one per line.",
                                     "everything, as `gpupool status --json`",
                                     print_sessions};

    return view_once(&view, argc, argv);
}
