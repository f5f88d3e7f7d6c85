/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering vector loads and stores, and those of 128-bit registers.
 *
 * Up to 16 bytes are one access, which no thread sees in parts; 32 bytes are two.  PTX
 * promises less (the elements in any order), but a card's 8 and 16 aligned bytes are
 * one access, and programs rely on it.  Memory that one thread alone can reach
 * (parameters, local variables) goes element by element.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG
#define MAX_ELEMENTS 8
#define ACCESS_BYTES 16u

struct vector {
    struct lo_addr addr;
    unsigned type, size, n; /* of an element, and how many */
    const struct ptx_opd *elems;
    int32_t v[MAX_ELEMENTS]; /* results, or what is stored */
    bool store;
};

unsigned
lo_vector_count(const struct ptx_insn *insn)
{
    return lo_has(insn, PTX_W_v2)   ? 2
           : lo_has(insn, PTX_W_v4) ? 4
           : lo_has(insn, PTX_W_v8) ? 8
                                    : 1;
}

static bool
is_private(const struct lo_addr *addr)
{
    return addr->param || addr->frame || addr->space == SG_MEM_LOCAL;
}

static bool
is_absent(const struct vector *vec, unsigned i)
{
    return vec->store && vec->elems[i].kind == PTX_OPD_SINK; /* stays as it is */
}

static void
move_elements(struct lower *l, struct vector *vec, unsigned from, unsigned to,
              uint32_t align)
{
    for (unsigned i = from; i < to && !l->failed; i++) {
        struct lo_addr addr = vec->addr;
        addr.imm += (int64_t)i * vec->size;
        if (is_absent(vec, i))
            continue;
        if (vec->store) {
            lo_store(l, &addr, vec->type, vec->v[i], align);
        } else {
            lo_load(l, &addr, vec->type, vec->v[i], align);
            lo_fit_register(l, &vec->elems[i], vec->type, vec->v[i]);
        }
        align = 0;
    }
}

/* Bytes and halves: one load of them all, then each element out of it. */
static void
load_narrow(struct lower *l, const struct vector *vec, unsigned from, unsigned n,
            uint32_t align)
{
    static const unsigned extend[2][2] = {{SG_OP_ZX8, SG_OP_SX8},
                                          {SG_OP_ZX16, SG_OP_SX16}};
    unsigned bytes = vec->size * n;
    unsigned word = bytes == 2 ? PTX_W_b16 : bytes == 4 ? PTX_W_b32 : PTX_W_b64;
    struct lo_addr addr = vec->addr;
    int32_t part[2];

    addr.imm += (int64_t)from * vec->size;
    part[0] = lo_temp(l, bytes == 8 ? SG_D : SG_W);
    lo_load(l, &addr, word, part[0], align);
    part[1] = NONE;
    if (bytes == 8) {
        int32_t whole = part[0];
        part[0] = lo_op(l, SG_OP_LO32, NONE, whole, NONE, NONE);
        part[1] = lo_op(l, SG_OP_HI32, NONE, whole, NONE, NONE);
    }
    for (unsigned i = 0; i < n && !l->failed; i++) {
        unsigned bit = i * vec->size * 8;
        int32_t v = part[bit / 32];
        if (bit % 32)
            v = lo_op(l, SG_OP_SHR_U32, NONE, v, lo_const(l, SG_W, bit % 32), NONE);
        lo_op(l, extend[vec->size == 2][lo_type_signed(vec->type)], vec->v[from + i], v,
              NONE, NONE);
        lo_fit_register(l, &vec->elems[from + i], vec->type, vec->v[from + i]);
    }
}

static void
store_narrow(struct lower *l, const struct vector *vec, unsigned from, unsigned n,
             uint32_t align)
{
    unsigned bytes = vec->size * n;
    unsigned word = bytes == 2 ? PTX_W_b16 : bytes == 4 ? PTX_W_b32 : PTX_W_b64;
    struct lo_addr addr = vec->addr;
    int32_t part[2] = {NONE, NONE};

    for (unsigned i = 0; i < n && !l->failed; i++) {
        unsigned bit = i * vec->size * 8;
        int32_t *to = &part[bit / 32];
        int32_t v = lo_op(l, vec->size == 2 ? SG_OP_ZX16 : SG_OP_ZX8, NONE,
                          vec->v[from + i], NONE, NONE);
        if (bit % 32)
            v = lo_op(l, SG_OP_SHL_W, NONE, v, lo_const(l, SG_W, bit % 32), NONE);
        *to = *to == NONE ? v : lo_op(l, SG_OP_OR_W, NONE, *to, v, NONE);
    }
    if (bytes == 8)
        part[0] = lo_op(l, SG_OP_PACK64, NONE, part[0], part[1], NONE);
    addr.imm += (int64_t)from * vec->size;
    lo_store(l, &addr, word, part[0], align);
}

