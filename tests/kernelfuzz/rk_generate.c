/* SPDX-License-Identifier: Apache-2.0 */
/* Random kernels from a seed: see rk_kernel.h. */
#include "rk_kernel.h"

#include <stdlib.h>
#include <string.h>

struct making {
    uint64_t state;
    struct rk_kernel *k;
    unsigned depth, loops, calls;
    bool uniform;  /* all threads of the block that live are here */
    bool whole;    /* and all 32 lanes of every warp */
    bool function; /* in a device function: no memory, no other threads */
    unsigned left; /* statements */
};

static uint64_t
next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static unsigned
below(struct making *g, unsigned n)
{
    return (unsigned)(next(&g->state) >> 33) % n;
}

static bool
one_in(struct making *g, unsigned n)
{
    return below(g, n) == 0;
}

/* Values at the edges of every type, and noise. */
static uint64_t
interesting(uint64_t *state)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     31,
                                     32,
                                     33,
                                     63,
                                     64,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x3f800000,
                                     0xbf800000,
                                     0x7f800000,
                                     0xff800000,
                                     0x7fc00000,
                                     0x00000001,
                                     0x807fffff,
                                     0x00800000,
                                     0x4b800001,
                                     0x3c003c00,
                                     0x7c000001,
                                     0x04008400,
                                     UINT64_C(0x7fffffffffffffff),
                                     UINT64_C(0x8000000000000000),
                                     UINT64_C(0xffffffffffffffff),
                                     UINT64_C(0x3ff0000000000000),
                                     UINT64_C(0x7ff0000000000000),
                                     UINT64_C(0xfff8000000000001),
                                     UINT64_C(0x000fffffffffffff),
                                     UINT64_C(0x0010000000000000),
                                     UINT64_C(0x43e0000000000000),
                                     UINT64_C(0x38100000ffffffff)};
    uint64_t r = next(state), v = next(state);

    switch (r & 7) {
    case 0:
    case 1:
        return edges[(r >> 8) % (sizeof(edges) / sizeof(edges[0]))];
    case 2:
        return v & 255;
    case 3: /* floats near one, of either width */
        return (v & UINT64_C(0x800fffffffffffff)) |
               (UINT64_C(0x3fe0000000000000) + ((r >> 20 & 0x3f) << 52));
    case 4:
        return (v & 0x807fffff) | (0x3f000000 + ((r >> 20 & 15) << 23));
    case 5:
        return (uint64_t) - (int64_t)(v & 1023);
    default:
        return v;
    }
}

static struct rk_src
reg_of(struct making *g, enum rk_class class)
{
    return (struct rk_src){.class = class, .reg = (uint8_t)below(g, rk_n_regs[class])};
}

static bool
begins(const struct rk_op *op, const char *word)
{
    return strncmp(op->name, word, strlen(word)) == 0;
}

/* What ptxas takes as an immediate source: not the pairs of integers, and positions and
 * lengths of fields up to 255. */
static void
maybe_constant(struct making *g, const struct rk_op *op, struct rk_src *s)
{
    if (strstr(op->name, "16x2"))
        return;
    s->constant = true;
    s->value = interesting(&g->state);
    if (s->class == RK_W)
        s->value &= begins(op, "bf") ? 255 : UINT32_MAX;
}

static struct rk_src
source(struct making *g, const struct rk_op *op, unsigned i)
{
    char letter = op->sig[i + 1];
    struct rk_src s;

    if (letter == '8')
        return (struct rk_src){.constant = true, .class = RK_W, .value = below(g, 256)};
    s = reg_of(g, rk_class_of(letter));
    /* A constant as the last source, where its type is plain. */
    if (op->sig[i + 2] == '\0' && i > 0 && (letter == 'W' || letter == 'D') &&
        !op->form && !op->is_float && one_in(g, 4))
        maybe_constant(g, op, &s);
    return s;
}

static void
maybe_guard(struct making *g, struct rk_stmt *s, unsigned chance)
{
    if (one_in(g, chance)) {
        s->guard = (int)below(g, rk_n_regs[RK_P]);
        s->guard_not = one_in(g, 2);
    }
}

static void
make_alu(struct making *g, struct rk_stmt *s)
{
    unsigned n;
    const struct rk_op *ops = rk_ops_family(below(g, rk_ops_families()), &n);

    s->op = &ops[below(g, n)];
    s->class = rk_class_of(s->op->sig[0]);
    s->regs[0] = (uint8_t)below(g, rk_n_regs[s->class]);
    for (unsigned i = 0; s->op->sig[i + 1]; i++)
        s->src[i] = source(g, s->op, i);
    maybe_guard(g, s, 5);
}

