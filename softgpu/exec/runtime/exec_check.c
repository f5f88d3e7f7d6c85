/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What SOFTGPU_CHECK does while kernels run.
 *
 * Lowering puts a CHECK before each operation of a checked program that touches memory
 * or puts threads in order, and one behind each barrier.  It runs with the lanes of its
 * neighbour, just before (after) it, and no other fragment or warp of the CTA runs in
 * between.  Global memory is checked against the bits of sg_shadow.h and by
 * exec_race_grid.h, shared memory by exec_race.h.  Addresses outside every allocation
 * are left to the operation itself, whose fault is a finding as well.
 *
 * Not looked at: local memory, textures and surfaces, what warpgroup operations read of
 * shared memory, and the shared memory of other CTAs of a cluster.
 */
#include "exec_bulk.h"
#include "exec_matrix.h"
#include "exec_race.h"
#include "exec_race_grid.h"
#include "insn_watch.h"
#include "ptx_ast.h"
#include "sg_cta.h"
#include "sg_prog.h"
#include "sg_shadow.h"
#include "sg_tmap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One CHECK at work. */
struct check {
    struct sg_cta *cta;
    struct sg_warp *warp;
    const struct sg_insn *op; /* what it looks at */
    const struct sg_watch *watch;
    unsigned flags; /* SG_WATCH_* */
    unsigned on;    /* SG_CHECK_* */
    uint32_t pc;
    uint32_t m;
    struct sg_race *race;      /* NULL: races are not looked for */
    struct sg_race_grid *grid; /* NULL: not in global memory */
};

/* Accesses of the lanes of one instruction, by where they go. */
struct lanes {
    struct sg_race_access shared[SG_LANES], global[SG_LANES];
    uint32_t n_shared, n_global;
};

/* -------------------------------------------------------------------- findings */

static unsigned
checks_on(const struct sg_cta *cta)
{
    return sg_prog_target(cta->launch->kernel->prog)->check;
}

static const struct sg_unit_func *
func_of(const struct sg_unit *unit, uint32_t pc)
{
    for (uint32_t i = 0; i < unit->n_funcs; i++)
        if (pc >= unit->funcs[i].entry && pc < unit->funcs[i].end)
            return &unit->funcs[i];
    return NULL;
}

static struct sg_place
place_of(const struct sg_cta *cta, const struct sg_warp *warp, uint32_t lane,
         uint32_t pc)
{
    const struct sg_unit_func *func = func_of(cta->unit, pc);
    struct sg_place at = {.lane = lane};
    uint32_t shown = lane == SG_RACE_LANES ? 0 : lane;

    at.line = pc < cta->unit->n_ops ? cta->unit->lines[pc] : 0;
    if (func && !ptx_func_source(func->ast, at.line, &at.file, &at.source))
        at.file = NULL;
    for (int k = 0; k < 3; k++)
        at.thread[k] = warp->tid[k][shown];
    return at;
}

/* The same for a thread of a CTA that may be gone. */
static struct sg_place
place_in(const struct sg_cta *cta, uint32_t warp, uint32_t lane, uint32_t pc)
{
    const uint32_t *block = cta->launch->block;
    struct sg_place at = place_of(cta, cta->warps[warp], lane, pc);
    uint32_t thread = warp * SG_LANES + (lane == SG_RACE_LANES ? 0 : lane);

    for (int k = 0; k < 3; k++) {
        at.thread[k] = thread % block[k];
        thread /= block[k];
    }
    return at;
}

static struct sg_finding
finding_begin(const struct sg_cta *cta, const struct sg_warp *warp,
              enum sg_finding_kind kind, uint32_t lane, uint32_t pc)
{
    struct sg_finding f = {.kind = kind, .kernel = cta->launch->kernel->name};

    memcpy(f.cta, cta->ctaid, sizeof(f.cta));
    f.at = place_of(cta, warp, lane, pc);
    return f;
}

static void
finding_give(const struct sg_cta *cta, const struct sg_finding *f)
{
    const struct sg_hooks *hooks = cta->launch->hooks;

    if (hooks && hooks->found)
        hooks->found(hooks->user, f);
}

