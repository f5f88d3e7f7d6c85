/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adoption: a supervisor takes over what one before it has left with the keeper.
 *
 * Loaded before anything is made anew, because the jail, the cards and the listening
 * sockets come from it too; sessions and workers are taken when the cards are known.
 * Owned by struct srv until then; event-loop thread only.
 */
#ifndef SRV_ADOPT_H
#define SRV_ADOPT_H

#include "gp_base.h"
#include "srv_keep_msg.h"

#include <stdint.h>

struct gp_err;
struct srv;
struct srv_adopt;
struct srv_keeper;

/* All items of the keeper; *ret NULL: it has none. */
int srv_adopt_load(struct srv *srv, struct srv_adopt **ret, struct gp_err *err);
void srv_adopt_free(struct srv_adopt *adopt); /* NULL is a no-op */
DEFINE_CLEANUP(struct srv_adopt, srv_adopt_free)

/* The descriptors of the first item of @kind, which stay its own; NULL: there is none,
 * or @adopt is. */
const struct srv_keep_fds *srv_adopt_find(const struct srv_adopt *adopt,
                                          enum srv_keep_kind kind);
/* The socket that listened at @address as number @key; the caller's.  -1: none did, and
 * one that listened elsewhere is closed, here and by @keeper. */
int srv_adopt_listener(struct srv_adopt *adopt, struct srv_keeper *keeper, uint64_t key,
                       const char *address);
/* What the sockets of @address are called. */
uint64_t srv_adopt_address(const char *address);

/* Images, sessions and workers become the supervisor's.  Each that cannot is logged and
 * ended. */
void srv_adopt_take(struct srv *srv, struct srv_adopt *adopt);

#endif
