/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes.  The first decides, without touching the inputs, which object
 * each name of each module means in the end; all that can fail is here.  The
 * second rewrites the inputs' pointers and word numbers, which cannot fail.
 */
#include "ptx_link.h"

#include "ptx_parse.h"

#include <string.h>

/* How much a definition insists.  A higher one replaces a lower one. */
enum rank { RANK_DECLARED, RANK_COMMON, RANK_WEAK, RANK_STRONG };

/* What module-level objects of one input become, by their id. */
struct input {
    struct ptx_module *mod;
    const struct ptx_var **vars;
    const struct ptx_func **funcs;
    uint16_t *words; /* numbers from PTX_W_COUNT upwards */
};

struct linker {
    struct ptx_module *out;
    struct ptx_arena *arena; /* out's */
    struct ptx_names *names; /* out's; name->bind is the winner so far */
    struct input *in;
    uint32_t n;
    struct gp_err *err;
};

static int
no_memory(struct linker *ln)
{
    return gp_err_set(ln->err, -ENOMEM, "no memory to link %u modules", ln->n);
}

/* ---- first pass: who wins ---- */

static enum rank
rank_of(unsigned linkage, bool defined)
{
    if (!defined || linkage == PTX_LINK_EXTERN)
        return RANK_DECLARED;
    if (linkage == PTX_LINK_WEAK)
        return RANK_WEAK;
    return linkage == PTX_LINK_COMMON ? RANK_COMMON : RANK_STRONG;
}

static enum rank
binding_rank(const struct ptx_binding *b)
{
    if (b->kind == PTX_BIND_VAR)
        return rank_of(b->var->linkage, true);
    return rank_of(b->func->linkage, b->func->has_body || b->func->alias);
}

/* May two objects of one name be the same thing? */
static bool
compatible(const struct ptx_binding *a, const struct ptx_binding *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == PTX_BIND_FUNC)
        return a->func->is_entry == b->func->is_entry &&
               a->func->n_params == b->func->n_params;
    if (a->var->space != b->var->space)
        return false;
    return a->var->size == b->var->size || !a->var->size || !b->var->size ||
           a->var->linkage == PTX_LINK_COMMON || b->var->linkage == PTX_LINK_COMMON;
}

static bool
replaces(const struct ptx_binding *cand, const struct ptx_binding *old)
{
    enum rank a = binding_rank(cand), b = binding_rank(old);

    if (a == b && a == RANK_COMMON)
        return cand->var->size > old->var->size;
    return a > b;
}

/* @cand is not local: it meets the others of its name. */
static int
meet(struct linker *ln, uint32_t unit, struct ptx_name *name,
     const struct ptx_binding *cand)
{
    struct ptx_binding *old = name->bind;

    if (old && !compatible(cand, old))
        return gp_err_set(ln->err, -EINVAL,
                          "'%s' of input %u is declared differently in another input",
                          name->sym.name, unit);
    if (old && binding_rank(old) == RANK_STRONG && binding_rank(cand) == RANK_STRONG)
        return gp_err_set(ln->err, -EEXIST, "'%s' of input %u is already defined",
                          name->sym.name, unit);
    if (!old) {
        old = ptx_arena_alloc(ln->arena, sizeof(*old));
        if (!old)
            return no_memory(ln);
        *old = *cand;
        old->name = name;
        name->bind = old;
    } else if (replaces(cand, old)) {
        old->kind = cand->kind;
        old->var = cand->var;
    }
    return 0;
}

static struct ptx_name *
intern(struct linker *ln, const struct ptx_sym *sym)
{
    return ptx_names_intern(ln->names, sym->name, sym->len);
}

