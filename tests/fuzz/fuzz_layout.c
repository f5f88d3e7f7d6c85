/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of kernels and sizes of variables from hostile images of every kind: what
 * is told must fit a launch, in order, and what is not must say why. */
#include "gp_err.h"
#include "image_variables.h"
#include "kernel_params.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(struct kernel_params_set *all, int r, const struct gp_err *err)
{
    if (r < 0 && !err->msg[0])
        __builtin_trap();        /* a refusal without words */
    kernel_params_find(all, ""); /* sorts them, and merges those of one name */
    for (size_t i = 0; i < all->n; i++) {
        const struct kernel_params *l = all->all[i];
        uint32_t end = 0;

        for (uint32_t p = 0; p < l->n_params; p++) {
            if (l->params[p].offset < end)
                __builtin_trap();
            end = l->params[p].offset + l->params[p].size;
        }
        if (end != l->param_bytes || end > KERNEL_PARAMS_BYTES_MAX ||
            (l->why && l->n_params) || l->n_params > KERNEL_PARAMS_PARAMS_MAX)
            __builtin_trap();
    }
    for (size_t i = 0; i < all->n; i++)
        if (!kernel_params_find(all, all->all[i]->name))
            __builtin_trap();
    kernel_params_fini(all);
}

/* A variable in front of a text counts, whatever the text is. */
static void
check_same_sum(const char *text, size_t len)
{
    static const char head[] = ".global .b8 first[4096];\n";
    uint64_t alone = image_variables_ptx(text, len, false), both;
    char *joined = malloc(sizeof(head) + len);

    if (!joined)
        return;
    memcpy(joined, head, sizeof(head) - 1);
    memcpy(joined + sizeof(head) - 1, text, len);
    both = image_variables_ptx(joined, sizeof(head) - 1 + len, false);
    if (both < 4096 || both < alone)
        __builtin_trap();
    free(joined);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kernel_params_set all = {0};
    struct gp_err err = {0};

    check(&all, kernel_params_image(data, size, 86, &all, &err), &err);
    check(&all, kernel_params_ptx((const char *)data, size, 90, &all, &err), &err);
    check(&all, kernel_params_elf(data, size, &all, &err), &err);
    image_variables(data, size, 86, false);
    check_same_sum((const char *)data, size);
    image_variables_elf(data, size);
    return 0;
}
