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

/* "0@local-1": the number; *ret_server is what follows. */
static bool
number_at(const char *name, uint64_t *ret_number, const char **ret_server)
{
    const char *at = strchr(name, '@');
    char digits[8];

    if (!at || !at[1] || (size_t)(at - name) >= sizeof(digits))
        return false;
    memcpy(digits, name, (size_t)(at - name));
    digits[at - name] = 0;
    *ret_server = at + 1;
    return gp_str_u64(digits, 0, UINT32_MAX, ret_number) == 0;
}

bool
cli_card_is_name(const char *name)
{
    const char *server;
    uint64_t number;

    if (number_at(name, &number, &server))
        return true;
    return strncasecmp(name, PREFIX, strlen(PREFIX)) == 0 && name[strlen(PREFIX)] &&
           !name[strlen(PREFIX) +
                 strspn(name + strlen(PREFIX), "0123456789abcdefABCDEF-")];
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
find_in_page(const Gpupool__Ctl__CtlListReply *page, const char *prefix,
             uint8_t ret_uuid[TICKET_UUID_SIZE])
{
    unsigned found = 0;

    for (size_t i = 0; i < page->n_servers; i++)
        for (size_t k = 0; k < page->servers[i]->n_cards; k++) {
            uint8_t uuid[TICKET_UUID_SIZE];
            char text[TICKET_UUID_TEXT];

            if (take_card(page->servers[i]->cards[k], uuid, NULL) < 0)
                continue;
            ticket_uuid_format(uuid, text);
            if (strncasecmp(text, prefix, strlen(prefix)) != 0)
                continue;
            memcpy(ret_uuid, uuid, sizeof(uuid));
            found++;
        }
    return found;
}

static int
find_by_prefix(struct cli_list *list, const char *prefix,
               uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err)
{
    const struct cli_filters filters = {.card = prefix};
    const Gpupool__Ctl__CtlListReply *page;
    unsigned found = 0;
    int r;

    cli_list_begin(list, GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS, &filters);
    while ((r = cli_list_next(list, &page, err)) > 0)
        found += find_in_page(page, prefix, ret_uuid);
    if (r < 0 || found == 1)
        return r;
    return gp_err_set(err, -EINVAL,
                      found ? "%u cards begin so" : "no card of the pool begins so",
                      found);
}

int
cli_card_find(const char *name, const char *scheduler, const char *token,
              uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err)
{
    CLEANUP(cli_list_close) struct cli_list list = {.ctl.link.fd = -1};
    const char *server;
    uint64_t number;
    int r;

    if (ticket_uuid_parse(name, ret_uuid) == 0)
        return 0;
    r = cli_list_open(&list, scheduler, token, err);
    if (r < 0)
        return r;
    return number_at(name, &number, &server)
               ? find_by_number(&list, number, server, ret_uuid, err)
               : find_by_prefix(&list, name, ret_uuid, err);
}
