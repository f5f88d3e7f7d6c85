/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text in UTF-8 that others chose and terminals, logs and JSON show.
 *
 * Letters, digits and signs of every script stay as they are.  A question mark takes
 * the place of everything that could do more than be read: each byte that is no UTF-8,
 * control characters (C0, DEL, C1), what changes the direction of writing, and what
 * looks like nothing (zero width, fillers, spaces other than U+0020), which would make
 * two different names look the same.  Letters of two scripts that look alike are not
 * told apart.  No state, any thread.
 */
#ifndef GP_UTF8_H
#define GP_UTF8_H

#include "gp_base.h"

#include <stdint.h>

/* The character that @text, which is not empty, begins with, and the number of its
 * bytes; 0: they are no UTF-8.  Forms that are longer than they need be, and halves of
 * UTF-16's pairs, are none. */
size_t gp_utf8_decode(const char *text, uint32_t *ret);

/* Copy @src into @dst of @size bytes, at least 1, in that way; both may be the same.
 * It ends behind a whole character; false when not all of it did fit. */
bool gp_utf8_copy(char *dst, size_t size, const char *src);
/* The same in place: the text becomes shorter or stays as long. */
void gp_utf8_mask(char *text);
/* Columns of a terminal that masked text takes. */
unsigned gp_utf8_width(const char *text);

#endif
