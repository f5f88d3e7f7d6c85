/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying and clearing a few words without a call to the C library: after a switch
 * between processes the page that its functions lie on costs more than the copy.
 *
 * Sizes are multiples of 8 bytes; addresses need no alignment.  Any thread.
 */
#ifndef GP_WORDS_H
#define GP_WORDS_H

#include "gp_base.h"

#include <string.h>

/* Beyond this the C library is faster. */
#define GP_WORDS_MAX 192

static GP_INLINE void
gp_words_copy(void *to, const void *from, size_t size)
{
    size_t i = 0;

    for (; i + 16 <= size; i += 16) {
        uint64_t word[2];

        memcpy(word, (const uint8_t *)from + i, 16);
        memcpy((uint8_t *)to + i, word, 16);
    }
    if (i < size) {
        uint64_t word;

        memcpy(&word, (const uint8_t *)from + i, 8);
        memcpy((uint8_t *)to + i, &word, 8);
    }
}

static GP_INLINE void
gp_words_clear(void *to, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t zero = 0;

        __asm__("" : "+r"(zero)); /* else it is made a call of memset() again */
        memcpy((uint8_t *)to + i, &zero, 8);
    }
}

#endif
