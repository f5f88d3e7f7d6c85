/* SPDX-License-Identifier: Apache-2.0 */
/* Parse a piece of PTX in a test: whole modules, or statements of one kernel. */
#ifndef UT_PTX_H
#define UT_PTX_H

#include "ut.h"

#include "gp_err.h"
#include "ptx_ast.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PTX_HEAD ".version 9.0\n.target sm_86\n.address_size 64\n"

/* The kernel that ut_body() puts its statements in, from line 6 on. */
#define PTX_KERNEL PTX_HEAD ".visible .entry k(.param .u64 p0, .param .u32 n)\n{\n"

static inline struct ptx_module *
ut_parse(const char *text)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};
    int r = ptx_parse(text, strlen(text), &mod, &err);

    if (r < 0)
        print_error("%s\n", err.msg);
    assert_int_equal(r, 0);
    assert_non_null(mod);
    return mod;
}

/* The module must not parse: this code, these words. */
static inline void
ut_refuse(const char *text, int code, const char *words)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};
    int r = ptx_parse(text, strlen(text), &mod, &err);

    assert_null(mod);
    if (!strstr(err.msg, words))
        print_error("got: %s\nwanted: %s\n", err.msg, words);
    assert_non_null(strstr(err.msg, words));
    assert_int_equal(r, code);
}

static inline char *
ut_kernel_text(const char *body)
{
    size_t size = strlen(PTX_KERNEL) + strlen(body) + 3;
    char *text = malloc(size);

    assert_non_null(text);
    snprintf(text, size, "%s%s\n}", PTX_KERNEL, body);
    return text;
}

/* One kernel `k` with these statements. */
static inline struct ptx_module *
ut_body(const char *body)
{
    char *text = ut_kernel_text(body);
    struct ptx_module *mod = ut_parse(text);

    free(text);
    return mod;
}

static inline void
ut_refuse_body(const char *body, int code, const char *words)
{
    char *text = ut_kernel_text(body);

    ut_refuse(text, code, words);
    free(text);
}

static inline const struct ptx_insn *
ut_insn(const struct ptx_module *mod, uint32_t index)
{
    const struct ptx_func *func = ptx_module_func(mod, "k");

    assert_non_null(func);
    assert_in_range(index, 0, func->n_insns - 1);
    return &func->insns[index];
}

static inline const struct ptx_reg *
ut_reg(const struct ptx_module *mod, const struct ptx_opd *opd)
{
    assert_int_equal(opd->kind, PTX_OPD_REG);
    return &ptx_module_func(mod, "k")->regs[opd->reg];
}

#endif
