/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initialisers: numbers to bytes, addresses to relocations.
 *
 * Nested braces follow the array dimensions (and one more level for vector
 * elements); a position counts scalars.  Bytes are only written up to the last
 * one given, so `int x[1 << 30] = {1}` costs four.
 */
#include "ptx_parse.h"

#include <string.h>

struct init {
    struct ptx_var *var;
    unsigned scalar;                 /* bytes of one scalar */
    uint64_t at;                     /* index of the next scalar */
    uint64_t limit;                  /* number of scalars; UINT64_MAX: x[] */
    unsigned levels;                 /* of braces that make sense */
    uint64_t span[PTX_MAX_DIMS + 2]; /* scalars in one element of a level */
};

static void
init_begin(struct ptx_var *var, struct init *in)
{
    uint64_t span = 1;

    *in = (struct init){.var = var, .scalar = ptx_type_size(var->type)};
    in->levels = var->n_dims + (var->vec > 1);
    in->span[in->levels] = 1;
    if (var->vec > 1) {
        span = var->vec;
        in->span[in->levels - 1] = span;
    }
    for (unsigned d = var->n_dims; d > 0; d--) {
        span *= var->dims[d - 1]; /* bounded by PTX_MAX_VAR_BYTES */
        in->span[d - 1] = span;
    }
    in->limit = var->n_dims && var->dims[0] == 0 ? UINT64_MAX : span;
}

/* Room for the scalar at in->at; *ret is where its bytes go. */
static int
reserve(struct ptx_parser *p, struct init *in, uint8_t **ret)
{
    struct ptx_vec *bytes = &p->bytes;
    uint64_t need;

    if (in->at >= in->limit)
        return ptx_fail(p, "too many values for '%.*s'",
                        gp_min((int)in->var->name->len, 200), in->var->name->name);
    need = (in->at + 1) * in->scalar;
    if (need > p->init_cap - p->init_bytes)
        return ptx_too_big(p, "initialisers larger than %llu bytes in this module",
                           (unsigned long long)p->init_cap);
    if (need > bytes->cap) {
        uint64_t cap =
            gp_max(need, gp_min((uint64_t)bytes->cap * 2, PTX_MAX_INIT_BYTES));
        void *data = realloc(bytes->data, cap);

        if (!data)
            return ptx_no_memory(p);
        bytes->data = data;
        bytes->cap = (uint32_t)cap;
    }
    if (need > bytes->n) {
        memset((uint8_t *)bytes->data + bytes->n, 0, need - bytes->n);
        bytes->n = (uint32_t)need;
    }
    *ret = (uint8_t *)bytes->data + need - in->scalar;
    in->at++;
    return 0;
}

static bool
is_f64(unsigned type)
{
    return type == PTX_W_f64;
}

static double
val_double(const struct ptx_val *v)
{
    uint32_t low = (uint32_t)v->bits;
    double d;
    float f;

    if (v->kind == PTX_OPD_INT)
        return v->is_unsigned ? (double)v->bits : (double)(int64_t)v->bits;
    if (v->kind == PTX_OPD_F64) {
        memcpy(&d, &v->bits, sizeof(d));
        return d;
    }
    memcpy(&f, &low, sizeof(f));
    return (double)f;
}

/* The bits that a constant has as a scalar of the variable's type. */
static int
val_bits(struct ptx_parser *p, unsigned type, const struct ptx_val *v, uint64_t *ret)
{
    double d = val_double(v);
    float f = (float)d;
    uint32_t low;

    if (is_f64(type)) {
        memcpy(ret, &d, sizeof(*ret));
    } else if (type == PTX_W_f32) {
        memcpy(&low, &f, sizeof(low));
        /* through a double a signalling NaN would turn quiet */
        *ret = v->kind == PTX_OPD_F32 ? v->bits : low;
    } else if (v->kind == PTX_OPD_INT || type == PTX_W_b64 ||
               (type == PTX_W_b32 && v->kind == PTX_OPD_F32)) {
        *ret = v->bits;
    } else {
        return ptx_fail(p, "a floating-point value for a variable of type .%s",
                        ptx_names_word_text(type));
    }
    return 0;
}

