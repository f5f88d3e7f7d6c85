/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool complete: names of the pool's servers, sessions and cards, and numbers of
 * jobs, one in a line, for the shells' completion.
 *
 * Says nothing when there is no pool, and gives up soon: somebody waits at a prompt.
 */
#include "cli.h"
#include "cli_context.h"
#include "cli_jobs.h"
#include "cli_list.h"
#include "cli_options.h"
#include "ticket.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_S 2
/* Of a large pool the first ones: nobody reads more at a prompt. */
#define NAMES_MAX 2000
#define KIND(name) GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_##name

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
put_servers(const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_servers; i++)
        put_name(page->servers[i]->server);
}

static void
put_sessions(const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_sessions; i++)
        put_name(page->sessions[i]->session);
}

static void
put_cards(const Gpupool__Ctl__CtlListReply *page)
{
    for (size_t i = 0; i < page->n_servers; i++)
        for (size_t k = 0; k < page->servers[i]->n_cards; k++) {
            const ProtobufCBinaryData *uuid = &page->servers[i]->cards[k]->card->uuid;
            char text[TICKET_UUID_TEXT];

            if (uuid->len != TICKET_UUID_SIZE)
                continue;
            ticket_uuid_format(uuid->data, text);
            puts(text);
        }
}

static void
put_pools(const Gpupool__Ctl__CtlListReply *page)
{
    puts("here");
    for (size_t i = 0; i < page->n_pools; i++)
        put_name(page->pools[i]->pool);
}

static void
put_context(const char *name, void *arg)
{
    (void)arg;
    put_name(name);
}

static int
put_jobs(void)
{
    CLEANUP_FREE unsigned *numbers = NULL;
    unsigned n;

    if (cli_job_numbers(&numbers, &n, NULL) < 0)
        return CLI_FAILED;
    for (unsigned i = 0; i < n; i++)
        printf("%u\n", numbers[i]);
    return CLI_OK;
}

static const struct list {
    const char *name;
    Gpupool__Ctl__CtlListKind kind;
    void (*put)(const Gpupool__Ctl__CtlListReply *page);
} LISTS[] = {{"servers", KIND(SERVERS), put_servers},
             {"sessions", KIND(SESSIONS), put_sessions},
             {"cards", KIND(CARDS), put_cards},
             {"pools", KIND(POOLS), put_pools}};

static int
complete(const struct cli_where *where, const struct list *of)
{
    const struct cli_filters first = {.limit = NAMES_MAX};
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    CLEANUP_FREE char *token = NULL;
    const Gpupool__Ctl__CtlListReply *page;
    int r =
        cli_token(where->token_file, where->scheduler, CLI_TOKEN_CLIENT, &token, NULL);

    if (!r)
        r = cli_list_open(&list, where->scheduler, token, NULL);
    if (r < 0)
        return r;
    cli_list_begin(&list, of->kind, &first);
    while ((r = cli_list_next(&list, &page, NULL)) > 0)
        of->put(page);
    return r;
}

int
cli_complete(int argc, char **argv)
{
    struct cli_where where = {NULL, NULL, NULL};
    const struct gp_option_set_of set = cli_where_client(&where);
    const struct gp_options options = {
        .program = "gpupool complete",
        .arguments = "servers|sessions|cards|pools|contexts|jobs",
        .about = "Names of the pool, for the shells' completion.",
        .sets = &set,
        .n_sets = 1,
    };
    int first, status = cli_options(&options, argc, argv, &first);

    if (status >= 0)
        return status;
    if (first + 1 != argc)
        return CLI_FAILED;
    if (strcmp(argv[first], "contexts") == 0)
        return cli_context_each(put_context, NULL, NULL) < 0 ? CLI_FAILED : CLI_OK;
    if (strcmp(argv[first], "jobs") == 0)
        return put_jobs();
    alarm(PATIENCE_S);
    for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++)
        if (strcmp(argv[first], LISTS[i].name) == 0)
            return complete(&where, &LISTS[i]) < 0 ? CLI_FAILED : CLI_OK;
    return CLI_OK;
}
