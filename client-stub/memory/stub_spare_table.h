/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spare blocks of one link, and what its pools have handed out.
 *
 * Spare blocks are found by what a new allocation has to have in common with the one
 * that was freed.  The counts say by how much more a pool is, and has been, in use at
 * the server than by the program: spare blocks, and what the program does not have of
 * longer ones.
 *
 * No calls are made here.  All functions want the table's lock held; zero-initialised
 * storage is an empty table, but for `limit` and `ranges`.
 */
#ifndef STUB_SPARE_TABLE_H
#define STUB_SPARE_TABLE_H

#include "cuda_abi.h"
#include "gp_lock.h"
#include "stub_spare_ranges.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_ctx;

/* Pools of a link that have spare blocks; programs have one or two. */
#define STUB_SPARE_POOLS 32u

/* As in a session. */
#define STUB_SPARE_DEVICES 64u

/* A block is handed out for less than its size, if it is at most that many times as
 * long: programs whose sizes depend on their data rarely ask for one twice. */
#define STUB_SPARE_TIMES 2u

struct stub_spare {
    uint64_t addr;
    uint64_t size;   /* 0: no block */
    uint64_t stream; /* that it was freed in, as on the wire */
    uint64_t ctx_unique;
    struct stub_ctx *ctx; /* a reference */
    uint32_t pool;        /* number, see below */
    uint64_t position;    /* of the free (stub_event.h) */
    uint64_t ns;          /* when it was freed */
    uint64_t order;       /* the table's own */
};

/* A pool.  Its number is its index plus one. */
struct stub_spare_pool {
    bool used;
    bool destroyed;  /* its number is given to another one when it has no memory */
    uint64_t handle; /* 0: the current one of `dev` when the number was made */
    CUdevice dev;
    uint32_t same; /* number of the pool that it has turned out to be, or 0 */
    int64_t live;  /* bytes that the program has */
    int64_t held;  /* bytes that the server has: spare blocks too */
    int64_t lost_live, lost_held; /* of both those whose context ended: in use still */
    int64_t live_high, held_high;
};

/* Bytes of a pool that came into use at the server, or went, by the call with number
 * `seq`, in whose order the server did so. */
struct stub_spare_change {
    uint32_t pool;
    uint32_t seq;
    int64_t bytes;
};

/* Changes that are remembered: more threads do not wait for an allocation, and other
 * threads do not free more blocks meanwhile, than is worth an exact answer. */
#define STUB_SPARE_CHANGES 64u

struct stub_spare_table {
    struct gp_lock lock;
    struct stub_spare_ranges *ranges;
    uint64_t limit; /* bytes of all blocks, and of `slack` */
    uint64_t bytes;
    uint64_t slack; /* bytes of blocks that are in use, but not by the program */
    uint64_t order;
    struct stub_spare at[STUB_SPARES_MAX];
    struct stub_spare_pool pools[STUB_SPARE_POOLS];
    uint32_t current[STUB_SPARE_DEVICES]; /* number of a device's current pool, or 0 */
    uint32_t asked;                       /* allocations whose answer is not here */
    uint32_t n_changes; /* while there are such: what was counted, in order */
    struct stub_spare_change changes[STUB_SPARE_CHANGES];
};

/* Index of the block that was freed last of those with this stream, context, pool and
 * size; else of the shortest that is at most STUB_SPARE_TIMES as long, as long as not
 * more than half of the limit is lost in such blocks; -1: none. */
int stub_spare_table_find(const struct stub_spare_table *t,
                          const struct stub_spare *want);

/* Index of the block that was freed first; -1: there is none. */
int stub_spare_table_oldest(const struct stub_spare_table *t);

/* Can a block of @size be entered when others are removed; and now? */
bool stub_spare_table_could_hold(const struct stub_spare_table *t, uint64_t size);
bool stub_spare_table_has_room(const struct stub_spare_table *t, uint64_t size);

/* There is room. */
void stub_spare_table_enter(struct stub_spare_table *t, const struct stub_spare *spare);
void stub_spare_table_remove(struct stub_spare_table *t, int i);

/* The number of a pool by its handle, or (0) of the current one of @dev; made when it
 * is new.  0: there are too many. */
uint32_t stub_spare_table_pool(struct stub_spare_table *t, uint64_t handle,
                               CUdevice dev);

/* Would that number have to be compared with others, because it is new, and it is not
 * known of one of them which pool it is? */
bool stub_spare_table_is_unclear(const struct stub_spare_table *t, uint64_t handle,
                                 CUdevice dev);

/* The number of the first pool whose handle is not known; 0: none. */
uint32_t stub_spare_table_unknown(const struct stub_spare_table *t);

/* The unknown pool's handle, which may be that of another number; UINT64_MAX: nobody
 * knows it. */
void stub_spare_table_known(struct stub_spare_table *t, uint32_t pool, uint64_t handle);

/* The program has destroyed the pool; its memory may still be in use. */
void stub_spare_table_destroyed(struct stub_spare_table *t, uint64_t handle);

/* Devices may have other current pools from now on. */
void stub_spare_table_forget_current(struct stub_spare_table *t);

/* The program has @live bytes more of the pool now, the server has @held more in use;
 * less, if negative. */
void stub_spare_table_count(struct stub_spare_table *t, uint32_t pool, int64_t live,
                            int64_t held);

/* The server is asked for a block, whatever it answers: stub_spare_table_answered() has
 * to follow.  What other threads send meanwhile may have been done before or after. */
void stub_spare_table_ask(struct stub_spare_table *t);

/* The server has allocated @size bytes of the pool (0: none) by the call with number
 * @seq: both have them in use. */
void stub_spare_table_answered(struct stub_spare_table *t, uint32_t pool, uint64_t size,
                               uint32_t seq);

/* The call with number @seq, which was sent, frees a spare block of @size bytes. */
void stub_spare_table_sent(struct stub_spare_table *t, uint32_t pool, uint64_t size,
                           uint32_t seq);

/* The context of @size bytes of the pool, in a block of @block, has ended. */
void stub_spare_table_lose(struct stub_spare_table *t, uint32_t pool, uint64_t size,
                           uint64_t block);

/* By how much the server's largest use of the pool is higher than the program's, and
 * by how much its use is now. */
uint64_t stub_spare_table_excess(const struct stub_spare_table *t, uint64_t handle);
uint64_t stub_spare_table_excess_now(const struct stub_spare_table *t, uint64_t handle);

/* The server's largest use was set to what is in use now. */
void stub_spare_table_reset(struct stub_spare_table *t, uint64_t handle);

#endif