/* Every name of one input; locals only so that the name exists. */
static int
collect(struct linker *ln, uint32_t unit)
{
    const struct ptx_module *mod = ln->in[unit].mod;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < mod->n_vars; i++) {
        struct ptx_binding cand = {.kind = PTX_BIND_VAR,
                                   .var = (struct ptx_var *)(uintptr_t)mod->vars[i]};
        struct ptx_name *name = intern(ln, mod->vars[i]->name);

        if (!name)
            return no_memory(ln);
        if (cand.var->linkage != PTX_LINK_LOCAL)
            r = meet(ln, unit, name, &cand);
    }
    for (uint32_t i = 0; r == 0 && i < mod->n_funcs; i++) {
        struct ptx_binding cand = {.kind = PTX_BIND_FUNC,
                                   .func = (struct ptx_func *)(uintptr_t)mod->funcs[i]};
        struct ptx_name *name = intern(ln, mod->funcs[i]->name);

        if (!name)
            return no_memory(ln);
        if (cand.func->linkage != PTX_LINK_LOCAL)
            r = meet(ln, unit, name, &cand);
    }
    return r;
}

/* Functions that the executor itself provides. */
static bool
is_runtime(const char *name)
{
    static const char *const names[] = {
        "vprintf",      "malloc",           "free",
        "__assertfail", "__softgpu_launch", "cudaGraphSetConditional"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static int
undefined(struct linker *ln, uint32_t unit, const struct ptx_sym *sym)
{
    return gp_err_set(ln->err, -ENOENT, "'%s', which input %u needs, is not defined",
                      sym->name, unit);
}

/* What each object of an input becomes. */
static int
decide_vars(struct linker *ln, uint32_t unit)
{
    struct input *in = &ln->in[unit];

    in->vars = ptx_arena_alloc(ln->arena, in->mod->n_vars * sizeof(*in->vars));
    if (!in->vars)
        return no_memory(ln);
    for (uint32_t i = 0; i < in->mod->n_vars; i++) {
        const struct ptx_var *var = in->mod->vars[i];

        if (var->linkage != PTX_LINK_LOCAL)
            var = intern(ln, var->name)->bind->var;
        /* .extern .shared x[]: the launch gives it its memory */
        if (var->linkage == PTX_LINK_EXTERN && var->space != PTX_SPACE_SHARED)
            return undefined(ln, unit, var->name);
        in->vars[i] = var;
    }
    return 0;
}

static int
decide_funcs(struct linker *ln, uint32_t unit)
{
    struct input *in = &ln->in[unit];

    in->funcs = ptx_arena_alloc(ln->arena, in->mod->n_funcs * sizeof(*in->funcs));
    if (!in->funcs)
        return no_memory(ln);
    for (uint32_t i = 0; i < in->mod->n_funcs; i++) {
        const struct ptx_func *func = in->mod->funcs[i];

        if (func->linkage != PTX_LINK_LOCAL)
            func = intern(ln, func->name)->bind->func;
        if (!func->has_body && !func->alias && !is_runtime(func->name->name))
            return undefined(ln, unit, func->name);
        in->funcs[i] = func;
    }
    return 0;
}

/* The input's own words get numbers in the output. */
static int
decide_words(struct linker *ln, struct input *in)
{
    const struct ptx_vec *words = &in->mod->priv->names.words;
    const struct ptx_name *const *list = words->data;

    in->words = ptx_arena_alloc(ln->arena, (words->n + 1) * sizeof(*in->words));
    if (!in->words)
        return no_memory(ln);
    for (uint32_t i = 0; i < words->n; i++) {
        struct ptx_name *name = intern(ln, &list[i]->sym);

        in->words[i] = name ? (uint16_t)ptx_names_word(ln->names, name) : 0;
        if (!in->words[i])
            return gp_err_set(ln->err, -E2BIG, "more than %d unknown words together",
                              PTX_MAX_WORDS);
    }
    return 0;
}

static int
check_headers(struct linker *ln)
{
    struct ptx_module *out = ln->out;

    *out = (struct ptx_module){.priv = out->priv,
                               .address_size = ln->in[0].mod->address_size};
    for (uint32_t i = 0; i < ln->n; i++) {
        const struct ptx_module *mod = ln->in[i].mod;

        if (mod->address_size != out->address_size)
            return gp_err_set(ln->err, -EINVAL,
                              "input %u has %u-bit addresses, others %u", i,
                              mod->address_size, out->address_size);
        if (mod->version_major > out->version_major ||
            (mod->version_major == out->version_major &&
             mod->version_minor > out->version_minor)) {
            out->version_major = mod->version_major;
            out->version_minor = mod->version_minor;
        }
        out->sm = gp_max(out->sm, mod->sm);
        out->target_flags |= mod->target_flags;
    }
    return 0;
}

/* ---- second pass: rewrite ---- */

static void patch_opds(const struct input *in, const struct ptx_opd *opds, uint32_t n);

static void
patch_opd(const struct input *in, struct ptx_opd *opd)
{
    unsigned what = opd->kind == PTX_OPD_ADDR ? opd->base : opd->kind;

    switch (what) {
    case PTX_OPD_VAR:
        if (!opd->var->func)
            opd->var = in->vars[opd->var->id];
        break;
    case PTX_OPD_FUNC:
        opd->func = in->funcs[opd->func->id];
        break;
    case PTX_OPD_VEC:
    case PTX_OPD_PAIR:
    case PTX_OPD_LIST:
    case PTX_OPD_TEXADDR:
        patch_opds(in, opd->sub, opd->n); /* as deep as PTX_MAX_NEST */
        break;
    default:
        break;
    }
}

static void
patch_opds(const struct input *in, const struct ptx_opd *opds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        patch_opd(in, (struct ptx_opd *)(uintptr_t)&opds[i]);
}

static void
patch_word(const struct input *in, uint16_t *word)
{
    if (*word >= PTX_W_COUNT)
        *word = in->words[*word - PTX_W_COUNT];
}

static void
patch_insn(const struct input *in, struct ptx_insn *insn)
{
    patch_word(in, &insn->op);
    for (unsigned m = 0; m < insn->n_mods; m++)
        patch_word(in, (uint16_t *)(uintptr_t)&insn->mods[m]);
    patch_opds(in, insn->opds, insn->n_opds);
}

static void
patch_var(const struct input *in, const struct ptx_var *var)
{
    struct ptx_reloc *relocs = (struct ptx_reloc *)(uintptr_t)var->relocs;

    for (uint32_t i = 0; i < var->n_relocs; i++) {
        if (relocs[i].kind == PTX_RELOC_FUNC)
            relocs[i].func = in->funcs[relocs[i].func->id];
        else if (!relocs[i].var->func)
            relocs[i].var = in->vars[relocs[i].var->id];
    }
}

static void
patch_label(const struct input *in, const struct ptx_label *label)
{
    const struct ptx_func **funcs = (const struct ptx_func **)(uintptr_t)label->funcs;

    if (label->kind != PTX_LABEL_CALLS)
        return;
    for (uint32_t i = 0; i < label->n; i++)
        funcs[i] = in->funcs[funcs[i]->id];
}

static void
patch_func(const struct input *in, struct ptx_func *func)
{
    for (uint32_t i = 0; i < func->n_insns; i++)
        patch_insn(in, (struct ptx_insn *)(uintptr_t)&func->insns[i]);
    for (uint32_t i = 0; i < func->n_vars; i++)
        patch_var(in, func->vars[i]);
    for (uint32_t i = 0; i < func->n_labels; i++)
        patch_label(in, func->labels[i]);
    if (func->alias)
        func->alias = in->funcs[func->alias->id];
}

static void
patch_input(const struct input *in)
{
    for (uint32_t i = 0; i < in->mod->n_vars; i++)
        patch_var(in, in->mod->vars[i]);
    for (uint32_t i = 0; i < in->mod->n_funcs; i++)
        patch_func(in, (struct ptx_func *)(uintptr_t)in->mod->funcs[i]);
}

/* The survivors of one input join the output's lists; @vars and @funcs have
 * room for all. */
static void
join(struct linker *ln, const struct input *in, const struct ptx_var **vars,
     const struct ptx_func **funcs)
{
    struct ptx_module *out = ln->out;

    for (uint32_t i = 0; i < in->mod->n_vars; i++) {
        struct ptx_var *var = (struct ptx_var *)(uintptr_t)in->mod->vars[i];

        if (in->vars[i] != var)
            continue;
        var->name = &intern(ln, var->name)->sym;
        vars[out->n_vars++] = var;
    }
    for (uint32_t i = 0; i < in->mod->n_funcs; i++) {
        struct ptx_func *func = (struct ptx_func *)(uintptr_t)in->mod->funcs[i];

        if (in->funcs[i] != func)
            continue;
        func->name = &intern(ln, func->name)->sym;
        funcs[out->n_funcs++] = func;
    }
}

static void
renumber(const struct ptx_module *mod)
{
    for (uint32_t i = 0; i < mod->n_vars; i++)
        ((struct ptx_var *)(uintptr_t)mod->vars[i])->id = i;
    for (uint32_t i = 0; i < mod->n_funcs; i++)
        ((struct ptx_func *)(uintptr_t)mod->funcs[i])->id = i;
}

/* ---- together ---- */

static int
decide(struct linker *ln)
{
    int r = check_headers(ln);

    for (uint32_t i = 0; r == 0 && i < ln->n; i++)
        r = collect(ln, i);
    for (uint32_t i = 0; r == 0 && i < ln->n; i++) {
        r = decide_vars(ln, i);
        if (r == 0)
            r = decide_funcs(ln, i);
        if (r == 0)
            r = decide_words(ln, &ln->in[i]);
    }
    return r;
}

static int
link_all(struct linker *ln, struct ptx_module **mods)
{
    uint64_t n_vars = 0, n_funcs = 0;
    const struct ptx_func **funcs;
    const struct ptx_var **vars;

    for (uint32_t i = 0; i < ln->n; i++) {
        n_vars += mods[i]->n_vars;
        n_funcs += mods[i]->n_funcs;
    }
    vars = ptx_arena_alloc(ln->arena, (n_vars + 1) * sizeof(*vars));
    funcs = ptx_arena_alloc(ln->arena, (n_funcs + 1) * sizeof(*funcs));
    ln->out->priv->parts = calloc(ln->n, sizeof(mods[0]));
    if (!vars || !funcs || !ln->out->priv->parts)
        return no_memory(ln);
    ln->out->vars = vars;
    ln->out->funcs = funcs;
    for (uint32_t i = 0; i < ln->n; i++)
        patch_input(&ln->in[i]);
    for (uint32_t i = 0; i < ln->n; i++)
        join(ln, &ln->in[i], vars, funcs);
    renumber(ln->out);
    for (uint32_t i = 0; i < ln->n; i++)
        ln->out->priv->parts[i] = TAKE_PTR(mods[i]);
    ln->out->priv->n_parts = ln->n;
    return 0;
}

int
ptx_link(struct ptx_module **mods, uint32_t n, struct ptx_module **ret,
         struct gp_err *err)
{
    CLEANUP(ptx_module_freep) struct ptx_module *out = NULL;
    CLEANUP_FREE struct input *inputs = NULL;
    struct linker ln = {.n = n, .err = err};
    int r;

    if (n == 0 || n > PTX_LINK_MAX_INPUTS)
        return gp_err_set(err, -EINVAL, "%u modules to link, 1 to %d are possible", n,
                          PTX_LINK_MAX_INPUTS);
    out = ptx_module_new();
    inputs = calloc(n, sizeof(*inputs));
    if (!out || !inputs)
        return no_memory(&ln);
    ln.out = out;
    ln.arena = &out->priv->arena;
    ln.names = &out->priv->names;
    ln.in = inputs;
    for (uint32_t i = 0; i < n; i++)
        inputs[i].mod = mods[i];
    r = decide(&ln);
    if (r == 0)
        r = link_all(&ln, mods);
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}
