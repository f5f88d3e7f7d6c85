/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them: "4GiB", "512MiB", "4G".  No state, any thread. */
#ifndef GP_SIZE_H
#define GP_SIZE_H

#include "gp_base.h"

/* Parse a number with an optional fraction and a unit: B, K or KiB, M or MiB, G or GiB,
 * T or TiB, in any case.  All are powers of 1024, as in GPU memory everywhere; KB, MB
 * and the like, which mean 1000 or 1024 depending on whom one asks, are taken as 1024.
 * Gb, a gigabit, is none.
 * No unit: bytes; options want one (gp_option_size).  -EINVAL: not a size; -ERANGE:
 * more than 2^63 - 1. */
int gp_size_parse(const char *text, uint64_t *ret);

/* "1.5 GiB", "512 MiB", "17 B": exact when it is a whole number of the unit, else two
 * digits.  Into @buf, which is returned. */
#define GP_SIZE_TEXT 24
const char *gp_size_format(uint64_t bytes, char buf[GP_SIZE_TEXT]);

#endif
