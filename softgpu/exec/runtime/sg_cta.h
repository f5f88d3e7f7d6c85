/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a resident CTA: warps, fragments, barriers, memory windows.
 *
 * Internal to softgpu/exec.  One thread at a time; see sg_exec.h.
 *
 * A fragment is a set of lanes of one warp that share a program counter and a call
 * depth.  Lanes never share columns of the register file, so fragments at different
 * depths may use the same bytes of it without meeting.
 */
#ifndef SG_CTA_H
#define SG_CTA_H

#include "sg_exec.h"
#include "sg_insn.h"
#include "sg_unit.h"

struct sg_race;

#define SG_FAIR_BACK_EDGES 64 /* then the longest waiting fragment runs */
#define SG_WARP_QUANTUM 16    /* times that: then the next warp runs */
/* Turns that a warp misses at most while it sleeps on an mbarrier.  A loop that waits
 * may look at something else as well, which nothing here knows of. */
#define SG_MAX_MISSED_TURNS 64

struct sg_cluster {
    uint32_t n;
    struct sg_cta *ctas[SG_MAX_CLUSTER]; /* by rank */
    uint32_t pending; /* threads alive that have not arrived in this phase */
    bool phase;
};

enum sg_frag_state {
    SG_FRAG_RUN,
    SG_FRAG_BAR,  /* waits at barrier `bar` */
    SG_FRAG_SYNC, /* waits at pc for the other lanes of its member mask */
};

struct sg_frag {
    uint32_t mask;
    uint32_t pc;
    uint32_t depth;
    uint32_t base[SG_N_CLASSES];   /* frame, bytes */
    uint32_t local;                /* frame in local memory, bytes */
    uint32_t func;                 /* of the unit */
    uint32_t need;                 /* SG_FRAG_SYNC: members it waits for */
    uint32_t bar_dst_d, bar_dst_p; /* SG_FRAG_BAR: where a reduction's result goes */
    uint8_t state;
    uint8_t bar;
    bool bar_or;
    bool fair; /* chosen by fairness: does not stop to merge */
    bool slept;
    bool forced;    /* its members cannot come: executes with those it has */
    uint64_t since; /* when it last gave way */
};

/* Where lanes that called together go on. */
struct sg_ret {
    uint32_t pc;
    uint32_t base[SG_N_CLASSES];
    uint32_t local;
    uint32_t func;
    uint32_t mask; /* those that have not come back */
};

/* The calls of one depth: lane i's is rets[leader[i]], and its leader is a lane that
 * called with it and has not come back either. */
struct sg_calls {
    struct sg_ret rets[SG_LANES];
    uint32_t taken[SG_LANES]; /* sg_warp.taken when it called */
    uint8_t leader[SG_LANES];
};

/* How 32 addresses lie: the same distance between neighbours in each half, or not. */
#define SG_STRIDE_NONE UINT64_MAX
struct sg_shape {
    uint64_t first[2], stride[2];
    uint64_t min, max; /* of all; min > max: not all lanes live, nothing is known */
    uint64_t low;      /* bits that are set in some address */
};

struct sg_warp {
    char *area[SG_N_CLASSES]; /* register file */
    uint32_t cap[SG_N_CLASSES];
    uint32_t index;
    uint32_t live; /* lanes that have not exited */
    uint32_t born; /* lanes that exist */
    uint32_t n_frags;
    struct sg_frag frags[SG_LANES];
    struct sg_calls *calls; /* [depth] */
    uint32_t cap_depth;
    uint32_t edges; /* back edges left to the running fragment */
    bool polled;    /* has read memory that others write since the last budget */
    bool want_fair; /* the next pick takes the longest waiting fragment */
    bool yielded;
    uint32_t consts_of;                  /* cta->fill_serial its constants are from */
    uint32_t *tid[3];                    /* [SG_LANES] each */
    struct sg_shape shapes[SG_N_SHAPES]; /* of addresses that are launch constants */
    uint32_t cluster_parity;             /* by lane: the phase it last arrived in */
    bool takes;               /* some lane has taken local memory from the top */
    uint32_t taken[SG_LANES]; /* bytes of it (alloca) */
    /* The mbarrier it sleeps on, in shared memory of its cluster, or NULL: all that can
     * run of it has found the phase not over.  It gets no turn until the phase changes,
     * or nobody else runs, or SG_MAX_MISSED_TURNS are over. */
    const uint64_t *asleep_on;
    uint64_t asleep_phase; /* the word's SG_MBAR_PHASE then */
    uint32_t missed_turns;
};