static void
print_place(char *text, size_t size, const struct sg_place *at, const uint32_t cta[3])
{
    char lane[32] = "several lanes";
    int n;

    if (at->lane != SG_RACE_LANES)
        snprintf(lane, sizeof(lane), "lane %u", at->lane);
    n = at->file ? snprintf(text, size, "%s:%u, ", at->file, at->source) : 0;
    if (n < 0 || (size_t)n >= size)
        return;
    snprintf(text + n, size - (size_t)n,
             "PTX line %u, block (%u,%u,%u), thread (%u,%u,%u), %s", at->line, cta[0],
             cta[1], cta[2], at->thread[0], at->thread[1], at->thread[2], lane);
}

size_t
sg_finding_print(const struct sg_finding *f, char *text, size_t size)
{
    static const char *const kinds[] = {
        [SG_FINDING_FAULT] = "fault",
        [SG_FINDING_UNINITIALISED] = "uninitialised memory",
        [SG_FINDING_RACE] = "race on shared memory",
        [SG_FINDING_GLOBAL_RACE] = "race on global memory",
        [SG_FINDING_BARRIER] = "barrier",
    };
    char at[512], other[512];
    int n;

    print_place(at, sizeof(at), &f->at, f->cta);
    print_place(other, sizeof(other), &f->other, f->other_cta);
    n = snprintf(text, size, "%s: %s\n    at %s, in %s\n", kinds[f->kind], f->what, at,
                 f->kernel);
    if (f->has_other && n > 0 && (size_t)n < size)
        n += snprintf(text + n, size - (size_t)n, "    %s %s\n", f->other_what, other);
    return n < 0 ? 0 : gp_min((size_t)n, size - 1);
}

void
sg_check_fault(struct sg_cta *cta, struct sg_warp *warp)
{
    const struct sg_fault *fault = &cta->launch->fault;
    struct sg_finding f;

    if (!(checks_on(cta) & SG_CHECK_FAULTS))
        return;
    f = finding_begin(cta, warp, SG_FINDING_FAULT, fault->lane, warp->frags[0].pc);
    snprintf(f.what, sizeof(f.what), "%s (error %d)", fault->what, (int)fault->code);
    finding_give(cta, &f);
}

static void
found_uninitialised(const struct check *c, uint32_t lane, uint64_t addr, uint64_t size,
                    uint64_t at)
{
    struct sg_finding f =
        finding_begin(c->cta, c->warp, SG_FINDING_UNINITIALISED, lane, c->pc);

    snprintf(f.what, sizeof(f.what),
             "load of %" PRIu64 " bytes at global 0x%" PRIx64
             ", where nothing was written to 0x%" PRIx64,
             size, addr, at);
    finding_give(c->cta, &f);
}

static void
found_race(const struct check *c, enum sg_finding_kind kind,
           const struct sg_race_conflict *x, bool write)
{
    const bool atom = c->watch->kind == SG_WATCH_ATOM;
    static const char *const others[] = {
        [SG_RACE_READ_AFTER_WRITE] = "was written at",
        [SG_RACE_WRITE_AFTER_READ] = "was read at",
        [SG_RACE_WRITE_AFTER_WRITE] = "was written at",
        [SG_RACE_SAME_INSTRUCTION] = "is written with another value at",
    };
    const uint32_t *grid = c->cta->launch->grid;
    struct sg_finding f = finding_begin(c->cta, c->warp, kind, x->lane, c->pc);
    uint64_t index = x->other_cta;

    f.has_other = true;
    f.other = place_in(c->cta, x->other_warp, x->other_lane, x->other_pc);
    for (int k = 0; k < 3; k++) {
        f.other_cta[k] = (uint32_t)(index % grid[k]);
        index /= grid[k];
    }
    snprintf(f.what, sizeof(f.what), "%s of %u bytes at %s 0x%" PRIx64,
             atom    ? "atomic"
             : write ? "store"
                     : "load",
             x->size, kind == SG_FINDING_RACE ? "shared" : "global", x->at);
    snprintf(f.other_what, sizeof(f.other_what), "%s", others[x->kind]);
    finding_give(c->cta, &f);
}

