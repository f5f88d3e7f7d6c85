/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_card.h"

#include "cli_ctl.h"
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

static int
find_by_number(const Gpupool__Ctl__CtlStatusReply *status, uint64_t number,
               const char *server, const ProtobufCBinaryData **ret_uuid,
               struct gp_err *err)
{
    for (size_t i = 0; i < status->n_servers; i++) {
        const Gpupool__Ctl__CtlServerStatus *s = status->servers[i];

        if (strcmp(s->server, server) != 0)
            continue;
        for (size_t k = 0; k < s->n_cards; k++)
            if (s->cards[k]->card->index == number) {
                *ret_uuid = &s->cards[k]->card->uuid;
                return 0;
            }
        return gp_err_set(err, -EINVAL, "server %s has %zu cards, counted from 0",
                          server, s->n_cards);
    }
    return gp_err_set(err, -EINVAL, "no server %s; `gpupool servers` lists them",
                      server);
}

static int
find_by_prefix(const Gpupool__Ctl__CtlStatusReply *status, const char *prefix,
               const ProtobufCBinaryData **ret_uuid, struct gp_err *err)
{
    unsigned found = 0;

    for (size_t i = 0; i < status->n_servers; i++)
        for (size_t k = 0; k < status->servers[i]->n_cards; k++) {
            const ProtobufCBinaryData *uuid = &status->servers[i]->cards[k]->card->uuid;
            char text[TICKET_UUID_TEXT];

            if (uuid->len != TICKET_UUID_SIZE)
                continue;
            ticket_uuid_format(uuid->data, text);
            if (strncasecmp(text, prefix, strlen(prefix)) != 0)
                continue;
            found++;
            *ret_uuid = uuid;
        }
    if (found == 1)
        return 0;
    return gp_err_set(err, -EINVAL,
                      found ? "%u cards begin so" : "no card of the pool begins so",
                      found);
}

int
cli_card_in(const char *name, const Gpupool__Ctl__CtlStatusReply *status,
            uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err)
{
    const ProtobufCBinaryData *uuid = NULL;
    const char *server;
    uint64_t number;
    int r = number_at(name, &number, &server)
                ? find_by_number(status, number, server, &uuid, err)
                : find_by_prefix(status, name, &uuid, err);

    if (r < 0)
        return r;
    if (uuid->len != TICKET_UUID_SIZE)
        return gp_err_set(err, -EPROTO, "the card has no uuid");
    memcpy(ret_uuid, uuid->data, TICKET_UUID_SIZE);
    return 0;
}

int
cli_card_find(const char *name, const char *scheduler, const char *token,
              uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err)
{
    CLEANUP(cli_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r;

    if (ticket_uuid_parse(name, ret_uuid) == 0)
        return 0;
    r = cli_ctl_status(scheduler, token, &reply, err);
    return r < 0 ? r : cli_card_in(name, reply->status, ret_uuid, err);
}
