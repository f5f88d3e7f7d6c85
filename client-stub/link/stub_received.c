/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_received.h"

#include "stub_call.h"
#include "stub_link.h"
#include "wire_api.h"
#include "xport.h"

/* A frame costs both ends as much as the copy of some of these bytes. */
#define WORTH_IT (24u << 10)

uint64_t
stub_received_say(struct stub_link *link)
{
    uint64_t received, due = xport_unheard(link->conn, &received);
    struct wire_gp_received_req *req;
    struct stub_call c;

    if (due < WORTH_IT || !link->hears ||
        stub_call_begin_on(&c, link, WIRE_CALL_gp_received, sizeof(*req)) !=
            CUDA_SUCCESS)
        return 0;
    req = c.body;
    *req = (struct wire_gp_received_req){.bytes = received};
    if (stub_call_post_along(&c) != CUDA_SUCCESS)
        return 0;
    xport_said(link->conn, received);
    return received;
}
