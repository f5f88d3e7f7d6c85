/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lane's access to memory: windows, live ranges, faults, atomics.
 *
 * The slow path behind exec_lanes_mem.h and the only path of atomics.  Global atomics
 * are real ones, because other CTAs run on other threads; a CTA runs on one thread, but
 * shared memory takes the same code.
 */
#include "sg_cta.h"
#include "sg_prog.h"
#include "sg_written.h"

#include "exec_lane.h"
#include "exec_scalar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Generic addresses of shared memory: one's own, then that of each member. */
#define CLUSTER_WINDOW ((SG_MAX_CLUSTER + 1ull) << SG_CLUSTER_SHIFT)

enum sg_stop
sg_fault_set(struct sg_cta *cta, struct sg_warp *warp, unsigned lane,
             enum sg_fault_code code, uint64_t addr, const char *what)
{
    struct sg_launch *launch = cta->launch;
    uint32_t pc = warp->frags[0].pc;
    uint32_t line = pc < cta->unit->n_ops ? cta->unit->lines[pc] : 0;
    int expect = 0;

    /* The first fault wins; readers look only after the launch has ended. */
    if (!__atomic_compare_exchange_n(&launch->fault_lock, &expect, 1, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return SG_STOP_FAULT;
    launch->fault.code = code;
    launch->fault.lane = lane;
    launch->fault.line = line;
    launch->fault.address = addr;
    launch->fault.kernel = launch->kernel->name;
    for (int k = 0; k < 3; k++) {
        launch->fault.cta[k] = cta->ctaid[k];
        launch->fault.thread[k] = warp->tid[k][lane];
    }
    snprintf(launch->fault.what, sizeof(launch->fault.what), "%s", what);
    sg_check_fault(cta, warp);
    return SG_STOP_FAULT;
}

bool
sg_mem_fill(struct sg_cta *cta, struct sg_tlb *tlb, uint64_t addr)
{
    struct sg_range range;

    if (!sg_memview_lookup(cta->launch->view, addr, &range))
        return false;
    *tlb = (struct sg_tlb){range.lo, range.len, range.flags};
    if (unlikely(range.flags & SG_RANGE_WATCHED))
        tlb->flags |= SG_RANGE_READ_ONLY;
    return true;
}

/* Only the page of @addr, which can be written to now. */
static void
tlb_open_page(struct sg_tlb *tlb, uint64_t addr)
{
    const uint64_t page = addr & ~(uint64_t)(SG_WRITTEN_PAGE - 1);
    const uint64_t lo = gp_max(tlb->lo, page);
    const uint64_t end = gp_min(tlb->lo + tlb->len, page + SG_WRITTEN_PAGE);

    *tlb = (struct sg_tlb){lo, end - lo, SG_RANGE_WATCHED};
}

bool
sg_mem_fill_store(struct sg_cta *cta, struct sg_tlb *tlb, uint64_t addr)
{
    if (!sg_mem_fill(cta, tlb, addr) || sg_range_is_read_only(tlb->flags))
        return false;
    if (tlb->flags & SG_RANGE_WATCHED) {
        sg_written_mark(addr, 1);
        tlb_open_page(tlb, addr);
    }
    return true;
}

/* Drop every cached range and say so, which lets a removal finish. */
void
sg_mem_forget(struct sg_cta *cta)
{
    uint64_t now = __atomic_load_n(cta->generation, __ATOMIC_ACQUIRE);

    memset(cta->tlb, 0, sizeof(cta->tlb));
    __atomic_store_n(&cta->reader.seen, now, __ATOMIC_RELEASE);
}

/* Whether a load ends within the aligned word that the range ends in.  A card has the
 * rest of that word, and string functions that go word by word read it. */
static bool
reads_last_word(const struct sg_tlb *t, uint64_t addr, uint32_t size)
{
    uint64_t end = (t->lo + t->len + SG_READ_ALIGN - 1) & ~(SG_READ_ALIGN - 1ull);

    return addr - t->lo < t->len && size <= end - addr;
}

static void *
resolve_global(struct sg_cta *cta, uint64_t addr, uint32_t size, enum sg_access access)
{
    struct sg_tlb *t = &cta->tlb[SG_TLB_ANY];

    if (unlikely(t->len < size || addr - t->lo > t->len - size)) {
        if (!sg_mem_fill(cta, t, addr))
            return NULL;
        if ((t->len < size || addr - t->lo > t->len - size) &&
            (access == SG_ACCESS_WRITE || !reads_last_word(t, addr, size)))
            return NULL;
    }
    if (unlikely(access == SG_ACCESS_WRITE && (t->flags & SG_RANGE_READ_ONLY))) {
        if (sg_range_is_read_only(t->flags))
            return NULL;
        sg_written_mark(addr, size);
        tlb_open_page(t, addr);
    }
    return (void *)(uintptr_t)addr;
}

static void *
resolve_window(struct sg_cta *cta, struct sg_warp *warp, unsigned lane, uint64_t addr,
               uint32_t size, enum sg_mem_space space)
{
    uint64_t limit;
    uint8_t *base;

    if (space == SG_MEM_SHARED)
        return sg_cluster_shared(cta, addr, size);
    if (space == SG_MEM_LOCAL) {
        base =
            cta->local + ((uint64_t)warp->index * SG_LANES + lane) * cta->local_stride;
        limit = cta->local_stride;
    } else {
        base = (uint8_t *)(uintptr_t)cta->launch->params;
        limit = cta->launch->kernel->param_bytes;
    }
    if (limit < size || addr > limit - size)
        return NULL;
    return base + addr;
}

struct sg_window
sg_mem_window(const struct sg_cta *cta, const struct sg_warp *warp, uint64_t addr,
              enum sg_access access)
{
    const struct sg_kernel *kernel = cta->launch->kernel;
    struct sg_window w = {0};

    if (addr - SG_WIN_SHARED < cta->shared_bytes) {
        w = sg_shared_window(cta);
        w.lo = SG_WIN_SHARED;
    } else if (addr - SG_WIN_LOCAL < cta->local_stride) {
        w = sg_local_window(cta, warp);
        w.lo = SG_WIN_LOCAL;
    } else if (addr - SG_WIN_PARAM < SG_WIN_SIZE && access == SG_ACCESS_READ) {
        w.lo = sg_prog_param_window(kernel->prog);
        w.len = kernel->param_bytes;
        w.base = (uint8_t *)(uintptr_t)cta->launch->params;
    }
    return w;
}

struct sg_window
sg_mem_window_of(struct sg_cta *cta, const struct sg_warp *warp,
                 enum sg_mem_space space, uint64_t addr, enum sg_access access)
{
    struct sg_tlb *t = &cta->tlb[SG_TLB_ANY];

    if (space == SG_MEM_SHARED)
        return sg_shared_window(cta);
    if (space == SG_MEM_LOCAL)
        return sg_local_window(cta, warp);
    if (space == SG_MEM_GENERIC && sg_mem_is_window(addr))
        return sg_mem_window(cta, warp, addr, access);
    if ((space != SG_MEM_GENERIC && space != SG_MEM_GLOBAL) ||
        (addr - t->lo >= t->len && !sg_mem_fill(cta, t, addr)) ||
        (access == SG_ACCESS_WRITE && (t->flags & SG_RANGE_READ_ONLY)))
        return (struct sg_window){0};
    return (struct sg_window){t->lo, t->len, 0, (uint8_t *)(uintptr_t)t->lo};
}

static const char *const space_names[] = {
    [SG_MEM_GLOBAL] = "global",   [SG_MEM_SHARED] = "shared", [SG_MEM_LOCAL] = "local",
    [SG_MEM_GENERIC] = "generic", [SG_MEM_CONST] = "const",   [SG_MEM_PARAM] = "param",
};

static void
fault_access(struct sg_cta *cta, struct sg_warp *warp, unsigned lane, uint64_t addr,
             uint32_t size, enum sg_mem_space space, enum sg_access access,
             bool aligned)
{
    char what[96];

    snprintf(what, sizeof(what), "%s of %u bytes at %s 0x%" PRIx64 " %s",
             access == SG_ACCESS_READ ? "load" : "store", size, space_names[space],
             addr, aligned ? "is outside every allocation" : "is misaligned");
    sg_fault_set(cta, warp, lane,
                 aligned ? SG_FAULT_ILLEGAL_ADDRESS : SG_FAULT_MISALIGNED, addr, what);
}

void *
sg_mem_resolve(struct sg_cta *cta, struct sg_warp *warp, unsigned lane, uint64_t addr,
               uint32_t size, uint32_t align, enum sg_mem_space space,
               enum sg_access access)
{
    enum sg_mem_space to = space;
    uint64_t at = addr;
    void *p;

    if (unlikely(addr & align)) {
        fault_access(cta, warp, lane, addr, size, space, access, false);
        return NULL;
    }
    if (space == SG_MEM_GENERIC) {
        to = SG_MEM_GLOBAL;
        if (addr - SG_WIN_SHARED < CLUSTER_WINDOW)
            to = SG_MEM_SHARED, at = addr - SG_WIN_SHARED;
        else if (addr - SG_WIN_LOCAL < SG_WIN_SIZE)
            to = SG_MEM_LOCAL, at = addr - SG_WIN_LOCAL;
        else if (addr - SG_WIN_PARAM < SG_WIN_SIZE && access == SG_ACCESS_READ)
            to = SG_MEM_PARAM,
            at = addr - sg_prog_param_window(cta->launch->kernel->prog);
    }
    if (to == SG_MEM_GLOBAL || to == SG_MEM_CONST)
        p = resolve_global(cta, at, size, access);
    else
        p = resolve_window(cta, warp, lane, at, size, to);
    if (unlikely(!p))
        fault_access(cta, warp, lane, addr, size, space, access, true);
    return p;
}

enum sg_stop
sg_op_shape(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    struct sg_shape *s = &warp->shapes[op->n];
    uint64_t a[SG_LANES];

    (void)cta;
    *s = (struct sg_shape){.min = UINT64_MAX};
    if (m != UINT32_MAX)
        return SG_STOP_NONE;
    for (int i = 0; i < SG_LANES; i++) {
        a[i] = op->code == SG_OP_SHAPE_D ? sg_reg_d(warp, op->a)[i]
                                         : sg_reg_w(warp, op->a)[i];
        s->min = gp_min(s->min, a[i]);
        s->max = gp_max(s->max, a[i]);
        s->low |= a[i];
    }
    for (int h = 0; h < 2; h++) {
        const uint64_t *half = a + 16 * h, stride = half[1] - half[0];
        s->first[h] = half[0];
        s->stride[h] = stride;
        for (int i = 1; i < 16; i++)
            if (half[i] - half[i - 1] != stride)
                s->stride[h] = SG_STRIDE_NONE;
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_isspace(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
              uint32_t m)
{
    const uint64_t *a = sg_reg_d(warp, op->a);
    uint32_t *d = sg_reg_p(warp, op->d), r = 0;

    SG_FOR_LANES(i, m)
    {
        bool in;
        switch (op->n) {
        case SG_MEM_SHARED:
            in = a[i] - SG_WIN_SHARED < SG_WIN_SIZE;
            break;
        case SG_MEM_CLUSTER:
            in = a[i] - SG_WIN_SHARED < CLUSTER_WINDOW;
            break;
        case SG_MEM_LOCAL:
            in = a[i] - SG_WIN_LOCAL < SG_WIN_SIZE;
            break;
        case SG_MEM_PARAM:
            in = a[i] - SG_WIN_PARAM < SG_WIN_SIZE;
            break;
        case SG_MEM_CONST: {
            struct sg_tlb t;
            in = sg_mem_fill(cta, &t, a[i]) && sg_range_is_read_only(t.flags);
            break;
        }
        default:
            in = a[i] < SG_WIN_SHARED || a[i] >= SG_WIN_END;
            break;
        }
        r |= (uint32_t)in << i;
    }
    *d = (*d & ~m) | r;
    return SG_STOP_NONE;
}
