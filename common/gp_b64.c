/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_b64.h"

#include <errno.h>

static const char alphabet[64] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

char *
gp_b64_encode(const void *data, size_t len)
{
    const uint8_t *p = data;
    char *text, *out;
    uint32_t acc = 0;
    int bits = 0;

    text = out = malloc(len + len / 3 + 3);
    if (!text)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        acc = acc << 8 | p[i];
        for (bits += 8; bits >= 6; bits -= 6)
            *out++ = alphabet[acc >> (bits - 6) & 63];
    }
    if (bits)
        *out++ = alphabet[acc << (6 - bits) & 63];
    *out = 0;
    return text;
}

static int
value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

int
gp_b64_decode(const char *text, size_t len, uint8_t **ret, size_t *ret_len)
{
    CLEANUP_FREE uint8_t *data = malloc(len / 4 * 3 + 3);
    uint32_t acc = 0;
    size_t n = 0;
    int bits = 0;

    if (!data)
        return -ENOMEM;
    if (len % 4 == 1)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        int v = value_of(text[i]);

        if (v < 0)
            return -EINVAL;
        acc = acc << 6 | (uint32_t)v;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            data[n++] = (uint8_t)(acc >> bits);
        }
    }
    if (acc & ((1u << bits) - 1))
        return -EINVAL;
    *ret = TAKE_PTR(data);
    *ret_len = n;
    return 0;
}
