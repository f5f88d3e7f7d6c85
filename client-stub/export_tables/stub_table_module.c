/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools' view of a module: slot 7 calls back for each of its functions and returns
 * how many there are (not a CUresult).
 */
#include "cuda_api.h"
#include "gp_base.h"
#include "gp_log.h"
#include "stub_manual.h"
#include "stub_table.h"

#include <assert.h>

#define MODULE_WORDS 8
#define MODULE_FUNCS_MAX 65536u /* a whole library's kernels, many times over */

typedef void module_visit(void *user, CUfunction fn, uint64_t owner);

static uint64_t
module_each_function(CUcontext ctx, CUmodule mod, module_visit *visit, void *user)
{
    CLEANUP_FREE CUfunction *fns = NULL;
    unsigned int n = 0;

    if (cuModuleGetFunctionCount(&n, mod) != CUDA_SUCCESS || n > MODULE_FUNCS_MAX)
        return 0;
    fns = calloc(n ? n : 1, sizeof(CUfunction));
    if (!fns || cuModuleEnumerateFunctions(fns, n, mod) != CUDA_SUCCESS)
        return 0;
    for (unsigned int i = 0; i < n; i++)
        visit(user, fns[i], 0);
    return n;
}

static CUresult
module_unserved(void)
{
    return stub_table_unserved(&stub_table_module);
}

static const struct {
    uintptr_t size;
    CUresult (*unused_1[6])(void);
    uint64_t (*each_function)(CUcontext, CUmodule, module_visit *, void *);
} words = {
    .size = sizeof(words),
    .unused_1 = {[0 ... 5] = module_unserved},
    .each_function = module_each_function,
};

static_assert(sizeof(words) == MODULE_WORDS * 8, "read as an array");

const struct stub_table stub_table_module = {
    .name = "tools module",
    .id = {0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf,
           0xf1, 0x99, 0x1e},
    .words = &words,
};
