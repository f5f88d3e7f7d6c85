/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous copies and mbarriers.
 *
 * A copy is done when it is issued, so groups are always complete.  An mbarrier is one
 * 64-bit word in shared memory, in an encoding of our own:
 *
 *     bits  0..19  arrivals a phase needs        bits 40..60  pending bytes, biased
 *     bits 20..39  arrivals it still waits for   bit 63       phase parity,
 * SG_MBAR_PHASE
 *
 * A CTA runs on one thread, so plain reads and writes do.
 */
#include "sg_cta.h"

#include <string.h>

#define COUNT_MASK 0xfffffull
#define TX_MASK 0x1fffffull
#define TX_BIAS 0x100000ll /* bytes may complete before they are expected */

struct mbar {
    uint64_t expected, pending;
    int64_t tx;
    bool phase;
};

static struct mbar
mbar_decode(uint64_t v)
{
    return (struct mbar){
        .expected = v & COUNT_MASK,
        .pending = v >> 20 & COUNT_MASK,
        .tx = (int64_t)(v >> 40 & TX_MASK) - TX_BIAS,
        .phase = v & SG_MBAR_PHASE,
    };
}

static uint64_t
mbar_encode(const struct mbar *b)
{
    return (b->expected & COUNT_MASK) | (b->pending & COUNT_MASK) << 20 |
           ((uint64_t)(b->tx + TX_BIAS) & TX_MASK) << 40 |
           (b->phase ? SG_MBAR_PHASE : 0);
}

static void
mbar_complete(struct mbar *b)
{
    if (b->pending == 0 && b->tx == 0) {
        b->pending = b->expected;
        b->phase = !b->phase;
    }
}

static void
mbar_arrive(struct mbar *b, uint64_t count)
{
    b->pending -= gp_min(count, b->pending);
    mbar_complete(b);
}

/* One lane's operation; returns the state or predicate it yields. */
static uint64_t
mbar_apply(unsigned kind, uint64_t *word, uint64_t arg, uint64_t tx)
{
    struct mbar b = mbar_decode(*word);
    uint64_t old = *word;

    switch (kind) {
    case SG_MBAR_INIT:
        b = (struct mbar){.expected = arg, .pending = arg};
        break;
    case SG_MBAR_INVAL:
        *word = 0;
        return 0;
    case SG_MBAR_ARRIVE:
        b.tx += (int64_t)tx;
        mbar_arrive(&b, arg);
        break;
    case SG_MBAR_DROP:
        b.tx += (int64_t)tx;
        b.expected -= gp_min(arg, b.expected);
        mbar_arrive(&b, arg);
        break;
    case SG_MBAR_EXPECT_TX:
        b.tx += (int64_t)tx;
        break;
    case SG_MBAR_COMPLETE_TX:
        b.tx -= (int64_t)tx;
        mbar_complete(&b);
        break;
    case SG_MBAR_WAIT_STATE:
        return b.phase != (bool)(arg >> 63);
    case SG_MBAR_WAIT_PARITY:
        return b.phase != (bool)(arg & 1);
    default:
        return old >> 20 & COUNT_MASK;
    }
    *word = mbar_encode(&b);
    return old;
}

void
sg_mbar_complete(uint64_t *word, uint64_t bytes)
{
    mbar_apply(SG_MBAR_COMPLETE_TX, word, 0, bytes);
}

/* Memory that stays while the warp sleeps.  An mbarrier elsewhere is against the rules,
 * and may be freed by then. */
static bool
in_cluster(const struct sg_cta *cta, const uint64_t *word)
{
    const struct sg_cluster *cluster = cta->cluster ? cta->cluster : &cta->alone;

    for (uint32_t i = 0; i < cluster->n; i++)
        if ((uintptr_t)word - (uintptr_t)cluster->ctas[i]->shared <
            cluster->ctas[i]->shared_bytes)
            return true;
    return false;
}

enum sg_stop
sg_op_mbar(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
           uint32_t m)
{
    unsigned kind = op->n;
    const uint64_t *word = NULL;
    uint32_t failed = 0;
    bool one_word = true;

    SG_FOR_LANES(i, m)
    {
        uint64_t arg = op->b == SG_OFF_NONE ? 0 : sg_reg_d(warp, op->b)[i], r;
        uint64_t tx = op->c == SG_OFF_NONE ? 0 : sg_reg_d(warp, op->c)[i];
        uint64_t *p =
            sg_mem_resolve(cta, warp, i, sg_reg_d(warp, op->a)[i] + (uint64_t)op->imm,
                           8, 7, op->x, SG_ACCESS_WRITE);
        if (!p)
            return SG_STOP_FAULT;
        r = mbar_apply(kind, p, arg, tx);
        one_word &= !word || word == p;
        word = p;
        if (op->d != SG_OFF_NONE)
            sg_reg_d(warp, op->d)[i] = r;
        if (op->e != SG_OFF_NONE) {
            uint32_t *pred = sg_reg_p(warp, op->e);
            *pred = (*pred & ~(1u << i)) | (uint32_t)(r != 0) << i;
            failed |= (uint32_t)(r == 0) << i;
        }
    }
    /* A failed test_wait is as good as a failed try_wait: who waits asks again. */
    if (failed != m)
        return SG_STOP_NONE;
    return one_word && in_cluster(cta, word) ? sg_warp_sleep_on(cta, warp, word)
                                             : sg_op_yield(cta, warp);
}

/* @n of the @size bytes that become those at @dst; behind them are zeros. */
static void
copy_lane(uint8_t *dst, const uint8_t *src, uint32_t n, uint32_t size)
{
    if (likely(n == 16)) {
        memcpy(dst, src, 16);
        return;
    }
    if (n)
        memcpy(dst, src, n);
    memset(dst + n, 0, size - n);
}

enum sg_stop
sg_op_cpasync(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
              uint32_t m)
{
    const uint64_t *a = sg_reg_d(warp, op->a), *b = sg_reg_d(warp, op->b);
    const uint32_t size = op->n, first = (uint32_t)__builtin_ctz(m);
    const struct sg_window shared = sg_shared_window(cta);
    const struct sg_window global =
        sg_mem_window_of(cta, warp, SG_MEM_GLOBAL, b[first] + op->x, SG_ACCESS_READ);

    SG_FOR_LANES(i, m)
    {
        const uint64_t from = b[i] + op->x, to = a[i] + (uint64_t)op->imm;
        const uint32_t asked = op->c == SG_OFF_NONE ? size : sg_reg_w(warp, op->c)[i];
        const uint32_t n = asked < size ? asked : size;
        uint8_t *dst = sg_window_at(&shared, i, to, size, size - 1);
        const uint8_t *src = sg_window_at(&global, i, from, n, size - 1);
        if (unlikely(!dst))
            dst = sg_mem_resolve(cta, warp, i, to, size, size - 1, SG_MEM_SHARED,
                                 SG_ACCESS_WRITE);
        if (unlikely(dst && n && !src))
            src = sg_mem_resolve(cta, warp, i, from, n, size - 1, SG_MEM_GLOBAL,
                                 SG_ACCESS_READ);
        if (!dst || (n && !src))
            return SG_STOP_FAULT;
        copy_lane(dst, src, n, size);
    }
    return SG_STOP_NONE;
}
