/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_proof.h"

#include "gp_err.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

static_assert(sizeof(struct ctl_transcript) == 1 + 2 * CTL_NONCE_SIZE + TICKET_PUB_SIZE,
              "it is hashed as it lies in memory");

static const char HELLO_DOMAIN[] = "gpupool control hello v1";

int
ctl_nonce(uint8_t ret_nonce[CTL_NONCE_SIZE])
{
    return getrandom(ret_nonce, CTL_NONCE_SIZE, 0) == CTL_NONCE_SIZE ? 0 : -EIO;
}

int
ctl_transcript_sign(const struct ctl_transcript *t, const struct ticket_key *key,
                    uint8_t ret_sig[TICKET_SIG_SIZE], struct gp_err *err)
{
    return ticket_key_sign(key, HELLO_DOMAIN, t, sizeof(*t), ret_sig, err);
}

int
ctl_transcript_take(struct ctl_transcript *t, const void *nonce, size_t nonce_size,
                    const void *key, size_t key_size, const void *sig, size_t sig_size,
                    struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *pub = NULL;
    int r;

    if (nonce_size != CTL_NONCE_SIZE || key_size != TICKET_PUB_SIZE ||
        sig_size != TICKET_SIG_SIZE)
        return gp_err_set(err, -EPROTO, "the scheduler's challenge is malformed");
    memcpy(t->scheduler_nonce, nonce, CTL_NONCE_SIZE);
    memcpy(t->scheduler_key, key, TICKET_PUB_SIZE);
    r = ticket_key_from_pub(t->scheduler_key, TICKET_PUB_SIZE, &pub, err);
    if (r < 0)
        return r;
    r = ticket_key_check(pub, HELLO_DOMAIN, t, sizeof(*t), sig);
    return r < 0 ? gp_err_set(err, r, "the scheduler does not prove its key") : 0;
}

void
ctl_proof_make(const struct ctl_transcript *t, enum ctl_side side, const char *token,
               uint8_t ret_proof[CTL_PROOF_SIZE])
{
    static const char domains[2][32] = {"gpupool control peer v1",
                                        "gpupool control scheduler v1"};
    uint8_t text[sizeof(domains[0]) + sizeof(*t)];

    memcpy(text, domains[side], sizeof(domains[0]));
    memcpy(text + sizeof(domains[0]), t, sizeof(*t));
    /* An error leaves zeros, which the other side does not take. */
    memset(ret_proof, 0, CTL_PROOF_SIZE);
    HMAC(EVP_sha256(), token, (int)strlen(token), text, sizeof(text), ret_proof, NULL);
}

bool
ctl_proof_holds(const struct ctl_transcript *t, enum ctl_side side, const char *token,
                const uint8_t *proof, size_t size)
{
    static const uint8_t zeros[CTL_PROOF_SIZE];
    uint8_t wanted[CTL_PROOF_SIZE];

    if (!token || size != CTL_PROOF_SIZE)
        return false;
    ctl_proof_make(t, side, token, wanted);
    return memcmp(wanted, zeros, CTL_PROOF_SIZE) != 0 &&
           !CRYPTO_memcmp(wanted, proof, CTL_PROOF_SIZE);
}
