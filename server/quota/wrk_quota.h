/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's memory limit, and what this process has allocated under it.
 *
 * take() is called before the driver sees an allocating call and counts the bytes that
 * the application asked for, to the byte, over all processes of the session: in this
 * process while it is the only one, else in the supervisor (srv_ledger.h).
 * note()/drop() remember which address or object holds how many, so that a free gives
 * back exactly what was taken.
 *
 * Receive thread, and jobs on other threads that it has announced with
 * wrk_quota_share(): only while there are any is a lock taken.
 *
 * The limit is not the GPU's memory: whether the GPU has the bytes is decided by the
 * driver.
 */
#ifndef WRK_QUOTA_H
#define WRK_QUOTA_H

#include "gp_base.h"
#include "gp_time.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk_quota;
struct wrk_desks;

/* @desks: this attachment's own; they outlive the quota. */
int wrk_quota_new(struct wrk_desks *desks, struct wrk_quota **ret);
void wrk_quota_free(struct wrk_quota *q); /* NULL is a no-op; nothing is given back */
DEFINE_CLEANUP(struct wrk_quota, wrk_quota_free)

/* The reader is about to queue a job that will use the quota; the job has ended or will
 * not begin.  What only reads the session's sums needs neither. */
void wrk_quota_share(struct wrk_quota *q);
void wrk_quota_unshare(struct wrk_quota *q);
/* The same of a job that gives bytes back: another process that finds no room waits
 * for it (wrk_quota_take_soon()). */
void wrk_quota_share_release(struct wrk_quota *q);
void wrk_quota_unshare_release(struct wrk_quota *q);

/* Count @bytes on slice @slice as one allocation, which one give() ends; false, and
 * nothing counted, past the limit of bytes, or past that of allocations, which only
 * millions of tiny ones reach. */
bool wrk_quota_take(struct wrk_quota *q, uint32_t slice, uint64_t bytes);
/* The same; if the bytes do not fit now, but would without what other processes of the
 * session hold, it first waits for those that end and for what they have freed without
 * waiting for it: for @most_ns at most, and for less when nothing is known to be under
 * way (wrk_quota.c). */
bool wrk_quota_take_soon(struct wrk_quota *q, uint32_t slice, uint64_t bytes,
                         uint64_t most_ns);
void wrk_quota_give(struct wrk_quota *q, uint32_t slice, uint64_t bytes);

/* How long the receive thread waits there, where the call has no waiter thread, and
 * such a thread. */
#define WRK_QUOTA_SOON_NS GP_NS_PER_S
#define WRK_QUOTA_LATE_NS (20 * GP_NS_PER_S)

/* Have there been other processes in the session?  If not, only this one can make
 * room. */
bool wrk_quota_shares(const struct wrk_quota *q);

/* What is held where; @ctx: with which context it ends. */
struct wrk_quota_held {
    uint64_t bytes;
    uint32_t slice;
    uint32_t ctx;
};

/* Remember that @key (a device address, a driver object) holds @bytes already
 * taken.  -EEXIST, -ENOMEM: not remembered, the bytes stay the caller's. */
int wrk_quota_note(struct wrk_quota *q, uint64_t key, uint32_t slice, uint32_t ctx,
                   uint64_t bytes);
/* The same for an address that the driver has just returned: if the table still has an
 * allocation at it, that one was freed without a call of ours (with its pool, for
 * example), and its bytes are given back. */
int wrk_quota_note_new(struct wrk_quota *q, uint64_t key,
                       const struct wrk_quota_held *held);

/* Forget @key and give its bytes back; false when it is not known. */
bool wrk_quota_drop(struct wrk_quota *q, uint64_t key);
/* The same for all keys from @first to @last; looks at all that is noted. */
void wrk_quota_drop_range(struct wrk_quota *q, uint64_t first, uint64_t last);
/* Forget @key, but keep its bytes taken: a free has begun.  The caller gives them back,
 * or notes them again.  False when it is not known. */
bool wrk_quota_detach(struct wrk_quota *q, uint64_t key, struct wrk_quota_held *ret);

/* The end of what @key names has begun, and @key may be that of another object before
 * it is complete.  Returns the key under which the bytes are held until then, also when
 * their context dies meanwhile; 0: @key is not known. */
uint64_t wrk_quota_end_begins(struct wrk_quota *q, uint64_t key);
/* It was refused: @held_by is @key again, unless its context has died.  If @key has
 * been taken, the bytes are held until the context dies. */
void wrk_quota_end_refused(struct wrk_quota *q, uint64_t held_by, uint64_t key);

/* The context died with all it held. */
void wrk_quota_drop_ctx(struct wrk_quota *q, uint32_t ctx);

/* Call @fn for every key of that context; it must not come back here. */
void wrk_quota_each(struct wrk_quota *q, uint32_t ctx,
                    void (*fn)(void *arg, uint64_t key), void *arg);

/* Which bytes a key was noted with; false when it is not known. */
bool wrk_quota_find(struct wrk_quota *q, uint64_t key, uint64_t *ret_bytes);

uint64_t wrk_quota_limit(const struct wrk_quota *q, uint32_t slice);
uint64_t wrk_quota_used(const struct wrk_quota *q, uint32_t slice); /* whole session */

#endif
