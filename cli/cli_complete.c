/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool complete: names of the pool's servers, sessions and cards, one in a line, for
 * the shells' completion.
 *
 * Says nothing when there is no pool, and gives up soon: somebody waits at a prompt.
 */
#include "cli.h"
#include "cli_context.h"
#include "cli_list.h"
#include "cli_options.h"
#include "ticket.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_S 2

/* A name that a server made up must not reach a prompt with control characters. */
static void
put_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-@", *c))
            return;
    puts(name);
}

static void
put_servers(const Gpupool__Ctl__CtlStatusReply *status)
{
    for (size_t i = 0; i < status->n_servers; i++)
        put_name(status->servers[i]->server);
}

static void
put_sessions(const Gpupool__Ctl__CtlStatusReply *status)
{
    for (size_t i = 0; i < status->n_sessions; i++)
        put_name(status->sessions[i]->session);
}

static void
put_cards(const Gpupool__Ctl__CtlStatusReply *status)
{
    for (size_t i = 0; i < status->n_servers; i++)
        for (size_t k = 0; k < status->servers[i]->n_cards; k++) {
            const ProtobufCBinaryData *uuid = &status->servers[i]->cards[k]->card->uuid;
            char text[TICKET_UUID_TEXT];

            if (uuid->len != TICKET_UUID_SIZE)
                continue;
            ticket_uuid_format(uuid->data, text);
            puts(text);
        }
}

static void
put_context(const char *name, void *arg)
{
    (void)arg;
    put_name(name);
}

static int
complete_pools(const struct cli_where *where)
{
    static const struct cli_filters all = {0};
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    CLEANUP_FREE char *token = NULL;
    const Gpupool__Ctl__CtlListReply *page = NULL;
    int r =
        cli_token(where->token_file, where->scheduler, CLI_TOKEN_CLIENT, &token, NULL);

    if (!r)
        r = cli_list_open(&list, where->scheduler, token, NULL);
    if (r < 0)
        return r;
    cli_list_begin(&list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOLS, &all);
    r = cli_list_next(&list, &page, NULL);
    puts("here");
    for (size_t i = 0; r > 0 && i < page->n_pools; i++)
        put_name(page->pools[i]->pool);
    return r;
}

int
cli_complete(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*put)(const Gpupool__Ctl__CtlStatusReply *status);
    } LISTS[] = {
        {"servers", put_servers}, {"sessions", put_sessions}, {"cards", put_cards}};
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP_FREE char *token = NULL;
    struct cli_where where = {NULL, NULL, NULL};
    const struct gp_option_set_of set = cli_where_client(&where);
    const struct gp_options options = {
        .program = "gpupool complete",
        .arguments = "servers|sessions|cards|pools|contexts",
        .about = "Names of the pool, for the shells' completion.",
        .sets = &set,
        .n_sets = 1,
    };
    int first, status = cli_options(&options, argc, argv, &first);

    if (status >= 0)
        return status;
    if (first + 1 == argc && strcmp(argv[first], "contexts") == 0)
        return cli_context_each(put_context, NULL, NULL) < 0 ? CLI_FAILED : CLI_OK;
    alarm(PATIENCE_S);
    if (first + 1 == argc && strcmp(argv[first], "pools") == 0)
        return complete_pools(&where) < 0 ? CLI_FAILED : CLI_OK;
    if (first + 1 != argc ||
        cli_token(where.token_file, where.scheduler, CLI_TOKEN_CLIENT, &token, NULL) <
            0 ||
        cli_ctl_status(where.scheduler, token, &reply, NULL) < 0)
        return CLI_FAILED;
    for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++)
        if (strcmp(argv[first], LISTS[i].name) == 0)
            LISTS[i].put(reply->status);
    return CLI_OK;
}
