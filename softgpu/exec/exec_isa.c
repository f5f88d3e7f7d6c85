/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing the build of the interpreter for the processor at hand.
 *
 * SOFTGPU_ISA=v2|v3|v4 asks for a lower one (tests); what the processor lacks is never
 * chosen.
 */
#include "sg_cta.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)

static bool
has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool
has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

sg_interp_fn *
sg_interp_choose(const char **ret_name)
{
    const char *ask = getenv("SOFTGPU_ISA");

    __builtin_cpu_init();
    if (has_v4() && (!ask || strcmp(ask, "v4") == 0)) {
        *ret_name = "v4";
        return sg_interp_v4;
    }
    if (has_v3() && (!ask || strcmp(ask, "v2") != 0)) {
        *ret_name = "v3";
        return sg_interp_v3;
    }
    *ret_name = "v2";
    return sg_interp_v2;
}

#else

sg_interp_fn *
sg_interp_choose(const char **ret_name)
{
    *ret_name = "generic";
    return sg_interp_v2;
}

#endif