struct sg_barrier {
    uint32_t arrived, expected;          /* expected 0 = all threads of the CTA */
    uint32_t lanes_and, lanes_or, count; /* reductions over predicates */
    bool in_use;
    uint32_t result; /* of the last completed reduction */
};

struct sg_tlb {
    uint64_t lo, len;
    uint32_t flags;
};

struct sg_cta {
    struct sg_launch *launch;
    const struct sg_unit *unit;
    const struct sg_inst *inst;
    const uint64_t *generation;
    struct sg_memview_reader reader;
    struct sg_tlb tlb[SG_N_TLB];
    uint64_t tlb_launch; /* serial of the launch that filled it */

    uint32_t ctaid[3];
    uint64_t index;
    uint32_t smid;
    uint8_t *shared;
    uint32_t shared_bytes, cap_shared;
    uint8_t *local;
    uint64_t cap_local;
    uint32_t local_stride;

    struct sg_warp **warps;
    uint32_t n_warps, cap_warps;
    uint32_t cur_warp;
    uint32_t live_threads;
    uint32_t fill_serial;
    uint64_t filled_launch; /* serial of whose constants the warps hold */
    bool all_slept;
    bool as_left;        /* the warps have not been set up; see exec_straight.h */
    uint32_t n_straight; /* warps that ended straight, in all CTAs since they were */
    struct sg_barrier bars[SG_N_BARRIERS];
    uint32_t bars_used;   /* by number: not all zero */
    uint32_t dims[9];     /* %ntid, %ctaid, %nctaid */
    uint32_t *tid_tables; /* [warps][3][SG_LANES] */
    uint32_t tid_block[3], tid_cap;

    uint64_t executed, limit; /* warp instructions; yield when executed >= limit */
    uint64_t seq;
    uint64_t rng;
    enum sg_cta_state end;
    struct sg_cluster *cluster; /* or NULL */
    struct sg_cluster alone;    /* what it is then */
    uint32_t cluster_rank;
    void *matrix, *wgmma; /* scratch of matrix operations, made on first use */
    struct sg_race *race; /* of checks, made on first use; see exec_race.h */
};

enum sg_stop {
    SG_STOP_NONE,    /* go on with the same fragment */
    SG_STOP_PICK,    /* fragments changed: pick again */
    SG_STOP_BLOCKED, /* no fragment of the warp can run */
    SG_STOP_YIELD,   /* the warp's turn is over */
    SG_STOP_BUDGET,  /* the CTA's turn is over */
    SG_STOP_DONE,    /* every lane has exited */
    SG_STOP_FAULT,
    SG_STOP_CANCEL,
};

typedef enum sg_stop sg_interp_fn(struct sg_cta *cta, struct sg_warp *warp);
sg_interp_fn sg_interp_v2, sg_interp_v3, sg_interp_v4;
sg_interp_fn *sg_interp_choose(const char **ret_name);

/* exec_sched.c: all take the fragment's pc as saved and may reorder warp->frags.
 * The running fragment is always frags[0]. */
bool sg_warp_pick(struct sg_cta *cta, struct sg_warp *warp);
uint32_t sg_warp_limit(const struct sg_warp *warp);
void sg_warp_split(struct sg_cta *cta, struct sg_warp *warp, uint32_t mask,
                   uint32_t pc);
enum sg_stop sg_warp_poll(struct sg_cta *cta, struct sg_warp *warp, uint32_t *turns);
enum sg_stop sg_op_exit(struct sg_cta *cta, struct sg_warp *warp, uint32_t m);
enum sg_stop sg_op_brx(struct sg_cta *cta, struct sg_warp *warp,
                       const struct sg_insn *op, uint32_t m);
