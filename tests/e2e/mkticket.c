/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the tickets that only tests want: expired, not valid yet, for others.
 *
 *     mkticket KEY SERVER [CHANGE=VALUE]... < ticket > ticket
 *
 * Reads a good ticket for SERVER, changes its claims and signs them again with the
 * scheduler's own key, so that exactly one thing about it is wrong.  Changes:
 * expires and not_before in seconds from now, server, session, session_id, memory
 * and core (of every slice), bound (0: to no client).
 */
#include "gp_err.h"
#include "ticket.h"
#include "ticket_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Noreturn void
die(const char *what, const struct gp_err *err)
{
    fprintf(stderr, "mkticket: %s: %s\n", what, err ? gp_err_msg(err, 0) : "");
    exit(2);
}

static void
change_slices(struct ticket_claims *claims, const char *name, const char *value)
{
    for (uint32_t i = 0; i < claims->n_slices; i++) {
        struct ticket_slice *slice = &claims->slices[i];

        if (strcmp(name, "memory") == 0)
            slice->memory = strtoull(value, NULL, 10);
        else
            slice->core = slice->core_limit = (uint32_t)strtoul(value, NULL, 10);
    }
}

static void
change(struct ticket_claims *claims, const char *name, const char *value)
{
    uint64_t now = (uint64_t)time(NULL);

    if (strcmp(name, "expires") == 0)
        claims->expires = now + (uint64_t)strtoll(value, NULL, 10);
    else if (strcmp(name, "not_before") == 0)
        claims->not_before = now + (uint64_t)strtoll(value, NULL, 10);
    else if (strcmp(name, "server") == 0)
        snprintf(claims->server, sizeof(claims->server), "%s", value);
    else if (strcmp(name, "session") == 0)
        snprintf(claims->session, sizeof(claims->session), "%s", value);
    else if (strcmp(name, "session_id") == 0)
        claims->session_id = strtoull(value, NULL, 10);
    else if (strcmp(name, "bound") == 0)
        claims->bound = strcmp(value, "0") != 0;
    else if (strcmp(name, "memory") == 0 || strcmp(name, "core") == 0)
        change_slices(claims, name, value);
    else
        die(name, NULL);
}

int
main(int argc, char **argv)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    CLEANUP_FREE char *made = NULL;
    struct ticket_claims claims;
    struct gp_err err = {0};
    char text[TICKET_TEXT_MAX + 2];

    if (argc < 3 || !fgets(text, sizeof(text), stdin)) {
        fprintf(stderr, "usage: mkticket KEY SERVER [CHANGE=VALUE]... < ticket\n");
        return 2;
    }
    text[strcspn(text, "\n")] = 0;
    if (ticket_key_load(argv[1], &key, &err) < 0)
        die(argv[1], &err);
    if (ticket_verify(key, text, (uint64_t)time(NULL), argv[2], &claims, &err) < 0)
        die("the ticket on standard input", &err);
    for (int i = 3; i < argc; i++) {
        char *equals = strchr(argv[i], '=');

        if (!equals)
            die(argv[i], NULL);
        *equals = 0;
        change(&claims, argv[i], equals + 1);
    }
    if (ticket_sign(key, &claims, &made, &err) < 0)
        die("signing", &err);
    puts(made);
    return 0;
}
