/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of tickets (ticket.h): names of policies, and cards' UUIDs as text.  Apart
 * from ticket.c, so that the worker, which needs no signatures, does not load
 * libcrypto.
 */
#include "ticket.h"

#include "gp_base.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *short_name;
} policies[TICKET_POLICIES] = {
    [TICKET_FIXED_SHARE] = {"fixed-share", "fs"},
    [TICKET_BURST_SHARE] = {"burst-share", "bs"},
    [TICKET_BEST_EFFORT] = {"best-effort", "be"},
};

const char *
ticket_policy_name(enum ticket_policy policy)
{
    return (unsigned)policy < TICKET_POLICIES ? policies[policy].name : "unknown";
}

int
ticket_policy_parse(const char *name, enum ticket_policy *ret_policy)
{
    for (unsigned i = 0; i < TICKET_POLICIES; i++)
        if (!strcmp(name, policies[i].name) || !strcmp(name, policies[i].short_name)) {
            *ret_policy = (enum ticket_policy)i;
            return 0;
        }
    return -EINVAL;
}

static const char *const spatials[TICKET_SPATIALS] = {
    [TICKET_SPATIAL_OFF] = "off",
    [TICKET_SPATIAL_SM] = "sm",
    [TICKET_SPATIAL_MPS] = "mps",
};

const char *
ticket_spatial_name(enum ticket_spatial spatial)
{
    return (unsigned)spatial < TICKET_SPATIALS ? spatials[spatial] : "unknown";
}

void
ticket_uuid_format(const uint8_t uuid[TICKET_UUID_SIZE], char text[TICKET_UUID_TEXT])
{
    static const uint8_t groups[] = {4, 2, 2, 2, 6}; /* bytes; a dash before each */
    char *at = text;

    memcpy(at, "GPU", 3);
    at += 3;
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        *at++ = '-';
        gp_str_hex(at, uuid, groups[i]);
        at += 2 * groups[i];
        uuid += groups[i];
    }
}

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int
ticket_uuid_parse(const char *text, uint8_t ret_uuid[TICKET_UUID_SIZE])
{
    uint8_t uuid[TICKET_UUID_SIZE];
    char again[TICKET_UUID_TEXT];
    unsigned n = 0;

    if (strlen(text) != TICKET_UUID_TEXT - 1 || strncmp(text, "GPU-", 4) != 0)
        return -EINVAL;
    for (const char *p = text + 4; *p; p++) {
        int v = hex_value(*p);

        if (*p == '-')
            continue;
        if (v < 0 || n >= 2 * TICKET_UUID_SIZE)
            return -EINVAL;
        uuid[n / 2] = (uint8_t)(n % 2 ? uuid[n / 2] | v : v << 4);
        n++;
    }
    if (n != 2 * TICKET_UUID_SIZE)
        return -EINVAL;
    ticket_uuid_format(uuid, again); /* the dashes stand where they must */
    if (strcasecmp(again, text) != 0)
        return -EINVAL;
    memcpy(ret_uuid, uuid, sizeof(uuid));
    return 0;
}