enum sg_stop sg_op_call(struct sg_cta *cta, struct sg_warp *warp, uint32_t func,
                        uint32_t m);
enum sg_stop sg_op_calli(struct sg_cta *cta, struct sg_warp *warp,
                         const struct sg_insn *op, uint32_t m);
enum sg_stop sg_op_ret(struct sg_cta *cta, struct sg_warp *warp, uint32_t m);
enum sg_stop sg_op_bar(struct sg_cta *cta, struct sg_warp *warp,
                       const struct sg_insn *op, uint32_t m);
enum sg_stop sg_op_yield(struct sg_cta *cta, struct sg_warp *warp);
/* The same for lanes that found the phase of the mbarrier at @word not over. */
enum sg_stop sg_warp_sleep_on(struct sg_cta *cta, struct sg_warp *warp,
                              const uint64_t *word);
/* Lanes of @m whose members have all come; the others wait at this operation. */
enum sg_stop sg_op_gather_members(struct sg_cta *cta, struct sg_warp *warp,
                                  const uint32_t *members, uint32_t *m);
void sg_warp_fill_consts(struct sg_cta *cta, struct sg_warp *warp,
                         const struct sg_unit_func *func, const uint32_t *base,
                         uint32_t m);

/* exec_mem.c */
enum sg_access { SG_ACCESS_READ, SG_ACCESS_WRITE };

/* The host address of one lane's access, or NULL after recording the fault.
 * @align: mask of address bits that must be zero. */
void *sg_mem_resolve(struct sg_cta *cta, struct sg_warp *warp, unsigned lane,
                     uint64_t addr, uint32_t size, uint32_t align,
                     enum sg_mem_space space, enum sg_access access);
/* Find the live range of @addr into a cache slot. */
bool sg_mem_fill(struct sg_cta *cta, struct sg_tlb *tlb, uint64_t addr);
/* The same for a store at @addr, which is noted where stores are (sg_written.h): then
 * @tlb has no more than the page.  False: there is no such store. */
bool sg_mem_fill_store(struct sg_cta *cta, struct sg_tlb *tlb, uint64_t addr);
void sg_mem_forget(struct sg_cta *cta);

/* Memory that a warp reaches by addresses side by side: lane i finds the address lo +
 * n, n < len, at base + n + i * stride. */
struct sg_window {
    uint64_t lo, len, stride;
    uint8_t *base;
};

static inline struct sg_window
sg_shared_window(const struct sg_cta *cta)
{
    return (struct sg_window){0, cta->shared_bytes, 0, cta->shared};
}

static inline struct sg_window
sg_local_window(const struct sg_cta *cta, const struct sg_warp *warp)
{
    const uint64_t stride = cta->local_stride;

    return (struct sg_window){0, stride, stride,
                              cta->local + (uint64_t)warp->index * SG_LANES * stride};
}

/* Where lane @i has @size bytes at @addr in @w; NULL: elsewhere, or misaligned. */
static inline uint8_t *
sg_window_at(const struct sg_window *w, unsigned i, uint64_t addr, uint64_t size,
             uint64_t align)
{
    if (unlikely(w->len < size || addr - w->lo > w->len - size || (addr & align)))
        return NULL;
    return w->base + (addr - w->lo) + i * w->stride;
}

/* Is @addr a generic one of memory that is not global? */
static inline bool
sg_mem_is_window(uint64_t addr)
{
    return addr - SG_WIN_SHARED < SG_WIN_END - SG_WIN_SHARED;
}

/* The window of such an address; len 0: none, or one of another block's. */
struct sg_window sg_mem_window(const struct sg_cta *cta, const struct sg_warp *warp,
                               uint64_t addr, enum sg_access access);

/* The memory of @space that holds @addr, and perhaps what other lanes want; len 0: look
 * for each.  For operations out of line, which share SG_TLB_ANY. */
struct sg_window sg_mem_window_of(struct sg_cta *cta, const struct sg_warp *warp,
                                  enum sg_mem_space space, uint64_t addr,
                                  enum sg_access access);

/* Record a fault of @lane at the running operation; returns SG_STOP_FAULT. */
enum sg_stop sg_fault_set(struct sg_cta *cta, struct sg_warp *warp, unsigned lane,
                          enum sg_fault_code code, uint64_t addr, const char *what);

