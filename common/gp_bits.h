/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bit maps in words of 64 bits: bit i is bit i % 64 of word i / 64.
 */
#ifndef GP_BITS_H
#define GP_BITS_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

/* The first bit from @at on that is @set; @n if none of the bits before @n is. */
static inline uint64_t
gp_bits_next(const uint64_t *bits, uint64_t at, uint64_t n, bool set)
{
    while (at < n) {
        uint64_t word = (set ? bits[at / 64] : ~bits[at / 64]) >> at % 64;

        if (word)
            return gp_min(at + (unsigned)__builtin_ctzll(word), n);
        at = (at / 64 + 1) * 64;
    }
    return n;
}

#endif
