/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and instances; see sg_exec.h.
 *
 * A program is immutable but for the units of its kernels, which are built under its
 * lock on first need and published by an atomic store.
 */
#include "sg_prog.h"

#include "gp_err.h"
#include "gp_param.h"
#include "ptx_ast.h"
#include "sg_unit.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct global {
    struct sg_global pub;
    const struct ptx_var *var;
};

struct sg_prog {
    const struct ptx_module *mod;
    struct sg_target target;
    struct sg_prog_kernel *kernels;
    uint32_t n_kernels;
    struct global *globals;
    uint32_t n_globals, cap_globals;
    struct sg_texref *texrefs;
    const struct ptx_var **texref_vars;
    uint32_t n_texrefs;
    uint32_t *func_index; /* ptx_func.id -> position in mod->funcs */
    pthread_mutex_t lock;
};

struct sg_inst {
    const struct sg_prog *prog;
    uint64_t *addrs;
    uint64_t *texrefs;
};

pthread_mutex_t *
sg_prog_lock(const struct sg_prog *prog)
{
    return &((struct sg_prog *)(uintptr_t)prog)->lock;
}

const struct ptx_module *
sg_prog_module(const struct sg_prog *prog)
{
    return prog->mod;
}

const struct sg_target *
sg_prog_target(const struct sg_prog *prog)
{
    return &prog->target;
}

uint64_t
sg_prog_param_window(const struct sg_prog *prog)
{
    return SG_WIN_PARAM +
           gp_param_base(prog->target.cc_major * 10 + prog->target.cc_minor);
}

uint32_t
sg_prog_func_index(const struct sg_prog *prog, const struct ptx_func *func)
{
    (void)prog;
    return func->id;
}

/* ------------------------------------------------------------------- symbols */

static int
add_global(struct sg_prog *prog, const struct ptx_var *var)
{
    struct global *g;

    if (prog->n_globals == prog->cap_globals) {
        uint32_t cap = prog->cap_globals ? prog->cap_globals * 2 : 16;
        g = reallocarray(prog->globals, cap, sizeof(*g));
        if (!g)
            return -ENOMEM;
        prog->globals = g;
        prog->cap_globals = cap;
    }
    g = &prog->globals[prog->n_globals++];
    *g = (struct global){
        .var = var,
        .pub =
            {
                .name = var->name ? var->name->name : "",
                .space =
                    var->space == PTX_SPACE_CONST ? SG_SPACE_CONST : SG_SPACE_GLOBAL,
                .size = var->size,
                .align = var->align,
                .managed = var->managed,
                .visible = var->func == NULL,
                .external = var->linkage == PTX_LINK_EXTERN,
                .has_init = var->has_init,
            },
    };
    return 0;
}

static bool
needs_memory(const struct ptx_var *var)
{
    return var->space == PTX_SPACE_GLOBAL || var->space == PTX_SPACE_CONST;
}

static bool
is_reference(const struct ptx_var *var)
{
    return var->space == PTX_SPACE_TEX || var->type == PTX_W_texref ||
           var->type == PTX_W_surfref || var->type == PTX_W_samplerref;
}

static int
collect_globals(struct sg_prog *prog)
{
    const struct ptx_module *mod = prog->mod;
    int r;

    for (uint32_t i = 0; i < mod->n_vars; i++)
        if (needs_memory(mod->vars[i]) && !is_reference(mod->vars[i]) &&
            (r = add_global(prog, mod->vars[i])) < 0)
            return r;
    for (uint32_t f = 0; f < mod->n_funcs; f++)
        for (uint32_t i = 0; i < mod->funcs[f]->n_vars; i++)
            if (needs_memory(mod->funcs[f]->vars[i]) &&
                (r = add_global(prog, mod->funcs[f]->vars[i])) < 0)
                return r;
    return 0;
}

static int
collect_texrefs(struct sg_prog *prog)
{
    const struct ptx_module *mod = prog->mod;

    prog->texrefs = calloc(mod->n_vars + 1u, sizeof(*prog->texrefs));
    prog->texref_vars = calloc(mod->n_vars + 1u, sizeof(*prog->texref_vars));
    if (!prog->texrefs || !prog->texref_vars)
        return -ENOMEM;
    for (uint32_t i = 0; i < mod->n_vars; i++) {
        const struct ptx_var *var = mod->vars[i];
        if (!is_reference(var))
            continue;
        prog->texref_vars[prog->n_texrefs] = var;
        prog->texrefs[prog->n_texrefs].name = var->name->name;
        prog->texrefs[prog->n_texrefs++].kind = var->type == PTX_W_surfref      ? 's'
                                                : var->type == PTX_W_samplerref ? 'r'
                                                                                : 't';
    }
    return 0;
}

