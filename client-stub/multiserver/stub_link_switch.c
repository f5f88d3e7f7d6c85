/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_link_switch.h"

#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_func.h"
#include "stub_handle.h"
#include "stub_memory.h"
#include "wire_format.h"

static void
route_decide(struct stub_route *route, uint32_t link, uint32_t ctx)
{
    if (route->link >= 0 || link >= stub_links_n)
        return;
    route->link = (int)link;
    route->ctx = ctx;
}

void
stub_route_handle(struct stub_route *route, uint32_t kind, uint64_t handle)
{
    if (route->link >= 0 || !wire_handle_is(handle, kind))
        return; /* none, or one of the special streams: where we are */
    route_decide(route, wire_handle_link(handle),
                 kind == WIRE_KIND_CTX ? wire_handle_index(handle)
                                       : stub_handle_ctx(kind, handle));
}

void
stub_route_device(struct stub_route *route, CUdevice dev)
{
    const struct stub_device *d = stub_device_get(dev);

    if (d)
        route_decide(route, d->link->number,
                     wire_handle_index(stub_ctx_primary(dev)->handle));
}

void
stub_route_address(struct stub_route *route, uint64_t addr)
{
    uint32_t link, ctx;

    if (route->link < 0 && stub_memory_where(addr, &link, &ctx))
        route_decide(route, link, ctx);
}

void
stub_route_func(struct stub_route *route, uint64_t func)
{
    if (route->link < 0 && !stub_func_is_everywhere(func))
        stub_route_handle(route, WIRE_KIND_FUNC, func);
}

void
stub_route_owner(struct stub_route *route, uint64_t addr)
{
    uint32_t link, ctx;

    if (route->link < 0 && stub_memory_owner(addr, &link, &ctx))
        route_decide(route, link, ctx);
}

struct stub_link *
stub_route_link(const struct stub_route *route)
{
    return route->link >= 0 && !stub_tls.stay ? &stub_links[route->link]
                                              : stub_link_here();
}

/* If no context can be pushed, the thread stays where it is: the server there does
 * not know the arguments, and returns the error. */
void
stub_link_switch_begin(struct stub_link_switch *link_switch,
                       const struct stub_route *route)
{
    bool alive;

    link_switch->away =
        route->link >= 0 && !stub_tls.stay &&
        (uint32_t)route->link != stub_link_here()->number &&
        stub_ctx_push_on((uint32_t)route->link, route->ctx, &alive) == 0;
}

void
stub_link_switch_end(struct stub_link_switch *link_switch)
{
    if (link_switch->away)
        stub_ctx_pop();
}
