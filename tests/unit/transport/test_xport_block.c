/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads in blocks: what is compressed when, and what a hostile peer gets. */
#include "ut.h"

#include "gp_time.h"
#include "xport.h"
#include "xport_block.h"
#include "xport_zstd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define FRAME_MAX 4096u
#define KIND(kind) ((uint32_t)(kind) << 30)
#define MIB (1024u * 1024)

static uint8_t text[16 * MIB];  /* compresses well */
static uint8_t noise[16 * MIB]; /* does not */
static uint8_t back[16 * MIB];

static int
fill(void **state)
{
    uint64_t x = 1;

    for (size_t i = 0; i < sizeof(text); i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        noise[i] = (uint8_t)(x >> 56);
        text[i] = (uint8_t)("weights of a layer "[i % 19] + (noise[i] > 250));
    }
    return 0;
}

/* ---- a hostile sender -------------------------------------------------------------
 */

/* What a receiver says to @len bytes written raw in place of a payload of 4 KiB. */
static int
said_to(const void *bytes, size_t len, enum xport_pack pack)
{
    struct xport_conn *conn = NULL;
    const void *frame;
    uint32_t size;
    int fd[2];
    int r;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &conn, NULL), 0);
    assert_int_equal(xport_blocks_start(conn, pack, NULL), 0);
    assert_int_equal(write(fd[1], bytes, len), (ssize_t)len);
    shutdown(fd[1], SHUT_WR);
    r = xport_recv_bulk(conn, back, 4096);
    if (r == 0)
        r = xport_recv(conn, &frame, &size, GP_FOREVER);
    xport_free(conn);
    close(fd[1]);
    return r;
}

struct crafted {
    struct xport_block head;
    uint8_t bytes[2 * XPORT_BLOCK_BOUND];
};

static size_t
packed(struct crafted *c, const uint8_t *from, uint32_t len, uint32_t claim)
{
    const struct xport_zstd *zstd = xport_zstd_get();
    void *cctx = zstd->cctx_new();
    size_t n = zstd->compress(cctx, c->bytes, sizeof(c->bytes), from, len, 1);

    zstd->cctx_free(cctx);
    assert_false(zstd->is_error(n));
    c->head = (struct xport_block){claim, (uint32_t)n | KIND(XPORT_BLOCK_ZSTD)};
    return sizeof(c->head) + n;
}

static void
blocks_that_cannot_be_are_refused(void **state)
{
    static const struct xport_block heads[] = {
        {0, 0},
        {16, 17},
        {4096, 4096 | KIND(2)},
        {4096, 4096 | KIND(3)},
        {UINT32_MAX, UINT32_MAX},
        {4096, KIND(XPORT_BLOCK_ZSTD)},
        {XPORT_BLOCK_PACKED + 1, 100 | KIND(XPORT_BLOCK_ZSTD)},
        {4096, (XPORT_BLOCK_BOUND + 1) | KIND(XPORT_BLOCK_ZSTD)},
        {4096, ((1u << 30) - 1) | KIND(XPORT_BLOCK_ZSTD)},
    };
    static uint8_t bytes[8192];

    for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
        memcpy(bytes, &heads[i], sizeof(heads[i]));
        assert_int_equal(said_to(bytes, sizeof(bytes), XPORT_PACK_AUTO), -EPROTO);
    }
}

/* 16 MiB of one byte pack into less than 1 KiB: it must not come out here. */
static void
bomb_does_not_go_off(void **state)
{
    static struct crafted c;
    size_t len;

    memset(back, 0, sizeof(back));
    len = packed(&c, back, sizeof(back), XPORT_BLOCK_PACKED);
    assert_true(len < 4096);
    memset(back, 0x55, sizeof(back));
    assert_int_equal(said_to(&c, len, XPORT_PACK_AUTO), -EPROTO);
    for (size_t i = XPORT_BLOCK_PACKED; i < sizeof(back); i++)
        assert_int_equal(back[i], 0x55);
    len = packed(&c, back, sizeof(back), 4096);
    assert_int_equal(said_to(&c, len, XPORT_PACK_AUTO), -EPROTO);
    for (size_t i = 4096; i < sizeof(back); i++)
        assert_int_equal(back[i], 0x55);
}

static void
block_that_is_not_as_long_as_it_says_is_refused(void **state)
{
    static struct crafted c;
    size_t len = packed(&c, text, 4096, 4097);

    assert_int_equal(said_to(&c, len, XPORT_PACK_AUTO), -EPROTO);
    len = packed(&c, text, 4096, 4095);
    assert_int_equal(said_to(&c, len, XPORT_PACK_AUTO), -EPROTO);
    len = packed(&c, text, 4096, 4096);
    assert_int_equal(said_to(&c, len, XPORT_PACK_AUTO),
                     -ECONNRESET); /* good, then end */
}

static void
block_longer_than_its_payload_is_refused(void **state)
{
    static struct crafted c;
    size_t len = packed(&c, text, 4097, 4097);

    assert_int_equal(said_to(&c, len, XPORT_PACK_AUTO), -EPROTO);
    c.head = (struct xport_block){8192, 8192};
    assert_int_equal(said_to(&c, sizeof(c.head) + 8192, XPORT_PACK_AUTO), -EPROTO);
}

