/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a link that is replaced, in front of a server that is written
 * here: it answers when it pleases. */
#include "ut.h"

#include "gp_msg.h"
#include "gp_net.h"
#include "gp_time.h"
#include "stub_rdma.h"
#include "stub_resume.h"
#include "stub_secure.h"
#include "xport.h"

#include "attach.pb-c.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIB (1u << 20)
#define PATIENCE (gp_now_ns() + 20 * GP_NS_PER_S)

/* A client and the socket on which its server listens. */
static struct {
    int listener, link;
    char address[32];
    struct xport_conn *conn;
    pthread_t reader;
} at;

static const char zeros[2 * MIB];

static int
accepted(void)
{
    int fd = -1;

    assert_int_equal(gp_net_wait(at.listener, POLLIN, PATIENCE), 0);
    assert_int_equal(gp_net_accept(at.listener, &fd), 0);
    return fd;
}

/* The next connection, which must ask for link @number, or its acknowledgements. */
static int
asked(uint32_t number, bool acks)
{
    Gpupool__AttachRequest *req;
    int fd = accepted();
    void *bytes = NULL;
    size_t len = 0;

    assert_int_equal(gp_msg_recv(fd, 4096, PATIENCE, &bytes, &len, NULL), 0);
    req = gpupool__attach_request__unpack(NULL, len, bytes);
    assert_non_null(req);
    assert_int_equal(req->resume_seq, number);
    assert_int_equal(req->resume_acks, acks);
    gpupool__attach_request__free_unpacked(req, NULL);
    free(bytes);
    return fd;
}

static void
answer(int fd, Gpupool__AttachStatus status)
{
    Gpupool__AttachReply msg = GPUPOOL__ATTACH_REPLY__INIT;
    uint8_t bytes[128];

    msg.status = status;
    msg.message = (char *)"as it pleases";
    assert_int_equal(gp_msg_send(fd, bytes, gpupool__attach_reply__pack(&msg, bytes),
                                 PATIENCE, NULL),
                     0);
}

/* The client reads as much as the server sends meanwhile. */
static void *
read_some(void *arg)
{
    void *bytes = malloc(sizeof(zeros));
    intptr_t r = bytes ? xport_recv_bulk(at.conn, bytes, sizeof(zeros)) : -1;

    free(bytes);
    return (void *)r;
}

static void
reading_starts(void)
{
    assert_int_equal(pthread_create(&at.reader, NULL, read_some, NULL), 0);
}

static void
server_sends(int fd)
{
    for (size_t sent = 0; sent < sizeof(zeros);) {
        ssize_t n = send(fd, zeros, sizeof(zeros) - sent, MSG_NOSIGNAL);

        if (n < 0)
            assert_int_equal(gp_net_wait(fd, POLLOUT, PATIENCE), 0);
        sent += n < 0 ? 0 : (size_t)n;
    }
}

static void
reading_ends(void)
{
    void *r;

    pthread_join(at.reader, &r);
    assert_ptr_equal(r, NULL);
}

static void
client_receives(int fd)
{
    reading_starts();
    server_sends(fd);
    reading_ends();
}

static int
attach(void **state)
{
    struct stub_secure clear = {.on = false};
    static const uint8_t key[ATTACH_KEY_SIZE] = {1};
    Gpupool__AttachReply reply = GPUPOOL__ATTACH_REPLY__INIT;
    int fd;

    assert_int_equal(gp_net_listen("127.0.0.1:0", 0, 16, &at.listener, NULL), 0);
    snprintf(at.address, sizeof(at.address), "127.0.0.1:%u", gp_net_port(at.listener));
    assert_int_equal(gp_net_connect(at.address, 0, PATIENCE, false, &fd, NULL), 0);
    at.link = accepted();
    reply.resume_s = 60;
    assert_int_equal(
        stub_resume_open(at.address, &clear, key, &reply, fd, &at.conn, NULL), 0);
    return 0;
}

static int
leave(void **state)
{
    close(at.link);
    close(at.listener); /* the connection lives as long as the process, as always */
    return 0;
}

/* The client opens, or has opened, what its acknowledgements come over. */
static void
acknowledges(int acks)
{
    uint64_t value = 0;

    answer(acks, GPUPOOL__ATTACH_STATUS__ATTACH_OK);
    assert_int_equal(gp_net_wait(acks, POLLIN, PATIENCE), 0);
    assert_int_equal(recv(acks, &value, sizeof(value), MSG_WAITALL), sizeof(value));
    assert_true(value >= MIB);
    close(acks);
}

static void
acknowledgements_come_when_they_are_due(void **state)
{
    client_receives(at.link);
    acknowledges(asked(0, true));
}

/* A server that waits for an acknowledgement sends nothing that would make the client
 * ask once more by itself. */
static void
acknowledgements_are_asked_for_until_they_are_granted(void **state)
{
    int acks;

    client_receives(at.link);
    acks = asked(0, true);
    answer(acks, GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT);
    close(acks);
    close(asked(0, true));
    acknowledges(asked(0, true));
}

