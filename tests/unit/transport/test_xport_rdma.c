/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What RDMA alone promises: who gets in, what a peer's keys reach, that registrations
 * follow the memory, that nobody is ever not ready to receive, and that nothing is left
 * behind.  What all transports promise is in test_xport.c.
 *
 * Peers that lie are made of a real connection whose insides are changed, so this
 * includes the private header.
 */
#include "ut_rdma.h"

#include "gp_net.h"

#include "xport_rdma.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024u * 1024u)
#define STRESS_FRAMES 20000
#define STRESS_BURST 1000

/* --- who gets in -------------------------------------------------------------------
 */

static void
peer_with_the_wrong_word_is_turned_away(void **state)
{
    uint8_t wrong[XPORT_RDMA_COOKIE] = "another word...";
    struct ut_rdma_side worker = {0};
    struct xport_conn *conn;
    pthread_t thread;
    int fd[2];

    UT_NEEDS_RDMA();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    worker.fd = fd[1];
    ut_rdma_listen(&worker, ut_rdma_addr());
    pthread_create(&thread, NULL, ut_rdma_acceptor, &worker);
    assert_int_equal(xport_rdma_connect(fd[0], &worker.port, 1, wrong, UT_FRAME_MAX,
                                        ut_soon(), &conn, NULL),
                     -ECONNREFUSED);
    /* The right one still gets in afterwards. */
    assert_int_equal(xport_rdma_connect(fd[0], &worker.port, 1, ut_rdma_cookie,
                                        UT_FRAME_MAX, ut_soon(), &conn, NULL),
                     0);
    pthread_join(thread, NULL);
    assert_int_equal(worker.r, 0);
    xport_free(conn);
    xport_free(worker.conn);
    xport_rdma_listener_free(worker.listener);
}

static void
word_opens_the_door_once(void **state)
{
    struct ut_rdma_side worker = {0};
    struct xport_conn *conn, *again;
    pthread_t thread;
    int fd[2];

    UT_NEEDS_RDMA();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    worker.fd = fd[1];
    ut_rdma_listen(&worker, ut_rdma_addr());
    pthread_create(&thread, NULL, ut_rdma_acceptor, &worker);
    assert_int_equal(xport_rdma_connect(fd[0], &worker.port, 1, ut_rdma_cookie,
                                        UT_FRAME_MAX, ut_soon(), &conn, NULL),
                     0);
    pthread_join(thread, NULL);
    assert_true(xport_rdma_connect(fd[0], &worker.port, 1, ut_rdma_cookie, UT_FRAME_MAX,
                                   gp_now_ns() + 3 * GP_NS_PER_S, &again, NULL) < 0);
    xport_free(conn);
    xport_free(worker.conn);
    xport_rdma_listener_free(worker.listener);
}

/* The range of port numbers that are given out, of a guest that is ours to change. */
static void
set_port_range(unsigned first, unsigned last)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");

    assert_non_null(f);
    fprintf(f, "%u %u\n", first, last);
    assert_int_equal(fclose(f), 0);
}

static void
get_port_range(unsigned *first, unsigned *last)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u %u", first, last), 2);
    fclose(f);
}

/* iWARP needs the TCP port of the number that the connection manager has chosen.  With
 * 80 of 100 numbers taken, one try fails four times in five; 32 tries all fail eight
 * times in ten thousand. */
static void
port_numbers_in_use_are_passed_over(void **state)
{
    enum { FIRST = 40000, N = 100, TAKEN = 80 };
    unsigned first, last;
    char address[64];
    int fd[TAKEN];

    UT_NEEDS_RDMA();
    if (!getenv("RDMA_VM")) {
        print_message("skip: the range of ports is changed in a guest only\n");
        skip();
    }
    get_port_range(&first, &last);
    for (unsigned i = 0; i < TAKEN; i++) {
        snprintf(address, sizeof(address), "%s:%u", ut_rdma_addr(), FIRST + i);
        assert_int_equal(gp_net_listen(address, 0, 1, &fd[i], NULL), 0);
    }
    set_port_range(FIRST, FIRST + N - 1);
    for (int i = 0; i < 4; i++) {
        struct xport_conn *client, *worker;
        int ctl[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ctl), 0);
        ut_rdma_pair(ut_rdma_addr(), ctl, &client, &worker);
        xport_free(client);
        xport_free(worker);
    }
    set_port_range(first, last);
    for (unsigned i = 0; i < TAKEN; i++)
        close(fd[i]);
}

