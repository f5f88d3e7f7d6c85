/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search for words in a range, such as the upper halves of addresses, in much data of
 * which nearly none is: some ten gigabytes a second, with whatever vectors the
 * processor has.  No state, any thread.
 */
#ifndef GP_SCAN_H
#define GP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The offset of the first word of 4 bytes, at a multiple of 4 in the @n bytes at
 * @bytes, whose value is in [least, least + span], which may wrap; @n: there is none.
 * The bytes need no alignment; those behind the last whole word are not looked at. */
size_t gp_scan_words(const void *bytes, size_t n, uint32_t least, uint32_t span);

/* Copy the @n bytes at @bytes to @to, which they do not overlap.  Returns whether
 * gp_scan_words() finds a word among them: one pass instead of two. */
bool gp_scan_copy(void *to, const void *bytes, size_t n, uint32_t least, uint32_t span);

#endif