/* An access to the thread's own memory by registers of a random class. */
static void
make_access(struct making *g, struct rk_stmt *s)
{
    static const char letters[] = "usb";
    struct rk_mem *m = &s->mem;
    unsigned most, class_bytes;

    m->space = (enum rk_space)below(g, 3);
    m->region = m->space == RK_LOCAL ? RK_SLOT : (enum rk_region)below(g, 4);
    s->class = (enum rk_class)below(g, 3);
    class_bytes = s->class == RK_D ? 8 : s->class == RK_W ? 4 : 2;
    most = m->region == RK_COL4 ? 4 : m->region == RK_COL8 ? 8 : 16;
    m->size = 1u << below(g, 4);
    if (m->size > class_bytes || m->size > most || one_in(g, 2))
        m->size = class_bytes > most ? most : class_bytes;
    m->n = 1u << below(g, 3);
    while (m->n * m->size > most)
        m->n /= 2;
    m->letter = letters[below(g, 3)];
    if (m->letter == 'b' && m->size < class_bytes)
        m->letter = 'u';
    if (m->letter == 'b' && m->size >= 4 && one_in(g, 2))
        m->letter = 'f';
    m->how = below(g, 4);
    m->off = m->region == RK_SLOT
                 ? below(g, RK_LOCAL_BYTES / (m->n * m->size)) * m->n * m->size
             : m->region == RK_COL4 ? below(g, 4)
                                    : below(g, 2);
    for (unsigned i = 0; i < 4; i++) /* of a vector, all different */
        s->regs[i] = (uint8_t)((i ? s->regs[0] + i : below(g, rk_n_regs[s->class])) %
                               rk_n_regs[s->class]);
    maybe_guard(g, s, 6);
}

static void
make_gather(struct making *g, struct rk_stmt *s)
{
    s->mode = below(g, 4);
    s->class = RK_W;
    s->regs[0] = (uint8_t)below(g, rk_n_regs[RK_W]);
    s->src[0] = reg_of(g, RK_W);
    maybe_guard(g, s, 6);
}

static void
make_atom(struct making *g, struct rk_stmt *s)
{
    s->mem.space = one_in(g, 2) ? RK_SHARED : RK_GLOBAL;
    s->mem.region = one_in(g, 3) ? RK_COL8 : RK_COL4;
    s->mem.off = below(g, 2);
    s->mem.size = s->mem.region == RK_COL8 ? 8 : 4;
    s->mem.n = 1;
    s->mem.how = below(g, 4);
    s->class = s->mem.size == 8 ? RK_D : RK_W;
    s->mode = below(g, s->class == RK_D ? 10 : 13);
    if (s->mode == 12 && s->mem.how == 2) /* rounds otherwise from space to space */
        s->mem.how = 0;
    s->regs[0] = (uint8_t)below(g, rk_n_regs[s->class]);
    s->src[0] = reg_of(g, s->class);
    s->src[1] = reg_of(g, s->class);
    maybe_guard(g, s, 6);
}

static void
make_red(struct making *g, struct rk_stmt *s)
{
    s->n = below(g, RK_CELLS);
    s->mode = one_in(g, 2);
    s->src[0] = reg_of(g, rk_cells[s->n].bits == 64 ? RK_D : RK_W);
    maybe_guard(g, s, 4);
}

static void
make_warp(struct making *g, struct rk_stmt *s)
{
    s->mode = below(g, RK_N_WARP);
    if (!g->whole && s->mode >= RK_SHFL_UP && s->mode <= RK_SHFL_IDX)
        s->mode = RK_SHFL_BFLY;
    s->n = below(g, s->mode == RK_REDUX ? 9 : 32);
    s->segment = one_in(g, 2) ? 0 : 32u - (1u << below(g, 6));
    s->class = s->mode >= RK_VOTE_ALL && s->mode <= RK_VOTE_UNI ? RK_P : RK_W;
    s->regs[0] = (uint8_t)below(g, rk_n_regs[s->class]);
    s->regs[1] = (uint8_t)below(g, rk_n_regs[RK_P]);
    s->src[0] = reg_of(g, s->mode >= RK_VOTE_ALL && s->mode <= RK_BALLOT ? RK_P
                          : s->mode == RK_MATCH_ANY_64                   ? RK_D
                                                                         : RK_W);
}

