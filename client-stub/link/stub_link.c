/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of the links, and what calls on them have to stop for. */
#include "stub_link.h"

#include "attach.pb-c.h"

#include <string.h>

/* Until they are ready, calls have to stop and ask. */
GP_HOT_DATA struct stub_link stub_links[STUB_LINKS_MAX] = {
    [0 ... STUB_LINKS_MAX - 1] = {.attention = STUB_ATTEND_NOT_READY},
};
GP_HOT_DATA uint32_t stub_links_n = 1;

void
stub_link_attend(struct stub_link *link, enum stub_attend bit, bool on)
{
    if (on)
        atomic_fetch_or(&link->attention, (uint32_t)bit);
    else
        atomic_fetch_and(&link->attention, ~(uint32_t)bit);
}

void
stub_link_attend_all(enum stub_attend bit, bool on)
{
    for (uint32_t i = 0; i < STUB_LINKS_MAX; i++)
        stub_link_attend(&stub_links[i], bit, on);
}

/* A thread that finds the link lost may have set the bit before it was cleared here:
 * then it is set again. */
static void
link_phase_changed(struct stub_link *link, enum stub_phase phase)
{
    stub_link_attend(link, STUB_ATTEND_NOT_READY, phase != STUB_READY);
    if (phase == STUB_READY && atomic_load(&link->phase) != STUB_READY)
        stub_link_attend(link, STUB_ATTEND_NOT_READY, true);
}

void
stub_link_set_phase(struct stub_link *link, enum stub_phase phase)
{
    atomic_store(&link->phase, phase);
    link_phase_changed(link, phase);
}

bool
stub_link_move_phase(struct stub_link *link, enum stub_phase from, enum stub_phase to)
{
    uint32_t was = from;

    if (!atomic_compare_exchange_strong(&link->phase, &was, to))
        return false;
    link_phase_changed(link, to);
    return true;
}

CUresult
stub_link_refusal(const struct stub_link *link)
{
    switch (atomic_load_explicit(&link->phase, memory_order_acquire)) {
    case STUB_FAILED:
    case STUB_LOST:
        return (CUresult)atomic_load(&link->failure);
    case STUB_GONE:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

CUresult
stub_link_enter_any(void)
{
    if (unlikely(stub_tls.refusal))
        return (CUresult)stub_tls.refusal;
    for (uint32_t i = 0; i < stub_links_n; i++)
        if (stub_link_ready(&stub_links[i]))
            return CUDA_SUCCESS;
    return stub_link_refusal(stub_links);
}

bool
stub_link_can(const struct stub_link *link, const char *capability)
{
    for (size_t i = 0; i < link->attach->n_capabilities; i++)
        if (strcmp(link->attach->capabilities[i], capability) == 0)
            return true;
    return false;
}

int
stub_link_driver_version(void)
{
    uint32_t version = CUDA_VERSION; /* functions that came later are not carried */

    for (uint32_t i = 0; i < stub_links_n; i++)
        version = gp_min(version, stub_links[i].attach->driver_version);
    return (int)version;
}
