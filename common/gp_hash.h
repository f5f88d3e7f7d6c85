/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 (Aumasson, Bernstein 2012): keyed hashing of what an unauthenticated peer
 * chooses. No state, any thread.
 */
#ifndef GP_HASH_H
#define GP_HASH_H

#include "gp_base.h"

struct gp_hash_key {
    uint64_t k[2];
};

/* SipHash of @len bytes: who does not know @key cannot choose data that collide. */
uint64_t gp_hash_bytes(const struct gp_hash_key *key, const void *data, size_t len);

/* A key from getrandom(2), made once per process. */
const struct gp_hash_key *gp_hash_process_key(void);

/* For numbers that nobody hostile chooses: a fast mixer (splitmix64's finaliser). */
static inline uint64_t
gp_hash_u64(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

#endif
