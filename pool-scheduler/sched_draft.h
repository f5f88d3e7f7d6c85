/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer that a signing thread makes: what the scheduler decided, as plain values,
 * until tickets and a message are made of it.
 *
 * Embedded in what it is made of (sched_grant.h, sched_renewed.h).  Nothing in it
 * points to a session, a server or a card, which change or end meanwhile.  Made and
 * freed on the event loop's thread; pack() runs on any thread, and whoever runs it has
 * the draft alone.
 */
#ifndef SCHED_DRAFT_H
#define SCHED_DRAFT_H

#include "control.pb-c.h"
#include "gp_base.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;

struct sched_draft {
    const char *name; /* of its session, or of several, for the log */
    /* Sign the tickets and pack the CtlReply; *ret is the caller's, free().  -EINVAL: a
     * claim that no ticket may have; -EIO: libcrypto does not sign. */
    int (*pack)(const struct sched_draft *draft, uint8_t **ret, size_t *ret_size,
                struct gp_err *err);
    void (*free)(struct sched_draft *draft);
};

static inline void
sched_draft_free(struct sched_draft *draft) /* NULL is a no-op */
{
    if (draft)
        draft->free(draft);
}

/* For pack(): @reply as bytes. */
static inline int
sched_draft_pack(const Gpupool__Ctl__CtlReply *reply, uint8_t **ret, size_t *ret_size)
{
    *ret = malloc(gpupool__ctl__ctl_reply__get_packed_size(reply));
    if (!*ret)
        return -ENOMEM;
    *ret_size = gpupool__ctl__ctl_reply__pack(reply, *ret);
    return 0;
}

#endif