/* The link is replaced while the answer that concerns the one before is outstanding,
 * and acknowledgements are due on the new one before it comes. */
static void
acknowledgements_of_a_new_link_are_not_lost_behind_the_old_one(void **state)
{
    int late;

    client_receives(at.link);
    late = asked(0, true);
    reading_starts();
    close(at.link);
    at.link = asked(1, false);
    answer(at.link, GPUPOOL__ATTACH_STATUS__ATTACH_OK);
    server_sends(at.link);
    reading_ends();
    answer(late, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET);
    close(late);
    acknowledges(asked(1, true));
}

/* What a link over RDMA leaves behind when it has become TCP. */
static struct xport_conn *
broken_link(void)
{
    static const struct xport_ops ops = {.kind = XPORT_KIND_TCP};
    static struct xport_conn conn = {.ops = &ops};

    return &conn;
}

static Gpupool__AttachReply
reply_with(Gpupool__AttachTransport **transports, char **refusals)
{
    Gpupool__AttachReply reply = GPUPOOL__ATTACH_REPLY__INIT;

    reply.transports = transports;
    reply.n_transports = transports != NULL;
    reply.refusals = refusals;
    reply.n_refusals = refusals != NULL;
    return reply;
}

/* One port, at which nobody listens. */
static void
began_over_rdma(struct stub_rdma *rdma)
{
    Gpupool__AttachRdmaPort port = GPUPOOL__ATTACH_RDMA_PORT__INIT, *ports[] = {&port};
    Gpupool__AttachRdma msg = GPUPOOL__ATTACH_RDMA__INIT;
    Gpupool__AttachTransport offer = GPUPOOL__ATTACH_TRANSPORT__INIT, *all[] = {&offer};
    Gpupool__AttachReply reply = reply_with(all, NULL);
    uint8_t bytes[128];

    port.host = (char *)"127.0.0.1";
    port.port = 1;
    msg.ports = ports;
    msg.n_ports = 1;
    offer.name = (char *)"rdma";
    offer.parameters.data = bytes;
    offer.parameters.len = gpupool__attach_rdma__pack(&msg, bytes);
    stub_rdma_began(rdma, broken_link(), "a server", &reply);
}

/* A server from before that answers with neither an offer nor a reason. */
static void
server_that_knows_no_way_back_is_asked_once(void **state)
{
    Gpupool__AttachReply reply = reply_with(NULL, NULL);
    struct stub_rdma rdma = {0};
    int r = -1;

    began_over_rdma(&rdma);
    assert_true(stub_rdma_is_wanted(&rdma));
    assert_false(stub_rdma_take(&rdma, &reply, NULL, 1, -1, NULL, &r));
    assert_int_equal(r, 0);
    assert_false(stub_rdma_is_wanted(&rdma));
    stub_rdma_replaced(&rdma, false);
    assert_false(rdma.watching);
    rdma.after_ns = 0;
    assert_false(stub_rdma_is_wanted(&rdma));
}

/* One whose port is away may have it again; each attempt makes the pause longer. */
static void
server_without_a_port_is_asked_later(void **state)
{
    char *why[] = {(char *)"no RDMA port has that address"};
    Gpupool__AttachReply reply = reply_with(NULL, why);
    struct stub_rdma rdma = {0};
    uint64_t pause;
    int r = -1;

    began_over_rdma(&rdma);
    pause = rdma.pause_ns;
    for (unsigned i = 0; i < 10; i++) {
        assert_false(stub_rdma_take(&rdma, &reply, NULL, 1, -1, NULL, &r));
        assert_int_equal(r, 0);
        assert_false(stub_rdma_is_wanted(&rdma));
        pause = gp_min(2 * pause, STUB_RDMA_PAUSE_MAX_S * GP_NS_PER_S);
        assert_int_equal(rdma.pause_ns, pause);
        rdma.after_ns = 0;
        assert_true(stub_rdma_is_wanted(&rdma));
    }
}

static void
connection_that_began_over_tcp_never_asks_for_rdma(void **state)
{
    struct stub_rdma rdma = {0};

    assert_false(stub_rdma_is_wanted(&rdma));
    stub_rdma_replaced(&rdma, false);
    assert_false(rdma.watching);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(acknowledgements_come_when_they_are_due, attach,
                                        leave),
        cmocka_unit_test_setup_teardown(
            acknowledgements_are_asked_for_until_they_are_granted, attach, leave),
        cmocka_unit_test_setup_teardown(
            acknowledgements_of_a_new_link_are_not_lost_behind_the_old_one, attach,
            leave),
        cmocka_unit_test(server_that_knows_no_way_back_is_asked_once),
        cmocka_unit_test(server_without_a_port_is_asked_later),
        cmocka_unit_test(connection_that_began_over_tcp_never_asks_for_rdma),
    };

    return cmocka_run_group_tests_name("stub_resume", tests, NULL, NULL);
}
