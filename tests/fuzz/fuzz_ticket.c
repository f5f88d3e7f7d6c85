/* SPDX-License-Identifier: Apache-2.0 */
/* Ticket texts from unauthenticated peers: refused in words, or read within bounds. */
#include "gp_err.h"
#include "ticket.h"
#include "ticket_key.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_claims(const struct ticket_claims *c)
{
    if (!c->n_slices || c->n_slices > TICKET_SLICES_MAX || !c->session[0])
        __builtin_trap();
    if (!memchr(c->session, 0, sizeof(c->session)) ||
        !memchr(c->server, 0, sizeof(c->server)) ||
        !memchr(c->owner, 0, sizeof(c->owner)))
        __builtin_trap();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ticket_key *key;
    char *text = strndup((const char *)data, size);
    struct ticket_claims c;
    struct gp_err err = {0};

    if (!key && ticket_key_generate(&key, NULL) < 0)
        __builtin_trap();
    if (ticket_peek(text, &c, &err) == 0)
        check_claims(&c);
    else if (!err.msg[0])
        __builtin_trap(); /* a refusal without words */
    if (ticket_verify(key, text, 0, "node", &c, &err) == 0)
        __builtin_trap(); /* nobody can sign with a key made a moment ago */
    free(text);
    return 0;
}
