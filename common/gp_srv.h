/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a service runs, by its SRV records in DNS (RFC 2782).
 *
 * The C library's resolver asks, with its own configuration, caches and timeouts; what
 * it brings is foreign bytes and is read here.  No state, any thread.  Not addresses:
 * the names that are found are resolved as every other (gp_net.h).
 */
#ifndef GP_SRV_H
#define GP_SRV_H

#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

struct gp_err;

/* A pool has a handful of schedulers; further records are left out. */
#define GP_SRV_TARGETS_MAX 16
#define GP_SRV_NAME_MAX 256 /* of a name in DNS, with the NUL */

struct gp_srv_target {
    char host[GP_SRV_NAME_MAX];
    uint16_t port, priority, weight;
};

/* The targets of @name ("_gpupool._tcp.example.org"), in the order in which they are to
 * be tried: by priority, among equals at random by weight.  Waits as long as the
 * resolver does.  Returns how many (at least one), or -EHOSTUNREACH: the name has none,
 * or DNS does not answer; the words say which. */
int gp_srv_lookup(const char *name, struct gp_srv_target targets[GP_SRV_TARGETS_MAX],
                  struct gp_err *err);

/* The SRV records in the DNS message of @size bytes; how many, or -EBADMSG: it breaks
 * off, or is none.  Records whose target is no host name are left out. */
int gp_srv_parse(const uint8_t *message, size_t size,
                 struct gp_srv_target targets[GP_SRV_TARGETS_MAX]);
/* Put them in order.  @random: a number of which every value is as likely. */
void gp_srv_order(struct gp_srv_target *targets, unsigned n, uint32_t (*random)(void));

#endif
