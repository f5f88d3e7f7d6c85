/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_end_reason.h"

#include "wire_format.h"
#include "wrk_desk.h"
#include "wrk_priv.h"
#include "wrk_reply.h"
#include "wrk_segment.h"
#include "wrk_state.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Closing a connection while the client still sends discards what the client has not
 * read yet.  The message has this long to arrive; the supervisor waits longer
 * (SRV_GRACE_MS). */
#define LINGER_NS 100000000

/* The sender may be in the middle of a payload: its frame ends before ours begins.  A
 * client that reads nothing holds it for ever. */
#define SENDER_NS 250000000

void
wrk_end_reason_send(struct wrk *w, CUresult result, const char *words)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    struct wire_event_lost lost = {.result = (int32_t)result,
                                   .len = (uint32_t)strlen(words)};
    struct timespec linger = {.tv_nsec = LINGER_NS};

    if (atomic_flag_test_and_set(&said))
        return;
    snprintf(w->priv->desks->desk->last_word, WRK_ENDING_MAX, "%s", words);
    if (gp_lock_take_for(&w->priv->send_lock, SENDER_NS)) {
        wrk_unsolicited_locked(w, WIRE_EVENT_LOST, &lost, sizeof(lost), words,
                               lost.len);
        gp_lock_release(&w->priv->send_lock);
        atomic_store(&w->priv->desks->desk->last_told, 1);
    }
    nanosleep(&linger, NULL);
}