static void
port_that_does_not_answer_is_passed_over(void **state)
{
    struct ut_rdma_side worker = {0};
    struct xport_rdma_port ports[2] = {{.host = "192.0.2.1", .port = 9}};
    struct gp_err err = {0};
    struct xport_conn *conn;
    pthread_t thread;
    int fd[2];

    UT_NEEDS_RDMA();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    worker.fd = fd[1];
    ut_rdma_listen(&worker, ut_rdma_addr());
    ports[1] = worker.port;
    pthread_create(&thread, NULL, ut_rdma_acceptor, &worker);
    if (xport_rdma_connect(fd[0], ports, 2, ut_rdma_cookie, UT_FRAME_MAX, ut_soon(),
                           &conn, &err) < 0)
        fail_msg("%s", err.msg);
    pthread_join(thread, NULL);
    /* On our own subnet, so it was tried first. */
    assert_string_equal(ports[0].host, ut_rdma_addr());
    xport_free(conn);
    xport_free(worker.conn);
    xport_rdma_listener_free(worker.listener);
}

static void
own_ports_are_listed_with_their_subnets(void **state)
{
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX];
    struct gp_err err = {0};
    size_t n = xport_rdma_ports(ports, &err);
    bool found = false;

    if (!ut_rdma_addr()) {
        assert_true(n || strstr(err.msg, "no RDMA: "));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(ports[i].prefix > 0);
        assert_true(ports[i].device[0]);
        found |= strcmp(ports[i].host, ut_rdma_addr()) == 0;
    }
    assert_true(found);
}

static void
ports_on_an_own_subnet_come_first(void **state)
{
    static const struct xport_rdma_port own[] = {{.host = "10.1.2.3", .prefix = 20},
                                                 {.host = "fd00:1::5", .prefix = 64}};
    struct xport_rdma_port ports[] = {{.host = "192.168.0.1"}, {.host = "10.1.16.1"},
                                      {.host = "10.1.15.9"},   {.host = "fd00:2::1"},
                                      {.host = "fd00:1::9"},   {.host = "nonsense"}};

    assert_int_equal(xport_rdma_rank(ports, ARRAY_SIZE(ports), own, ARRAY_SIZE(own)),
                     2);
    assert_string_equal(ports[0].host, "10.1.15.9");
    assert_string_equal(ports[1].host, "fd00:1::9");
    assert_string_equal(ports[2].host, "192.168.0.1");
    assert_string_equal(ports[5].host, "nonsense");
}

static void
ipv6_carries_frames_and_payloads(void **state)
{
    const char *host = getenv("GPUPOOL_TEST_RDMA6");
    uint8_t *from = malloc(MIB), *to = calloc(1, MIB);
    struct pair pair;
    uint64_t ticket;

    if (!host) {
        print_message(
            "skip: no RDMA device with an IPv6 address; `make test-rdma` has a "
            "guest with one\n");
        free(from);
        free(to);
        skip();
    }
    memset(from, 0x6a, MIB);
    pair_open(&pair, host);
    put_frame(pair.client, 64, 6);
    want_frame(pair.worker, 64, 6);
    assert_int_equal(xport_send_bulk_start(pair.client, from, MIB, &ticket), 0);
    assert_int_equal(xport_recv_bulk(pair.worker, to, MIB), 0);
    assert_int_equal(xport_send_bulk_wait(pair.client, ticket), 0);
    assert_memory_equal(from, to, MIB);
    pair_close(&pair);
    free(from);
    free(to);
}

/* --- registrations follow the memory -----------------------------------------------
 */

static void
move(struct pair *pair, const uint8_t *from, uint8_t *to, size_t len)
{
    uint64_t sent;

    assert_int_equal(xport_send_bulk_start(pair->client, from, len, &sent), 0);
    assert_int_equal(xport_recv_bulk(pair->worker, to, len), 0);
    assert_int_equal(xport_send_bulk_wait(pair->client, sent), 0);
}

