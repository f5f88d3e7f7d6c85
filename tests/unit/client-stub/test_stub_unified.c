/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses that page-locked memory has at all servers of a session: which ones are
 * offered, and what becomes of an offer that one of two servers refuses.
 */
#include "ut_stub.h"

#include "gp_net.h"
#include "gp_time.h"
#include "stub_device.h"
#include "stub_unified.h"
#include "wire_api.h"
#include "xport.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The addresses of the software card (sg_dev.h): sixteen cards, two parts for reserved
 * addresses and one for managed memory, of 1 TiB each. */
#define CARDS_FROM (UINT64_C(0x20) << 40)
#define CARDS_END (CARDS_FROM + (UINT64_C(19) << 40))

#define REFUSED 3u

struct server {
    struct xport_conn *conn;
    pthread_t thread;
    uint32_t refuses; /* so many offers */
    uint32_t offers, returns;
    uint64_t base[16]; /* that were offered */
    uint64_t has;      /* 0: nothing */
};

static char *capabilities[] = {(char *)"unified"};
static Gpupool__AttachReply replies[2];
static struct server servers[2];

static bool
server_answer(struct server *server, uint64_t base, uint64_t size)
{
    if (!size) {
        server->returns++;
        if (server->has != base)
            return false;
        server->has = 0;
        return true;
    }
    server->base[server->offers++ % 16] = base;
    if (server->has || server->offers <= server->refuses)
        return false;
    server->has = base;
    return true;
}

static void *
server_main(void *arg)
{
    struct server *server = arg;
    struct wire_gp_window_rep body = {0};
    struct wire_gp_window_req req;
    const void *frame;
    struct wire_rep *rep;
    uint32_t size;

    while (xport_recv(server->conn, &frame, &size, GP_FOREVER) == 0) {
        const struct wire_req *head = frame;
        uint32_t seq = head->seq;

        if (head->call != WIRE_CALL_gp_window)
            continue;
        memcpy(&req, head + 1, sizeof(req));
        body.taken = server_answer(server, req.base, req.size);
        size = sizeof(*rep) + sizeof(body);
        rep = xport_reserve(server->conn, size);
        *rep = (struct wire_rep){.size = size, .call = WIRE_CALL_gp_window, .seq = seq};
        memcpy(rep + 1, &body, sizeof(body));
        xport_commit(server->conn, size);
        xport_flush_now(server->conn);
    }
    return NULL;
}

static void
attach_to_two(void)
{
    int fd[2];

    ut_stub_attach(NULL);
    stub_links_n = 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct stub_link *link = &stub_links[i];

        replies[i] = ut_reply;
        replies[i].n_capabilities = 1;
        replies[i].capabilities = capabilities;
        link->number = i;
        link->attach = &replies[i];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
        assert_int_equal(xport_tcp_new(fd[0], WIRE_FRAME_MAX, &link->conn, NULL), 0);
        assert_int_equal(xport_tcp_new(fd[1], WIRE_FRAME_MAX, &servers[i].conn, NULL),
                         0);
        stub_link_set_phase(link, STUB_READY);
        assert_int_equal(
            pthread_create(&servers[i].thread, NULL, server_main, &servers[i]), 0);
    }
}

static bool
is_the_cards(uint64_t base)
{
    return base < CARDS_END && base + STUB_UNIFIED_SIZE > CARDS_FROM;
}

static void
range_that_one_server_refuses_is_used_at_none(void **state)
{
    servers[1].refuses = REFUSED;
    attach_to_two();
    assert_true(stub_unified_open());
    assert_true(stub_unified_any());
    assert_int_equal(servers[0].offers, REFUSED + 1);
    assert_int_equal(servers[0].returns, REFUSED);
    assert_int_equal(servers[1].returns, 0);
    assert_int_equal(servers[0].has, servers[1].has);
    assert_true(stub_unified_holds(servers[0].has));
    for (uint32_t i = 0; i <= REFUSED; i++) {
        assert_int_equal(servers[0].base[i], servers[1].base[i]);
        assert_false(is_the_cards(servers[0].base[i]));
        assert_true(i == REFUSED || !stub_unified_holds(servers[0].base[i]));
    }
}

static bool
none_has_a_range(void)
{
    servers[1].refuses = UINT32_MAX;
    attach_to_two();
    return !stub_unified_open() && !stub_unified_any() && stub_device_no_unified &&
           servers[0].offers > 1 && servers[0].offers == servers[0].returns &&
           !servers[0].has;
}

/* Page-locked memory has other addresses on the cards of both.  In a child, and first:
 * a process asks once. */
static void
server_that_refuses_every_range_leaves_the_others_without_one(void **state)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(none_has_a_range() ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_that_refuses_every_range_leaves_the_others_without_one),
        cmocka_unit_test(range_that_one_server_refuses_is_used_at_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