static void
rubbish_and_cut_off_blocks_end_the_connection(void **state)
{
    static struct crafted c;
    size_t len = packed(&c, noise, 4096, 4096);

    for (size_t cut = 1; cut < len; cut += 97)
        assert_int_equal(said_to(&c, len - cut, XPORT_PACK_AUTO), -ECONNRESET);
    for (size_t at = sizeof(c.head); at < sizeof(c.head) + 16; at++) {
        c.bytes[at - sizeof(c.head)] ^= 0xff;
        assert_true(said_to(&c, len, XPORT_PACK_AUTO) < 0);
        c.bytes[at - sizeof(c.head)] ^= 0xff;
    }
    assert_int_equal(said_to(&c, len, XPORT_PACK_NEVER), -EPROTO);
}

/* ---- when it is done ---------------------------------------------------------------
 */

struct link {
    struct xport_conn *client;
    int worker; /* plain socket */
    _Atomic uint64_t raw, wire;
};

/* A TCP connection with queues as small as they get. */
static void
link_open(struct link *link, enum xport_pack pack)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int small = 64 * 1024;

    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, size), 0);
    link->worker = accept(listener, NULL, NULL);
    close(listener);
    assert_int_equal(xport_tcp_new(fd, FRAME_MAX, &link->client, NULL), 0);
    assert_int_equal(xport_blocks_start(link->client, pack, NULL), 0);
    atomic_init(&link->raw, 0);
    atomic_init(&link->wire, 0);
    xport_blocks_count(link->client, &link->raw, &link->wire);
}

static void
link_close(struct link *link)
{
    xport_free(link->client);
    close(link->worker);
}

struct reader {
    int fd;
    long pause_ns; /* after each 64 KiB: a slow link */
};

static void *
reader_main(void *arg)
{
    const struct reader *reader = arg;
    struct timespec pause = {0, reader->pause_ns};
    static uint8_t piece[64 * 1024];

    while (recv(reader->fd, piece, sizeof(piece), MSG_WAITALL) > 0)
        if (reader->pause_ns)
            nanosleep(&pause, NULL);
    return NULL;
}

/* So slow that no other load makes packing slower. */
#define SLOW_PAUSE_NS 20000000

/* The share of @len @bytes that was compressed over a link of that slowness. */
static double
packed_share(const uint8_t *bytes, size_t len, enum xport_pack pack, long pause_ns)
{
    struct link link;
    struct reader reader;
    pthread_t thread;
    double share;

    link_open(&link, pack);
    reader = (struct reader){link.worker, pause_ns};
    pthread_create(&thread, NULL, reader_main, &reader);
    for (size_t at = 0; at < len; at += 4 * MIB)
        assert_int_equal(xport_send_bulk(link.client, bytes + at, 4 * MIB), 0);
    share = (double)atomic_load(&link.raw) / (double)len;
    xport_abort(link.client);
    pthread_join(thread, NULL);
    link_close(&link);
    return share;
}

static void
slow_link_gets_compressed_what_can_be(void **state)
{
    assert_true(packed_share(text, sizeof(text), XPORT_PACK_AUTO, SLOW_PAUSE_NS) > 0.6);
    assert_true(packed_share(noise, 4 * MIB, XPORT_PACK_AUTO, SLOW_PAUSE_NS) == 0);
    assert_true(packed_share(text, sizeof(text), XPORT_PACK_ALWAYS, 0) == 1);
    assert_true(packed_share(text, 4 * MIB, XPORT_PACK_NEVER, SLOW_PAUSE_NS) == 0);
}

/* Many headers would put payloads a few bytes behind where they lie in memory, which
 * is where a processor may copy slowest. */
static void
payload_in_parts_has_one_header(void **state)
{
    struct xport_conn *conn = NULL;
    struct xport_block head;
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(xport_tcp_new(fd[0], FRAME_MAX, &conn, NULL), 0);
    assert_int_equal(xport_blocks_start(conn, XPORT_PACK_NEVER, NULL), 0);
    for (int i = 0; i < 2; i++) {
        xport_bulk_in_parts(conn, 4 * 4096);
        for (size_t at = 0; at < 4 * 4096; at += 4096)
            assert_int_equal(xport_send_bulk(conn, noise + at, 4096), 0);
        assert_int_equal(read(fd[1], &head, sizeof(head)), sizeof(head));
        assert_int_equal(head.raw, 4 * 4096);
        assert_int_equal(head.wire, 4 * 4096);
        assert_int_equal(recv(fd[1], back, 4 * 4096, MSG_WAITALL), 4 * 4096);
        assert_memory_equal(back, noise, 4 * 4096);
    }
    /* What follows is a payload of its own. */
    assert_int_equal(xport_send_bulk(conn, noise, 100), 0);
    assert_int_equal(read(fd[1], &head, sizeof(head)), sizeof(head));
    assert_int_equal(head.raw, 100);
    xport_free(conn);
    close(fd[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_cannot_be_are_refused),
        cmocka_unit_test(bomb_does_not_go_off),
        cmocka_unit_test(block_that_is_not_as_long_as_it_says_is_refused),
        cmocka_unit_test(block_longer_than_its_payload_is_refused),
        cmocka_unit_test(rubbish_and_cut_off_blocks_end_the_connection),
        cmocka_unit_test(payload_in_parts_has_one_header),
        cmocka_unit_test(slow_link_gets_compressed_what_can_be),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
