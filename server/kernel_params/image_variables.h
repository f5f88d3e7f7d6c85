/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes of a card's memory the variables of an image take, read from the image
 * before a driver loads it: what is declared __device__, __constant__ or __managed__.
 *
 * Pure functions over a hostile image.  A limit is enforced with what they return, so
 * it is never less than what a driver would allocate, up to the alignment of the whole;
 * it may be more.  UINT64_MAX: more than can be said.  Memory of kernels (shared,
 * local, code, parameters) is not counted.  Any thread.
 */
#ifndef IMAGE_VARIABLES_H
#define IMAGE_VARIABLES_H

#include "gp_base.h"

#include <stdbool.h>

struct gp_err;

/* Bytes that the entries of one fat binary may unpack to: processor time, as in
 * kernel_params.h.  One that claims more cannot be measured. */
#define IMAGE_VARIABLES_UNPACKED_MAX (UINT64_C(4) << 30)

/* Of a PTX text, of machine code, of whatever @image is on a card of compute capability
 * @sm (86).  A fat binary has the most that any of its entries for that card have,
 * since a driver chooses one of them.  @is_unit: it is linked with others, one of which
 * defines what it declares .extern; else that is a variable of its own. */
uint64_t image_variables_ptx(const char *text, size_t len, bool is_unit);
uint64_t image_variables_elf(const void *image, size_t len);
uint64_t image_variables(const void *image, size_t len, unsigned sm, bool is_unit);

/* The sum, or UINT64_MAX. */
static inline uint64_t
image_variables_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