static uint8_t *
pages_at(void *where, size_t len, uint8_t fill)
{
    uint8_t *p = mmap(where, len, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    memset(p, fill, len);
    return p;
}

static void
unmap_and_map_again(uint8_t *p, size_t len)
{
    assert_int_equal(munmap(p, len), 0);
    assert_ptr_equal(pages_at(p, len, 2), p);
}

static void
map_over(uint8_t *p, size_t len)
{
    pages_at(p, len, 2);
}

static void
drop_pages(uint8_t *p, size_t len)
{
    assert_int_equal(madvise(p, len, MADV_DONTNEED), 0);
    memset(p, 2, len);
}

/* Other pages come to this address, and those here go away. */
static void
move_pages_in(uint8_t *p, size_t len)
{
    uint8_t *other = pages_at(NULL, len, 2);

    assert_ptr_equal(mremap(other, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, p), p);
}

static void
transfers_see_the_memory_that_is_there_now(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    static void (*const changes[])(uint8_t *, size_t) = {unmap_and_map_again, map_over,
                                                         drop_pages, move_pages_in};
    uint8_t *to = malloc(MIB);
    struct pair pair;

    pair_open(&pair, ut_rdma_addr());
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        uint8_t *p = pages_at(NULL, MIB, 1);

        move(&pair, p, to, MIB);
        assert_int_equal(to[MIB - 1], 1);
        move(&pair, p, to, MIB); /* from what is kept, if it is kept */
        changes[i](p, MIB);
        move(&pair, p, to, MIB);
        assert_int_equal(to[0], 2);
        assert_int_equal(to[MIB - 1], 2);
        munmap(p, MIB);
    }
    pair_close(&pair);
    free(to);
}

static void
targets_see_the_memory_that_is_there_now(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    uint8_t *from = malloc(MIB), *p = pages_at(NULL, MIB, 0);
    struct pair pair;

    memset(from, 7, MIB);
    pair_open(&pair, ut_rdma_addr());
    move(&pair, from, p, MIB);
    unmap_and_map_again(p, MIB);
    move(&pair, from, p, MIB);
    assert_int_equal(p[0], 7);
    assert_int_equal(p[MIB - 1], 7);
    pair_close(&pair);
    munmap(p, MIB);
    free(from);
}

static void
registrations_are_kept_only_where_memory_can_be_watched(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    uint8_t *from = pages_at(NULL, MIB, 3), *to = malloc(MIB);
    FILE *file = tmpfile();
    struct pair pair;
    uint8_t *mapped;

    assert_int_equal(ftruncate(fileno(file), MIB), 0);
    mapped = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    memset(mapped, 4, MIB);
    pair_open(&pair, ut_rdma_addr());
    move(&pair, from, to, MIB);
    assert_int_equal(rdma_of(pair.client)->n_cached, xport_guard_usable());
    move(&pair, mapped, to, MIB); /* a file: it might be cut short */
    assert_int_equal(rdma_of(pair.client)->n_cached, xport_guard_usable());
    assert_int_equal(to[MIB - 1], 4);
    pair_close(&pair);
    munmap(from, MIB);
    munmap(mapped, MIB);
    fclose(file);
    free(to);
}

static void
cache_of_registrations_is_bounded(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    size_t len = RDMA_REGISTER_MIN;
    uint8_t *to = malloc(len);
    struct pair pair;

    pair_open(&pair, ut_rdma_addr());
    for (unsigned i = 0; i < RDMA_CACHED_MAX + 8; i++) {
        uint8_t *p = pages_at(NULL, len, (uint8_t)i);

        move(&pair, p, to, len);
        assert_int_equal(to[0], (uint8_t)i);
        assert_in_range(rdma_of(pair.client)->n_cached, 0, RDMA_CACHED_MAX);
    }
    pair_close(&pair);
    free(to);
}

