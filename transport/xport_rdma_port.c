/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's RDMA ports by their addresses, and the order in which to try a server's.
 *
 * Which addresses belong to an RDMA port only librdmacm knows (RoCE ports share a
 * network interface, InfiniBand ones have an interface of their own), so each is asked
 * about.
 */
#include "xport_rdma.h"

#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

/* The address itself as bytes; 0: of a family that is not used here. */
static size_t
address_bytes(const struct sockaddr *sa, const uint8_t **ret)
{
    if (sa && sa->sa_family == AF_INET) {
        *ret =
            (const uint8_t *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr;
        return 4;
    }
    if (sa && sa->sa_family == AF_INET6) {
        *ret = (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)sa)
                   ->sin6_addr;
        return 16;
    }
    return 0;
}

/* Others can connect to it: no loopback, nothing that needs a scope. */
static bool
address_is_global(const struct sockaddr *sa)
{
    const uint8_t *b;
    size_t n = address_bytes(sa, &b);

    if (n == 4)
        return b[0] != 127 && !(b[0] == 169 && b[1] == 254);
    return n == 16 && !(b[0] == 0xfe && (b[1] & 0xc0) == 0x80) &&
           memcmp(b, &in6addr_loopback, 16) != 0;
}

static unsigned
mask_bits(const struct sockaddr *mask)
{
    const uint8_t *b;
    size_t n = address_bytes(mask, &b);
    unsigned bits = 0;

    for (size_t i = 0; i < n; i++)
        bits += (unsigned)__builtin_popcount(b[i]);
    return bits;
}

static socklen_t
address_size(const struct sockaddr *sa)
{
    return sa->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                    : sizeof(struct sockaddr_in6);
}

/* Ask librdmacm whether a port has this address. */
static bool
port_of(const struct xport_verbs *v, struct rdma_event_channel *channel,
        const struct ifaddrs *ifa, struct xport_rdma_port *port)
{
    struct rdma_cm_id *id;
    bool yes;

    if (v->create_id(channel, &id, NULL, RDMA_PS_TCP))
        return false;
    yes = v->bind_addr(id, ifa->ifa_addr) == 0 && id->verbs;
    *port = (struct xport_rdma_port){.prefix = mask_bits(ifa->ifa_netmask)};
    if (yes) {
        gp_str_copy(port->device, sizeof(port->device), id->verbs->device->name);
        yes = getnameinfo(ifa->ifa_addr, address_size(ifa->ifa_addr), port->host,
                          sizeof(port->host), NULL, 0, NI_NUMERICHOST) == 0;
    }
    v->destroy_id(id);
    return yes;
}

size_t
xport_rdma_parse_ports(const char *list,
                       struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX])
{
    size_t n = 0;

    while (*list && n < XPORT_RDMA_PORTS_MAX) {
        size_t len = strcspn(list, ",");

        ports[n] = (struct xport_rdma_port){.port = 0};
        if (len && len < sizeof(ports[n].host))
            memcpy(ports[n++].host, list, len);
        list += len + (list[len] == ',');
    }
    return n;
}

size_t
xport_rdma_ports(struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX], struct gp_err *err)
{
    const struct xport_verbs *v;
    struct rdma_event_channel *channel;
    struct ifaddrs *list = NULL;
    size_t n = 0;

    if (xport_rdma_usable(err) < 0)
        return 0;
    v = xport_verbs_get(err);
    channel = v->create_event_channel();
    if (channel && getifaddrs(&list) == 0) {
        for (struct ifaddrs *i = list; i && n < XPORT_RDMA_PORTS_MAX; i = i->ifa_next)
            if ((i->ifa_flags & IFF_UP) && i->ifa_addr &&
                address_is_global(i->ifa_addr))
                n += port_of(v, channel, i, &ports[n]);
        freeifaddrs(list);
    }
    if (channel)
        v->destroy_event_channel(channel);
    if (!n)
        gp_err_set(err, -ENODEV,
                   "no RDMA: no RDMA port of this host has an address (and is up)");
    return n;
}

/* Whether two addresses have their first @bits bits in common. */
static bool
same_subnet(const char *one, const char *other, unsigned bits)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *a = NULL, *b = NULL;
    const uint8_t *x, *y;
    bool same = false;
    size_t n;

    if (bits && getaddrinfo(one, NULL, &hints, &a) == 0 &&
        getaddrinfo(other, NULL, &hints, &b) == 0) {
        n = address_bytes(a->ai_addr, &x);
        same = n && address_bytes(b->ai_addr, &y) == n && bits <= 8 * n &&
               memcmp(x, y, bits / 8) == 0;
        if (same && bits % 8)
            same = ((x[bits / 8] ^ y[bits / 8]) >> (8 - bits % 8)) == 0;
    }
    if (a)
        freeaddrinfo(a);
    if (b)
        freeaddrinfo(b);
    return same;
}

size_t
xport_rdma_rank(struct xport_rdma_port *ports, size_t n,
                const struct xport_rdma_port *own, size_t n_own)
{
    size_t near = 0;

    for (size_t i = 0; i < n; i++) {
        struct xport_rdma_port port = ports[i];
        bool reachable = false;

        for (size_t j = 0; j < n_own && !reachable; j++)
            reachable = same_subnet(port.host, own[j].host, own[j].prefix);
        if (!reachable)
            continue;
        memmove(&ports[near + 1], &ports[near], (i - near) * sizeof(port));
        ports[near++] = port;
    }
    return near;
}
