/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_peek.h"

#include "gp_base.h"

#include <string.h>

/* Numbers of control.proto. */
enum { REQUEST_ID = 1, REQUEST_REGISTER = 2, REGISTER_TOKEN = 2 };
enum { TYPE_VARINT = 0, TYPE_FIXED64 = 1, TYPE_BYTES = 2, TYPE_FIXED32 = 5 };

struct cursor {
    const uint8_t *at, *end;
};

struct field {
    uint64_t number, value; /* value: of a varint, or the length of bytes */
    unsigned type;
};

static bool
varint(struct cursor *c, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;

        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

/* The head of the next field; its bytes, if it has any, begin at c->at. */
static bool
next_field(struct cursor *c, struct field *ret)
{
    uint64_t tag;

    if (!varint(c, &tag))
        return false;
    ret->number = tag >> 3;
    ret->type = tag & 7;
    ret->value = 0;
    if (ret->type == TYPE_VARINT || ret->type == TYPE_BYTES)
        return varint(c, &ret->value);
    if (ret->type == TYPE_FIXED64)
        ret->value = 8;
    else if (ret->type == TYPE_FIXED32)
        ret->value = 4;
    else
        return false;
    return true;
}

/* False: the bytes at hand end here. */
static bool
skip(struct cursor *c, const struct field *f)
{
    if (f->type == TYPE_VARINT)
        return true;
    if (f->value > (uint64_t)(c->end - c->at))
        return false;
    c->at += f->value;
    return true;
}

/* A decoder takes the last of repeated fields, and so must the look before it: hence to
 * the end of what is at hand. */
static void
read_token(struct cursor c, char token[CTL_TOKEN_MAX])
{
    struct field f;

    while (c.at < c.end && next_field(&c, &f)) {
        if (f.number == REGISTER_TOKEN && f.type == TYPE_BYTES) {
            token[0] = '\0';
            if (f.value >= CTL_TOKEN_MAX || f.value > (uint64_t)(c.end - c.at))
                return;
            memcpy(token, c.at, f.value);
            token[f.value] = '\0';
        }
        if (!skip(&c, &f))
            return;
    }
}

bool
ctl_peek(const void *data, size_t len, struct ctl_peek *ret)
{
    struct cursor c = {data, (const uint8_t *)data + len};
    struct field f;

    memset(ret, 0, sizeof(*ret));
    while (c.at < c.end) {
        if (!next_field(&c, &f))
            return false;
        if (f.number == REQUEST_ID && f.type == TYPE_VARINT)
            ret->id = (uint32_t)f.value;
        if (f.number == REQUEST_REGISTER && f.type == TYPE_BYTES) {
            uint64_t here = gp_min(f.value, (uint64_t)(c.end - c.at));

            ret->is_register = true;
            read_token((struct cursor){c.at, c.at + here}, ret->token);
        }
        if (!skip(&c, &f))
            break;
    }
    return ret->id;
}
