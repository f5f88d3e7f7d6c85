/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_check.h"

#include "stub_call.h"
#include "stub_ending.h"
#include "stub_flush.h"
#include "stub_link.h"
#include "stub_send_overflow.h"
#include "wire_api.h"
#include "wire_format.h"

#include <inttypes.h>
#include <stdio.h>

/* Another thread that is sending may wait for a program that has ended. */
static bool
may_send(struct stub_link *link)
{
    bool idle = stub_send_last(link);

    if (idle)
        gp_lock_release(&link->send);
    return idle;
}

void
stub_check_end(struct stub_link *link)
{
    struct wire_gp_check_end_rep_view rep = {0};
    struct stub_call c;
    uint64_t errors = 0, leaks = 0;
    char line[128];

    if (!stub_link_can(link, "checks") || !may_send(link) ||
        stub_call_begin_on(&c, link, WIRE_CALL_gp_check_end, 0) != CUDA_SUCCESS)
        return;
    if (stub_call_wait(&c) == CUDA_SUCCESS &&
        wire_gp_check_end_rep_open(&rep, c.reply, c.reply_size, 0)) {
        errors = rep.f->errors;
        leaks = rep.f->leaks;
    }
    stub_call_end(&c);
    if (!errors && !leaks)
        return;
    snprintf(line, sizeof(line),
             WIRE_ENDING_CHECK "%" PRIu64 " errors, %" PRIu64 " allocations not freed",
             errors, leaks);
    stub_ending_leave(line);
}