static void
found_barrier(const struct check *c, uint32_t other_pc)
{
    uint32_t lane = (uint32_t)__builtin_ctz(c->m);
    struct sg_finding f =
        finding_begin(c->cta, c->warp, SG_FINDING_BARRIER, lane, c->pc);

    f.has_other = true;
    f.other = place_of(c->cta, c->warp, SG_RACE_LANES, other_pc);
    memcpy(f.other_cta, f.cta, sizeof(f.other_cta));
    snprintf(f.what, sizeof(f.what),
             "lanes of one warp arrive at one barrier by different instructions");
    snprintf(f.other_what, sizeof(f.other_what), "others of the warp wait at");
    finding_give(c->cta, &f);
}

/* -------------------------------------------------------------------- accesses */

/* Shared memory of the CTA itself: where; else false. */
static bool
in_shared(const struct sg_cta *cta, enum sg_mem_space space, uint64_t addr,
          uint64_t size, uint32_t *ret_off)
{
    if (space == SG_MEM_GENERIC)
        addr -= SG_WIN_SHARED;
    else if (space != SG_MEM_SHARED)
        return false;
    if (size == 0 || size > cta->shared_bytes || addr > cta->shared_bytes - size)
        return false;
    *ret_off = (uint32_t)addr;
    return true;
}

static bool
in_global(enum sg_mem_space space, uint64_t addr)
{
    return space == SG_MEM_GLOBAL || space == SG_MEM_CONST ||
           (space == SG_MEM_GENERIC && (addr < SG_WIN_SHARED || addr >= SG_WIN_END));
}

static void
lanes_add(const struct check *c, struct lanes *to, uint32_t lane,
          enum sg_mem_space space, uint64_t addr, uint32_t size, const void *value)
{
    uint32_t off;

    if (in_global(space, addr))
        to->global[to->n_global++] = (struct sg_race_access){lane, size, addr, value};
    else if (in_shared(c->cta, space, addr, size, &off))
        to->shared[to->n_shared++] = (struct sg_race_access){lane, size, off, value};
}

static void
read_global(const struct check *c, const struct lanes *l, uint32_t size)
{
    uint64_t at;

    for (uint32_t i = 0; i < l->n_global && c->on & SG_CHECK_INIT; i++) {
        if (sg_shadow_defined(l->global[i].at, size, &at))
            continue;
        found_uninitialised(c, l->global[i].lane, l->global[i].at, size, at);
        return;
    }
}

static void
write_global(const struct check *c, const struct lanes *l, uint32_t size)
{
    for (uint32_t i = 0; i < l->n_global && c->on & SG_CHECK_INIT; i++)
        sg_shadow_define(l->global[i].at, size);
}

static void
touch_shared(const struct check *c, const struct sg_race_access *list, uint32_t n,
             bool write, bool strong)
{
    struct sg_race_conflict x;

    if (c->race && n && c->on & SG_CHECK_RACES &&
        sg_race_access(c->race, c->cta, c->warp, list, n, write, strong, c->pc, &x))
        found_race(c, SG_FINDING_RACE, &x, write);
}

static void
touch_global(const struct check *c, const struct lanes *l, bool write, bool strong)
{
    struct sg_race_conflict x;

    if (c->grid && l->n_global &&
        sg_race_grid_access(c->grid, c->race, c->cta, c->warp, l->global, l->n_global,
                            write, strong, c->pc, &x))
        found_race(c, SG_FINDING_GLOBAL_RACE, &x, write);
}

/* The CTA puts itself in order with others of the grid. */
static void
order_grid(const struct check *c, bool acquire, bool release)
{
    if (c->grid && acquire)
        sg_race_grid_acquire(c->grid, c->cta);
    if (c->grid && release)
        sg_race_grid_release(c->grid, c->cta);
}

/* An access that orders threads.  Shared memory may be that of another CTA of the
 * cluster. */
