/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_request.h"

#include "gp_err.h"
#include "sched_where.h"

#include <errno.h>

/* Core as the user says it -> percent per card and number of cards. */
static int
shape_core(struct sched_request *req, uint32_t core, uint32_t cards, struct gp_err *err)
{
    uint32_t whole = core / 100;

    if (!core)
        return gp_err_set(
            err, -EINVAL,
            "core 0 %%: the rule is 1..100 (percent of one card) or N*100 "
            "(N whole cards)");
    if (core > 100 && core % 100)
        return gp_err_set(
            err, -EINVAL,
            "core %u %%: the rule is 1..100 (percent of one card) or N*100 "
            "(N whole cards); use --core %u, or --cards %u --core %u",
            core, (whole + 1) * 100, whole + 1, (core + whole) / (whole + 1));
    if (core > 100 && cards && cards != whole)
        return gp_err_set(
            err, -EINVAL,
            "core %u %% means %u whole cards, but %u cards were asked for", core, whole,
            cards);
    req->core = core > 100 ? 100 : core;
    req->cards = core > 100 ? whole : cards ? cards : 1;
    req->whole = req->core == 100;
    if (req->cards > TICKET_SLICES_MAX)
        return gp_err_set(err, -EINVAL, "%u cards: a session has at most %d",
                          req->cards, TICKET_SLICES_MAX);
    return 0;
}

int
sched_request_shape(struct sched_request *req, uint32_t core, uint64_t memory,
                    uint32_t cards, uint32_t core_limit, struct gp_err *err)
{
    uint32_t tflops = req->where ? req->where->tflops : 0;
    int r = shape_core(req, core, cards, err);

    if (r < 0)
        return r;
    if (!req->whole && !memory && tflops)
        return gp_err_set(
            err, -EINVAL,
            "%u TFLOPS without memory: a part of a card needs a memory size "
            "(--memory 4GiB); only whole cards come with all of it",
            tflops);
    if (!req->whole && !memory)
        return gp_err_set(
            err, -EINVAL,
            "core %u %% without memory: a fraction of a card needs a memory "
            "size (--memory 4GiB); only whole cards come with all of it",
            core);
    req->memory = memory;
    if (core_limit && (core_limit < req->core || core_limit > 100))
        return gp_err_set(err, -EINVAL,
                          "core limit %u %%: the rule is core..100, here %u..100",
                          core_limit, req->core);
    req->core_limit = core_limit ? core_limit : req->core;
    if (req->has_uuid && req->cards > 1)
        return gp_err_set(err, -EINVAL, "one card is named, but %u are asked for",
                          req->cards);
    return 0;
}

bool
sched_request_needs_more(const struct sched_request *a, const struct sched_request *b)
{
    if (a->cards != b->cards)
        return a->cards > b->cards;
    return a->core != b->core ? a->core > b->core : a->memory > b->memory;
}
