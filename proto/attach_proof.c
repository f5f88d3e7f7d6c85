/* SPDX-License-Identifier: Apache-2.0 */
#include "attach_proof.h"

#include "gp_blake3.h"
#include "gp_x25519.h"

#include <assert.h>
#include <string.h>

#define DOMAIN_SIZE 32

static_assert(sizeof(struct attach_transcript) == 5 * 32,
              "it is hashed as it lies in memory");

int
attach_transcript_finish(struct attach_transcript *t,
                         const uint8_t secret[ATTACH_KEY_SIZE],
                         const uint8_t other[ATTACH_KEY_SIZE], const char *ticket)
{
    gp_blake3(ticket, strlen(ticket), t->ticket);
    return gp_x25519(secret, other, t->shared);
}

static void
transcript_hash(const struct attach_transcript *t, const char domain[DOMAIN_SIZE],
                uint8_t ret[GP_BLAKE3_SIZE])
{
    uint8_t text[DOMAIN_SIZE + sizeof(*t)];

    memcpy(text, domain, DOMAIN_SIZE);
    memcpy(text + DOMAIN_SIZE, t, sizeof(*t));
    gp_blake3(text, sizeof(text), ret);
    explicit_bzero(text, sizeof(text));
}

void
attach_proof_make(const struct attach_transcript *t,
                  uint8_t ret_proof[ATTACH_PROOF_SIZE])
{
    static const char domain[DOMAIN_SIZE] = "gpupool attach proof v1";

    transcript_hash(t, domain, ret_proof);
}

bool
attach_proof_holds(const struct attach_transcript *t, const uint8_t *proof, size_t size)
{
    uint8_t wanted[ATTACH_PROOF_SIZE];
    unsigned differ = 0;

    if (size != ATTACH_PROOF_SIZE)
        return false;
    attach_proof_make(t, wanted);
    for (unsigned i = 0; i < sizeof(wanted); i++)
        differ |= wanted[i] ^ proof[i];
    return differ == 0;
}

void
attach_key_make(const struct attach_transcript *t, uint8_t ret_key[ATTACH_KEY_SIZE])
{
    static const char domain[DOMAIN_SIZE] = "gpupool attach key v1";

    transcript_hash(t, domain, ret_key);
}

void
attach_cookie_make(const uint8_t key[ATTACH_KEY_SIZE], enum attach_cookie kind,
                   uint32_t index, uint8_t ret_cookie[ATTACH_COOKIE_SIZE])
{
    static const char domains[][DOMAIN_SIZE] = {
        [ATTACH_COOKIE_STRIPE] = "gpupool attach lane v1",
        [ATTACH_COOKIE_PEER] = "gpupool attach peer v1",
        [ATTACH_COOKIE_RDMA] = "gpupool attach rdma v1",
        [ATTACH_COOKIE_ENDING] = "gpupool attach ending v1",
    };
    uint8_t text[DOMAIN_SIZE + ATTACH_KEY_SIZE + 4];

    memcpy(text, domains[kind], DOMAIN_SIZE);
    memcpy(text + DOMAIN_SIZE, key, ATTACH_KEY_SIZE);
    for (int i = 0; i < 4; i++)
        text[DOMAIN_SIZE + ATTACH_KEY_SIZE + i] = (uint8_t)(index >> 8 * i);
    gp_blake3(text, sizeof(text), ret_cookie);
    explicit_bzero(text, sizeof(text));
}