static void
order(const struct check *c, const struct lanes *l, bool acquire, bool release)
{
    if (!c->race)
        return;
    if (l->n_global || c->cta->cluster)
        order_grid(c, acquire, release);
    for (uint32_t i = 0; i < l->n_shared; i++) {
        if (acquire)
            sg_race_acquire(c->race, c->warp, (uint32_t)l->shared[i].at);
        if (release)
            sg_race_release(c->race, c->warp, (uint32_t)l->shared[i].at);
    }
    if (l->n_global && acquire)
        sg_race_acquire(c->race, c->warp, UINT32_MAX);
    if (l->n_global && release)
        sg_race_release(c->race, c->warp, UINT32_MAX);
}

static uint64_t
address_of(const struct check *c, uint32_t lane)
{
    if (c->watch->narrow)
        return (uint32_t)(sg_reg_w(c->warp, c->op->a)[lane] + (uint32_t)c->op->imm);
    return sg_reg_d(c->warp, c->op->a)[lane] + (uint64_t)c->op->imm;
}

/* What the lane stores, as memory has it. */
static void
stored_value(const struct check *c, uint32_t lane, uint8_t ret[16])
{
    const uint32_t *list = c->cta->unit->lists + c->op->f;
    uint32_t each = c->watch->wide ? 8 : 4;

    for (uint32_t k = 0; k * each < gp_max((uint32_t)c->watch->size, each); k++) {
        uint32_t reg = c->watch->list ? list[k] : c->op->b;
        uint64_t v = c->watch->wide ? sg_reg_d(c->warp, reg)[lane]
                                    : sg_reg_w(c->warp, reg)[lane];
        memcpy(ret + k * each, &v, each);
    }
}

static void
check_access(const struct check *c)
{
    const bool strong = c->flags & SG_WATCH_STRONG, store = c->watch->store;
    uint8_t values[SG_LANES][16];
    struct lanes l = {0};

    SG_FOR_LANES(i, c->m)
    {
        if (store)
            stored_value(c, i, values[i]);
        lanes_add(c, &l, i, c->watch->space, address_of(c, i), c->watch->size,
                  store ? values[i] : NULL);
    }
    if (strong && !store)
        order(c, &l, true, false);
    if (store)
        write_global(c, &l, c->watch->size);
    else
        read_global(c, &l, c->watch->size);
    touch_global(c, &l, store, strong);
    touch_shared(c, l.shared, l.n_shared, store, strong);
    if (strong && store)
        order(c, &l, false, true);
}

static void
check_atom(const struct check *c)
{
    const bool old_unused = c->op->n == SG_ATOM_EXCH && c->op->d == SG_OFF_NONE;
    const unsigned space = c->op->x & ((1u << SG_ATOM_ALIGN_SHIFT) - 1);
    struct lanes l = {0};

    SG_FOR_LANES(i, c->m)
    lanes_add(c, &l, i, space, address_of(c, i), c->watch->size, NULL);
    if (!old_unused)
        read_global(c, &l, c->watch->size);
    write_global(c, &l, c->watch->size);
    order(c, &l, true, false);
    touch_global(c, &l, true, true);
    touch_shared(c, l.shared, l.n_shared, true, true);
    order(c, &l, false, true);
}

static void
check_mbar(const struct check *c)
{
    struct lanes l = {0};

    SG_FOR_LANES(i, c->m)
    lanes_add(c, &l, i, c->op->x, address_of(c, i), 8, NULL);
    order(c, &l, true, true);
}

static void
check_cpasync(const struct check *c)
{
    struct lanes to = {0};

    SG_FOR_LANES(i, c->m)
    {
        uint64_t from = sg_reg_d(c->warp, c->op->b)[i] + c->op->x;
        uint32_t n =
            c->op->c == SG_OFF_NONE ? c->op->n : sg_reg_w(c->warp, c->op->c)[i];
        struct lanes one = {.global = {{.lane = i, .at = from}}, .n_global = 1};

        if (n)
            read_global(c, &one, gp_min(n, (uint32_t)c->op->n));
        lanes_add(c, &to, i, SG_MEM_SHARED, address_of(c, i), c->op->n, NULL);
    }
    touch_shared(c, to.shared, to.n_shared, true, false);
}

