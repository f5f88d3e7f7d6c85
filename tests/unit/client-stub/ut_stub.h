/* SPDX-License-Identifier: Apache-2.0 */
/* A client stub that believes it is attached, to a server with two cards. */
#ifndef UT_STUB_H
#define UT_STUB_H

#include "ut.h"

#include "attach.pb-c.h"
#include "gp_time.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_link.h"
#include "wire_format.h"
#include "xport.h"

#include <string.h>
#include <sys/socket.h>

static Gpupool__AttachDevice ut_cards[2];
static Gpupool__AttachDevice *ut_card_list[2] = {&ut_cards[0], &ut_cards[1]};
static Gpupool__AttachReply ut_reply;
static int32_t ut_attributes[64];
static uint8_t ut_uuids[2][16];

/* No connection behind it: calls that go to the server must not be made. */
static inline void
ut_stub_attach(const char *visible)
{
    gpupool__attach_reply__init(&ut_reply);
    for (int i = 0; i < 2; i++) {
        gpupool__attach_device__init(&ut_cards[i]);
        memset(ut_uuids[i], 0x10 + i, 16);
        ut_cards[i].name = i ? (char *)"second" : (char *)"first";
        ut_cards[i].uuid = (ProtobufCBinaryData){16, ut_uuids[i]};
        ut_cards[i].pci_bus_id = i ? (char *)"0000:02:00.0" : (char *)"0000:01:00.0";
        ut_cards[i].total_mem = (uint64_t)(i + 1) << 30;
        ut_cards[i].n_attributes = 64;
        ut_cards[i].attributes = ut_attributes;
        ut_cards[i].ctx_api_version = 3020;
    }
    for (int i = 0; i < 64; i++)
        ut_attributes[i] = 1000 + i + 1;
    ut_reply.driver_version = 13000;
    ut_reply.n_devices = 2;
    ut_reply.devices = ut_card_list;
    stub_links[0].attach = &ut_reply;
    atomic_store(&stub_links[0].phase, STUB_READY);
    stub_device_init(visible, false);
    assert_int_equal(stub_ctx_init(), 0);
}

/* A worker's end of the first link's connection, and a context of this thread. */
static inline struct xport_conn *
ut_stub_connect(void)
{
    struct stub_link *link = &stub_links[0];
    struct xport_conn *worker;
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(xport_tcp_new(fd[0], WIRE_FRAME_MAX, &link->conn, NULL), 0);
    assert_int_equal(xport_tcp_new(fd[1], WIRE_FRAME_MAX, &worker, NULL), 0);
    stub_link_set_phase(link, STUB_READY);
    assert_int_equal(stub_ctx_push(stub_ctx_primary(0)), 0);
    return worker;
}

/* The next frame that the worker gets; NULL: nothing has been sent. */
static inline const struct wire_req *
ut_stub_sent(struct xport_conn *worker)
{
    const void *frame;
    uint32_t size;

    return xport_recv(worker, &frame, &size, gp_now_ns() + GP_NS_PER_MS) == 0 ? frame
                                                                              : NULL;
}

#endif
