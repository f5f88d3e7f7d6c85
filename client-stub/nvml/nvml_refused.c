/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function that is not written elsewhere: it exists, and returns NOT_SUPPORTED.
 *
 * Libraries look up what they may need and call it without a check (NCCL crashes if one
 * is absent), and a real device returns this for what it does not have.  The bodies are
 * weak: a function of the same name in another file replaces the one here.  Arguments
 * are not used, so one signature does for all.
 */
#include "nvml_card.h"

#include "gp_base.h"

#define NVML_NAME(name)                                                                \
    int name(void);                                                                    \
    GP_EXPORT __attribute__((weak)) int name(void)                                     \
    {                                                                                  \
        int r = nvml_card_ready();                                                     \
                                                                                       \
        return r == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : r;                       \
    }
#include "nvml_names.inc"