static int
store_value(struct ptx_parser *p, struct init *in, const struct ptx_val *v)
{
    uint64_t bits = 0;
    uint8_t *to = NULL;
    int r;

    r = val_bits(p, in->var->type, v, &bits);
    if (r == 0)
        r = reserve(p, in, &to);
    if (r < 0)
        return r;
    /* little-endian like the card; wider scalars (.b128) are zero-extended */
    for (unsigned i = 0; i < in->scalar && i < 8; i++)
        to[i] = (uint8_t)(bits >> 8 * i);
    return 0;
}

/* 0xff00: which byte of an address is stored.  *shift in bytes. */
static bool
mask_bytes(uint64_t mask, unsigned size, uint8_t *shift)
{
    uint64_t ones = size >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1;

    for (unsigned i = 0; i + size <= 8; i++) {
        if (mask == ones << 8 * i) {
            *shift = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* `name`, `generic(name)`, `name + 4`, `generic(name + 4)`. */
static int
parse_address(struct ptx_parser *p, struct ptx_reloc *rel)
{
    struct ptx_binding *b;
    int64_t more;
    int r;

    if (p->lex.tok == PTX_TOK_NAME && strcmp(p->lex.name->sym.name, "generic") == 0 &&
        !rel->generic) {
        ptx_lex_next(&p->lex);
        rel->generic = true;
        r = ptx_expect(p, '(');
        if (r == 0)
            r = parse_address(p, rel); /* once: generic is set */
        if (r == 0)
            r = ptx_expect(p, ')');
    } else if (p->lex.tok == PTX_TOK_NAME) {
        r = ptx_scope_lookup(p, p->lex.name, &b);
        if (r == 0 && (!b || (b->kind != PTX_BIND_VAR && b->kind != PTX_BIND_FUNC)))
            return ptx_fail(p, "'%.*s' is not declared",
                            gp_min((int)p->lex.name->sym.len, 200),
                            p->lex.name->sym.name);
        if (r < 0)
            return r;
        rel->kind = b->kind == PTX_BIND_VAR ? PTX_RELOC_VAR : PTX_RELOC_FUNC;
        if (b->kind == PTX_BIND_VAR)
            rel->var = b->var;
        else
            rel->func = b->func;
        ptx_lex_next(&p->lex);
    } else {
        return ptx_expected(p, "a value");
    }
    if (r == 0)
        r = ptx_parse_addend(p, &more);
    if (r == 0)
        rel->addend = (int64_t)((uint64_t)rel->addend + (uint64_t)more);
    return r;
}

static int
store_address(struct ptx_parser *p, struct init *in, const struct ptx_reloc *rel)
{
    struct ptx_reloc *slot;
    uint8_t *to;
    int r = reserve(p, in, &to);

    if (r < 0)
        return r;
    slot = ptx_vec_push(&p->relocs, sizeof(*slot));
    if (!slot)
        return ptx_no_memory(p);
    *slot = *rel;
    slot->offset = (in->at - 1) * in->scalar;
    slot->size = (uint8_t)gp_min(in->scalar, 8u);
    return 0;
}

/* 0xff00(name): behind the mask, at the parenthesis. */
static int
parse_masked(struct ptx_parser *p, struct init *in, uint64_t mask)
{
    struct ptx_reloc rel = {0};
    int r;

    if (!mask_bytes(mask, in->scalar, &rel.shift_bytes))
        return ptx_fail(p, "mask 0x%llx does not select a value of %u bytes",
                        (unsigned long long)mask, in->scalar);
    ptx_lex_next(&p->lex);
    r = parse_address(p, &rel);
    if (r == 0)
        r = ptx_expect(p, ')');
    return r < 0 ? r : store_address(p, in, &rel);
}

static int
parse_scalar(struct ptx_parser *p, struct init *in)
{
    struct ptx_reloc rel = {0};
    struct ptx_val v;
    int r;

    if (!ptx_at_expr(p)) {
        r = parse_address(p, &rel);
        return r < 0 ? r : store_address(p, in, &rel);
    }
    r = ptx_parse_expr(p, PTX_PREC_ALL, &v);
    if (r < 0)
        return r;
    if (p->lex.tok == '(' && v.kind == PTX_OPD_INT)
        return parse_masked(p, in, v.bits);
    return store_value(p, in, &v);
}

/* `{ ... }` with braces inside, without recursion: the stack holds where each
 * open brace's group began. */
static int
parse_braces(struct ptx_parser *p, struct init *in)
{
    uint64_t start[PTX_MAX_DIMS + 2];
    unsigned level = 0;
    int r = 0;

    do {
        if (ptx_accept(p, '{')) {
            if (level == in->levels)
                return ptx_fail(p, "more braces than '%.*s' has dimensions",
                                gp_min((int)in->var->name->len, 200),
                                in->var->name->name);
            start[level++] = in->at;
            if (p->lex.tok != '}')
                continue;
        } else {
            r = parse_scalar(p, in);
        }
        /* behind a value or a group: close what closes */
        while (r == 0 && level && ptx_accept(p, '}')) {
            level--;
            if (level && in->at - start[level] > in->span[level])
                return ptx_fail(p, "too many values in braces");
            in->at = level ? start[level] + in->span[level] : in->at;
        }
        if (r == 0 && level) {
            r = ptx_expect(p, ',');
            if (r == 0 && p->lex.tok == '}')
                r = ptx_expected(p, "a value");
        }
    } while (r == 0 && level);
    return r;
}

static bool
is_opaque(unsigned type)
{
    return type == PTX_W_texref || type == PTX_W_samplerref || type == PTX_W_surfref;
}

/* { name = word-or-number, ... } of a texture, sampler or surface. */
static int
parse_fields(struct ptx_parser *p, struct ptx_var *var)
{
    int r = ptx_expect(p, '{');

    while (r == 0 && p->lex.tok == PTX_TOK_NAME) {
        struct ptx_field *field = ptx_arena_alloc(p->arena, sizeof(*field));
        uint64_t number;

        if (!field)
            return ptx_no_memory(p);
        field->name = &p->lex.name->sym;
        ptx_lex_next(&p->lex);
        r = ptx_expect(p, '=');
        if (r < 0)
            return r;
        if (p->lex.tok == PTX_TOK_NAME) {
            field->word = &p->lex.name->sym;
            ptx_lex_next(&p->lex);
        } else {
            r = ptx_parse_uint(p, PTX_PREC_ALL, INT32_MAX, "a field's value", &number);
            field->number = r == 0 ? (int64_t)number : 0;
        }
        field->next = var->fields;
        var->fields = field;
        if (!ptx_accept(p, ','))
            break;
    }
    return r < 0 ? r : ptx_expect(p, '}');
}

/* Bytes and relocations to the arena; x[] gets its size. */
static int
init_end(struct ptx_parser *p, struct init *in)
{
    struct ptx_var *var = in->var;
    uint64_t row = in->span[1];

    if (in->limit == UINT64_MAX) {
        row = in->levels ? gp_max(row, (uint64_t)1) : 1;
        var->dims[0] = (in->at + row - 1) / row;
        var->size = var->dims[0] * row * in->scalar;
    }
    var->init = ptx_arena_copy(p->arena, p->bytes.data, p->bytes.n);
    var->relocs = ptx_arena_copy(p->arena, p->relocs.data,
                                 p->relocs.n * sizeof(struct ptx_reloc));
    if (!var->init || !var->relocs)
        return ptx_no_memory(p);
    var->init_len = p->bytes.n;
    var->n_relocs = p->relocs.n;
    p->init_bytes += p->bytes.n;
    return 0;
}

int
ptx_parse_init(struct ptx_parser *p, struct ptx_var *var)
{
    struct init in;
    int r;

    if (var->has_init)
        return ptx_fail(p, "second initialiser");
    var->has_init = true;
    if (is_opaque(var->type))
        return parse_fields(p, var);
    init_begin(var, &in);
    p->bytes.n = 0;
    p->relocs.n = 0;
    if (p->lex.tok == '{' && in.levels)
        r = parse_braces(p, &in);
    else if (in.levels)
        r = ptx_expected(p, "'{'");
    else
        r = parse_scalar(p, &in);
    return r < 0 ? r : init_end(p, &in);
}