static int
kernel_init(struct sg_prog *prog, struct sg_prog_kernel *k, const struct ptx_func *ast,
            struct gp_err *err)
{
    if (ast->param_bytes > prog->target.max_param_bytes)
        return gp_err_set(err, -E2BIG, "kernel %s takes %u bytes of parameters of %u",
                          ast->name->name, ast->param_bytes,
                          prog->target.max_param_bytes);
    k->params = calloc(ast->n_params + 1u, sizeof(*k->params));
    if (!k->params)
        return -ENOMEM;
    for (uint32_t i = 0; i < ast->n_params; i++)
        k->params[i] =
            (struct sg_param){(uint32_t)ast->params[i]->offset,
                              (uint32_t)ast->params[i]->size, ast->params[i]->align};
    k->ast = ast;
    k->pub = (struct sg_kernel){
        .prog = prog,
        .name = ast->name->name,
        .index = (uint32_t)(k - prog->kernels),
        .n_params = ast->n_params,
        .params = k->params,
        .param_bytes = ast->param_bytes,
        .min_ctas_per_sm = ast->minnctapersm,
        .max_regs = ast->maxnreg,
        .max_cluster_rank = ast->maxclusterrank,
        .explicit_cluster = ast->explicit_cluster,
    };
    memcpy(k->pub.maxntid, ast->maxntid, sizeof(k->pub.maxntid));
    memcpy(k->pub.reqcluster, ast->reqnctapercluster, sizeof(k->pub.reqcluster));
    memcpy(k->pub.reqntid, ast->reqntid, sizeof(k->pub.reqntid));
    return 0;
}

static int
collect_kernels(struct sg_prog *prog, struct gp_err *err)
{
    const struct ptx_module *mod = prog->mod;
    int r;

    prog->kernels = calloc(mod->n_funcs + 1u, sizeof(*prog->kernels));
    if (!prog->kernels)
        return -ENOMEM;
    for (uint32_t i = 0; i < mod->n_funcs; i++) {
        if (!mod->funcs[i]->is_entry || !mod->funcs[i]->has_body)
            continue;
        r = kernel_init(prog, &prog->kernels[prog->n_kernels], mod->funcs[i], err);
        if (r < 0)
            return r;
        prog->n_kernels++;
    }
    return 0;
}

int
sg_prog_new(const struct ptx_module *mod, const struct sg_target *target,
            struct sg_prog **ret_prog, struct gp_err *err)
{
    CLEANUP(sg_prog_freep) struct sg_prog *prog = calloc(1, sizeof(*prog));
    int r;

    if (!prog)
        return -ENOMEM;
    pthread_mutex_init(&prog->lock, NULL);
    prog->mod = mod;
    prog->target = *target;
    r = collect_globals(prog);
    if (r == 0)
        r = collect_texrefs(prog);
    if (r == 0)
        r = collect_kernels(prog, err);
    if (r < 0)
        return r;
    *ret_prog = TAKE_PTR(prog);
    return 0;
}

void
sg_prog_free(struct sg_prog *prog)
{
    if (!prog)
        return;
    for (uint32_t i = 0; prog->kernels && i < prog->mod->n_funcs; i++) {
        free(prog->kernels[i].params);
        sg_unit_free(prog->kernels[i].unit);
    }
    free(prog->kernels);
    free(prog->globals);
    free(prog->texrefs);
    free(prog->texref_vars);
    pthread_mutex_destroy(&prog->lock);
    free(prog);
}

uint32_t
sg_prog_n_kernels(const struct sg_prog *prog)
{
    return prog->n_kernels;
}

const struct sg_kernel *
sg_prog_kernel(const struct sg_prog *prog, uint32_t index)
{
    return index < prog->n_kernels ? &prog->kernels[index].pub : NULL;
}

const struct sg_kernel *
sg_prog_find_kernel(const struct sg_prog *prog, const char *name)
{
    for (uint32_t i = 0; i < prog->n_kernels; i++)
        if (strcmp(prog->kernels[i].pub.name, name) == 0)
            return &prog->kernels[i].pub;
    return NULL;
}

uint32_t
sg_prog_n_globals(const struct sg_prog *prog)
{
    return prog->n_globals;
}

const struct sg_global *
sg_prog_global(const struct sg_prog *prog, uint32_t index)
{
    return index < prog->n_globals ? &prog->globals[index].pub : NULL;
}

int
sg_prog_find_global(const struct sg_prog *prog, const char *name)
{
    for (uint32_t i = 0; i < prog->n_globals; i++)
        if (prog->globals[i].pub.visible &&
            strcmp(prog->globals[i].pub.name, name) == 0)
            return (int)i;
    return -ENOENT;
}

int32_t
sg_prog_global_index(const struct sg_prog *prog, const struct ptx_var *var)
{
    for (uint32_t i = 0; i < prog->n_globals; i++)
        if (prog->globals[i].var == var)
            return (int32_t)i;
    return -1;
}

int32_t
sg_prog_texref_index(const struct sg_prog *prog, const struct ptx_var *var)
{
    for (uint32_t i = 0; i < prog->n_texrefs; i++)
        if (prog->texref_vars[i] == var)
            return (int32_t)i;
    return -1;
}

