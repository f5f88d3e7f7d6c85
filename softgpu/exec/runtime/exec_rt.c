/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels ask of their surroundings: special registers, clocks, printf, heap,
 * assert.
 */
#include "exec_race_grid.h"
#include "sg_cta.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PRINTF_TEXT 4096u /* one call; a card's whole FIFO is 1 MiB by default */
#define MAX_PRINTF_FORMAT 1024u
#define MAX_STRING 1024u

static uint64_t
now_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Values that every lane of the warp shares. */
static uint64_t
sreg_uniform(const struct sg_cta *cta, const struct sg_warp *warp, unsigned id)
{
    const struct sg_launch *l = cta->launch;

    switch (id) {
    case SG_SREG_NTID_X:
    case SG_SREG_NTID_Y:
    case SG_SREG_NTID_Z:
        return l->block[id - SG_SREG_NTID_X];
    case SG_SREG_CTAID_X:
    case SG_SREG_CTAID_Y:
    case SG_SREG_CTAID_Z:
        return cta->ctaid[id - SG_SREG_CTAID_X];
    case SG_SREG_NCTAID_X:
    case SG_SREG_NCTAID_Y:
    case SG_SREG_NCTAID_Z:
        return l->grid[id - SG_SREG_NCTAID_X];
    case SG_SREG_WARPID:
        return warp->index;
    case SG_SREG_NWARPID:
        return cta->n_warps;
    case SG_SREG_SMID:
        return cta->smid;
    case SG_SREG_NSMID:
        return l->n_sms;
    case SG_SREG_GRIDID:
        return l->grid_id;
    case SG_SREG_CLOCK:
    case SG_SREG_CLOCK64:
        return now_ns(CLOCK_MONOTONIC);
    case SG_SREG_CLOCK_HI:
        return now_ns(CLOCK_MONOTONIC) >> 32;
    case SG_SREG_GLOBALTIMER:
    case SG_SREG_GLOBALTIMER_LO:
        return now_ns(CLOCK_REALTIME);
    case SG_SREG_GLOBALTIMER_HI:
        return now_ns(CLOCK_REALTIME) >> 32;
    case SG_SREG_TOTAL_SMEM:
        return l->shared_bytes;
    case SG_SREG_DYNAMIC_SMEM:
        return l->dyn_shared;
    case SG_SREG_ENVREG1:
        return l->grid_workspace >> 32;
    case SG_SREG_ENVREG2:
        return l->grid_workspace;
    case SG_SREG_RESERVED:
        return cta->shared_bytes - SG_RESERVED_SHARED;
    case SG_SREG_RESERVED_1:
        return cta->shared_bytes - SG_RESERVED_SHARED / 2;
    case SG_SREG_RESERVED_END:
        return cta->shared_bytes;
    case SG_SREG_RESERVED_CAP:
        return SG_RESERVED_SHARED;
    case SG_SREG_ONE:
        return 1;
    case SG_SREG_ZERO:
        return 0;
    default:
        return sg_cluster_sreg(cta, id);
    }
}

static uint32_t
sreg_lane(unsigned id, uint32_t lane)
{
    uint32_t eq = 1u << lane;

    switch (id) {
    case SG_SREG_LANEID:
        return lane;
    case SG_SREG_LANEMASK_EQ:
        return eq;
    case SG_SREG_LANEMASK_LE:
        return eq | (eq - 1);
    case SG_SREG_LANEMASK_LT:
        return eq - 1;
    case SG_SREG_LANEMASK_GE:
        return ~(eq - 1);
    default:
        return ~(eq | (eq - 1));
    }
}

static void
write_lanes(uint32_t *d, const uint32_t *v, uint32_t m)
{
    if (likely(m == UINT32_MAX)) {
        memcpy(d, v, SG_SLOT_W);
        return;
    }
    SG_FOR_LANES(i, m)
    d[i] = v[i];
}

static void
write_all(uint32_t *d, uint32_t v, uint32_t m)
{
    if (likely(m == UINT32_MAX)) {
        for (int i = 0; i < SG_LANES; i++)
            d[i] = v;
        return;
    }
    SG_FOR_LANES(i, m)
    d[i] = v;
}

