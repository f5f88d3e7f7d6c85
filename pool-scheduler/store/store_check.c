/* SPDX-License-Identifier: Apache-2.0 */
#include "store_check.h"

#include "gp_hash.h"

#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>

#define FIELD 15
#define TAG (FIELD << 3 | 5) /* fixed32 */
#define TRAILER 5

/* Any key would do; it is a part of the format. */
static const struct gp_hash_key KEY = {
    {UINT64_C(0x67707570706f6f6c), UINT64_C(0x73746f7265636865)}};

static uint32_t
checksum(const char *key, const uint8_t *value, size_t size)
{
    return (uint32_t)(gp_hash_bytes(&KEY, key, strlen(key)) +
                      3 * gp_hash_bytes(&KEY, value, size));
}

int
store_check_add(const char *key, uint8_t **value, size_t *size)
{
    uint32_t sum = checksum(key, *value, *size);
    uint8_t *longer = realloc(*value, *size + TRAILER);

    if (!longer)
        return -ENOMEM;
    longer[*size] = TAG;
    for (unsigned i = 0; i < sizeof(sum); i++)
        longer[*size + 1 + i] = (uint8_t)(sum >> 8 * i);
    *value = longer;
    *size += TRAILER;
    return 0;
}

bool
store_check_take(const char *key, const uint8_t *value, size_t *size)
{
    size_t body = *size - TRAILER;
    uint32_t sum = 0;

    if (*size < TRAILER || value[body] != TAG)
        return false;
    for (unsigned i = 0; i < sizeof(sum); i++)
        sum |= (uint32_t)value[body + 1 + i] << 8 * i;
    if (sum != checksum(key, value, body))
        return false;
    *size = body;
    return true;
}

/* Zeros, as a lost page has them, read as fields of number 0, which no message has. */
bool
store_check_broken(const struct ProtobufCMessage *msg)
{
    for (unsigned i = 0; i < msg->n_unknown_fields; i++)
        if (msg->unknown_fields[i].tag == FIELD || !msg->unknown_fields[i].tag)
            return true;
    return false;
}
