/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool
gp_str_copy(char *dst, size_t size, const char *src)
{
    int n = snprintf(dst, size, "%s", src);

    return n >= 0 && (size_t)n < size;
}

bool
gp_str_copy_printable(char *dst, size_t size, const char *src)
{
    bool fits = gp_str_copy(dst, size, src);

    for (char *p = dst; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    return fits;
}

int
gp_str_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (!*s)
        return -EINVAL;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return -EINVAL;
        if (!gp_mul_ok(v, UINT64_C(10), &v) || !gp_add_ok(v, (uint64_t)(*s - '0'), &v))
            return -ERANGE;
    }
    if (v < min || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

int
gp_str_time(const char *s, uint64_t second, uint64_t min, uint64_t max, uint64_t *ret)
{
    size_t len = strlen(s);
    char last = len ? s[len - 1] : 0, digits[16];
    uint64_t unit = last == 'h' ? 3600 * second : last == 'm' ? 60 * second : second, n;
    int r;

    if (!gp_str_copy(digits, sizeof(digits), s))
        return -EINVAL;
    if (last == 'h' || last == 'm' || last == 's')
        digits[len - 1] = 0;
    r = gp_str_u64(digits, 0, max / unit, &n);
    if (r < 0)
        return r;
    if (n * unit < min)
        return -ERANGE;
    *ret = n * unit;
    return 0;
}

char *
gp_str_printf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    va_end(ap);
    return s;
}

void
gp_str_hex(char *dst, const void *src, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = src;

    for (size_t i = 0; i < len; i++) {
        dst[2 * i] = digits[p[i] >> 4];
        dst[2 * i + 1] = digits[p[i] & 15];
    }
    dst[2 * len] = 0;
}

char *
gp_str_behind_bom(char *text)
{
    return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

char *
gp_str_trim(char *s)
{
    char *end = s + strlen(s);

    while (isspace((unsigned char)*s))
        s++;
    while (end > s && isspace((unsigned char)end[-1]))
        *--end = 0;
    return s;
}

unsigned
gp_str_distance(const char *a, const char *b)
{
    unsigned row[GP_STR_DISTANCE_MAX + 1];
    size_t n = strlen(b);

    if (n > GP_STR_DISTANCE_MAX || strlen(a) > GP_STR_DISTANCE_MAX)
        return GP_STR_DISTANCE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned corner = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned change = corner + (a[i - 1] != b[j - 1]);

            corner = row[j];
            row[j] = gp_min(change, gp_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[n];
}

unsigned
gp_str_distance_near(const char *typed)
{
    return (unsigned)gp_min(strlen(typed) / 3, (size_t)2);
}
