/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_log_mute.h"

static __thread unsigned muted;

void
wrk_log_mute(void)
{
    muted++;
}

void
wrk_log_unmute(void)
{
    muted--;
}

bool
wrk_log_muted(void)
{
    return muted != 0;
}
