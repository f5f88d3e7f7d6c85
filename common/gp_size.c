/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char UNITS[] = "BKMGT";

/* "", "G", "GB", "GiB" -> shift; -1 when it is no unit. */
static int
unit_shift(const char *unit)
{
    const char *at;

    if (!*unit)
        return 0;
    at = strchr(UNITS, toupper((unsigned char)*unit));
    if (!at)
        return -1;
    if (isupper((unsigned char)unit[0]) && !strcmp(unit + 1, "b"))
        return -1; /* Gb is a gigabit */
    if (unit[1] &&
        (at == UNITS || (strcasecmp(unit + 1, "B") && strcasecmp(unit + 1, "iB"))))
        return -1;
    return (int)(at - UNITS) * 10;
}

/* Digits after the point as a fraction of 2^shift; at most 9 of them count. */
static uint64_t
fraction(const char **p, int shift)
{
    uint64_t digits = 0, scale = 1;

    for (; isdigit((unsigned char)**p); (*p)++)
        if (scale < 1000000000) {
            digits = digits * 10 + (uint64_t)(**p - '0');
            scale *= 10;
        }
    return (uint64_t)((unsigned __int128)digits * (UINT64_C(1) << shift) / scale);
}

static const char *
skip_number(const char *p)
{
    while (isdigit((unsigned char)*p))
        p++;
    if (*p == '.')
        p++;
    while (isdigit((unsigned char)*p))
        p++;
    while (*p == ' ')
        p++;
    return p;
}

int
gp_size_parse(const char *text, uint64_t *ret)
{
    int shift = unit_shift(skip_number(text));
    const char *p = text;
    uint64_t whole = 0, part = 0;

    if (!isdigit((unsigned char)*p) || shift < 0)
        return -EINVAL;
    for (; isdigit((unsigned char)*p); p++)
        if (!gp_mul_ok(whole, (uint64_t)10, &whole) ||
            !gp_add_ok(whole, (uint64_t)(*p - '0'), &whole))
            return -ERANGE;
    if (*p == '.') {
        p++;
        if (!isdigit((unsigned char)*p) || !shift)
            return -EINVAL;
        part = fraction(&p, shift);
    }
    if (!gp_mul_ok(whole, UINT64_C(1) << shift, &whole) ||
        !gp_add_ok(whole, part, &whole) || whole > INT64_MAX)
        return -ERANGE;
    *ret = whole;
    return 0;
}

const char *
gp_size_format(uint64_t bytes, char buf[GP_SIZE_TEXT])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;

    while (unit + 1 < ARRAY_SIZE(names) && bytes >> (10 * (unit + 1)))
        unit++;
    if (bytes & ((UINT64_C(1) << (10 * unit)) - 1))
        snprintf(buf, GP_SIZE_TEXT, "%.2f %s",
                 (double)bytes / (double)(UINT64_C(1) << (10 * unit)), names[unit]);
    else
        snprintf(buf, GP_SIZE_TEXT, "%" PRIu64 " %s", bytes >> (10 * unit),
                 names[unit]);
    return buf;
}