static void
make_exchange(struct making *g, struct rk_stmt *s)
{
    s->kind = one_in(g, 3) ? RK_BAR_RED : RK_EXCHANGE;
    s->mode = below(g, 3);
    s->n = below(g, g->k->block);
    s->class = s->kind == RK_BAR_RED && s->mode ? RK_P : RK_W;
    s->regs[0] = (uint8_t)below(g, rk_n_regs[s->class]);
    s->src[0] = reg_of(g, s->kind == RK_BAR_RED ? RK_P : RK_W);
}

static void fill(struct making *g, struct rk_list *list, unsigned n);

/* What is inside: not all threads are, unless @same. */
static void
fill_inside(struct making *g, struct rk_list *list, unsigned n, bool same)
{
    struct making outside = *g;

    g->depth++;
    g->uniform &= same;
    g->whole &= same;
    fill(g, list, 1 + below(g, n));
    g->depth = outside.depth;
    g->uniform = outside.uniform;
    g->whole = outside.whole;
}

static void
make_if(struct making *g, struct rk_stmt *s)
{
    s->guard = (int)below(g, rk_n_regs[RK_P]);
    s->guard_not = one_in(g, 2);
    fill_inside(g, &s->sub[0], 6, false);
    if (one_in(g, 2))
        fill_inside(g, &s->sub[1], 6, false);
}

static void
make_loop(struct making *g, struct rk_stmt *s)
{
    bool same = one_in(g, 3);

    s->src[0] = reg_of(g, RK_W);
    s->n = same ? 1 + below(g, 4) : 0;
    g->loops++;
    fill_inside(g, &s->sub[0], 6, same);
    g->loops--;
}

static void
make_switch(struct making *g, struct rk_stmt *s)
{
    s->src[0] = reg_of(g, RK_W);
    for (unsigned i = 0; i < RK_MAX_WAYS; i++)
        fill_inside(g, &s->sub[i], 3, false);
}

static void
make_call(struct making *g, struct rk_stmt *s)
{
    s->n = below(g, RK_FUNCTIONS);
    s->class = RK_D;
    s->regs[0] = (uint8_t)below(g, rk_n_regs[RK_D]);
    s->src[0] = reg_of(g, RK_W);
    s->src[1] = reg_of(g, RK_D);
}

/* Kinds by weight; those that cannot be here become arithmetic. */
static enum rk_kind
choose(struct making *g)
{
    unsigned r = below(g, 100);

    if (r < 50)
        return RK_ALU;
    if (r < 58)
        return g->function ? RK_ALU : RK_LOAD;
    if (r < 66)
        return g->function ? RK_ALU : RK_STORE;
    if (r < 69)
        return RK_GATHER;
    if (r < 73)
        return g->function ? RK_ALU : RK_ATOM;
    if (r < 75)
        return g->function ? RK_ALU : RK_RED;
    if (r < 82)
        return g->function ? RK_ALU : RK_WARP;
    if (r < 85)
        return g->uniform && !g->function ? RK_EXCHANGE : RK_ALU;
    if (r < 91)
        return g->depth < 3 ? RK_IF : RK_ALU;
    if (r < 95)
        return g->loops < 2 && g->depth < 3 ? RK_LOOP : RK_ALU;
    if (r < 97)
        return g->depth < 2 ? RK_SWITCH : RK_ALU;
    if (r < 99)
        return g->function ? RK_ALU : RK_CALL;
    return g->depth == 0 && !g->function && one_in(g, 3) ? RK_RET : RK_ALU;
}

static void
make(struct making *g, struct rk_stmt *s)
{
    s->kind = choose(g);
    s->guard = -1;
    switch (s->kind) {
    case RK_LOAD:
    case RK_STORE:
        make_access(g, s);
        break;
    case RK_GATHER:
        make_gather(g, s);
        break;
    case RK_ATOM:
        make_atom(g, s);
        break;
    case RK_RED:
        make_red(g, s);
        break;
    case RK_WARP:
        make_warp(g, s);
        break;
    case RK_EXCHANGE:
        make_exchange(g, s);
        break;
    case RK_IF:
        make_if(g, s);
        break;
    case RK_LOOP:
        make_loop(g, s);
        break;
    case RK_SWITCH:
        make_switch(g, s);
        break;
    case RK_CALL:
        make_call(g, s);
        break;
    case RK_RET:
        s->guard = (int)below(g, rk_n_regs[RK_P]);
        g->whole = false;
        break;
    default:
        make_alu(g, s);
    }
}