/* Operations that run out of line: registers by offset from the running frame. */
typedef enum sg_stop sg_op_fn(struct sg_cta *cta, struct sg_warp *warp,
                              const struct sg_insn *op, uint32_t m);
sg_op_fn sg_op_shape, sg_op_atom, sg_op_atom_q, sg_op_isspace, sg_op_sreg,
    sg_op_vprintf, sg_op_launch, sg_op_malloc, sg_op_free, sg_op_setcond,
    sg_op_assertfail, sg_op_frame, sg_op_stack, sg_op_trap, sg_op_no_such, sg_op_mma,
    sg_op_mma_quads, sg_op_wmma_ld, sg_op_wmma_st, sg_op_ldmatrix, sg_op_stmatrix,
    sg_op_movmatrix, sg_op_cpasync, sg_op_mbar, sg_op_tex, sg_op_txq, sg_op_surf,
    sg_op_sured, sg_op_cluster_arrive, sg_op_cluster_wait, sg_op_bulk,
    sg_op_bulk_tensor, sg_op_tmap_replace, sg_op_check;
/* Compiled with the interpreters: vector loads and stores (exec_vector_body.h), and
 * operations across lanes (exec_warp_body.h). */
#define SG_OP_OF_LEVELS(name) sg_op_fn name##_v2, name##_v3, name##_v4
SG_OP_OF_LEVELS(sg_vector);
SG_OP_OF_LEVELS(sg_shfl);
SG_OP_OF_LEVELS(sg_vote);
SG_OP_OF_LEVELS(sg_match);
SG_OP_OF_LEVELS(sg_redux);
SG_OP_OF_LEVELS(sg_elect);
SG_OP_OF_LEVELS(sg_bar_warp);
SG_OP_OF_LEVELS(sg_mma);
SG_OP_OF_LEVELS(sg_wgmma);
#undef SG_OP_OF_LEVELS

/* exec_check.c: a fault as a finding, if the program is checked. */
void sg_check_fault(struct sg_cta *cta, struct sg_warp *warp);

/* exec_matrix.c: wait until @m is all lanes of the warp; who never comes is undefined
 * behaviour. */
enum sg_stop sg_mat_whole_warp(struct sg_cta *cta, struct sg_warp *warp, uint32_t *m);

/* exec_cluster.c */
uint8_t *sg_cluster_shared(struct sg_cta *cta, uint64_t at, uint32_t size);
uint32_t sg_cluster_sreg(const struct sg_cta *cta, unsigned id);
void sg_cluster_exit(struct sg_cta *cta, struct sg_warp *warp, uint32_t m);

/* exec_async.c: bytes have come that the mbarrier at @word waits for. */
void sg_mbar_complete(uint64_t *word, uint64_t bytes);

static inline uint32_t *
sg_reg_w(const struct sg_warp *warp, uint32_t off)
{
    return (uint32_t *)(void *)(warp->area[SG_W] + warp->frags[0].base[SG_W] + off);
}

static inline uint64_t *
sg_reg_d(const struct sg_warp *warp, uint32_t off)
{
    return (uint64_t *)(void *)(warp->area[SG_D] + warp->frags[0].base[SG_D] + off);
}

static inline uint32_t *
sg_reg_p(const struct sg_warp *warp, uint32_t off)
{
    return (uint32_t *)(void *)(warp->area[SG_P] + warp->frags[0].base[SG_P] + off);
}

#define SG_FOR_LANES(lane, m)                                                          \
    for (uint32_t left_##lane = (m), lane;                                             \
         left_##lane && ((lane = (uint32_t)__builtin_ctz(left_##lane)), 1);            \
         left_##lane &= left_##lane - 1)

static inline bool
sg_cancelled(const struct sg_cta *cta)
{
    const volatile int *cancel = cta->launch->cancel;

    return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

/* exec_atom.c: one atomic operation on the @size bytes (2, 4, 8) at @p; what was there.
 */
uint64_t sg_atom_do(enum sg_atom what, uint32_t size, void *p, uint64_t b, uint64_t c);

#endif
