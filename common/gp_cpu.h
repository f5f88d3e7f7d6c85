/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which vectors the processor has and the kernel saves, for code that is compiled for
 * several.
 *
 * Asked when it is first needed and kept.  __builtin_cpu_supports() would ask the
 * processor some twenty questions before main(), in each process that has such code:
 * under a hypervisor that is 50 us of its start.  Any thread.
 */
#ifndef GP_CPU_H
#define GP_CPU_H

enum gp_vectors {
    GP_VECTORS_ANY = 1, /* what every processor of the architecture has */
    GP_VECTORS_AVX2,
    GP_VECTORS_AVX512, /* F and VL */
};

enum gp_vectors gp_cpu_vectors(void);

#endif