static void
pieces_go_side_by_side(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    enum { PIECES = 24, PIECE = 512 * 1024 };
    uint8_t *from = malloc(PIECES * PIECE), *to = calloc(PIECES, PIECE);
    uint64_t sent[PIECES], got[PIECES];
    struct pair pair;

    for (size_t i = 0; i < PIECES * PIECE; i++)
        from[i] = (uint8_t)(i * 7 + (i >> 13));
    pair_open(&pair, ut_rdma_addr());
    for (int i = 0; i < PIECES; i++) {
        assert_int_equal(
            xport_send_bulk_start(pair.client, from + i * PIECE, PIECE, &sent[i]), 0);
        assert_int_equal(
            xport_recv_bulk_start(pair.worker, to + i * PIECE, PIECE, &got[i]), 0);
        if (i >= 4) {
            assert_int_equal(xport_recv_bulk_wait(pair.worker, got[i - 4]), 0);
            assert_int_equal(xport_send_bulk_wait(pair.client, sent[i - 4]), 0);
        }
    }
    assert_int_equal(xport_recv_bulk_wait(pair.worker, got[PIECES - 1]), 0);
    assert_int_equal(xport_send_bulk_wait(pair.client, sent[PIECES - 1]), 0);
    assert_memory_equal(from, to, PIECES * PIECE);
    pair_close(&pair);
    free(from);
    free(to);
}

/* On iWARP a write behind a READ is done before it. */
static void
payload_is_there_when_said_whatever_was_sent_behind(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    uint8_t *from = malloc(8 * MIB), *to = malloc(8 * MIB);
    uint64_t sent, got;
    struct pair pair;

    for (size_t i = 0; i < 8 * MIB; i++)
        from[i] = (uint8_t)(i * 5 + (i >> 11));
    pair_open(&pair, ut_rdma_addr());
    for (int round = 0; round < 4; round++) {
        memset(to, 0, 8 * MIB);
        assert_int_equal(xport_send_bulk_start(pair.client, from, 8 * MIB, &sent), 0);
        assert_int_equal(xport_recv_bulk_start(pair.worker, to, 8 * MIB, &got), 0);
        for (int i = 0; i < 2 * RDMA_SIGNAL_EVERY; i++)
            put_frame(pair.worker, 24, (uint8_t)i);
        assert_int_equal(xport_recv_bulk_wait(pair.worker, got), 0);
        assert_memory_equal(from, to, 8 * MIB);
        assert_int_equal(xport_send_bulk_wait(pair.client, sent), 0);
        for (int i = 0; i < 2 * RDMA_SIGNAL_EVERY; i++)
            want_frame(pair.client, 24, (uint8_t)i);
    }
    pair_close(&pair);
    free(from);
    free(to);
}

static void
windows_are_filled_and_read_in_place(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    uint8_t *host = pages_at(NULL, MIB, 9), *card = pages_at(NULL, MIB, 0);
    uint64_t addr = (uintptr_t)card, ticket;
    struct pair pair;
    size_t n;

    pair_open(&pair, ut_rdma_addr());
    assert_int_equal(xport_window_add(pair.worker, addr, MIB, -1, NULL), 0);
    assert_int_equal(xport_send_bulk_start(pair.client, host, MIB, &ticket), 0);
    assert_int_equal(xport_recv_bulk_direct(pair.worker, addr, MIB, &n), 0);
    assert_int_equal(n, MIB);
    assert_int_equal(xport_send_bulk_wait(pair.client, ticket), 0);
    assert_memory_equal(card, host, MIB);
    /* And back; part of it. */
    memset(card + 100, 8, 50);
    assert_int_equal(xport_send_bulk_direct(pair.worker, addr + 100, 50, &ticket), 0);
    assert_int_equal(xport_recv_bulk(pair.client, host, 50), 0);
    assert_int_equal(host[49], 8);
    assert_int_equal(host[50], 9);
    /* What is too small for an offer comes the usual way. */
    assert_int_equal(xport_send_bulk_start(pair.client, host, 64, &ticket), 0);
    assert_int_equal(xport_recv_bulk_direct(pair.worker, addr, 64, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(xport_recv_bulk(pair.worker, card, 64), 0);
    xport_window_remove(pair.worker, addr);
    assert_int_equal(xport_send_bulk_direct(pair.worker, addr, 64, &ticket), -ENOENT);
    pair_close(&pair);
    munmap(host, MIB);
    munmap(card, MIB);
}

/* A dma-buf of one page; -1 where the kernel makes none of a process's memory. */
static int
page_as_dmabuf(void)
{
    struct udmabuf_create create = {.flags = UDMABUF_FLAGS_CLOEXEC, .size = 4096};
    int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), memfd, fd;

    if (device < 0)
        return -1;
    memfd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memfd, 4096), 0);
    assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    create.memfd = (uint32_t)memfd;
    fd = ioctl(device, UDMABUF_CREATE, &create);
    assert_true(fd >= 0);
    close(memfd);
    close(device);
    return fd;
}

