/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a pool's schedulers: "host:port", with commas between when there are
 * several.  Any of them may be asked; one that does not lead says who does
 * (CTL_NOT_LEADER).  Plain values, any thread.
 */
#ifndef CTL_ADDRESSES_H
#define CTL_ADDRESSES_H

#include "ctl_limits.h"

#include <stdbool.h>
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

/* The number behind @n of one that is not @failed: another may have named that address,
 * so its number is not always @n. */
static inline unsigned
ctl_addresses_after(const char *list, unsigned n, const char *failed)
{
    unsigned count = ctl_addresses_count(list);
    char address[CTL_ENDPOINT_MAX];

    for (unsigned i = 1; i < count; i++) {
        ctl_addresses_nth(list, n + i, address, sizeof(address));
        if (strcmp(address, failed) != 0)
            return n + i;
    }
    return n + 1;
}

/* Which of them is asked: one after the other until one answers, then where that one
 * says.  Zeroed but for @list at the beginning. */
struct ctl_route {
    const char *list; /* the owner's */
    unsigned at;
    char leader[CTL_ENDPOINT_MAX]; /* as a scheduler named it; or empty */
};

static inline void
ctl_route_address(const struct ctl_route *route, char ret[CTL_ENDPOINT_MAX])
{
    if (route->leader[0])
        memcpy(ret, route->leader, sizeof(route->leader));
    else
        ctl_addresses_nth(route->list, route->at, ret, CTL_ENDPOINT_MAX);
}

/* The one that was asked does not answer, or knows no leader: the next of the list. */
static inline void
ctl_route_next(struct ctl_route *route)
{
    if (!route->leader[0])
        route->at++;
    route->leader[0] = '\0';
}

/* The one that was asked does not lead and names @leader, or nobody ("").  True: the
 * one that it named can be asked at once. */
static inline bool
ctl_route_follow(struct ctl_route *route, const char *leader)
{
    size_t len = strlen(leader);

    ctl_route_next(route);
    if (!len || len >= sizeof(route->leader))
        return false;
    memcpy(route->leader, leader, len + 1);
    return true;
}

#endif