enum sg_stop
sg_op_sreg(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    unsigned id = op->n;
    uint32_t *d;
    uint64_t v;

    if (op->code == SG_OP_SREG_D) {
        uint64_t *d64 = sg_reg_d(warp, op->d);
        v = sreg_uniform(cta, warp, id);
        SG_FOR_LANES(i, m)
        d64[i] = v;
        return SG_STOP_NONE;
    }
    d = sg_reg_w(warp, op->d);
    if (id <= SG_SREG_TID_Z) {
        write_lanes(d, warp->tid[id - SG_SREG_TID_X], m);
    } else if (id == SG_SREG_LANEID ||
               (id >= SG_SREG_LANEMASK_EQ && id <= SG_SREG_LANEMASK_GT)) {
        SG_FOR_LANES(i, m)
        d[i] = sreg_lane(id, i);
    } else {
        write_all(d, (uint32_t)sreg_uniform(cta, warp, id), m);
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_frame(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    uint64_t v = (uint64_t)op->imm + warp->frags[0].local;

    (void)cta;
    if (op->code == SG_OP_FRAME_D) {
        SG_FOR_LANES(i, m)
        sg_reg_d(warp, op->d)[i] = v;
    } else {
        SG_FOR_LANES(i, m)
        sg_reg_w(warp, op->d)[i] = (uint32_t)v;
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_trap(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    return sg_fault_set(cta, warp, (unsigned)__builtin_ctz(m),
                        (enum sg_fault_code)op->n, 0, "trap");
}

/* ---------------------------------------------------------------------- printf */

/* Copy a string that a lane points to; false after a fault. */
static bool
read_string(struct sg_cta *cta, struct sg_warp *warp, unsigned lane, uint64_t addr,
            char *buf, size_t size)
{
    size_t n = 0;

    for (; n + 1 < size; n++) {
        const char *p = sg_mem_resolve(cta, warp, lane, addr + n, 1, 0, SG_MEM_GENERIC,
                                       SG_ACCESS_READ);
        if (!p)
            return false;
        buf[n] = *p;
        if (!*p)
            return true;
    }
    buf[n] = '\0';
    return true;
}

struct out {
    char *text;
    size_t len, cap;
};

static void
out_add(struct out *o, const char *s, size_t n)
{
    n = gp_min(n, o->cap - o->len);
    memcpy(o->text + o->len, s, n);
    o->len += n;
}

/* One conversion: the specification as C has it, the value as its 8 bytes say. */
struct spec {
    char text[32];
    char conv;
    int longs; /* l, ll, z, j, t; short forms are promoted by the caller */
    int stars;
};

static const char *
spec_parse(const char *f, struct spec *s)
{
    size_t n = 0, digits = 0;

    memset(s, 0, sizeof(*s));
    s->text[n++] = '%';
    /* three digits at most: a hostile precision would cost gigabytes in the C library
     */
    for (f++; *f && strchr("-+ #0123456789.*", *f); f++) {
        digits = *f >= '0' && *f <= '9' ? digits + 1 : 0;
        if (digits > 3 || n >= 20)
            continue;
        s->stars += *f == '*';
        s->text[n++] = *f;
    }
    for (; *f && strchr("hlLqjzt", *f); f++)
        s->longs += *f == 'l' || *f == 'q' || *f == 'j' || *f == 'z' || *f == 't';
    s->conv = *f;
    if (s->longs && strchr("diouxX", s->conv))
        s->text[n++] = 'l', s->text[n++] = 'l';
    s->text[n++] = s->conv;
    return *f ? f + 1 : f;
}

struct args {
    struct sg_cta *cta;
    struct sg_warp *warp;
    unsigned lane;
    uint64_t at; /* generic address of the next argument */
    bool fault;
};

static uint64_t
arg_next(struct args *a, unsigned size)
{
    uint64_t v = 0;
    const void *p;

    a->at = GP_ALIGN_UP(a->at, (uint64_t)size);
    p = sg_mem_resolve(a->cta, a->warp, a->lane, a->at, size, 0, SG_MEM_GENERIC,
                       SG_ACCESS_READ);
    a->at += size;
    if (!p) {
        a->fault = true;
        return 0;
    }
    memcpy(&v, p, size);
    return v;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void
spec_print(struct out *o, const struct spec *s, struct args *a)
{
    char buf[MAX_STRING + 64], str[MAX_STRING];
    int star[2] = {0}, n = 0;
    uint64_t v;
    double f;

    for (int k = 0; k < s->stars; k++) { /* a hostile width fills one buffer, no more */
        int32_t w = (int32_t)arg_next(a, 4);
        if (k < 2)
            star[k] = w > 1000 ? 1000 : w < -1000 ? -1000 : w;
    }
#define PRINT(val)                                                                     \
    (n = s->stars == 0   ? snprintf(buf, sizeof(buf), s->text, val)                    \
         : s->stars == 1 ? snprintf(buf, sizeof(buf), s->text, star[0], val)           \
                         : snprintf(buf, sizeof(buf), s->text, star[0], star[1], val))
    switch (s->conv) {
    case 'd':
    case 'i':
    case 'o':
    case 'u':
    case 'x':
    case 'X':
        v = arg_next(a, s->longs ? 8 : 4);
        if (s->longs)
            PRINT((unsigned long long)v);
        else
            PRINT((unsigned)v);
        break;
    case 'c':
        v = arg_next(a, 4);
        PRINT((int)v);
        break;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
        v = arg_next(a, 8);
        memcpy(&f, &v, 8);
        PRINT(f);
        break;
    case 'p':
        v = arg_next(a, 8);
        PRINT((void *)(uintptr_t)v);
        break;
    case 's':
        v = arg_next(a, 8);
        if (a->fault || !read_string(a->cta, a->warp, a->lane, v, str, sizeof(str))) {
            a->fault = true;
            return;
        }
        PRINT(str);
        break;
    default: /* unknown: printed as it stands */
        out_add(o, s->text, strlen(s->text));
        return;
    }
#undef PRINT
    if (n > 0)
        out_add(o, buf, gp_min((size_t)n, sizeof(buf) - 1));
}

#pragma GCC diagnostic pop

static bool
format_one(struct sg_cta *cta, struct sg_warp *warp, unsigned lane, const char *fmt,
           uint64_t arg_addr, struct out *o, uint32_t *ret_count)
{
    struct args a = {cta, warp, lane, arg_addr, false};

    *ret_count = 0;
    while (*fmt && !a.fault) {
        size_t plain = strcspn(fmt, "%");
        struct spec s;
        out_add(o, fmt, plain);
        fmt += plain;
        if (!*fmt)
            break;
        if (fmt[1] == '%') {
            out_add(o, "%", 1);
            fmt += 2;
            continue;
        }
        fmt = spec_parse(fmt, &s);
        spec_print(o, &s, &a);
        ++*ret_count;
    }
    return !a.fault;
}

enum sg_stop
sg_op_vprintf(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
              uint32_t m)
{
    const struct sg_hooks *hooks = cta->launch->hooks;
    char fmt[MAX_PRINTF_FORMAT], text[MAX_PRINTF_TEXT];

    SG_FOR_LANES(i, m)
    {
        uint64_t args = sg_reg_d(warp, op->b)[i];
        struct out o = {text, 0, sizeof(text)};
        uint32_t count = 0;
        if (!read_string(cta, warp, i, sg_reg_d(warp, op->a)[i], fmt, sizeof(fmt)) ||
            !format_one(cta, warp, i, fmt, args, &o, &count))
            return SG_STOP_FAULT;
        if (hooks && hooks->print)
            hooks->print(hooks->user, o.text, o.len);
        sg_reg_w(warp, op->d)[i] = count;
    }
    return SG_STOP_NONE;
}

/* ---------------------------------------------------------------- heap, assert */

enum sg_stop
sg_op_malloc(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
             uint32_t m)
{
    const struct sg_hooks *hooks = cta->launch->hooks;

    SG_FOR_LANES(i, m)
    {
        uint64_t size = sg_reg_d(warp, op->a)[i], addr;

        addr = hooks && hooks->heap_alloc ? hooks->heap_alloc(hooks->user, size) : 0;
        if (addr && cta->launch->races)
            sg_race_grid_forget(cta->launch->races, addr, size);
        sg_reg_d(warp, op->d)[i] = addr;
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_free(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    const struct sg_hooks *hooks = cta->launch->hooks;

    SG_FOR_LANES(i, m)
    {
        uint64_t addr = sg_reg_d(warp, op->a)[i];
        if (addr && hooks && hooks->heap_free)
            hooks->heap_free(hooks->user, addr);
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_setcond(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
              uint32_t m)
{
    const struct sg_hooks *hooks = cta->launch->hooks;

    SG_FOR_LANES(i, m)
    {
        if (hooks && hooks->set_condition)
            hooks->set_condition(hooks->user, sg_reg_d(warp, op->a)[i],
                                 sg_reg_w(warp, op->b)[i]);
    }
    return SG_STOP_NONE;
}

enum sg_stop
sg_op_launch(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
             uint32_t m)
{
    const struct sg_hooks *hooks = cta->launch->hooks;

    SG_FOR_LANES(i, m)
    {
        uint64_t record = sg_reg_d(warp, op->a)[i];
        sg_reg_w(warp, op->d)[i] = hooks && hooks->launch
                                       ? hooks->launch(hooks->user, cta->launch, record)
                                       : SG_LAUNCH_NOT_SUPPORTED;
    }
    return SG_STOP_NONE;
}

static bool
assert_line(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            unsigned lane, char *text, size_t size, int *ret_len)
{
    char msg[MAX_STRING], file[MAX_STRING], func[MAX_STRING];
    uint64_t base = SG_WIN_LOCAL + warp->frags[0].local + (uint64_t)op->imm;
    struct args a = {cta, warp, lane, base, false};
    uint64_t pmsg = arg_next(&a, 8), pfile = arg_next(&a, 8), line, pfunc;

    a.at = base + op->x;
    line = arg_next(&a, 4);
    a.at = base + op->n;
    pfunc = arg_next(&a, 8);
    if (a.fault || !read_string(cta, warp, lane, pmsg, msg, sizeof(msg)) ||
        !read_string(cta, warp, lane, pfile, file, sizeof(file)) ||
        !read_string(cta, warp, lane, pfunc, func, sizeof(func)))
        return false;
    *ret_len = snprintf(text, size,
                        "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion "
                        "`%s` failed.\n",
                        file, (unsigned)line, func, cta->ctaid[0], cta->ctaid[1],
                        cta->ctaid[2], warp->tid[0][lane], warp->tid[1][lane],
                        warp->tid[2][lane], msg);
    return true;
}

enum sg_stop
sg_op_assertfail(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                 uint32_t m)
{
    const struct sg_hooks *hooks = cta->launch->hooks;
    char text[MAX_PRINTF_TEXT];
    int len = 0;

    SG_FOR_LANES(i, m)
    {
        if (!assert_line(cta, warp, op, i, text, sizeof(text), &len))
            return SG_STOP_FAULT;
        if (hooks && hooks->assert_failed && len > 0)
            hooks->assert_failed(hooks->user, text,
                                 gp_min((size_t)len, sizeof(text) - 1));
    }
    return sg_fault_set(cta, warp, (unsigned)__builtin_ctz(m), SG_FAULT_ASSERT, 0,
                        "device assertion failed");
}

/* ---------------------------------------------------------------- memory on the stack
 */

/* Where the stack of lane @i begins: local memory grows from both ends. */
static uint64_t
stack_top(const struct sg_cta *cta, const struct sg_warp *warp, unsigned i)
{
    return cta->local_stride - warp->taken[i];
}

/* alloca, stacksave, stackrestore; what a function took is given back as it returns. */
enum sg_stop
sg_op_stack(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
            uint32_t m)
{
    const struct sg_unit_func *func = &cta->unit->funcs[warp->frags[0].func];
    uint64_t used =
        (uint64_t)warp->frags[0].local + func->local_bytes + func->out_bytes;

    SG_FOR_LANES(i, m)
    {
        uint64_t v = op->n == SG_STACK_SAVE ? 0 : sg_reg_d(warp, op->a)[i];
        uint64_t top = stack_top(cta, warp, i);
        if (op->n == SG_STACK_ALLOCA)
            v = v > top ? 0 : (top - v) & ~((uint64_t)op->x - 1);
        else if (op->n == SG_STACK_SAVE)
            v = top;
        if (v < used || v > cta->local_stride)
            return sg_fault_set(cta, warp, i, SG_FAULT_HW_STACK, v,
                                "alloca: the thread's stack is used up");
        warp->taken[i] = (uint32_t)(cta->local_stride - v);
        warp->takes |= warp->taken[i] != 0;
        if (op->d != SG_OFF_NONE)
            sg_reg_d(warp, op->d)[i] = v;
    }
    return SG_STOP_NONE;
}
