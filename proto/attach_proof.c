/* SPDX-License-Identifier: Apache-2.0 */
#include "attach_proof.h"

#include "gp_blake3.h"
#include "gp_x25519.h"

#include <assert.h>
#include <errno.h>
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
        [ATTACH_COOKIE_RESUME] = "gpupool attach resume v1",
        [ATTACH_COOKIE_ACKS] = "gpupool attach acks v1",
        [ATTACH_COOKIE_CONTROL] = "gpupool attach control v1",
    };
    uint8_t text[DOMAIN_SIZE + ATTACH_KEY_SIZE + 4];

    memcpy(text, domains[kind], DOMAIN_SIZE);
    memcpy(text + DOMAIN_SIZE, key, ATTACH_KEY_SIZE);
    for (int i = 0; i < 4; i++)
        text[DOMAIN_SIZE + ATTACH_KEY_SIZE + i] = (uint8_t)(index >> 8 * i);
    gp_blake3(text, sizeof(text), ret_cookie);
    explicit_bzero(text, sizeof(text));
}

/* ---- TLS ------------------------------------------------------------------------- */

#define IDENTITY_MAGIC "gpupool1"
#define IDENTITY_MAGIC_SIZE 8
#define IDENTITY_HINT_SIZE 8

static_assert(ATTACH_IDENTITY_SIZE ==
                  IDENTITY_MAGIC_SIZE + ATTACH_KEY_SIZE + IDENTITY_HINT_SIZE,
              "magic, the client's key, the beginning of the hash of the server's");

void
attach_identity_make(const uint8_t client_key[ATTACH_KEY_SIZE],
                     const uint8_t server_key[ATTACH_KEY_SIZE],
                     uint8_t ret[ATTACH_IDENTITY_SIZE])
{
    uint8_t hash[GP_BLAKE3_SIZE];

    gp_blake3(server_key, ATTACH_KEY_SIZE, hash);
    memcpy(ret, IDENTITY_MAGIC, IDENTITY_MAGIC_SIZE);
    memcpy(ret + IDENTITY_MAGIC_SIZE, client_key, ATTACH_KEY_SIZE);
    memcpy(ret + IDENTITY_MAGIC_SIZE + ATTACH_KEY_SIZE, hash, IDENTITY_HINT_SIZE);
}

int
attach_identity_read(const void *identity, size_t size,
                     const uint8_t server_key[ATTACH_KEY_SIZE],
                     uint8_t ret_client_key[ATTACH_KEY_SIZE])
{
    const uint8_t *client_key = (const uint8_t *)identity + IDENTITY_MAGIC_SIZE;
    uint8_t wanted[ATTACH_IDENTITY_SIZE];

    if (size != ATTACH_IDENTITY_SIZE ||
        memcmp(identity, IDENTITY_MAGIC, IDENTITY_MAGIC_SIZE) != 0)
        return -EBADMSG;
    attach_identity_make(client_key, server_key, wanted);
    if (memcmp(identity, wanted, sizeof(wanted)) != 0)
        return -ESTALE;
    memcpy(ret_client_key, client_key, ATTACH_KEY_SIZE);
    return 0;
}

int
attach_psk_make(const uint8_t secret[ATTACH_KEY_SIZE],
                const uint8_t other[ATTACH_KEY_SIZE],
                const uint8_t identity[ATTACH_IDENTITY_SIZE],
                uint8_t ret_psk[ATTACH_KEY_SIZE])
{
    static const char domain[DOMAIN_SIZE] = "gpupool attach tls v1";
    uint8_t text[DOMAIN_SIZE + ATTACH_KEY_SIZE + ATTACH_IDENTITY_SIZE];
    int r = gp_x25519(secret, other, text + DOMAIN_SIZE);

    memcpy(text, domain, DOMAIN_SIZE);
    memcpy(text + DOMAIN_SIZE + ATTACH_KEY_SIZE, identity, ATTACH_IDENTITY_SIZE);
    if (r == 0)
        gp_blake3(text, sizeof(text), ret_psk);
    explicit_bzero(text, sizeof(text));
    return r;
}
