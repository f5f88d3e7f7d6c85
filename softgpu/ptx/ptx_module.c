/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begin and end of a module, and questions to a finished one.
 */
#include "ptx_parse.h"

#include "gp_param.h"

#include <string.h>

struct ptx_module *
ptx_module_new(void)
{
    struct ptx_module *mod = calloc(1, sizeof(*mod));

    if (!mod)
        return NULL;
    mod->address_size = 32; /* what PTX says of modules that do not say */
    mod->priv = calloc(1, sizeof(*mod->priv));
    if (!mod->priv || ptx_names_init(&mod->priv->names, &mod->priv->arena) < 0) {
        ptx_module_free(mod);
        return NULL;
    }
    return mod;
}

void
ptx_module_free(struct ptx_module *mod)
{
    if (!mod)
        return;
    if (mod->priv) {
        for (uint32_t i = 0; i < mod->priv->n_parts; i++)
            ptx_module_free(mod->priv->parts[i]);
        free(mod->priv->parts);
        ptx_names_fini(&mod->priv->names);
        ptx_arena_fini(&mod->priv->arena);
        free(mod->priv);
    }
    free(mod);
}

static const struct ptx_binding *
find_binding(const struct ptx_module *mod, const char *text)
{
    const struct ptx_name *name;

    name = ptx_names_find(&mod->priv->names, text, strlen(text));
    return name ? name->bind : NULL;
}

const struct ptx_func *
ptx_module_func(const struct ptx_module *mod, const char *name)
{
    const struct ptx_binding *b = find_binding(mod, name);

    return b && b->kind == PTX_BIND_FUNC ? b->func : NULL;
}

const struct ptx_var *
ptx_module_var(const struct ptx_module *mod, const char *name)
{
    const struct ptx_binding *b = find_binding(mod, name);

    return b && b->kind == PTX_BIND_VAR ? b->var : NULL;
}

const char *
ptx_word_name(const struct ptx_module *mod, unsigned word)
{
    const char *text = ptx_names_word_text(word);
    const struct ptx_vec *words = &mod->priv->names.words;

    if (text)
        return text;
    if (word < PTX_W_COUNT || word - PTX_W_COUNT >= words->n)
        return "?";
    return ((const struct ptx_name **)words->data)[word - PTX_W_COUNT]->sym.name;
}

static const struct {
    const char *name;
    unsigned comps;
} sregs[PTX_SREG_COUNT] = {
#define SREG(id, text, n) [PTX_SREG_##id] = {"%" text, n},
    PTX_SREGS(SREG)
#undef SREG
};

const char *
ptx_sreg_name(unsigned sreg)
{
    return sreg < PTX_SREG_COUNT ? sregs[sreg].name : "?";
}

unsigned
ptx_sreg_comps(unsigned sreg)
{
    return sreg < PTX_SREG_COUNT ? sregs[sreg].comps : 0;
}

bool
ptx_func_source(const struct ptx_func *func, uint32_t line, const char **ret_file,
                uint32_t *ret_line)
{
    uint32_t lo = 0, hi = func->n_locs;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (func->locs[mid].line <= line)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || func->locs[lo - 1].source == 0)
        return false;
    *ret_line = func->locs[lo - 1].source;
    *ret_file = "?";
    for (uint32_t i = 0; i < func->n_files; i++)
        if (func->files[i].number == func->locs[lo - 1].file)
            *ret_file = func->files[i].name;
    return true;
}

static void
place_params(struct ptx_func *func, unsigned sm)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < func->n_params; i++) {
        struct ptx_var *var = (struct ptx_var *)(uintptr_t)func->params[i];

        var->offset = gp_param_offset(at, var->align, sm);
        at = var->offset + var->size;
    }
    func->param_bytes = (uint32_t)at;
}

void
ptx_module_place_params(struct ptx_module *mod, unsigned sm)
{
    for (uint32_t i = 0; i < mod->n_funcs; i++)
        if (mod->funcs[i]->is_entry)
            place_params((struct ptx_func *)(uintptr_t)mod->funcs[i], sm);
}

int
ptx_func_param(const struct ptx_func *func, uint32_t index, struct ptx_param_info *ret)
{
    const struct ptx_var *var;

    if (index >= func->n_params)
        return -EINVAL;
    var = func->params[index];
    *ret = (struct ptx_param_info){.offset = (uint32_t)var->offset,
                                   .size = (uint32_t)var->size,
                                   .align = var->align};
    return 0;
}