/* Bulk copies: the side in global memory, and what is read of shared memory.  What they
 * write to shared memory comes later and is put in order by an mbarrier. */
static void
check_bulk_lane(const struct check *c, uint32_t lane)
{
    const unsigned n = c->op->n;
    struct lanes l = {.global = {{.lane = lane}}, .n_global = 1};
    struct sg_bulk b;
    uint32_t off, bytes;

    sg_bulk_open(&b, c->cta, c->warp, c->op, lane);
    bytes = (uint32_t)gp_min(b.arg[SG_BULK_ARG_BYTES], SG_WIN_SIZE);
    l.global[0].at = b.arg[n & SG_BULK_TO_GLOBAL ? SG_BULK_ARG_TO : SG_BULK_ARG_FROM];
    if (n & SG_BULK_FROM_SHARED && bytes &&
        in_shared(c->cta, SG_MEM_SHARED, b.arg[SG_BULK_ARG_FROM], bytes, &off))
        touch_shared(c, &(struct sg_race_access){lane, bytes, off, NULL}, 1, false,
                     false);
    if (n & SG_BULK_TO_GLOBAL)
        write_global(c, &l, bytes);
    else if (!(n & (SG_BULK_FROM_SHARED | SG_BULK_ZERO)))
        read_global(c, &l, bytes);
    if (n & SG_BULK_ZERO && in_global(SG_MEM_GENERIC, b.arg[SG_BULK_ARG_TO]))
        sg_shadow_define(b.arg[SG_BULK_ARG_TO], bytes);
    if (!(n & SG_BULK_TO_GLOBAL) && c->race)
        sg_race_forget(c->race);
}

/* A tensor's elements lie apart; all memory around it counts as written. */
static bool
check_tensor_lane(const struct check *c, uint32_t lane)
{
    struct sg_range range;
    struct sg_tmap map;
    struct sg_bulk b;
    const void *raw;

    if (!(c->op->n & SG_BULK_TO_GLOBAL)) {
        if (c->race)
            sg_race_forget(c->race);
        return true;
    }
    sg_bulk_open(&b, c->cta, c->warp, c->op, lane);
    raw = sg_bulk_resolve(&b, b.arg[SG_BULK_ARG_TO], sizeof(map), 63, SG_MEM_GENERIC,
                          SG_ACCESS_READ);
    if (!raw)
        return false;
    if (sg_tmap_open(raw, &map) &&
        sg_memview_lookup(c->cta->launch->view, map.base, &range))
        sg_shadow_define(range.lo, range.len);
    return true;
}

/* Rows that lanes bring the addresses of: whole warps alone execute this. */
static void
check_rows(const struct check *c)
{
    const bool square = (c->op->n >> SG_LDM_SHAPE_SHIFT & 3) == SG_LDM_M16N16;
    const uint32_t rows = (c->op->n & 0xffu) * (square ? 16 : 8);
    struct lanes l = {0};

    for (uint32_t i = 0; i < gp_min(rows, (uint32_t)SG_LANES); i++)
        lanes_add(c, &l, i, c->op->x, address_of(c, i), 16, NULL);
    touch_shared(c, l.shared, l.n_shared, c->watch->store, false);
}

static void
check_wmma(const struct check *c)
{
    const uint32_t lane = (uint32_t)__builtin_ctz(c->m);
    struct sg_mat_span spans[SG_LANES];
    uint32_t n = sg_wmma_spans(c->cta, c->warp, c->op, lane, spans), off;

    for (uint32_t i = 0; i < n; i++) {
        struct lanes l = {
            .global = {{lane, (uint32_t)spans[i].bytes, spans[i].addr, NULL}},
            .n_global = 1};

        if (in_shared(c->cta, c->op->n, spans[i].addr, spans[i].bytes, &off)) {
            touch_shared(c, &(struct sg_race_access){lane, spans[i].bytes, off, NULL},
                         1, c->watch->store, false);
        } else if (in_global(c->op->n, spans[i].addr)) {
            if (c->watch->store)
                write_global(c, &l, spans[i].bytes);
            else
                read_global(c, &l, spans[i].bytes);
            touch_global(c, &l, c->watch->store, false);
        }
    }
}

