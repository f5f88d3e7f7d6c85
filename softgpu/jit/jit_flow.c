/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a function of the bytecode, and which registers are live where.
 *
 * A block begins where something may jump to, and around every operation that the
 * compiler does not know: regions end and begin at blocks alone.
 */
#include "jit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sets of more words than this take longer than the code is worth. */
#define MAX_WORDS (8u << 20)

static const char *const signatures[] = {
#define OP(name, sig) [SG_OP_##name] = sig,
#include "sg_insns.def"
#undef OP
};

bool
jit_is_memory(unsigned code)
{
    switch (code) {
#define MEM_GROUP(sp)                                                                  \
    case SG_OP_LD##sp##_U8:                                                            \
    case SG_OP_LD##sp##_S8:                                                            \
    case SG_OP_LD##sp##_U16:                                                           \
    case SG_OP_LD##sp##_S16:                                                           \
    case SG_OP_LD##sp##_32:                                                            \
    case SG_OP_LD##sp##_64:                                                            \
    case SG_OP_ST##sp##_8:                                                             \
    case SG_OP_ST##sp##_16:                                                            \
    case SG_OP_ST##sp##_32:                                                            \
    case SG_OP_ST##sp##_64:
        MEM_GROUP(G)
        MEM_GROUP(S)
        MEM_GROUP(T)
        MEM_GROUP(L)
        MEM_GROUP(A)
    case SG_OP_LDSX_32:
    case SG_OP_LDTX_32:
    case SG_OP_LDSX2_FMA:
    case SG_OP_LDTX2_FMA:
    case SG_OP_LDGI_32:
    case SG_OP_LDGI_64:
    case SG_OP_STGI_32:
    case SG_OP_STGI_64:
    case SG_OP_LDF_U8:
    case SG_OP_LDF_S8:
    case SG_OP_LDF_U16:
    case SG_OP_LDF_S16:
    case SG_OP_LDF_32:
    case SG_OP_LDF_64:
    case SG_OP_STF_8:
    case SG_OP_STF_16:
    case SG_OP_STF_32:
    case SG_OP_STF_64:
        return true;
    default:
        return false;
    }
}

bool
jit_known(const struct sg_insn *op)
{
    switch (op->code) {
    case SG_OP_JOIN:
    case SG_OP_GUARD:
    case SG_OP_BRA:
    case SG_OP_BRC:
    case SG_OP_POLL:
    case SG_OP_FN:
        return true;
    case SG_OP_SREG_W:
        return op->n <= SG_SREG_NCTAID_Z;
    default:
        return jit_is_memory(op->code) || jit_alu_knows(op->code);
    }
}

/* Operations that the compiler does not know but whose signature names every register
 * that they read or write.  A frame ends with EXIT and RET: results are in local
 * memory. */
static bool
is_described(unsigned code)
{
    switch (code) {
    case SG_OP_EXIT:
    case SG_OP_RET:
    case SG_OP_CALL:
    case SG_OP_BAR:
    case SG_OP_BAR_RED_POPC:
    case SG_OP_BAR_WARP:
    case SG_OP_YIELD:
    case SG_OP_FENCE:
    case SG_OP_SREG_W:
    case SG_OP_SREG_D:
    case SG_OP_FRAME_W:
    case SG_OP_FRAME_D:
    case SG_OP_ATOM_W:
    case SG_OP_ATOM_D:
    case SG_OP_ATOM_H:
    case SG_OP_ISSPACE:
    case SG_OP_ACTIVEMASK:
    case SG_OP_SHFL:
    case SG_OP_VOTE:
    case SG_OP_BALLOT:
    case SG_OP_MATCH_W:
    case SG_OP_MATCH_D:
    case SG_OP_REDUX:
    case SG_OP_ELECT:
        return true;
    default:
        return false;
    }
}

int32_t
jit_register(const struct jit_flow *f, enum sg_class cls, uint32_t off)
{
    static const uint32_t bytes[] = {SG_SLOT_W, SG_SLOT_D, SG_SLOT_P};

    return off == SG_OFF_NONE ? -1 : (int32_t)(f->first[cls] + off / bytes[cls]);
}

void
jit_operands(const struct jit_flow *f, const struct sg_insn *op, struct jit_operands *o)
{
    const uint32_t off[6] = {op->d, op->e, op->a, op->b, op->c, op->f};
    const char *sig = signatures[op->code];

    for (int k = 0; k < 6; k++) {
        int32_t *to = k < 2 ? &o->write[k] : &o->read[k - 2];
        enum sg_class cls = sig[k] == 'D'   ? SG_D
                            : sig[k] == 'P' ? SG_P
                            : sig[k] == '*'
                                ? (enum sg_class)(op->x >> (k == 0 ? 0 : 2 * k - 2) & 3)
                                : SG_W;
        *to = sig[k] == '-' ? -1 : jit_register(f, cls, off[k]);
    }
    o->all = !jit_known(op) && !is_described(op->code);
}

/* ---------------------------------------------------------------------- blocks */

static void
mark(struct jit_flow *f, uint32_t at)
{
    if (at >= f->func->entry && at < f->func->end)
        f->leads[at - f->func->entry] = 1;
}

