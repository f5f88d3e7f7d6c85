/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the program captures streams at present, and which threads do
 * (stub_capture.c). Any thread.
 */
#ifndef STUB_CAPTURE_H
#define STUB_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stub_feature;

extern _Atomic uint32_t stub_captures;

/* True while captures are active; takes no lock. */
static inline bool
stub_capture_any(void)
{
    return __builtin_expect(
        atomic_load_explicit(&stub_captures, memory_order_relaxed) != 0, false);
}

/* Whether CUDA forbids this thread now what is unsafe during a capture. */
bool stub_capture_forbids(void);

/* Marks frames WIRE_F_RELAXED when no capture keeps this thread from calls that are
 * unsafe during one. */
extern const struct stub_feature stub_capture_feature;

#endif