static void
dmabuf_that_cannot_be_registered_is_refused_with_words(void **state)
{
    int dmabuf = page_as_dmabuf(), r;
    struct gp_err err = {0};
    struct pair pair;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    r = xport_window_probe(pair.worker, &err);
    if (r < 0) /* the software devices know no dma-buf */
        assert_true(strstr(err.msg, "dma-buf"));
    assert_true(xport_window_add(pair.worker, 0x1000, 4096, fileno(stdin), &err) < 0);
    assert_true(strstr(err.msg, "window"));
    if (dmabuf < 0) {
        print_message("no /dev/udmabuf: tried without a dma-buf\n");
    } else {
        /* The probe has told the truth. */
        assert_int_equal(xport_window_add(pair.worker, 0x1000, 4096, dmabuf, NULL), r);
        close(dmabuf);
    }
    pair_close(&pair);
}

/* --- a peer that lies --------------------------------------------------------------
 */

/* One work request of a peer that does what it likes; what the queue pair says to it.
 */
static int
rogue(struct rdma_conn *rdma, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)rdma->region->echo, 8, rdma->shared_mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = opcode, .wr.rdma = {addr, rkey}};
    int r = rdma_post(rdma, &wr, true);

    while (!r && rdma->completed < wr.wr_id)
        r = rdma_reap_sends(rdma);
    return r;
}

static void
key_of_the_ring_reaches_nothing_behind_it(void **state)
{
    struct pair pair;
    struct rdma_conn *client;
    size_t behind = RDMA_REGION_SHARED;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    client = rdma_of(pair.client);
    if (!client->has_imm) {
        pair_close(&pair); /* siw completes it and ends the connection later */
        print_message("skip: this device says nothing about keys\n");
        skip();
    }
    assert_int_equal(
        rogue(client, IBV_WR_RDMA_READ, client->peer.region, client->peer.rkey), 0);
    assert_true(rogue(client, IBV_WR_RDMA_WRITE, client->peer.region + behind,
                      client->peer.rkey) < 0);
    pair_close(&pair);
}

static void
key_of_a_payload_dies_with_the_transfer(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    /* Through a file: not kept, so the key is gone when the transfer is. */
    FILE *file = tmpfile();
    uint8_t *to = malloc(MIB), *from;
    struct pair pair;
    struct rdma_conn *worker;
    struct rdma_offer offer;

    assert_int_equal(ftruncate(fileno(file), MIB), 0);
    from = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    pair_open(&pair, ut_rdma_addr());
    worker = rdma_of(pair.worker);
    move(&pair, from, to, MIB);
    memcpy(&offer, worker->region->ring, sizeof(offer));
    assert_int_equal(offer.addr, (uintptr_t)from);
    if (worker->has_imm)
        assert_true(rogue(worker, IBV_WR_RDMA_READ, offer.addr, offer.rkey) < 0);
    pair_close(&pair);
    munmap(from, MIB);
    fclose(file);
    free(to);
}

static void
offer_of_nothing_ends_the_connection(void **state)
{
    struct rdma_offer nothing = {.addr = 4096, .len = 0};
    uint8_t to[64];
    struct pair pair;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    assert_int_equal(
        rdma_write_ring(rdma_of(pair.client), RDMA_OFFER, &nothing, sizeof(nothing)),
        0);
    assert_int_equal(xport_recv_bulk(pair.worker, to, sizeof(to)), -EPROTO);
    pair_close(&pair);
}

