/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3 (O'Connor, Aumasson, Neves, Wilcox-O'Hearn 2020), without a key: the name of
 * what is too large to be sent twice.  Two contents with one name are not found by
 * anybody.  The second 32 bytes of the wide form cannot be told from the first: who
 * knows them has had the content.
 *
 * One call over memory that is all there; no key, no stream.  No state, any thread.
 */
#ifndef GP_BLAKE3_H
#define GP_BLAKE3_H

#include "gp_base.h"

#define GP_BLAKE3_SIZE 32
#define GP_BLAKE3_WIDE 64

/* The hash of @len bytes, 32 of it. */
void gp_blake3(const void *data, size_t len, uint8_t ret[GP_BLAKE3_SIZE]);

/* The same and 32 bytes more. */
void gp_blake3_wide(const void *data, size_t len, uint8_t ret[GP_BLAKE3_WIDE]);

#endif
