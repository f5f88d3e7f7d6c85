/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_params.h"

#include "gp_err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 64u

/* Parameters follow each other without overlap; returns NULL or what is wrong. */
static const char *
check_params(const struct kernel_param *params, uint32_t n)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (params[i].offset < end)
            return "parameters overlap";
        if (params[i].offset > KERNEL_PARAMS_BYTES_MAX ||
            params[i].size > KERNEL_PARAMS_BYTES_MAX - params[i].offset)
            return "more bytes of parameters than a launch can take";
        end = params[i].offset + params[i].size;
    }
    return NULL;
}

static struct kernel_params *
layout_new(const char *name, size_t name_len, const struct kernel_param *params,
           uint32_t n_params, const char *why)
{
    struct kernel_params *new;
    char *name_at;

    if (!why)
        why = check_params(params, n_params);
    if (why)
        n_params = 0;
    new = calloc(1, sizeof(*new) + n_params * sizeof(*params) + name_len + 1);
    if (!new)
        return NULL;
    new->why = why;
    new->n_params = n_params;
    if (n_params) {
        memcpy(new->params, params, n_params * sizeof(*params));
        new->param_bytes = params[n_params - 1].offset + params[n_params - 1].size;
    }
    name_at = (char *)(new->params + n_params);
    memcpy(name_at, name, name_len);
    new->name = name_at;
    return new;
}

static int
grow(struct kernel_params_set *all)
{
    size_t cap = all->cap ? all->cap * 2 : FIRST_CAP;
    struct kernel_params **more;

    if (all->n < all->cap)
        return 0;
    more = realloc(all->all, cap * sizeof(struct kernel_params *));
    if (!more)
        return -ENOMEM;
    all->all = more;
    all->cap = cap;
    return 0;
}

int
kernel_params_add(struct kernel_params_set *all, const char *name, size_t name_len,
                  const struct kernel_param *params, uint32_t n_params, const char *why,
                  struct gp_err *err)
{
    struct kernel_params *new;

    if (all->n >= KERNEL_PARAMS_KERNELS_MAX)
        return gp_err_set(err, -E2BIG, "more than %u kernels in one image",
                          KERNEL_PARAMS_KERNELS_MAX);
    if (grow(all) < 0)
        return gp_err_set(err, -ENOMEM, "no memory for %zu kernels", all->n);
    new = layout_new(name, name_len, params, n_params, why);
    if (!new)
        return gp_err_set(err, -ENOMEM, "no memory for %zu kernels", all->n);
    new->order = (uint32_t)all->n;
    all->all[all->n++] = new;
    all->sorted = false;
    return 0;
}

static bool
same_params(const struct kernel_params *a, const struct kernel_params *b)
{
    return a->n_params == b->n_params &&
           (!a->n_params ||
            memcmp(a->params, b->params, a->n_params * sizeof(a->params[0])) == 0);
}

/* Of two kernels of one name: the one whose parameters are known, and of two such
 * the first. */
static void
merge(struct kernel_params **into, struct kernel_params *other)
{
    struct kernel_params *kept = *into;

    if (kept->why && !other->why) {
        *into = other;
        other = kept;
    } else if (!kept->why && !other->why && !same_params(kept, other)) {
        kept->why = "the image tells two kinds of parameters";
        kept->n_params = kept->param_bytes = 0;
    }
    free(other);
}

static int
by_name(const void *a, const void *b)
{
    const struct kernel_params *const *x = a, *const *y = b;
    int r = strcmp((*x)->name, (*y)->name);

    if (r != 0)
        return r;
    return (*x)->order < (*y)->order ? -1 : 1;
}

static void
sort(struct kernel_params_set *all)
{
    size_t n = 0;

    qsort(all->all, all->n, sizeof(struct kernel_params *), by_name);
    for (size_t i = 0; i < all->n; i++) {
        if (n && strcmp(all->all[n - 1]->name, all->all[i]->name) == 0)
            merge(&all->all[n - 1], all->all[i]);
        else
            all->all[n++] = all->all[i];
    }
    all->n = n;
    all->sorted = true;
}

struct kernel_params *
kernel_params_find(struct kernel_params_set *all, const char *name)
{
    size_t low = 0, high;

    if (!all->sorted && all->n)
        sort(all);
    high = all->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int r = strcmp(all->all[mid]->name, name);

        if (r == 0)
            return all->all[mid];
        if (r < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

void
kernel_params_fini(struct kernel_params_set *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->all[i]);
    free(all->all);
    *all = (struct kernel_params_set){0};
}
