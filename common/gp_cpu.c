/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_cpu.h"

#include <stdatomic.h>
#if defined(__x86_64__)
#include <cpuid.h>

/* Vector registers that the kernel saves: xgetbv, register 0. */
static unsigned
saved_registers(void)
{
    unsigned low, high;

    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static enum gp_vectors
ask(void)
{
    const unsigned avx = 0x6, avx512 = 0xe6; /* of saved_registers() */
    unsigned a, b, c, d, saved;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return GP_VECTORS_ANY;
    saved = saved_registers();
    if ((saved & avx) != avx || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return GP_VECTORS_ANY;
    if ((saved & avx512) == avx512 && (b & bit_AVX512F) && (b & bit_AVX512VL))
        return GP_VECTORS_AVX512;
    return b & bit_AVX2 ? GP_VECTORS_AVX2 : GP_VECTORS_ANY;
}
#else
static enum gp_vectors
ask(void)
{
    return GP_VECTORS_ANY;
}
#endif

enum gp_vectors
gp_cpu_vectors(void)
{
    static _Atomic(enum gp_vectors) known; /* 0: not asked yet */
    enum gp_vectors vectors = atomic_load_explicit(&known, memory_order_relaxed);

    if (!vectors) {
        vectors = ask();
        atomic_store_explicit(&known, vectors, memory_order_relaxed);
    }
    return vectors;
}
