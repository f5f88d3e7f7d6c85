/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of the one scheduler that this server obeys.
 *
 * They come from --scheduler-key, else from the first registration; the latter are kept
 * in --state-dir.  While the server has one it takes no other: who gets hold of the
 * scheduler's address could otherwise sign tickets.  A scheduler that changes its key
 * names the new one over a link that it has proven the old one on; what the operator
 * wrote into --scheduler-key only the operator changes.  Event-loop thread only.
 */
#ifndef SRV_PIN_H
#define SRV_PIN_H

#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct srv;

/* Read the keys that are given, or that an earlier registration left, if there are any;
 * again after SIGHUP.  On failure those of before stay. */
int srv_pin_load(struct srv *srv, struct gp_err *err);

/* May a scheduler with this key be obeyed?  Changes nothing. */
int srv_pin_check(const struct srv *srv, const uint8_t *raw, size_t size,
                  struct gp_err *err);

/* A scheduler says that @raw is its key.  -EKEYREJECTED: it is not one that we have;
 * the words say what an administrator can do. */
int srv_pin_take(struct srv *srv, const uint8_t *raw, size_t size, struct gp_err *err);

/* The scheduler that we obey says that these @n keys are good, and no others. */
struct ProtobufCBinaryData;
int srv_pin_follow(struct srv *srv, const struct ProtobufCBinaryData *keys, size_t n,
                   struct gp_err *err);

#endif