static void
mark_leaders(struct jit_flow *f)
{
    const struct sg_insn *ops = f->unit->ops;

    mark(f, f->func->entry);
    mark(f, f->func->body);
    for (uint32_t i = f->func->entry; i < f->func->end; i++) {
        const bool guarded = ops[i].code == SG_OP_GUARD;
        const uint32_t at = i, next = i + 1 + guarded;
        if (guarded)
            i++;
        if (ops[i].code == SG_OP_JOIN)
            mark(f, i);
        if (ops[i].code == SG_OP_BRA || ops[i].code == SG_OP_BRC)
            mark(f, ops[i].x);
        if (!jit_known(&ops[i]) || ops[i].code == SG_OP_BRA || ops[i].code == SG_OP_BRC)
            mark(f, at), mark(f, next);
    }
}

static int
number_blocks(struct jit_flow *f)
{
    const uint32_t n = f->func->end - f->func->entry;

    for (uint32_t i = 0; i < n; i++)
        f->n_blocks += f->leads[i];
    f->blocks = calloc(f->n_blocks + 1u, sizeof(*f->blocks));
    if (!f->blocks)
        return -ENOMEM;
    f->n_blocks = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (f->leads[i])
            f->blocks[f->n_blocks++] = f->func->entry + i;
        f->block_of[i] = f->n_blocks - 1;
    }
    f->blocks[f->n_blocks] = f->func->end;
    return 0;
}

/* -------------------------------------------------------------------- liveness */

static void
set_add(uint64_t *set, int32_t reg)
{
    if (reg >= 0)
        set[reg / 64] |= 1ull << (reg % 64);
}

static void
set_remove(uint64_t *set, int32_t reg)
{
    if (reg >= 0)
        set[reg / 64] &= ~(1ull << (reg % 64));
}

/* Before the operation @at, with what is live behind it in @set. */
static void
live_before(const struct jit_flow *f, uint32_t at, uint64_t *set)
{
    const struct sg_insn *op = &f->unit->ops[at];
    const bool guarded = at > f->func->entry && op[-1].code == SG_OP_GUARD;
    struct jit_operands o;

    jit_operands(f, op, &o);
    if (o.all) {
        memset(set, 0xff, f->n_words * sizeof(*set));
        return;
    }
    for (int k = 0; k < 2 && !guarded; k++) /* else some lanes keep what they have */
        set_remove(set, o.write[k]);
    for (int k = 0; k < 4; k++)
        set_add(set, o.read[k]);
}

static void
add_successor(const struct jit_flow *f, uint32_t at, uint64_t *set)
{
    const uint64_t *live = jit_flow_live(f, at);

    for (uint32_t w = 0; w < f->n_words; w++)
        set[w] |= live ? live[w] : UINT64_MAX;
}

static bool
falls_through(const struct jit_flow *f, uint32_t at)
{
    const struct sg_insn *op = &f->unit->ops[at];

    return (at > f->func->entry && op[-1].code == SG_OP_GUARD) ||
           (op->code != SG_OP_BRA && op->code != SG_OP_EXIT && op->code != SG_OP_RET);
}

static bool
block_again(struct jit_flow *f, uint32_t k, uint64_t *set)
{
    const struct sg_insn *last = &f->unit->ops[f->blocks[k + 1] - 1];
    uint64_t *live = f->live + (size_t)k * f->n_words;

    memset(set, 0, f->n_words * sizeof(*set));
    if (last->code == SG_OP_BRA || last->code == SG_OP_BRC)
        add_successor(f, last->x, set);
    if (falls_through(f, f->blocks[k + 1] - 1) && f->blocks[k + 1] < f->func->end)
        add_successor(f, f->blocks[k + 1], set);
    for (uint32_t at = f->blocks[k + 1]; at-- > f->blocks[k];)
        live_before(f, at, set);
    if (memcmp(live, set, f->n_words * sizeof(*set)) == 0)
        return false;
    memcpy(live, set, f->n_words * sizeof(*set));
    return true;
}

const uint64_t *
jit_flow_live(const struct jit_flow *f, uint32_t at)
{
    if (at < f->func->entry || at >= f->func->end)
        return NULL;
    return f->live + (size_t)f->block_of[at - f->func->entry] * f->n_words;
}

int
jit_flow_init(struct jit_flow *f, const struct sg_unit *unit,
              const struct sg_unit_func *func)
{
    static const uint32_t bytes[] = {SG_SLOT_W, SG_SLOT_D, SG_SLOT_P};
    const uint32_t n = func->end - func->entry;
    uint64_t *set;
    bool again = true;

    *f = (struct jit_flow){.unit = unit, .func = func};
    for (int c = 0; c < SG_N_CLASSES; c++)
        f->first[c + 1] = f->first[c] + func->frame.bytes[c] / bytes[c];
    f->n_words = f->first[SG_N_CLASSES] / 64 + 1;
    f->leads = calloc(n + 1u, 1);
    f->block_of = calloc(n + 1u, sizeof(*f->block_of));
    if (!f->leads || !f->block_of)
        return -ENOMEM;
    mark_leaders(f);
    if (number_blocks(f) < 0)
        return -ENOMEM;
    if ((uint64_t)f->n_blocks * f->n_words > MAX_WORDS)
        return -E2BIG;
    f->live = calloc((size_t)f->n_blocks + 1u, f->n_words * sizeof(*f->live));
    set = calloc(f->n_words, sizeof(*set));
    if (!f->live || !set) {
        free(set);
        return -ENOMEM;
    }
    while (again) {
        again = false;
        for (uint32_t k = f->n_blocks; k-- > 0;)
            again |= block_again(f, k, set);
    }
    free(set);
    return 0;
}

void
jit_flow_fini(struct jit_flow *f)
{
    free(f->leads);
    free(f->block_of);
    free(f->blocks);
    free(f->live);
}
