/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor of the software GPU: compiled programs, instances, launches, CTAs.
 *
 * What it is: everything between a parsed PTX module and the bytes a kernel leaves in
 * memory.  It knows no CUDA handle, no stream and no allocation policy; softgpu/api
 * owns those and drives this interface:
 *
 *     ptx_parse() -> sg_prog_new()            one per module image, immutable
 *     sg_inst_new()                           one per (program, context): addresses
 *     sg_kernel_prepare()                     lowers one kernel on first need
 *     sg_launch_init()                        checks one launch, computes its layout
 *     sg_cta_start(); sg_cta_run() ... DONE   one CTA on one OS thread at a time
 *
 * Ownership: a program borrows its AST (which must outlive it), an instance borrows its
 * program, a launch borrows its instance, a CTA borrows its launch while it runs.
 * Threads: programs and instances may be used by any thread; sg_kernel_prepare() locks
 * inside.  A sg_launch is written only by sg_launch_init() and, atomically, by the CTAs
 * that run it.  A sg_cta belongs to one thread at a time and may migrate between calls.
 */
#ifndef SG_EXEC_H
#define SG_EXEC_H

#include "gp_base.h"
#include "sg_memview.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct ptx_module;
struct sg_prog;
struct sg_inst;
struct sg_cta;

/* ------------------------------------------------------------------ programs */

/* What the card looks like to the code.  Copied into the program. */
struct sg_target {
    unsigned cc_major, cc_minor;
    uint32_t max_threads_per_cta;  /* 1024 */
    uint32_t max_shared_per_cta;   /* static + dynamic, opt-in limit */
    uint32_t shared_unit;          /* a CTA's ends at a multiple of it; 0: anywhere */
    uint32_t max_local_per_thread; /* 512 KiB on real cards */
    uint32_t max_param_bytes;      /* 4096, or 32764 */
    unsigned check;                /* SG_CHECK_*; 0: the code has no trace of checks */
};

/* What is looked for while kernels run (docs/softgpu-check.md). */
#define SG_CHECK_FAULTS 1u   /* what ends a launch is a finding as well */
#define SG_CHECK_INIT 2u     /* reads of device memory that nothing was written to */
#define SG_CHECK_RACES 4u    /* on shared and on global memory */
#define SG_CHECK_BARRIERS 8u /* that the lanes of a warp do not reach together */
/* Nothing is looked for: before each access to memory and each fence a CTA's turn is
 * over (SG_CTA_YIELD), so that a test decides who goes on. */
#define SG_CHECK_STEPS 16u

struct sg_param {
    uint32_t offset, size, align;
};

/* One .entry.  The first part is known at once; the second after
 * sg_kernel_prepare() returned 0. */
struct sg_kernel {
    const struct sg_prog *prog;
    const char *name;
    uint32_t index;
    uint32_t n_params;
    const struct sg_param *params;
    uint32_t param_bytes;
    uint32_t maxntid[3]; /* 0 = not given */
    uint32_t reqntid[3]; /* 0 = not given */
    uint32_t min_ctas_per_sm;
    uint32_t max_regs;      /* .maxnreg, 0 = not given */
    uint32_t reqcluster[3]; /* 0 = not given */
    uint32_t max_cluster_rank;
    bool explicit_cluster;

    uint32_t static_shared;
    uint32_t local_bytes; /* per thread, without dynamic stack */
    uint32_t regs;        /* 32-bit registers per thread, for occupancy */
    bool uses_dyn_stack;  /* recursion, indirect calls, alloca: adds
                             sg_launch.stack_bytes */
    bool uses_grid_sync;
};

enum sg_space {
    SG_SPACE_GLOBAL,
    SG_SPACE_CONST,
};

/* A module-scope variable that needs memory.  .shared variables are laid out per
 * kernel and do not appear here. */
struct sg_global {
    const char *name;
    enum sg_space space;
    uint64_t size;
    uint32_t align;
    bool managed;
    bool visible;  /* cuModuleGetGlobal finds it */
    bool external; /* declared .extern and defined nowhere in this module */
    bool has_init; /* otherwise zero */
};

/* Texture, surface and sampler references of the module (unified mode objects need
 * none); softgpu/api binds them by index. */
struct sg_texref {
    const char *name;
    int kind; /* 't', 's' or 'r' (sampler) */
};

/* Collects symbols and layouts.  Instructions are checked only when a kernel is
 * prepared, so that one unknown instruction does not cost the whole module. */
int sg_prog_new(const struct ptx_module *mod, const struct sg_target *target,
                struct sg_prog **ret_prog, struct gp_err *err);
void sg_prog_free(struct sg_prog *prog); /* NULL is a no-op */
DEFINE_CLEANUP(struct sg_prog, sg_prog_free)

