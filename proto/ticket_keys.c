/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket_keys.h"

#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"

#include <errno.h>
#include <string.h>

#define BETWEEN " \t\r\n,"

struct ticket_keys {
    struct ticket_key *list[TICKET_KEYS_MAX];
    unsigned n; /* never 0 */
};

static int
parse_one(const char *text, size_t len, struct ticket_keys *keys, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *raw = NULL;
    size_t size;
    int r;

    if (keys->n == TICKET_KEYS_MAX)
        return gp_err_set(err, -E2BIG, "more than %d keys of the scheduler",
                          TICKET_KEYS_MAX);
    if (gp_b64_decode(text, len, &raw, &size) < 0)
        return gp_err_set(err, -EBADMSG, "not a public key (a line of base64url)");
    r = ticket_key_from_pub(raw, size, &keys->list[keys->n], err);
    if (!r)
        keys->n++;
    return r;
}

int
ticket_keys_parse(const char *text, struct ticket_keys **ret, struct gp_err *err)
{
    CLEANUP(ticket_keys_freep) struct ticket_keys *keys = calloc(1, sizeof(*keys));
    int r = keys ? 0 : -ENOMEM;

    for (text += strspn(text, BETWEEN); !r && *text; text += strspn(text, BETWEEN)) {
        size_t len = strcspn(text, BETWEEN);

        r = parse_one(text, len, keys, err);
        text += len;
    }
    if (!r && !keys->n)
        r = gp_err_set(err, -EBADMSG, "no public key");
    if (r < 0)
        return r;
    *ret = TAKE_PTR(keys);
    return 0;
}

int
ticket_keys_load(const char *path, struct ticket_keys **ret, struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    size_t len;
    int r = gp_file_read(path, TICKET_KEYS_TEXT_MAX, &text, &len, err);

    if (r < 0)
        return r;
    r = ticket_keys_parse(text, ret, err);
    return r < 0 ? gp_err_wrap(err, r, "%s", path) : 0;
}

int
ticket_keys_of_one(struct ticket_key *key, struct ticket_keys **ret)
{
    struct ticket_keys *keys = calloc(1, sizeof(*keys));

    if (!keys)
        return -ENOMEM;
    keys->list[keys->n++] = key;
    *ret = keys;
    return 0;
}

void
ticket_keys_free(struct ticket_keys *keys)
{
    for (unsigned i = 0; keys && i < keys->n; i++)
        ticket_key_free(keys->list[i]);
    free(keys);
}

bool
ticket_keys_have(const struct ticket_keys *keys, const uint8_t pub[TICKET_PUB_SIZE])
{
    for (unsigned i = 0; i < keys->n; i++)
        if (!memcmp(ticket_key_pub(keys->list[i]), pub, TICKET_PUB_SIZE))
            return true;
    return false;
}

size_t
ticket_keys_count(const struct ticket_keys *keys)
{
    return keys->n;
}

const struct ticket_key *
ticket_keys_first(const struct ticket_keys *keys)
{
    return keys->list[0];
}

int
ticket_keys_verify(const struct ticket_keys *keys, const char *text, uint64_t now_unix,
                   const char *server, struct ticket_claims *ret_claims,
                   struct gp_err *err)
{
    int r = -EKEYREJECTED;

    for (unsigned i = 0; r == -EKEYREJECTED && i < keys->n; i++)
        r = ticket_verify(keys->list[i], text, now_unix, server, ret_claims, err);
    return r;
}
