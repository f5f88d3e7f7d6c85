/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Link switch: in sessions with several servers, a call is made at the server that its
 * arguments belong to.
 *
 * The calls of a thread go to the server of its current context.  If the arguments
 * belong to another one, the exported function makes a context of that server current,
 * calls the same body as ever, and restores the context: bodies know nothing of this.
 * Sessions with one server skip it (stub_slow in stub_call.h).
 *
 * Values on the calling thread's stack; any thread.
 */
#ifndef STUB_LINK_SWITCH_H
#define STUB_LINK_SWITCH_H

#include "cuda_abi.h"
#include "stub_link.h"

#include <stdbool.h>
#include <stdint.h>

/* The target; the first argument that belongs to a server decides. */
struct stub_route {
    int link;     /* its number, -1: undecided, stay */
    uint32_t ctx; /* index of the context to be preferred, 0 = none */
};

#define STUB_ROUTE_HERE                                                                \
    {                                                                                  \
        .link = -1                                                                     \
    }

/* Each leaves a route that is decided as it is. */
void stub_route_handle(struct stub_route *route, uint32_t kind, uint64_t handle);
void stub_route_device(struct stub_route *route, CUdevice dev);
/* Memory that every server has decides nothing, except for calls that query it
 * (owner). */
void stub_route_address(struct stub_route *route, uint64_t addr);
void stub_route_owner(struct stub_route *route, uint64_t addr);
/* Functions of a library are on every server and decide nothing. */
void stub_route_func(struct stub_route *route, uint64_t func);

/* Where a call with that route is made. */
struct stub_link *stub_route_link(const struct stub_route *route);

struct stub_link_switch {
    bool away;
};

/* Around one call: until the end, the thread's calls go to the server of @route, in a
 * context of it.  Where none can be made current, they stay where they are. */
void stub_link_switch_begin(struct stub_link_switch *link_switch,
                            const struct stub_route *route);
void stub_link_switch_end(struct stub_link_switch *link_switch);

#endif