/* -------------------------------------------------------------------- barriers */

static uint32_t
barrier_id(const struct check *c)
{
    return sg_reg_w(c->warp, c->op->a)[__builtin_ctz(c->m)];
}

static void
check_bar(const struct check *c)
{
    uint32_t id = barrier_id(c), other;

    if (!c->race || id >= SG_N_BARRIERS)
        return;
    if (c->flags & SG_WATCH_AFTER) {
        if (c->op->n != SG_BAR_ARRIVE)
            sg_race_pass(c->race, c->cta, c->warp, id);
        return;
    }
    other = sg_race_arrive(c->race, c->warp, id, c->cta->bars[id].arrived == 0, c->pc);
    if (other != UINT32_MAX && other != c->pc && c->flags & SG_WATCH_ALIGNED &&
        c->on & SG_CHECK_BARRIERS)
        found_barrier(c, other);
}

static const struct sg_cluster *
cluster_of(const struct sg_cta *cta)
{
    return cta->cluster ? cta->cluster : &cta->alone;
}

static void
check_cluster(const struct check *c)
{
    if (!c->race)
        return;
    order_grid(c, true, true);
    if (c->watch->kind == SG_WATCH_CLUSTER_WAIT)
        sg_race_pass(c->race, c->cta, c->warp, SG_RACE_CLUSTER);
    else
        sg_race_arrive_cluster(c->race, c->warp, cluster_of(c->cta)->phase, c->pc);
}

/* What the lanes of a warp do together: part of a warp does it only by mistake. */
static bool
is_collective(enum sg_watch_kind kind)
{
    return kind == SG_WATCH_ROWS || kind == SG_WATCH_WMMA;
}

enum sg_stop
sg_op_check(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    const struct sg_insn *at = op->n & SG_WATCH_AFTER ? op - 1 : op + 1;
    struct check c = {
        .cta = cta,
        .warp = warp,
        .op = at,
        .flags = op->n,
        .on = checks_on(cta),
        .pc = warp->frags[0].pc,
        .m = m,
    };

    if (c.on & SG_CHECK_STEPS) {
        warp->frags[0].pc++;
        return SG_STOP_BUDGET;
    }
    if (at->code == SG_OP_GUARD)
        c.op = ++at;
    c.watch = &sg_watches[at->code];
    if (c.on & (SG_CHECK_RACES | SG_CHECK_BARRIERS))
        c.race = sg_race_of(cta);
    if (c.race && c.on & SG_CHECK_RACES)
        c.grid = cta->launch->races;
    if (c.race && (c.watch->kind == SG_WATCH_WARP || is_collective(c.watch->kind)))
        sg_race_warp_sync(c.race, warp);
    if (is_collective(c.watch->kind) && m != warp->live)
        return SG_STOP_NONE; /* the addresses of the others are not there yet */
    switch ((enum sg_watch_kind)c.watch->kind) {
    case SG_WATCH_ACCESS:
        check_access(&c);
        break;
    case SG_WATCH_ATOM:
        check_atom(&c);
        break;
    case SG_WATCH_MBAR:
        check_mbar(&c);
        break;
    case SG_WATCH_CPASYNC:
        check_cpasync(&c);
        break;
    case SG_WATCH_BULK:
        SG_FOR_LANES(i, m)
        check_bulk_lane(&c, i);
        break;
    case SG_WATCH_TENSOR:
        SG_FOR_LANES(i, m)
        if (!check_tensor_lane(&c, i))
            return SG_STOP_FAULT;
        break;
    case SG_WATCH_ROWS:
        check_rows(&c);
        break;
    case SG_WATCH_WMMA:
        check_wmma(&c);
        break;
    case SG_WATCH_BAR:
        check_bar(&c);
        break;
    case SG_WATCH_CLUSTER_ARRIVE:
    case SG_WATCH_CLUSTER_WAIT:
        check_cluster(&c);
        break;
    case SG_WATCH_WARP:
    case SG_WATCH_FENCE: /* the strong accesses around it order */
    case SG_WATCH_NONE:
        break;
    }
    return SG_STOP_NONE;
}
