/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations: every range of addresses that a kernel or a copy may touch.
 *
 * One table for the process, sorted by address, answers "what is this pointer?".
 * A context owns its allocations and frees them when it is destroyed; host,
 * registered and managed memory is visible in every context, device memory in
 * the owner's and in those that enabled peer access to the owner.
 *
 * Lock held for all functions.  sg_mem_free() drops it while kernels lose sight
 * of the range; the allocation is out of the table before that.
 */
#ifndef SG_MEM_H
#define SG_MEM_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_ctx;
struct sg_dev;
struct sg_graph_mem;
struct sg_pool;
struct sg_phys;

enum sg_mem_kind {
    SG_MEM_DEVICE,
    SG_MEM_HOST,       /* cuMemHostAlloc */
    SG_MEM_REGISTERED, /* cuMemHostRegister */
    SG_MEM_MANAGED,
    SG_MEM_MAPPED, /* cuMemMap */
    SG_MEM_IPC,    /* another process's device memory */
};

struct sg_alloc {
    uint64_t base, size; /* exactly what was asked for */
    uint64_t span;       /* addresses taken from the arena */
    enum sg_mem_kind kind;
    struct sg_ctx *ctx; /* owner, NULL: the process */
    struct sg_dev *dev; /* where it is charged */
    unsigned flags;     /* of the call that made it */
    uint64_t id;
    struct sg_pool *pool; /* NULL: not from a pool */
    bool given_back;      /* cuMemFreeAsync was called; goes when the stream is there */
    struct sg_phys *phys; /* SG_MEM_MAPPED */
    uint64_t phys_offset;
    unsigned access;            /* SG_MEM_MAPPED: the most that a device may do */
    struct sg_graph_mem *graph; /* reference; whose addresses these are, or NULL */
    void (*graph_gone)(struct sg_graph_mem *graph); /* takes the reference back */
    bool internal; /* storage of arrays, globals, heap: not freed by address */
    bool sync_memops;
    bool read_only;
    bool watched;             /* writes are noted (sg_changes.h) */
    struct sg_advice *advice; /* of managed memory; NULL: none so far */
    unsigned accessed_by;     /* bit per ordinal */
    unsigned written_by;      /* SG_MEM_MAPPED: those of them that may write, too */
    uint64_t handle_types;    /* CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES */
    int fd;                   /* the pages are in this file, or -1 */
    bool dmabuf;              /* which has no name: others have dma-bufs of it */
    unsigned n_ipc_opens;     /* SG_MEM_IPC */
    uint32_t ipc_slot;
    uint64_t ipc_id;
};

/* Device memory of @ctx's card; CUDA_ERROR_OUT_OF_MEMORY to the byte. */
CUresult sg_mem_new(struct sg_ctx *ctx, uint64_t size, struct sg_alloc **ret_alloc);
/* The same on a device without a context: memory pools. */
CUresult sg_mem_new_on(struct sg_dev *dev, struct sg_ctx *ctx, uint64_t size,
                       struct sg_alloc **ret_alloc);
CUresult sg_mem_new_host(struct sg_ctx *ctx, uint64_t size, unsigned flags,
                         struct sg_alloc **ret_alloc);
CUresult sg_mem_new_registered(struct sg_ctx *ctx, void *p, uint64_t size,
                               unsigned flags, struct sg_alloc **ret_alloc);
CUresult sg_mem_new_managed(struct sg_ctx *ctx, uint64_t size, unsigned flags,
                            struct sg_alloc **ret_alloc);
/* A range whose pages and addresses the caller manages. */
CUresult sg_mem_new_foreign(struct sg_ctx *ctx, struct sg_dev *dev, uint64_t base,
                            uint64_t size, enum sg_mem_kind kind,
                            struct sg_alloc **ret_alloc);
/* Moves the pages into the file @fd, whole and at the same addresses; alloc->fd is @fd
 * then.  Nothing may be running on them.  Lock held. */
int sg_mem_move_to(struct sg_alloc *alloc, int fd);
/* Addresses now, memory later, any number of times: graph allocation nodes, whose
 * @gone is called when the memory goes, also when it could not be made. */
uint64_t sg_mem_reserve(struct sg_dev *dev, uint64_t size);
void sg_mem_unreserve(struct sg_dev *dev, uint64_t base, uint64_t size);
CUresult sg_mem_new_reserved(struct sg_dev *dev, uint64_t base, uint64_t size,
                             struct sg_graph_mem *graph,
                             void (*gone)(struct sg_graph_mem *graph),
                             struct sg_alloc **ret_alloc);
void sg_mem_free(struct sg_alloc *alloc); /* NULL is a no-op */

/* Nothing was written to it yet (SOFTGPU_CHECK): memory that a program asked for. */
void sg_mem_undefine(const struct sg_alloc *alloc);
/* Tells of what is allocated still; takes the lock for itself. */
void sg_mem_report_leaks(void);
/* @fn brings the user what leaks of a context, or (@ctx NULL) of the process; called
 * without the lock. */
void sg_mem_on_leak(void (*fn)(struct sg_ctx *ctx, const char *text, size_t len));

/* The live allocation that holds @addr, or NULL. */
struct sg_alloc *sg_mem_find(uint64_t addr);
/* What @ctx has opened of another process's exports, or NULL. */
struct sg_alloc *sg_mem_find_ipc(const struct sg_ctx *ctx, uint32_t slot, uint64_t id);
/* Is @addr one that only cards hand out, whether something lives there or not? */
bool sg_mem_is_arena(uint64_t addr);
/* What a unified address is: CU_MEMORYTYPE_HOST for memory of the host, page-locked or
 * not, and CU_MEMORYTYPE_DEVICE for all that cards hand out, freed or not. */
CUmemorytype sg_mem_type(uint64_t addr);
/* True when every byte lies in live allocations. */
bool sg_mem_holds(uint64_t addr, uint64_t len);

/* Shows a new context what it may see; takes a dead one's memory away. */
CUresult sg_mem_attach_ctx(struct sg_ctx *ctx);
void sg_mem_detach_ctx(struct sg_ctx *ctx);
CUresult sg_mem_show_peer(struct sg_ctx *ctx, struct sg_ctx *peer);
void sg_mem_hide_peer(struct sg_ctx *ctx, struct sg_ctx *peer);
/* After a change of access rights of a mapped range. */
CUresult sg_mem_reshow(struct sg_alloc *alloc);
/* The allocation at @base has become watched: when it returns every kernel that runs
 * goes through the record (sg_written.h).  Drops the lock. -ENOMEM. */
int sg_mem_show_watched(uint64_t base);
/* Every kernel that runs drops the pages it may write to without noting it.  Drops the
 * lock. -ENOMEM. */
int sg_mem_flush_views(void);

/* All memory of @pool may be used by the devices of @accessed_by (a bit each) and by no
 * others.  Drops the lock if some may no longer; the caller holds a reference. */
CUresult sg_mem_set_pool_access(const struct sg_pool *pool, unsigned accessed_by);

/* Once, by cuInit, when the devices are known: maps their addresses.  -errno. */
int sg_mem_init(void);

#endif
