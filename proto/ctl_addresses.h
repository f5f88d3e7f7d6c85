/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a pool's schedulers: "host:port", with commas between when there are
 * several.  Any of them may be asked; one that does not lead says who does
 * (CTL_NOT_LEADER).  No state, any thread.
 */
#ifndef CTL_ADDRESSES_H
#define CTL_ADDRESSES_H

#include <stddef.h>
#include <string.h>

static inline unsigned
ctl_addresses_count(const char *list)
{
    unsigned n = 1;

    while ((list = strchr(list, ','))) {
        list++;
        n++;
    }
    return n;
}

/* The address number @n, counted round; cut off when @size is too small. */
static inline void
ctl_addresses_nth(const char *list, unsigned n, char *ret, size_t size)
{
    size_t len;

    for (n %= ctl_addresses_count(list); n; n--)
        list = strchr(list, ',') + 1;
    len = strcspn(list, ",");
    if (len >= size)
        len = size - 1;
    memcpy(ret, list, len);
    ret[len] = '\0';
}

#endif
