/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memcpy(3) that takes as long at every address.
 *
 * The C library copies more than 2 KiB with "rep movsb" where the processor says that
 * this is fast.  On AMD processors it is not where the target lies closely ahead of the
 * source modulo 4096: of family 25 at 1 to 31 bytes 2.2 GB/s instead of 45, at 33 to 63
 * 26; of family 26 at 1 to 15 bytes 3.5 GB/s instead of 57.  Bytes that pass
 * through a ring or a buffer behind a header meet such addresses all the time.  There
 * the copy is made in steps that the C library makes with vectors.
 *
 * For everything that may be long and comes from, or goes to, an address that is not
 * ours to choose.  How the bytes of a socket are placed for the same reason is in
 * docs/transfers.md.
 */
#ifndef GP_COPY_H
#define GP_COPY_H

#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* As much as the C library copies with vectors on every processor. */
#define GP_COPY_STEP 2048

/* How far ahead of its source, modulo a page, a target makes copies slow. */
#define GP_COPY_AHEAD 64

void gp_copy_in_steps(void *restrict to, const void *restrict from, size_t n);

/* Would the C library copy slowly from @from to @to? */
static inline bool
gp_copy_is_slow(const void *to, const void *from)
{
    return (((uintptr_t)to - (uintptr_t)from) & 4095) - 1 < GP_COPY_AHEAD - 1;
}

/* @n bytes; the two do not overlap.  Any thread. */
static inline void
gp_copy(void *restrict to, const void *restrict from, size_t n)
{
#if defined(__x86_64__)
    if (unlikely(n > GP_COPY_STEP && gp_copy_is_slow(to, from))) {
        gp_copy_in_steps(to, from, n);
        return;
    }
#endif
    memcpy(to, from, n);
}

#endif
