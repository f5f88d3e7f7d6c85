/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare blocks: stream-ordered memory that the program has freed, kept for its next
 * allocation of that size, or of at least half of it, from the same pool in the same
 * stream.  What the program does not have of such a block is the registry's to know
 * (stub_memory_set_pool()).
 *
 * CUDA lets memory that was freed in a stream be used again by what is allocated in
 * that stream afterwards, without any wait.  So such an allocation needs no round trip
 * if the stub has not sent the free.  docs/transfers.md ("Spare blocks") says which
 * calls send the frees of all spare blocks first, because they could show the
 * difference, and why the others cannot.
 *
 * STUB_ATTEND_SPARE is set for a link from its first stream-ordered allocation on.  The
 * lock of a link's table is held while frees are sent, so that no thread sees the table
 * empty and the frees not sent; it is taken before the link's `send`.  Any thread.
 */
#ifndef STUB_SPARE_H
#define STUB_SPARE_H

#include "cuda_abi.h"
#include "gp_time.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_feature;
struct stub_link;
struct stub_memory;
struct stub_memory_end;

/* Bytes of all spare blocks of a link: they count as used by the session, of whose
 * memory they are at most one part in 256, and workspaces and activations, which are
 * allocated and freed all the time, are rarely longer. */
#define STUB_SPARE_BYTES_MAX (UINT64_C(32) << 20)
#define STUB_SPARE_PART 256u

/* A block that was not used for that long is freed by the next wait or allocation. */
#define STUB_SPARE_OLD_NS GP_NS_PER_S

struct stub_spare_taken {
    uint64_t addr;  /* of the spare block that is handed out; 0: there is none */
    uint64_t block; /* its size */
    uint32_t pool;  /* number of the pool, also of a block that the server allocates
                     * instead; 0: its free is not to be kept */
};

/* What cuMemAllocAsync (@pool 0) or cuMemAllocFromPoolAsync is asked for, in the
 * current context.  An error is what the allocation returns. */
CUresult stub_spare_take(uint64_t pool, uint64_t stream, uint64_t size,
                         struct stub_spare_taken *ret);

/* The server, asked for such a block by the call with number @seq, has allocated @size
 * bytes; 0: it has not.  Has to follow stub_spare_take() that gave a pool and no
 * address. */
void stub_spare_answered(uint32_t pool, uint64_t size, uint32_t seq);

/* Memory at @addr is freed in @stream: true if it is a spare block now, and nothing has
 * to be sent. */
bool stub_spare_keep(uint64_t addr, const struct stub_memory_end *end, uint64_t stream);

/* It is freed in another way. */
void stub_spare_freed(const struct stub_memory_end *end);

/* Its context ended; it stays in use, because pools are not of a context. */
void stub_spare_lost(const struct stub_memory *m);

/* The server has answered an allocation with @result.  *@ret_again: it had no memory,
 * and spare blocks were freed, so the call is to be made again.  Returns what the
 * program is to be told otherwise. */
CUresult stub_spare_make_room(CUresult result, bool *ret_again);

/* From now on other processes may use memory of the program. */
void stub_spare_end(void);

extern const struct stub_feature stub_spare_feature;

#endif
