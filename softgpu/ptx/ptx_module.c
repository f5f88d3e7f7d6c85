/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a finished module.
 */
#include "ptx_parse.h"

#include <string.h>

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

int
ptx_func_param(const struct ptx_func *func, uint32_t index, struct ptx_param_info *ret)
{
    const struct ptx_var *var;

    if (index >= func->n_params)
        return -EINVAL;
    var = func->params[index];
    *ret = (struct ptx_param_info){.offset = (uint32_t)var->offset,
                                   .size = (uint32_t)var->size, .align = var->align};
    return 0;
}