uint32_t sg_prog_n_kernels(const struct sg_prog *prog);
const struct sg_kernel *sg_prog_kernel(const struct sg_prog *prog, uint32_t index);
const struct sg_kernel *sg_prog_find_kernel(const struct sg_prog *prog,
                                            const char *name);
uint32_t sg_prog_n_globals(const struct sg_prog *prog);
const struct sg_global *sg_prog_global(const struct sg_prog *prog, uint32_t index);
int sg_prog_find_global(const struct sg_prog *prog, const char *name); /* or -ENOENT */
uint32_t sg_prog_n_texrefs(const struct sg_prog *prog);
const struct sg_texref *sg_prog_texref(const struct sg_prog *prog, uint32_t index);

/* Lower one kernel and what it calls.  Idempotent, thread-safe.
 * -ENOSYS: an instruction that is not carried (named in @err, with its line);
 * -ENOENT: an unresolved symbol; -E2BIG: over a limit of the target. */
int sg_kernel_prepare(const struct sg_kernel *kernel, struct gp_err *err);

/* Human-readable IR and bytecode of a prepared kernel. */
int sg_kernel_dump(const struct sg_kernel *kernel, int fd, struct gp_err *err);

/* Text of the carried instruction table, one form per line, for `make ptx-coverage`. */
int sg_isa_print(int fd);

/* ----------------------------------------------------------------- instances */

/* Bind a program to addresses: @addrs[i] is where global i lives. */
int sg_inst_new(const struct sg_prog *prog, const uint64_t *addrs, uint32_t n_addrs,
                struct sg_inst **ret_inst, struct gp_err *err);
void sg_inst_free(struct sg_inst *inst); /* NULL is a no-op */
DEFINE_CLEANUP(struct sg_inst, sg_inst_free)

/* Write the initial value of global @index (its whole size) to @dst, with symbol
 * addresses resolved. */
int sg_inst_init_global(const struct sg_inst *inst, uint32_t index, void *dst,
                        struct gp_err *err);

/* Bind texture/surface reference @index to a handle (see sg_tex.h). */
void sg_inst_bind_texref(struct sg_inst *inst, uint32_t index, uint64_t handle);

/* The kernel whose address @addr is, as kernels see it; NULL: it is none of the
 * program's. */
const struct sg_kernel *sg_inst_kernel_at(const struct sg_inst *inst, uint64_t addr);

/* ------------------------------------------------------------------ launches */

/* CUDA result numbers that a kernel can raise. */
enum sg_fault_code {
    SG_FAULT_NONE = 0,
    SG_FAULT_ILLEGAL_ADDRESS = 700,
    SG_FAULT_ASSERT = 710,
    SG_FAULT_HW_STACK = 714,
    SG_FAULT_ILLEGAL_INSTRUCTION = 715,
    SG_FAULT_MISALIGNED = 716,
    SG_FAULT_INVALID_SPACE = 717,
    SG_FAULT_INVALID_PC = 718,
    SG_FAULT_LAUNCH_FAILED = 719,
};

struct sg_fault {
    enum sg_fault_code code;
    uint32_t cta[3];
    uint32_t thread[3];
    uint32_t lane;
    uint32_t line; /* of the PTX text */
    uint64_t address;
    const char *kernel;
    char what[96]; /* "ld.global.u32: address in no allocation" */
};

enum sg_finding_kind {
    SG_FINDING_FAULT,
    SG_FINDING_UNINITIALISED,
    SG_FINDING_RACE, /* on shared memory */
    SG_FINDING_GLOBAL_RACE,
    SG_FINDING_BARRIER,
};

/* A place in a kernel and the thread that was there. */
struct sg_place {
    uint32_t line;    /* of the PTX text */
    const char *file; /* by .loc; NULL: it does not say */
    uint32_t source;  /* line in it */
    uint32_t thread[3];
    uint32_t lane; /* UINT32_MAX: several of the warp of @thread */
};

/* What a check has found.  Its strings live as long as the program. */
struct sg_finding {
    enum sg_finding_kind kind;
    const char *kernel;
    uint32_t cta[3];
    struct sg_place at;
    bool has_other;
    struct sg_place other; /* the other access of a race, the other barrier */
    uint32_t other_cta[3];
    char what[160]; /* "load of 4 bytes at 0x..., which ..." */
    char other_what[64];
};

/* The finding as lines of text, each but the first indented; the length without the
 * NUL, cut at @size - 1. */
size_t sg_finding_print(const struct sg_finding *f, char *text, size_t size);

struct sg_launch;

/* What a kernel that launches one is told where nobody does that. */
#define SG_LAUNCH_NOT_SUPPORTED 801u
/* The function of the device runtime by which it does: .b32 (.b64 record). */
#define SG_LAUNCH_FUNCTION "__softgpu_launch"

