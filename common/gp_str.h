/* SPDX-License-Identifier: Apache-2.0 */
/* Small string helpers that always terminate.  No state, any thread. */
#ifndef GP_STR_H
#define GP_STR_H

#include "gp_base.h"

#include <stdint.h>

/* Copy @src into @dst of @size bytes; false when it did not fit (then truncated). */
bool gp_str_copy(char *dst, size_t size, const char *src);

/* The same, with a question mark for every byte that is not printable ASCII: for what a
 * peer sent and tables, logs and JSON show.  Names that people choose are
 * gp_utf8_copy()'s. */
bool gp_str_copy_printable(char *dst, size_t size, const char *src);

/* A decimal number that fills the whole string and lies in [min, max]; -EINVAL or
 * -ERANGE. */
int gp_str_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* A time as people write it, "30", "30s", "10m" or "2h", that lies in [min, max]: in
 * units of which a second has @second.  -EINVAL or -ERANGE, and *@ret is untouched. */
int gp_str_time(const char *s, uint64_t second, uint64_t min, uint64_t max,
                uint64_t *ret);

/* malloc'ed printf; NULL on lack of memory. */
char *gp_str_printf(const char *fmt, ...) GP_PRINTF(1, 2);

/* Lower-case hexadecimal of @len bytes into @dst (2 * len + 1 bytes). */
void gp_str_hex(char *dst, const void *src, size_t len);

/* Where @text begins behind a byte order mark of UTF-8: editors of some systems put one
 * in front, and it says what our files are anyway. */
char *gp_str_behind_bom(char *text);

/* Where @s begins behind white space; that at its end is cut off. */
char *gp_str_trim(char *s);

/* "server" for 1, "servers" for any other number: the words are the caller's. */
static inline const char *
gp_plural(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

/* How many characters have to be changed, entered or left out to make @b of @a; for
 * "did you mean ...?".  Longer texts than the most are that far apart. */
#define GP_STR_DISTANCE_MAX 63
unsigned gp_str_distance(const char *a, const char *b);

/* The most that a name may differ from @typed to be suggested for it: a third of what
 * was typed, 2 at most. */
unsigned gp_str_distance_near(const char *typed);

#endif
