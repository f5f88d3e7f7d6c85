/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_ended.h"

#include "gp_str.h"
#include "sched_session.h"

#include <openssl/crypto.h>
#include <string.h>

void
sched_ended_note(struct sched_ended *ended, const struct sched_session *session,
                 const char *words)
{
    size_t at = sched_id_number(session->id) % SCHED_ENDED_MAX;

    ended->of[at].id = session->id;
    memcpy(ended->of[at].lease_key, session->lease_key,
           sizeof(ended->of[at].lease_key));
    gp_str_copy(ended->of[at].words, sizeof(ended->of[at].words), words);
}

const char *
sched_ended_find(const struct sched_ended *ended, uint64_t id, const void *lease_key,
                 size_t size)
{
    size_t at = sched_id_number(id) % SCHED_ENDED_MAX;

    if (!id || ended->of[at].id != id || size != sizeof(ended->of[at].lease_key) ||
        CRYPTO_memcmp(lease_key, ended->of[at].lease_key, size) != 0)
        return NULL;
    return ended->of[at].words;
}
