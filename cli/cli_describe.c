/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool describe: everything about one session, server or card. */
#include "cli.h"
#include "cli_card.h"
#include "cli_ctl.h"
#include "cli_list.h"
#include "cli_query.h"
#include "cli_yaml.h"
#include "ctl_json.h"
#include "ctl_session_id.h"
#include "gp_err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Where an object is looked for, and how it is known on a page. */
struct kind {
    const char *name, *plural;
    Gpupool__Ctl__CtlListKind list;
    /* The object as JSON, if it is on @page; else NULL. */
    json_t *(*find)(const Gpupool__Ctl__CtlListReply *page, const char *name,
                    const uint8_t *uuid);
};

static json_t *
find_session(const Gpupool__Ctl__CtlListReply *page, const char *name,
             const uint8_t *uuid)
{
    uint64_t id = 0;
    bool by_id = ctl_session_id_parse(name, &id);

    (void)uuid;
    for (size_t i = 0; i < page->n_sessions; i++)
        if (by_id ? page->sessions[i]->session_id == id
                  : !strcmp(page->sessions[i]->session, name))
            return ctl_json_session(page->sessions[i]);
    return NULL;
}

static json_t *
find_server(const Gpupool__Ctl__CtlListReply *page, const char *name,
            const uint8_t *uuid)
{
    json_t *server = NULL, *sessions;

    (void)uuid;
    for (size_t i = 0; i < page->n_servers && !server; i++)
        if (strcmp(page->servers[i]->server, name) == 0)
            server = ctl_json_server(page->servers[i]);
    if (!server)
        return NULL;
    sessions = json_array();
    for (size_t i = 0; i < page->n_sessions; i++)
        json_array_append_new(sessions, ctl_json_session(page->sessions[i]));
    json_object_set_new(server, "sessions", sessions);
    return server;
}

static json_t *
find_card(const Gpupool__Ctl__CtlListReply *page, const char *name, const uint8_t *uuid)
{
    (void)name;
    for (size_t i = 0; i < page->n_servers; i++)
        for (size_t k = 0; k < page->servers[i]->n_cards; k++) {
            const ProtobufCBinaryData *own = &page->servers[i]->cards[k]->card->uuid;

            if (own->len == TICKET_UUID_SIZE && !memcmp(own->data, uuid, own->len))
                return ctl_json_card(page->servers[i], page->servers[i]->cards[k],
                                     page);
        }
    return NULL;
}

#define LIST(name) GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_##name
static const struct kind KINDS_OF[] = {
    {"session", "sessions", LIST(SESSIONS), find_session},
    {"server", "servers", LIST(SERVERS), find_server},
    {"card", "status", LIST(CARDS), find_card},
};
static const char *const KINDS[] = {"session", "server", "card", NULL};

/* The scheduler finds a session by its name, which the low half of its id has. */
static const char *
session_filter(const char *name, char text[CTL_NAME_MAX])
{
    uint64_t id;

    if (!ctl_session_id_parse(name, &id))
        return name;
    snprintf(text, CTL_NAME_MAX, "s%" PRIu32, (uint32_t)id);
    return text;
}

/* Page by page, until it is found. */
static int
find(const struct cli_query *q, const struct kind *kind, const char *name,
     json_t **ret_object, struct gp_err *err)
{
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    struct cli_filters filters = {.with_sessions = kind->list != LIST(SESSIONS)};
    const Gpupool__Ctl__CtlListReply *page;
    uint8_t uuid[TICKET_UUID_SIZE] = {0};
    struct cli_card_name card_name;
    char card[TICKET_UUID_TEXT], session[CTL_NAME_MAX];
    json_t *object = NULL;
    int r = 0;

    if (kind->find == find_server)
        filters.server = name;
    if (kind->find == find_session)
        filters.session = session_filter(name, session);
    if (kind->find == find_card && ticket_uuid_parse(name, uuid) < 0 &&
        !cli_card_parse(name, &card_name))
        return gp_err_set(err, -EINVAL, "%s: " CLI_CARD_FORMS " is wanted", name);
    if (kind->find == find_card)
        r = cli_card_find(name, q->where.scheduler, q->token, uuid, err);
    if (r < 0)
        return gp_err_wrap(err, r == -EINVAL || r == -ENOENT ? -ESRCH : r, "%s", name);
    if (kind->find == find_card) {
        ticket_uuid_format(uuid, card);
        filters.card = card;
    }
    r = cli_list_open(&list, q->where.scheduler, q->token, err);
    if (r < 0)
        return r;
    cli_list_begin(&list, kind->list, &filters);
    while (!object && (r = cli_list_next(&list, &page, err)) > 0)
        object = kind->find(page, name, uuid);
    if (!object)
        return r < 0 ? r
                     : gp_err_set(err, -ESRCH, "no %s %s; `gpupool %s` lists them",
                                  kind->name, name, kind->plural);
    *ret_object = object;
    return 0;
}

static const struct kind *
kind_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(KINDS_OF); i++)
        if (!strcmp(name, KINDS_OF[i].name))
            return &KINDS_OF[i];
    return NULL;
}

static int
describe(struct cli_query *q, char **args, int n, struct gp_err *err)
{
    const struct kind *kind = n == 2 ? kind_of(args[0]) : NULL;
    json_t *object = NULL;
    int r;

    if (!kind)
        return gp_err_set(
            err, -EINVAL,
            "session NAME, server NAME or card NAME is wanted, see gpupool "
            "describe --help");
    r = find(q, kind, args[1], &object, err);
    if (r < 0)
        return r;
    if (q->output.form >= CLI_FORM_JSON)
        return cli_output_print(&q->output, object);
    cli_yaml_print_for_people(stdout, object);
    json_decref(object);
    return 0;
}

int
cli_describe(int argc, char **argv)
{
    struct cli_query q = {.token = NULL};
    const struct gp_option_set_of sets[] = {cli_output_options(&q.output),
                                            cli_where_client(&q.where)};
    const struct gp_options options = {
        .program = "gpupool describe",
        .arguments = "session|server|card NAME",
        .arguments_words = KINDS,
        .about = "Everything about one session (by name or id_hex), server or card (by "
                 "uuid, "
                 "the beginning\nof one, NUMBER@SERVER or SERVER/NUMBER).",
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };

    return cli_query_run(&q, &options, argc, argv, describe);
}
