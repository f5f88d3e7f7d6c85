/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that each side of a control connection knows a token, without sending it.
 *
 * The peer sends a nonce; the scheduler answers with its own, its public key and a
 * signature over all of it.  The peer checks the signature (and the key, if it knows
 * the scheduler's) and proves the token; the scheduler proves it in turn.  The key is
 * in what is proven, so that a false scheduler, which has another key, learns nothing
 * that the true one would take.  The secrecy of the link afterwards is not its
 * business. A token must be random: who listens can try short ones.
 *
 * No state; any thread.
 */
#ifndef CTL_PROOF_H
#define CTL_PROOF_H

#include "ticket_key.h"

#include <stdbool.h>
#include <stdint.h>

#define CTL_NONCE_SIZE 32
#define CTL_PROOF_SIZE 32
/* Set: a token may be sent in clear to a scheduler of before these proofs. */
#define CTL_CLEAR_TOKEN_ENV "GPUPOOL_CLEAR_TOKEN"

/* What is proven; every byte of it counts. */
struct ctl_transcript {
    uint8_t role; /* CtlRole */
    uint8_t peer_nonce[CTL_NONCE_SIZE], scheduler_nonce[CTL_NONCE_SIZE];
    uint8_t scheduler_key[TICKET_PUB_SIZE];
};

enum ctl_side { CTL_SIDE_PEER, CTL_SIDE_SCHEDULER };

/* From getrandom(2); -errno. */
int ctl_nonce(uint8_t ret_nonce[CTL_NONCE_SIZE]);

/* For a peer that has sent the hello: read the scheduler's challenge into @t, where
 * @role and @peer_nonce are set, and check it.  Sizes need not be right. */
int ctl_transcript_take(struct ctl_transcript *t, const void *nonce, size_t nonce_size,
                        const void *key, size_t key_size, const void *sig,
                        size_t sig_size, struct gp_err *err);

/* The scheduler's signature over the transcript. */
int ctl_transcript_sign(const struct ctl_transcript *t, const struct ticket_key *key,
                        uint8_t ret_sig[TICKET_SIG_SIZE], struct gp_err *err);

void ctl_proof_make(const struct ctl_transcript *t, enum ctl_side side,
                    const char *token, uint8_t ret_proof[CTL_PROOF_SIZE]);
/* Is @proof the one of @side? */
bool ctl_proof_holds(const struct ctl_transcript *t, enum ctl_side side,
                     const char *token, const uint8_t *proof, size_t size);

#endif
