/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_card.h"

#include "cli_list.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PREFIX "GPU-"

static bool
is_uuid_or_prefix(const char *text)
{
    return strncasecmp(text, PREFIX, strlen(PREFIX)) == 0 && text[strlen(PREFIX)] &&
           !text[strlen(PREFIX) +
                 strspn(text + strlen(PREFIX), "0123456789abcdefABCDEF-")];
}

static bool
is_number(const char *text, size_t len, uint64_t *ret)
{
    char digits[8];

    if (!len || len >= sizeof(digits))
        return false;
    memcpy(digits, text, len);
    digits[len] = 0;
    return gp_str_u64(digits, 0, UINT32_MAX, ret) == 0;
}

bool
cli_card_parse(const char *name, struct cli_card_name *ret)
{
    const char *slash = strrchr(name, '/'), *at = slash ? NULL : strchr(name, '@');
    const char *card = slash ? slash + 1 : name;

    *ret = (struct cli_card_name){.server = ""};
    if (is_uuid_or_prefix(card))
        ret->uuid = card;
    else if (!is_number(card, at ? (size_t)(at - card) : strlen(card), &ret->number))
        return false;
    if (slash && slash != name && (size_t)(slash - name) < sizeof(ret->server))
        memcpy(ret->server, name, (size_t)(slash - name));
    else if (slash || (at && !gp_str_copy(ret->server, sizeof(ret->server), at + 1)))
        return false;
    return ret->uuid || *ret->server; /* a number alone is that of many cards */
}

/* The card itself, by what a list says of it. */
static int
take_card(const Gpupool__Ctl__CtlCardStatus *card, uint8_t ret_uuid[TICKET_UUID_SIZE],
          struct gp_err *err)
{
    if (card->card->uuid.len != TICKET_UUID_SIZE)
        return gp_err_set(err, -EPROTO, "the card has no uuid");
    memcpy(ret_uuid, card->card->uuid.data, TICKET_UUID_SIZE);
    return 0;
}

static int
find_by_number(struct cli_list *list, uint64_t number, const char *name,
               uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err)
{
    const struct cli_filters filters = {.server = name};
    const Gpupool__Ctl__CtlListReply *page;
    const Gpupool__Ctl__CtlServerStatus *server;
    int r;

    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, &filters);
    r = cli_list_next(list, &page, err);
    if (r < 0)
        return r;
    if (!page->n_servers)
        return gp_err_set(err, -EINVAL, "no server %s; `gpupool servers` lists them",
                          name);
    server = page->servers[0];
    for (size_t k = 0; k < server->n_cards; k++)
        if (server->cards[k]->card->index == number)
            return take_card(server->cards[k], ret_uuid, err);
    return gp_err_set(err, -EINVAL, "server %s has %zu cards, counted from 0", name,
                      server->n_cards);
}

/* The scheduler compares digits only, or, if it is older, nothing. */
static unsigned
find_in_page(const Gpupool__Ctl__CtlListReply *page, const struct cli_card_name *name,
             uint8_t ret_uuid[TICKET_UUID_SIZE], char ret_server[CTL_NAME_MAX])
{
    unsigned found = 0;

    for (size_t i = 0; i < page->n_servers; i++)
        for (size_t k = 0; k < page->servers[i]->n_cards; k++) {
            const char *server = page->servers[i]->server;
            uint8_t uuid[TICKET_UUID_SIZE];
            char text[TICKET_UUID_TEXT];

            if (take_card(page->servers[i]->cards[k], uuid, NULL) < 0 ||
                (*name->server && strcmp(name->server, server) != 0))
                continue;
            ticket_uuid_format(uuid, text);
            if (strncasecmp(text, name->uuid, strlen(name->uuid)) != 0)
                continue;
            memcpy(ret_uuid, uuid, sizeof(uuid));
            gp_str_copy(ret_server, CTL_NAME_MAX, server);
            found++;
        }
    return found;
}

static int
find_by_prefix(struct cli_list *list, const struct cli_card_name *name,
               uint8_t ret_uuid[TICKET_UUID_SIZE], char ret_server[CTL_NAME_MAX],
               struct gp_err *err)
{
    const struct cli_filters filters = {.card = name->uuid};
    const Gpupool__Ctl__CtlListReply *page;
    unsigned found = 0;
    int r;

    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS, &filters);
    while ((r = cli_list_next(list, &page, err)) > 0)
        found += find_in_page(page, name, ret_uuid, ret_server);
    if (r < 0 || found == 1)
        return r;
    if (found)
        return gp_err_set(err, -EINVAL, "%u cards begin so", found);
    return *name->server ? gp_err_set(err, -EINVAL, "no card of server %s begins so",
                                      name->server)
                         : gp_err_set(err, -EINVAL, "no card of the pool begins so");
}

int
cli_card_find_over(struct cli_list *list, const struct cli_card_name *name,
                   uint8_t ret_uuid[TICKET_UUID_SIZE], char ret_server[CTL_NAME_MAX],
                   struct gp_err *err)
{
    if (name->uuid)
        return find_by_prefix(list, name, ret_uuid, ret_server, err);
    gp_str_copy(ret_server, CTL_NAME_MAX, name->server);
    return find_by_number(list, name->number, name->server, ret_uuid, err);
}

int
cli_card_find(const char *name, const char *scheduler, const char *token,
              uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err)
{
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    struct cli_card_name card;
    char server[CTL_NAME_MAX];
    int r;

    if (ticket_uuid_parse(name, ret_uuid) == 0)
        return 0;
    if (!cli_card_parse(name, &card))
        return gp_err_set(err, -EINVAL, CLI_CARD_FORMS " is wanted");
    r = cli_list_open(&list, scheduler, token, err);
    return r < 0 ? r : cli_card_find_over(&list, &card, ret_uuid, server, err);
}
