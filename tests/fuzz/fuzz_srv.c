/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of DNS: refused, or hosts that can be put in order. */
#include "gp_srv.h"

#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t
same(void)
{
    return UINT32_C(0x9e3779b9);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gp_srv_target targets[GP_SRV_TARGETS_MAX];
    int n = gp_srv_parse(data, size, targets);

    if (n < 0 && n != -EBADMSG)
        __builtin_trap();
    if (n > GP_SRV_TARGETS_MAX)
        __builtin_trap();
    if (n > 0)
        gp_srv_order(targets, (unsigned)n, same);
    for (int i = 0; i < n; i++) {
        if (!memchr(targets[i].host, 0, sizeof(targets[i].host)) ||
            !targets[i].host[0] || !targets[i].port)
            __builtin_trap();
        if (strpbrk(targets[i].host, " :/[]%\n\033"))
            __builtin_trap(); /* it would be another address */
        if (i && targets[i].priority < targets[i - 1].priority)
            __builtin_trap();
    }
    return 0;
}