static void
payload_where_a_frame_is_due_ends_the_connection(void **state)
{
    struct rdma_offer offer = {.addr = 4096, .len = 4096};
    const void *frame;
    struct pair pair;
    uint32_t size;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    assert_int_equal(
        rdma_write_ring(rdma_of(pair.client), RDMA_OFFER, &offer, sizeof(offer)), 0);
    assert_int_equal(xport_recv(pair.worker, &frame, &size, ut_soon()), -EPROTO);
    pair_close(&pair);
}

static void
writer_that_ignores_its_credits_is_cut_off(void **state)
{
    uint8_t junk[128] = {0};
    struct pair pair;
    const void *frame;
    uint32_t size;
    int r = 0;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    /* Nobody takes a byte, and the lengths add up to more than the ring has. */
    for (int i = 0; i < 3 && !r; i++)
        r = rdma_write_ring(rdma_of(pair.client), RDMA_DATA, junk, sizeof(junk));
    rdma_of(pair.worker)->received = RDMA_RING_SIZE;
    assert_int_equal(xport_recv(pair.worker, &frame, &size, ut_soon()), -EPROTO);
    pair_close(&pair);
}

/* --- loss ----------------------------------------------------------------------------
 */

/* The program links with no verbs library, as nothing of ours does. */
static int
break_queue_pair(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);

    *(void **)&modify =
        dlsym(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD), "ibv_modify_qp");
    assert_non_null(modify);
    return modify(qp, &attr, IBV_QP_STATE);
}

static void
queue_pair_in_error_ends_both_sides_in_seconds(void **state)
{
    struct pair pair;
    const void *frame;
    uint64_t begun;
    uint32_t size;
    int r;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    begun = gp_now_ns();
    assert_int_equal(break_queue_pair(rdma_of(pair.client)->id->qp), 0);
    /* The other one is asleep and knows nothing: its next look finds out. */
    r = xport_recv(pair.worker, &frame, &size, begun + 60 * GP_NS_PER_S);
    if (r >= 0 || r == -EAGAIN)
        fail_msg("%d after %.1f s", r, (double)(gp_now_ns() - begun) / 1e9);
    assert_true(xport_recv(pair.client, &frame, &size, ut_soon()) < 0);
    assert_in_range(gp_now_ns() - begun, 0, 50 * GP_NS_PER_S);
    pair_close(&pair);
}

/* --- nobody is ever not ready --------------------------------------------------------
 */

/* A counter of the device, summed over those whose name has @word in it. */
static uint64_t
counters(struct xport_conn *conn, const char *word)
{
    char path[600];
    struct dirent *entry;
    uint64_t sum = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters",
             rdma_of(conn)->id->verbs->device->name);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        char name[900];
        unsigned long long value = 0;
        FILE *file;

        if (!strstr(entry->d_name, word))
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        file = fopen(name, "r");
        if (file && fscanf(file, "%llu", &value) == 1)
            sum += value;
        if (file)
            fclose(file);
    }
    if (dir)
        closedir(dir);
    return sum;
}

static void *
stress_sender(void *arg)
{
    struct xport_conn *conn = arg;

    for (int i = 0; i < STRESS_FRAMES; i++)
        put_frame(conn, i % 97 ? 8 : 4096, (uint8_t)i);
    return NULL;
}

static void
flood_of_small_writes_never_finds_the_peer_not_ready(void **state)
{
    struct pair pair;
    pthread_t to_worker, to_client;
    uint64_t before;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    before = counters(pair.client, "rnr");
    pthread_create(&to_worker, NULL, stress_sender, pair.client);
    pthread_create(&to_client, NULL, stress_sender, pair.worker);
    /* In bursts: while one side is read the other's writer runs out of credits. */
    for (int begin = 0; begin < STRESS_FRAMES; begin += STRESS_BURST)
        for (int side = 0; side < 2; side++)
            for (int i = begin; i < begin + STRESS_BURST; i++)
                want_frame(side ? pair.client : pair.worker, i % 97 ? 8 : 4096,
                           (uint8_t)i);
    pthread_join(to_worker, NULL);
    pthread_join(to_client, NULL);
    assert_int_equal(counters(pair.client, "rnr"), before);
    pair_close(&pair);
}

/* --- nothing is left behind
 * ------------------------------------------------------------ */

