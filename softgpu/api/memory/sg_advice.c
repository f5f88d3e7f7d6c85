/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_advice.h"

#include <stdlib.h>
#include <string.h>

/* From the end of the run before, or 0, to @end.  Neighbours differ, and the last run
 * has no end: an allocation is as long as its owner says. */
struct run {
    uint64_t end;
    struct sg_advised is;
};

struct sg_advice {
    size_t n, room;
    struct run *runs;
};

static const struct sg_advised nothing = {
    .preferred.type = CU_MEM_LOCATION_TYPE_INVALID,
    .prefetched.type = CU_MEM_LOCATION_TYPE_INVALID,
};

static bool
same_place(const CUmemLocation *a, const CUmemLocation *b)
{
    return a->type == b->type && a->id == b->id;
}

static bool
same(const struct sg_advised *a, const struct sg_advised *b)
{
    return same_place(&a->preferred, &b->preferred) &&
           same_place(&a->prefetched, &b->prefetched) &&
           a->accessed_by == b->accessed_by &&
           a->accessed_by_host == b->accessed_by_host &&
           a->read_mostly == b->read_mostly;
}

/* The index of the run that holds the byte at @at. */
static size_t
run_at(const struct sg_advice *a, uint64_t at)
{
    size_t low = 0, high = a->n - 1;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (a->runs[mid].end <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct sg_advice *
advice_new(void)
{
    struct sg_advice *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->room = 4;
    a->runs = calloc(a->room, sizeof(*a->runs));
    if (!a->runs) {
        free(a);
        return NULL;
    }
    a->runs[a->n++] = (struct run){UINT64_MAX, nothing};
    return a;
}

/* A change needs no more than two runs besides: a range may begin and end within runs.
 */
static bool
has_room(struct sg_advice *a)
{
    struct run *more;

    if (a->n + 2 <= a->room)
        return true;
    more = reallocarray(a->runs, a->room * 2, sizeof(*more));
    if (!more)
        return false;
    a->runs = more;
    a->room *= 2;
    return true;
}

/* A run ends at @at.  There is room. */
static void
split(struct sg_advice *a, uint64_t at)
{
    size_t i = run_at(a, at);

    if (!at || (i && a->runs[i - 1].end == at))
        return;
    memmove(a->runs + i + 1, a->runs + i, (a->n - i) * sizeof(*a->runs));
    a->runs[i].end = at;
    a->n++;
}

/* Takes runs from @first to @last, and their neighbours, together where they are the
 * same. */
static void
merge(struct sg_advice *a, size_t first, size_t last)
{
    size_t to = first ? first - 1 : 0;
    size_t end = gp_min(last + 1, a->n - 1);

    for (size_t i = to + 1; i <= end; i++) {
        if (same(&a->runs[to].is, &a->runs[i].is))
            a->runs[to].end = a->runs[i].end;
        else
            a->runs[++to] = a->runs[i];
    }
    memmove(a->runs + to + 1, a->runs + end + 1, (a->n - end - 1) * sizeof(*a->runs));
    a->n -= end - to;
}

CUresult
sg_advice_change(struct sg_advice **advice, uint64_t from, uint64_t end,
                 sg_advice_fn *fn, const void *arg)
{
    struct sg_advice *a = *advice ? *advice : advice_new();
    size_t first, last;

    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *advice = a;
    if (!has_room(a))
        return CUDA_ERROR_OUT_OF_MEMORY;
    split(a, from);
    split(a, end);
    first = run_at(a, from);
    last = run_at(a, end - 1);
    for (size_t i = first; i <= last; i++)
        fn(&a->runs[i].is, arg);
    merge(a, first, last);
    return CUDA_SUCCESS;
}

/* What is left of @all when @one is looked at too. */
static void
have_in_common(struct sg_advised *all, const struct sg_advised *one)
{
    if (!same_place(&all->preferred, &one->preferred))
        all->preferred = nothing.preferred;
    if (!same_place(&all->prefetched, &one->prefetched))
        all->prefetched = nothing.prefetched;
    all->accessed_by &= one->accessed_by;
    all->accessed_by_host &= one->accessed_by_host;
    all->read_mostly &= one->read_mostly;
}

struct sg_advised
sg_advice_of(const struct sg_advice *advice, uint64_t from, uint64_t end)
{
    struct sg_advised all = nothing;
    size_t first, last;

    if (!advice)
        return all;
    first = run_at(advice, from);
    last = run_at(advice, end - 1);
    all = advice->runs[first].is;
    for (size_t i = first + 1; i <= last; i++)
        have_in_common(&all, &advice->runs[i].is);
    return all;
}

void
sg_advice_free(struct sg_advice *advice)
{
    if (advice)
        free(advice->runs);
    free(advice);
}
