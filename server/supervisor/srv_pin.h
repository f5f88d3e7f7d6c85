/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of the one scheduler that this server obeys.
 *
 * It comes from --scheduler-key, else from the first registration; the latter is kept
 * in
 * --state-dir.  While the server has a key it takes no other: who gets hold of the
 * scheduler's address could otherwise sign tickets.  Event-loop thread only.
 */
#ifndef SRV_PIN_H
#define SRV_PIN_H

#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct srv;

/* Read the key that an earlier registration left, if there is one. */
int srv_pin_load(struct srv *srv, struct gp_err *err);

/* May a scheduler with this key be obeyed?  Changes nothing. */
int srv_pin_check(const struct srv *srv, const uint8_t *raw, size_t size,
                  struct gp_err *err);

/* A scheduler says that @raw is its key.  -EKEYREJECTED: it is not the one we have; the
 * words say what an administrator can do. */
int srv_pin_take(struct srv *srv, const uint8_t *raw, size_t size, struct gp_err *err);

#endif