static void
fill(struct making *g, struct rk_list *list, unsigned n)
{
    list->v = calloc(n, sizeof(*list->v));
    if (!list->v)
        abort();
    for (; list->n < n && g->left; list->n++) {
        g->left--;
        make(g, &list->v[list->n]);
    }
}

struct rk_kernel *
rk_kernel_new(uint64_t seed)
{
    static const unsigned blocks[] = {32, 64, 32, 96, 1, 7, 33, 50, 128};
    struct rk_kernel *k = calloc(1, sizeof(*k));
    struct making g = {.state = seed * 7919 + 17, .k = k, .left = 120};

    if (!k)
        abort();
    rk_ops_init();
    k->seed = seed;
    k->block = blocks[below(&g, 9)];
    k->grid = 1 + below(&g, 3);
    k->param_word = (uint32_t)interesting(&g.state);
    k->param_long = interesting(&g.state);
    for (unsigned i = 0; i < RK_TABLE; i++)
        k->table[i] = (uint32_t)interesting(&g.state);
    g.function = true;
    for (unsigned i = 0; i < RK_FUNCTIONS; i++)
        fill(&g, &k->functions[i], 1 + below(&g, 8));
    g.function = false;
    g.uniform = true;
    g.whole = k->block % 32 == 0;
    g.left = 10 + below(&g, 80);
    fill(&g, &k->body, 50);
    return k;
}

/* What ptxas 13.0 does otherwise than the ISA says, in a kernel around it or always;
 * one form in one kernel, which is what the probe asks for (rk_probe.h), has no
 * difference but for the first.
 *
 * testp, set to f32 and set of 16-bit sources become several machine instructions, of
 * which only the first is guarded, by a guard of the text or by a branch that becomes
 * one: where the guard fails, testp writes its predicate all the same, set.f32 converts
 * the old value of its destination to a float, and set of 16-bit sources keeps 16 bits
 * of it.  A minimum of a register with itself is a move, with the NaN that is in it.
 * neg.s16 and abs.s16 of the least number leave 32768 to what reads 32 bits.  Shifts of
 * 64 and 16 bits by more than that leave their operand as it is. */
static bool
differs_on_card(const struct rk_stmt *s)
{
    const struct rk_op *op = s->op;
    bool same = !s->src[0].constant && !s->src[1].constant &&
                s->src[0].class == s->src[1].class && s->src[0].reg == s->src[1].reg;

    if (begins(op, "testp") || begins(op, "neg.s16") || begins(op, "abs.s16"))
        return true;
    if (begins(op, "set."))
        return strstr(op->name, ".f32.") || strchr(op->sig + 1, 'H');
    if (begins(op, "shl") || begins(op, "shr"))
        return op->bits != 32;
    return (begins(op, "min") || begins(op, "max")) && op->is_float && same;
}

static void
turn_off(struct rk_list *list)
{
    for (unsigned i = 0; i < list->n; i++) {
        struct rk_stmt *s = &list->v[i];
        if (s->kind == RK_ALU && differs_on_card(s))
            s->off = true;
        for (unsigned w = 0; w < RK_MAX_WAYS; w++)
            turn_off(&s->sub[w]);
    }
}

void
rk_kernel_for_card(struct rk_kernel *k)
{
    turn_off(&k->body);
    for (unsigned i = 0; i < RK_FUNCTIONS; i++)
        turn_off(&k->functions[i]);
}

void
rk_memory_fill(const struct rk_kernel *k, struct rk_memory *m)
{
    unsigned threads = k->grid * k->block;
    uint64_t state = k->seed ^ 0x5bd1e995;

    m->n_in = (size_t)threads * RK_IN_WORDS;
    m->n_own = (size_t)threads * RK_OWN_BYTES;
    m->n_out = (size_t)threads * RK_OUT_WORDS;
    for (size_t i = 0; i < m->n_in; i++)
        m->in[i] = interesting(&state);
    for (size_t i = 0; i < RK_TABLE; i++)
        m->table[i] = interesting(&state);
    for (size_t i = 0; i < m->n_own; i++)
        m->own[i] = (uint8_t)next(&state);
    memset(m->out, 0, m->n_out * sizeof(*m->out));
    for (size_t i = 0; i < RK_CELLS; i++)
        m->cells[i] = rk_cells[i].start;
}
