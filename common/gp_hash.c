/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

static inline uint64_t
rotl(uint64_t x, int b)
{
    return x << b | x >> (64 - b);
}

static inline void
sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

uint64_t
gp_hash_bytes(const struct gp_hash_key *key, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t v[4] = {key->k[0] ^ UINT64_C(0x736f6d6570736575),
                     key->k[1] ^ UINT64_C(0x646f72616e646f6d),
                     key->k[0] ^ UINT64_C(0x6c7967656e657261),
                     key->k[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)len << 56;
    size_t whole = len & ~(size_t)7;

    for (size_t i = 0; i < whole; i += 8) {
        uint64_t m;

        memcpy(&m, p + i, 8);
        v[3] ^= m;
        sip_round(v);
        sip_round(v);
        v[0] ^= m;
    }
    for (size_t i = whole; i < len; i++)
        last |= (uint64_t)p[i] << 8 * (i - whole);
    v[3] ^= last;
    sip_round(v);
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct gp_hash_key process_key;
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void
process_key_make(void)
{
    if (getrandom(&process_key, sizeof(process_key), 0) != sizeof(process_key))
        process_key.k[0] = (uint64_t)(uintptr_t)&process_key ^ (uint64_t)getpid();
}

const struct gp_hash_key *
gp_hash_process_key(void)
{
    pthread_once(&process_key_once, process_key_make);
    return &process_key;
}
