/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuBLASLt asks on cards of compute capability 9.0 when it chooses a kernel: slot
 * 4, with two places for pointers.  It does not look whether the table is there, so it
 * has to be; no slot is served, and on a refusal it chooses without the answer.
 */
#include "gp_base.h"
#include "stub_table.h"

#include <stdint.h>

/* More than any library is known to call. */
#define CUBLAS_SLOTS 31

static CUresult
cublas_unserved(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static const struct {
    uintptr_t size;
    CUresult (*unused_1[CUBLAS_SLOTS])(void);
} words = {
    .size = sizeof(words),
    .unused_1 = {[0 ... CUBLAS_SLOTS - 1] = cublas_unserved},
};

const struct stub_table stub_table_cublas = {
    .name = "cuBLASLt",
    .id = {0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7,
           0xdd, 0x8b, 0xca},
    .words = &words,
};