static unsigned
open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* The receiver was away while words came and the end behind them: it reads both. */
static void
words_in_front_of_the_end_are_read(void **state)
{
    struct rdma_conn *client, *worker;
    const void *frame;
    struct pair pair;
    uint32_t size;
    uint64_t number;

    UT_NEEDS_RDMA();
    pair_open(&pair, ut_rdma_addr());
    client = rdma_of(pair.client);
    worker = rdma_of(pair.worker);
    for (int i = 0; i < 3; i++)
        put_frame(pair.client, 24, 7);
    assert_int_equal(rdma_echo(client, RDMA_ECHO_LIVENESS, 0, &number), 0);
    while (client->reads_done < number)
        assert_int_equal(rdma_reap_sends(client), 0);
    worker->v->disconnect(worker->id); /* its receives come back, behind the words */
    for (int i = 0; i < 3; i++)
        assert_int_equal(xport_recv(pair.worker, &frame, &size, ut_soon()), 0);
    assert_int_equal(xport_recv(pair.worker, &frame, &size, ut_soon()), -ECONNRESET);
    pair_close(&pair);
}

static void
forked_child_is_told_that_it_has_no_rdma(void **state)
{
    struct gp_err err = {0};
    int status;
    pid_t pid;

    UT_NEEDS_RDMA();
    assert_int_equal(xport_rdma_usable(&err), 0);
    pid = fork();
    if (pid == 0)
        _exit(xport_rdma_usable(&err) < 0 && strstr(err.msg, "forked") ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(xport_rdma_usable(&err), 0);
}

static void
connections_leave_no_descriptor(void **state)
{
    UT_NEEDS_RDMA(); /* before anything is allocated */
    uint8_t *p = pages_at(NULL, MIB, 1), *to = malloc(MIB);
    struct pair pair;
    unsigned before;

    pair_open(&pair, ut_rdma_addr()); /* what the libraries keep for ever */
    move(&pair, p, to, MIB);
    pair_close(&pair);
    before = open_files();
    for (int i = 0; i < 10; i++) {
        pair_open(&pair, ut_rdma_addr());
        move(&pair, p, to, MIB);
        pair_close(&pair);
    }
    assert_int_equal(open_files(), before);
    munmap(p, MIB);
    free(to);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_with_the_wrong_word_is_turned_away),
        cmocka_unit_test(word_opens_the_door_once),
        cmocka_unit_test(port_that_does_not_answer_is_passed_over),
        cmocka_unit_test(port_numbers_in_use_are_passed_over),
        cmocka_unit_test(own_ports_are_listed_with_their_subnets),
        cmocka_unit_test(ports_on_an_own_subnet_come_first),
        cmocka_unit_test(ipv6_carries_frames_and_payloads),
        cmocka_unit_test(transfers_see_the_memory_that_is_there_now),
        cmocka_unit_test(targets_see_the_memory_that_is_there_now),
        cmocka_unit_test(registrations_are_kept_only_where_memory_can_be_watched),
        cmocka_unit_test(cache_of_registrations_is_bounded),
        cmocka_unit_test(pieces_go_side_by_side),
        cmocka_unit_test(payload_is_there_when_said_whatever_was_sent_behind),
        cmocka_unit_test(windows_are_filled_and_read_in_place),
        cmocka_unit_test(dmabuf_that_cannot_be_registered_is_refused_with_words),
        cmocka_unit_test(key_of_the_ring_reaches_nothing_behind_it),
        cmocka_unit_test(key_of_a_payload_dies_with_the_transfer),
        cmocka_unit_test(offer_of_nothing_ends_the_connection),
        cmocka_unit_test(payload_where_a_frame_is_due_ends_the_connection),
        cmocka_unit_test(writer_that_ignores_its_credits_is_cut_off),
        cmocka_unit_test(queue_pair_in_error_ends_both_sides_in_seconds),
        cmocka_unit_test(flood_of_small_writes_never_finds_the_peer_not_ready),
        cmocka_unit_test(words_in_front_of_the_end_are_read),
        cmocka_unit_test(forked_child_is_told_that_it_has_no_rdma),
        cmocka_unit_test(connections_leave_no_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
