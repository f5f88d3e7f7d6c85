/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions with several servers: taking a call to the one that its arguments belong to.
 *
 * The calls of a thread go to the server of its current context.  Where the arguments
 * are of another one, the exported function makes a context of that server current,
 * calls the same body as ever, and goes back: so bodies know nothing of this.  In
 * sessions with one server it is not even looked at (stub_slow in stub_call.h).
 *
 * Values on the calling thread's stack; any thread.
 */
#ifndef STUB_LINK_SWITCH_H
#define STUB_LINK_SWITCH_H

#include "cuda_abi.h"
#include "stub_link.h"

#include <stdbool.h>
#include <stdint.h>

/* Where to: the first argument that tells decides. */
struct stub_route {
    int link;     /* its number, -1: nobody has told, stay */
    uint32_t ctx; /* index of the context to be preferred, 0 = none */
};

#define STUB_ROUTE_HERE                                                                \
    {                                                                                  \
        .link = -1                                                                     \
    }

/* Each leaves a route that is settled alone. */
void stub_route_handle(struct stub_route *route, uint32_t kind, uint64_t handle);
void stub_route_device(struct stub_route *route, CUdevice dev);
/* Memory that every server has tells nothing, but to calls that ask about it. */
void stub_route_address(struct stub_route *route, uint64_t addr);
void stub_route_owner(struct stub_route *route, uint64_t addr);
/* Functions of a library are on every server and tell nothing. */
void stub_route_func(struct stub_route *route, uint64_t func);

struct stub_link_switch {
    bool away;
};

void stub_link_switch_begin(struct stub_link_switch *link_switch,
                            const struct stub_route *route);
void stub_link_switch_end(struct stub_link_switch *link_switch);

#endif
