/* SPDX-License-Identifier: Apache-2.0 */
/* The parser against hostile text: it must answer, within the caps, and free
 * what it made.  What parses is walked, so that every pointer is followed; two
 * modules that parse are linked.  The pool server, which counts variables without the
 * parser, must find no fewer bytes. */
#include "gp_err.h"
#include "image_variables.h"
#include "ptx_ast.h"
#include "ptx_link.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum; /* keeps the walk from being optimised away */

static void
walk_opds(const struct ptx_opd *opds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        switch (opds[i].kind) {
        case PTX_OPD_VEC:
        case PTX_OPD_PAIR:
        case PTX_OPD_LIST:
        case PTX_OPD_TEXADDR:
            walk_opds(opds[i].sub, opds[i].n);
            break;
        case PTX_OPD_VAR:
            sum += opds[i].var->size;
            break;
        case PTX_OPD_FUNC:
            sum += opds[i].func->n_params;
            break;
        case PTX_OPD_LABEL:
            sum += opds[i].label->at;
            break;
        case PTX_OPD_SYM:
            sum += opds[i].sym->len;
            break;
        default:
            sum += opds[i].imm;
        }
    }
}

static void
walk_var(const struct ptx_var *var)
{
    for (uint64_t i = 0; i < var->init_len; i++)
        sum += var->init[i];
    for (uint32_t i = 0; i < var->n_relocs; i++)
        sum += var->relocs[i].kind == PTX_RELOC_VAR ? var->relocs[i].var->size
                                                    : var->relocs[i].func->id;
}

static void
walk_func(const struct ptx_module *mod, const struct ptx_func *func)
{
    struct ptx_param_info info;

    for (uint32_t i = 0; ptx_func_param(func, i, &info) == 0; i++)
        sum += info.offset;
    for (uint32_t i = 0; i < func->n_insns; i++) {
        const struct ptx_insn *insn = &func->insns[i];

        sum += strlen(ptx_word_name(mod, insn->op));
        if (insn->flags & PTX_INSN_GUARD)
            sum += func->regs[insn->guard].type;
        walk_opds(insn->opds, insn->n_opds);
    }
    for (uint32_t i = 0; i < func->n_labels; i++) {
        const struct ptx_label *label = func->labels[i];

        for (uint32_t k = 0; label->kind == PTX_LABEL_BRANCHES && k < label->n; k++)
            sum += label->labels[k]->at;
        for (uint32_t k = 0; label->kind == PTX_LABEL_CALLS && k < label->n; k++)
            sum += label->funcs[k]->id;
    }
    for (uint32_t i = 0; i < func->n_vars; i++)
        walk_var(func->vars[i]);
}

static void
walk(const struct ptx_module *mod)
{
    for (uint32_t i = 0; i < mod->n_vars; i++)
        walk_var(mod->vars[i]);
    for (uint32_t i = 0; i < mod->n_funcs; i++)
        walk_func(mod, mod->funcs[i]);
}

/* The halves around a NUL, as two inputs of a link. */
static void
link_halves(const char *text, size_t size)
{
    size_t first = strnlen(text, size);
    struct ptx_module *mods[2] = {0}, *out = NULL;

    if (first < size && ptx_parse(text, first, &mods[0], NULL) == 0 &&
        ptx_parse(text + first + 1, size - first - 1, &mods[1], NULL) == 0 &&
        ptx_link(mods, 2, &out, NULL) == 0)
        walk(out);
    ptx_module_free(out);
    ptx_module_free(mods[0]);
    ptx_module_free(mods[1]);
}

static uint64_t
bytes_of(const struct ptx_var *const *vars, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++)
        if (vars[i]->space == PTX_SPACE_GLOBAL || vars[i]->space == PTX_SPACE_CONST)
            bytes += vars[i]->size;
    return bytes;
}

static void
check_variables(const struct ptx_module *mod, const char *text, size_t size)
{
    uint64_t bytes = bytes_of(mod->vars, mod->n_vars);

    for (uint32_t i = 0; i < mod->n_funcs; i++)
        bytes += bytes_of(mod->funcs[i]->vars, mod->funcs[i]->n_vars);
    if (image_variables_ptx(text, size, false) < bytes)
        __builtin_trap();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};

    if (ptx_parse((const char *)data, size, &mod, &err) == 0) {
        walk(mod);
        check_variables(mod, (const char *)data, size);
    } else if (!err.msg[0]) {
        __builtin_trap(); /* a refusal without words */
    }
    ptx_module_free(mod);
    link_halves((const char *)data, size);
    return 0;
}