/* Two or four registers of 32 bits, or two of 64. */
static void
move_list(struct lower *l, const struct vector *vec, unsigned from, unsigned n,
          uint32_t align)
{
    struct lo_addr addr = vec->addr;
    struct sg_ir proto;

    if (!lo_list_init(l, &proto, n))
        return;
    for (unsigned i = 0; i < n; i++)
        proto.list[i] = vec->v[from + i];
    proto.n_list = (uint16_t)n;
    proto.n_list_dst = vec->store ? 0 : (uint16_t)n;
    proto.wide_list = vec->size == 8;
    addr.imm += (int64_t)from * vec->size;
    lo_access_list(l, &addr, vec->store, vec->size * n, &proto, align);
}

static bool
has_absent(const struct vector *vec, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        if (is_absent(vec, i))
            return true;
    return false;
}

static void
move_vector(struct lower *l, struct vector *vec)
{
    unsigned per = gp_min(vec->n, ACCESS_BYTES / vec->size);
    uint32_t align = vec->size * vec->n - 1; /* the first access checks the whole */

    if (vec->n > per && vec->addr.base != NONE && !vec->store)
        vec->addr.base = /* which the first access may overwrite */
            lo_op(l, lo_class(l, vec->addr.base) == SG_D ? SG_OP_MOV_D : SG_OP_MOV_W,
                  NONE, vec->addr.base, NONE, NONE);
    for (unsigned i = 0; i < vec->n && !l->failed; i += per) {
        if (is_private(&vec->addr) || has_absent(vec, i, i + per))
            move_elements(l, vec, i, i + per, align);
        else if (vec->size >= 4)
            move_list(l, vec, i, per, align);
        else if (vec->store)
            store_narrow(l, vec, i, per, align);
        else
            load_narrow(l, vec, i, per, align);
        align = vec->size * per - 1;
    }
}

void
lower_vector(struct lower *l, const struct ptx_insn *insn)
{
    struct vector vec = {.store = insn->op == PTX_W_st,
                         .type = lo_type(insn, 0),
                         .n = lo_vector_count(insn)};
    const struct ptx_opd *o = &insn->opds[vec.store ? 1 : 0];

    vec.size = ptx_type_size(vec.type);
    vec.elems = o->sub;
    if (o->kind != PTX_OPD_VEC || o->n != vec.n) {
        lo_fail(l, -EINVAL, "expected a vector of %u elements", vec.n);
        return;
    }
    if (vec.size == 0 || vec.size > 8) {
        lo_fail(l, -ENOSYS, "a vector of this type is not carried");
        return;
    }
    if (!lo_address(l, &insn->opds[vec.store ? 0 : 1], lo_space(insn),
                    (uint64_t)vec.size * vec.n, &vec.addr))
        return;
    for (unsigned i = 0; i < vec.n; i++)
        vec.v[i] = is_absent(&vec, i) ? NONE
                   : vec.store        ? lo_src(l, &vec.elems[i], vec.type)
                                      : lo_dst(l, &vec.elems[i], vec.type);
    if (is_private(&vec.addr) && !vec.store && vec.addr.base != NONE)
        vec.addr.base = lo_op(l, SG_OP_MOV_D, NONE, vec.addr.base, NONE, NONE);
    move_vector(l, &vec);
}

/* ld and st of a 128-bit register, which is two of 64 bits. */
void
lower_move128(struct lower *l, const struct ptx_insn *insn)
{
    struct vector vec = {
        .store = insn->op == PTX_W_st, .type = PTX_W_b64, .size = 8, .n = 2};
    static const struct ptx_opd none[2]; /* vec.v is there already */

    vec.elems = none;
    if (insn->n_opds < 2 ||
        !lo_halves(l, &insn->opds[vec.store ? 1 : 0], !vec.store, vec.v) ||
        !lo_address(l, &insn->opds[vec.store ? 0 : 1], lo_space(insn), 16, &vec.addr))
        return;
    if (vec.store)
        lo_order_before(l, insn);
    move_vector(l, &vec);
    lo_order(l, insn);
}