/* Called from the threads that run CTAs, several at a time: they lock themselves. */
struct sg_hooks {
    void *user;
    /* Device printf: formatted text of one call, not NUL-terminated. */
    void (*print)(void *user, const char *text, size_t len);
    /* Device assert: one finished line as the CUDA runtime prints it. */
    void (*assert_failed)(void *user, const char *text, size_t len);
    /* Device malloc: an address in the memory view, or 0. */
    uint64_t (*heap_alloc)(void *user, uint64_t size);
    void (*heap_free)(void *user, uint64_t addr);
    /* cudaGraphSetConditional: the value of a condition, by its handle. */
    void (*set_condition)(void *user, uint64_t handle, uint32_t value);
    /* A kernel launches a kernel, as @record in its heap says (softgpu/api's own): a
     * cudaError_t. */
    uint32_t (*launch)(void *user, struct sg_launch *parent, uint64_t record);
    /* A check has found something: for each warp and instruction that it happens to. */
    void (*found)(void *user, const struct sg_finding *finding);
};

struct sg_launch {
    /* set by the caller before sg_launch_init() */
    const struct sg_inst *inst;
    const struct sg_kernel *kernel; /* prepared */
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t cluster[3];   /* in CTAs; 0, 0, 0: none, or of one */
    bool explicit_cluster; /* %is_explicit_cluster, with a cluster of one as well */
    uint32_t dyn_shared;
    uint32_t stack_bytes; /* context stack limit; used if uses_dyn_stack */
    bool cooperative;
    const void *params; /* kernel->param_bytes; borrowed until the launch ends */
    struct sg_memview *view;
    const struct sg_hooks *hooks;
    const volatile int *cancel; /* nonzero: end soon; polled at every back edge */
    uint64_t grid_id;
    uint32_t n_sms;          /* %nsmid */
    uint64_t grid_workspace; /* device address of >= 16 zeroed bytes (cooperative) */
    uint64_t seed;           /* tests: nonzero picks fragments and warps at random */

    /* computed by sg_launch_init() */
    uint64_t n_ctas;
    uint32_t threads; /* per CTA */
    uint32_t warps;
    uint32_t shared_bytes; /* in whole units of the target */
    uint32_t local_stride;
    const void *unit;           /* executor's own */
    uint64_t serial;            /* no other launch has it */
    struct sg_race_grid *races; /* NULL: they are not looked for in global memory */

    /* result: the first fault wins */
    int fault_lock;
    struct sg_fault fault;
};

/* Check sizes and compute the layout.  -EINVAL names what is out of range. */
int sg_launch_init(struct sg_launch *launch, struct gp_err *err);
/* Frees what checks noted; a launch that was never made has nothing.  No CTA runs. */
void sg_launch_end(struct sg_launch *launch);

enum sg_cta_state {
    SG_CTA_DONE,
    SG_CTA_YIELD,   /* budget used up: run it again */
    SG_CTA_STALLED, /* every warp spins or sleeps: let others run first */
    SG_CTA_FAULT,   /* launch->fault is set; the whole grid must end */
    SG_CTA_CANCELLED,
};

/* Registers, shared and local memory of one resident CTA.  Reused from launch to
 * launch; grows, never allocates when the next CTA fits. */
int sg_cta_new(struct sg_cta **ret_cta);
void sg_cta_free(struct sg_cta *cta); /* NULL is a no-op */
DEFINE_CLEANUP(struct sg_cta, sg_cta_free)

/* Make @cta CTA number @index of the launch, on multiprocessor @smid.
 * CTAs must be started in increasing order.  -ENOMEM only. */
int sg_cta_start(struct sg_cta *cta, struct sg_launch *launch, uint64_t index,
                 uint32_t smid);

/* Clusters.  A cluster's CTAs are started first, each in an object of its own, then
 * joined in order of rank, then run in turns on one thread (YIELD and STALLED both mean
 * the next one's turn).  No object may be started again before all have ended and the
 * cluster is freed. */
#define SG_MAX_CLUSTER 16
struct sg_cluster;
/* The index of the CTA of this rank in cluster @number of the grid. */
uint64_t sg_cluster_member(const struct sg_launch *launch, uint64_t number,
                           uint32_t rank);
int sg_cluster_join(struct sg_cta *const *ctas, uint32_t n,
                    struct sg_cluster **ret_cluster);
void sg_cluster_free(struct sg_cluster *cluster); /* NULL is a no-op */

/* Run until done or about @budget warp instructions are executed (checked at
 * back edges, barriers and exits). */
enum sg_cta_state sg_cta_run(struct sg_cta *cta, uint64_t budget);

/* Warp instructions executed by this object so far, for accounting. */
uint64_t sg_cta_instructions(const struct sg_cta *cta);

/* Which build of the executor runs here: "v2", "v3", "v4".  The environment variable
 * SOFTGPU_ISA, read once, chooses a lower one for tests. */
const char *sg_exec_isa(void);

#endif
