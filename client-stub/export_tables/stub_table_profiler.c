/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profilers' interface (CUPTI).  It is here so that cuptiGetVersion() answers,
 * which JAX asks before it looks for cards: for that the table only has to exist.  No
 * slot is served, and the further tables that tracing asks for are refused, so
 * everything else of CUPTI fails with an error.
 */
#include "stub_table.h"

#include <stdint.h>

static CUresult
profiler_unserved(void)
{
    return stub_table_unserved(&stub_table_profiler);
}

static const struct {
    uintptr_t size;
    CUresult (*unused_1)(void);
} words = {
    .size = sizeof(words),
    .unused_1 = profiler_unserved,
};

const struct stub_table stub_table_profiler = {
    .name = "profiler",
    .id = {0x7c, 0xb6, 0x3f, 0x9b, 0x9c, 0xa4, 0x8e, 0x42, 0xa4, 0x84, 0xbe, 0xb6, 0x6e,
           0x6a, 0xed, 0x7f},
    .words = &words,
};