uint32_t
sg_prog_n_texrefs(const struct sg_prog *prog)
{
    return prog->n_texrefs;
}

const struct sg_texref *
sg_prog_texref(const struct sg_prog *prog, uint32_t index)
{
    return index < prog->n_texrefs ? &prog->texrefs[index] : NULL;
}

/* ------------------------------------------------------------------- kernels */

const struct sg_unit *
sg_kernel_unit(const struct sg_kernel *kernel)
{
    const struct sg_prog_kernel *k = (const struct sg_prog_kernel *)kernel;

    return __atomic_load_n(&k->unit, __ATOMIC_ACQUIRE);
}

/* ----------------------------------------------------------------- instances */

int
sg_inst_new(const struct sg_prog *prog, const uint64_t *addrs, uint32_t n_addrs,
            struct sg_inst **ret_inst, struct gp_err *err)
{
    CLEANUP(sg_inst_freep) struct sg_inst *inst = calloc(1, sizeof(*inst));

    if (n_addrs != prog->n_globals)
        return gp_err_set(err, -EINVAL, "%u addresses for %u variables", n_addrs,
                          prog->n_globals);
    if (!inst)
        return -ENOMEM;
    inst->prog = prog;
    inst->addrs = malloc((n_addrs + 1u) * sizeof(*inst->addrs));
    inst->texrefs = calloc(prog->n_texrefs + 1u, sizeof(*inst->texrefs));
    if (!inst->addrs || !inst->texrefs)
        return -ENOMEM;
    if (n_addrs)
        memcpy(inst->addrs, addrs, n_addrs * sizeof(*addrs));
    *ret_inst = TAKE_PTR(inst);
    return 0;
}

void
sg_inst_free(struct sg_inst *inst)
{
    if (!inst)
        return;
    free(inst->addrs);
    free(inst->texrefs);
    free(inst);
}

uint64_t
sg_inst_const(const struct sg_inst *inst, const struct sg_const *c)
{
    switch (c->kind) {
    case SG_CONST_GLOBAL:
        return inst->addrs[c->ref] + c->value;
    case SG_CONST_TEXREF:
        return inst->texrefs[c->ref];
    default:
        return c->value;
    }
}

void
sg_inst_bind_texref(struct sg_inst *inst, uint32_t index, uint64_t handle)
{
    if (index < inst->prog->n_texrefs)
        __atomic_store_n(&inst->texrefs[index], handle, __ATOMIC_RELEASE);
}

const struct sg_kernel *
sg_inst_kernel_at(const struct sg_inst *inst, uint64_t addr)
{
    const struct ptx_module *mod = inst->prog->mod;
    uint64_t id = (addr - SG_WIN_CODE) / 16 - 1;

    if (addr <= SG_WIN_CODE || addr % 16 || id >= mod->n_funcs ||
        !mod->funcs[id]->is_entry)
        return NULL;
    return sg_prog_find_kernel(inst->prog, mod->funcs[id]->name->name);
}

static int
reloc_value(const struct sg_inst *inst, const struct ptx_reloc *rel, uint64_t *ret,
            struct gp_err *err)
{
    int32_t index;

    if (rel->kind == PTX_RELOC_FUNC) {
        *ret = SG_WIN_CODE + 16 * (1 + (uint64_t)rel->func->id);
        return 0;
    }
    index = sg_prog_global_index(inst->prog, rel->var);
    if (index < 0)
        return gp_err_set(err, -ENOENT, "initialiser names %s, which has no address",
                          rel->var->name ? rel->var->name->name : "_");
    *ret = inst->addrs[index];
    return 0;
}

int
sg_inst_init_global(const struct sg_inst *inst, uint32_t index, void *dst,
                    struct gp_err *err)
{
    const struct ptx_var *var;
    uint8_t *bytes = dst;
    int r;

    if (index >= inst->prog->n_globals)
        return -EINVAL;
    var = inst->prog->globals[index].var;
    if (var->init_len > var->size)
        return gp_err_set(err, -EINVAL, "initialiser is longer than the variable");
    memset(bytes, 0, var->size);
    if (var->init_len)
        memcpy(bytes, var->init, var->init_len);
    for (uint32_t i = 0; i < var->n_relocs; i++) {
        const struct ptx_reloc *rel = &var->relocs[i];
        uint64_t v = 0;
        if (rel->offset > var->size || rel->size > var->size - rel->offset ||
            rel->size > 8 || rel->shift_bytes > 7)
            return gp_err_set(err, -EINVAL, "initialiser lies outside the variable");
        r = reloc_value(inst, rel, &v, err);
        if (r < 0)
            return r;
        v = (v + (uint64_t)rel->addend) >> (8 * rel->shift_bytes);
        memcpy(bytes + rel->offset, &v, rel->size);
    }
    return 0;
}
