/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing the build of the interpreter for the processor at hand.
 *
 * SOFTGPU_ISA=v2|v3|v4 asks for a lower one (tests); what the processor lacks is never
 * chosen.
 */
#include "exec_quad.h"
#include "sg_cta.h"

#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

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

/* A processor of level v2 may have no AVX; whoever asks for v2 gets what such a one
 * does. */
bool sg_quad_by_swap;

sg_interp_fn *
sg_interp_choose(const char **ret_name)
{
    const char *ask = getenv("SOFTGPU_ISA");

    __builtin_cpu_init();
    sg_quad_by_swap = !__builtin_cpu_supports("avx") || (ask && strcmp(ask, "v2") == 0);
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

#ifndef HWCAP_USCAT
#define HWCAP_USCAT (1 << 25)
#endif

bool sg_quad_by_swap;

sg_interp_fn *
sg_interp_choose(const char **ret_name)
{
    sg_quad_by_swap = !(getauxval(AT_HWCAP) & HWCAP_USCAT);
    *ret_name = "generic";
    return sg_interp_v2;
}

#endif
