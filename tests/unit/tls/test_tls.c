/* SPDX-License-Identifier: Apache-2.0 */
#include "ut.h"

#include "ut_tls.h"

#include "gp_msg.h"
#include "gp_net.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "tls_door.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#define IDENTITY "who I am"
#define TEXT "what nobody may read: 0123456789abcdef"

static const struct tls_psk the_psk = {
    .identity = IDENTITY, .identity_size = sizeof(IDENTITY) - 1, .key = {1, 2, 3}};

static uint64_t
soon(void)
{
    return gp_now_ns() + 10 * GP_NS_PER_S;
}

/* ---- a server in a thread -------------------------------------------------------- */

struct server {
    struct tls_context *ctx;
    int fd, result;
    struct gp_err err;
    struct gp_wire *wire;
    pthread_t thread;
};

static int
find_psk(void *arg, const void *identity, size_t size, uint8_t ret_key[TLS_PSK_SIZE])
{
    if (size != the_psk.identity_size || memcmp(identity, IDENTITY, size) != 0)
        return -ENOKEY;
    memcpy(ret_key, the_psk.key, TLS_PSK_SIZE);
    return 0;
}

static void *
server_main(void *arg)
{
    struct server *s = arg;
    struct tls_handshake *hs;
    struct tls_keys keys;
    short events;

    assert_int_equal(tls_handshake_server(s->ctx, s->fd, &hs, NULL), 0);
    do
        s->result = tls_handshake_step(hs, &events, &s->err);
    while (s->result == -EAGAIN && gp_net_wait(s->fd, events, soon()) == 0);
    if (s->result == 0) {
        tls_handshake_keys(hs, &keys);
        assert_int_equal(tls_record_new(&keys, &s->wire, NULL), 0);
    } else {
        shutdown(s->fd, SHUT_RDWR);
    }
    tls_handshake_free(hs);
    return NULL;
}

/* Returns the client's end. */
static int
server_start(struct server *s)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    s->fd = fd[1];
    assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
    return fd[0];
}

static int
psk_server_start(struct server *s)
{
    *s = (struct server){0};
    assert_int_equal(tls_context_psk(find_psk, NULL, &s->ctx, NULL), 0);
    return server_start(s);
}

static void
server_end(struct server *s, int fd)
{
    close(fd);
    gp_wire_free(s->wire);
    close(s->fd);
    tls_context_free(s->ctx);
}

static void
exchange(struct gp_wire *from, int from_fd, struct gp_wire *to, int to_fd)
{
    struct iovec iov = {(void *)(uintptr_t)TEXT, sizeof(TEXT)};
    char got[sizeof(TEXT)] = "", raw[4096];
    ssize_t n;

    assert_int_equal(gp_wire_send(from, from_fd, &iov, 1, 0), sizeof(TEXT));
    n = recv(to_fd, raw, sizeof(raw), MSG_PEEK);
    assert_true(n > (ssize_t)sizeof(TEXT));
    assert_null(memmem(raw, (size_t)n, TEXT, 16));
    assert_int_equal(gp_wire_recv(to, to_fd, got, sizeof(got), 0), sizeof(got));
    assert_string_equal(got, TEXT);
}

/* ---- handshakes ------------------------------------------------------------------ */

static void
ends_with_one_psk_understand_each_other_and_nobody_else_does(void **state)
{
    struct server s;
    struct gp_wire *wire = NULL;
    int fd = psk_server_start(&s);

    assert_int_equal(tls_linked()->connect_psk(fd, &the_psk, soon(), &wire, NULL), 0);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.result, 0);
    exchange(wire, fd, s.wire, s.fd);
    exchange(s.wire, s.fd, wire, fd);
    gp_wire_free(wire);
    server_end(&s, fd);
}

static void
psk_is_refused(const struct tls_psk *psk)
{
    struct server s;
    struct gp_wire *wire = NULL;
    struct gp_err err = {0};
    int fd = psk_server_start(&s);

    assert_int_equal(tls_linked()->connect_psk(fd, psk, soon(), &wire, &err),
                     -EKEYREJECTED);
    assert_non_null(strstr(err.msg, "no key that fits"));
    pthread_join(s.thread, NULL);
    assert_int_equal(s.result, -EKEYREJECTED);
    assert_non_null(strstr(s.err.msg, "no key that fits"));
    server_end(&s, fd);
}

static void
wrong_psk_is_refused_by_both_ends(void **state)
{
    struct tls_psk psk = the_psk;

    psk.key[31] ^= 1;
    psk_is_refused(&psk);
}

static void
unknown_identity_is_refused(void **state)
{
    struct tls_psk psk = the_psk;

    psk.identity_size--;
    psk_is_refused(&psk);
}

static void
certificate_is_of_the_key_and_a_wrong_pin_is_refused(void **state)
{
    static const uint8_t seed[32] = {7};
    uint8_t first[32], again[32], wrong[32] = {0};

    for (int turn = 0; turn < 3; turn++) {
        struct server s = {0};
        struct gp_wire *wire = NULL;
        struct gp_err err = {0};
        int fd, r;

        assert_int_equal(tls_context_cert(seed, &s.ctx, NULL), 0);
        fd = server_start(&s);
        r = tls_linked()->connect_pin(fd,
                                      turn == 0   ? NULL
                                      : turn == 1 ? first
                                                  : wrong,
                                      soon(), &wire, turn ? again : first, &err);
        assert_int_equal(r, turn == 2 ? -EKEYREJECTED : 0);
        if (turn == 2)
            assert_non_null(strstr(err.msg, "not the pool's scheduler"));
        pthread_join(s.thread, NULL);
        assert_int_equal(s.result, 0);
        if (turn == 1) {
            assert_memory_equal(first, again, 32);
            exchange(wire, fd, s.wire, s.fd);
        }
        gp_wire_free(wire);
        server_end(&s, fd);
    }
}

static void
older_tls_is_refused(void **state)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    struct server s;
    int fd = psk_server_start(&s);
    SSL *ssl;

    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    assert_true(SSL_connect(ssl) <= 0);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.result, -EPROTONOSUPPORT);
    assert_non_null(strstr(s.err.msg, "TLS 1.3"));
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    server_end(&s, fd);
}

/* Every prefix, then the end; and every byte changed. */
static void
hello_cut_or_changed_anywhere_is_an_error(void **state)
{
    uint8_t hello[2048];
    size_t size;
    int pair[2];
    struct tls_handshake *hs;
    short events;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(tls_handshake_client(&the_psk, pair[0], &hs, NULL), 0);
    assert_int_equal(tls_handshake_step(hs, &events, NULL), -EAGAIN);
    size = (size_t)recv(pair[1], hello, sizeof(hello), 0);
    assert_true(size > 64 && size < sizeof(hello));
    assert_true(tls_hello_is(hello, size));
    tls_handshake_free(hs);
    close(pair[0]);
    close(pair[1]);
    for (size_t i = 0; i < 2 * size; i++) {
        size_t len = i < size ? i : size;
        struct server s;
        int fd = psk_server_start(&s);

        if (i >= size)
            hello[i - size] ^= 0x41;
        assert_int_equal(send(fd, hello, len, MSG_NOSIGNAL), len);
        shutdown(fd, SHUT_WR);
        pthread_join(s.thread, NULL);
        assert_true(s.result < 0 && s.err.msg[0]);
        if (i >= size)
            hello[i - size] ^= 0x41;
        server_end(&s, fd);
    }
}

static void
peer_that_has_gone_ends_the_handshake_and_not_the_process(void **state)
{
    struct tls_handshake *client, *server;
    struct tls_context *ctx;
    struct gp_err err = {0};
    short events;
    int pair[2];

    /* Unix sockets refuse the first write to a peer that is gone. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(tls_context_psk(find_psk, NULL, &ctx, NULL), 0);
    assert_int_equal(tls_handshake_client(&the_psk, pair[0], &client, NULL), 0);
    assert_int_equal(tls_handshake_step(client, &events, NULL), -EAGAIN);
    tls_handshake_free(client);
    close(pair[0]);
    assert_int_equal(tls_handshake_server(ctx, pair[1], &server, NULL), 0);
    assert_int_equal(tls_handshake_step(server, &events, &err), -ECONNRESET);
    tls_handshake_free(server);
    close(pair[1]);

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    close(pair[1]);
    assert_int_equal(tls_handshake_client(&the_psk, pair[0], &client, NULL), 0);
    assert_int_equal(tls_handshake_step(client, &events, &err), -ECONNRESET);
    tls_handshake_free(client);
    close(pair[0]);
    tls_context_free(ctx);
}

static void
silent_server_ends_at_the_deadline(void **state)
{
    struct gp_wire *wire = NULL;
    struct gp_err err = {0};
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(tls_linked()->connect_psk(pair[0], &the_psk,
                                               gp_now_ns() + 20 * GP_NS_PER_MS, &wire,
                                               &err),
                     -ETIMEDOUT);
    assert_non_null(strstr(err.msg, "no answer"));
    close(pair[0]);
    close(pair[1]);
}

/* ---- records --------------------------------------------------------------------- */

struct pair {
    struct gp_wire *client, *server;
    int fd[2];
};

static void
pair_make(struct pair *p, uint32_t suite)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->fd), 0);
    ut_tls_layers(suite, &p->client, &p->server);
}

static void
pair_end(struct pair *p)
{
    gp_wire_free(p->client);
    gp_wire_free(p->server);
    close(p->fd[0]);
    close(p->fd[1]);
}

static void
send_text(struct pair *p)
{
    struct iovec iov = {(void *)(uintptr_t)TEXT, sizeof(TEXT)};

    assert_int_equal(gp_wire_send(p->client, p->fd[0], &iov, 1, 0), sizeof(TEXT));
}

static void
expect_text(struct pair *p)
{
    char got[sizeof(TEXT)];

    assert_int_equal(gp_wire_recv(p->server, p->fd[1], got, sizeof(got), 0),
                     sizeof(got));
    assert_string_equal(got, TEXT);
}

static void
record_changed_anywhere_is_an_error_for_good(void **state)
{
    uint8_t raw[256];
    struct pair p;
    ssize_t size = 1;

    for (ssize_t i = 0; i < size; i++) {
        char got[256];

        pair_make(&p, TLS_SUITE_AES128);
        send_text(&p);
        size = recv(p.fd[1], raw, sizeof(raw), 0);
        raw[i] ^= 1;
        assert_int_equal(send(p.fd[0], raw, (size_t)size, 0), size);
        send_text(&p);
        shutdown(p.fd[0], SHUT_WR);
        for (int turn = 0; turn < 3; turn++)
            assert_true(gp_wire_recv(p.server, p.fd[1], got, sizeof(got), 0) < 0);
        pair_end(&p);
    }
}

static void
record_sent_twice_or_left_out_is_an_error(void **state)
{
    for (int twice = 0; twice < 2; twice++) {
        uint8_t raw[256];
        struct pair p;
        ssize_t size;

        pair_make(&p, TLS_SUITE_AES128);
        send_text(&p);
        size = recv(p.fd[1], raw, sizeof(raw), 0);
        if (twice) {
            assert_int_equal(send(p.fd[0], raw, (size_t)size, 0), size);
            expect_text(&p);
            assert_int_equal(send(p.fd[0], raw, (size_t)size, 0), size);
        } else {
            send_text(&p);
        }
        assert_int_equal(gp_wire_recv(p.server, p.fd[1], raw, sizeof(raw), 0),
                         -EBADMSG);
        pair_end(&p);
    }
}

static void
end_within_a_record_is_a_broken_link_and_between_them_the_end(void **state)
{
    uint8_t raw[256], got[256];
    struct pair p;
    ssize_t size = 1;

    for (ssize_t i = 0; i < size; i++) {
        pair_make(&p, TLS_SUITE_AES128);
        send_text(&p);
        size = recv(p.fd[1], raw, sizeof(raw), 0);
        assert_int_equal(send(p.fd[0], raw, (size_t)i, 0), i);
        shutdown(p.fd[0], SHUT_WR);
        assert_int_equal(gp_wire_recv(p.server, p.fd[1], got, sizeof(got), 0),
                         i ? -ECONNRESET : 0);
        pair_end(&p);
    }
}

static void
keys_change_on_the_way_and_nobody_notices(void **state)
{
    static const uint32_t suites[] = {TLS_SUITE_AES128, TLS_SUITE_CHACHA20};

    for (unsigned k = 0; k < ARRAY_SIZE(suites); k++) {
        struct pair p;
        struct tls_keys before, after;

        pair_make(&p, suites[k]);
        tls_record_rekey_after(p.client, 3);
        assert_int_equal(tls_record_keys(p.client, &before), 0);
        for (int i = 0; i < 20; i++) {
            send_text(&p);
            expect_text(&p);
        }
        assert_int_equal(tls_record_keys(p.client, &after), 0);
        assert_memory_not_equal(before.tx.secret, after.tx.secret, TLS_SECRET_SIZE);
        assert_true(after.tx.seq <= 3);
        assert_int_equal(tls_record_keys(p.server, &before), 0);
        assert_memory_equal(before.rx.secret, after.tx.secret, TLS_SECRET_SIZE);
        pair_end(&p);
    }
}

/* As between the supervisor and a worker. */
static void
another_layer_goes_on_from_the_keys(void **state)
{
    struct tls_keys keys;
    struct pair p;
    char got[4];

    pair_make(&p, TLS_SUITE_AES128);
    send_text(&p);
    expect_text(&p);
    assert_int_equal(tls_record_keys(p.server, &keys), 0);
    gp_wire_free(p.server);
    assert_int_equal(tls_linked()->wire_new(&keys, &p.server, NULL), 0);
    send_text(&p);
    expect_text(&p);
    send_text(&p);
    assert_int_equal(gp_wire_recv(p.server, p.fd[1], got, sizeof(got), 0), sizeof(got));
    assert_true(gp_wire_pending(p.server));
    assert_int_equal(tls_record_keys(p.server, &keys), -EBUSY);
    pair_end(&p);
}

static void
suite_that_nobody_knows_is_named(void **state)
{
    struct tls_keys keys = {.suite = 0x1304};
    struct gp_wire *wire = NULL;
    struct gp_err err = {0};

    assert_int_equal(tls_record_new(&keys, &wire, &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.msg, "0x1304"));
}

/* ---- who comes in ------------------------------------------------------------------
 */

/* A peer on TCP sends @data, and will send no more; what the door says then. */
static int
door_begin_for(const void *data, size_t size, struct tls_door *door)
{
    struct gp_msg_conn conn = {0};
    struct gp_err err = {0};
    int listener, peer, r;
    uint32_t events;
    char where[GP_NET_NAME_MAX];

    assert_int_equal(gp_net_listen("127.0.0.1:0", 0, 1, &listener, &err), 0);
    snprintf(where, sizeof(where), "127.0.0.1:%u", gp_net_port(listener));
    assert_int_equal(gp_net_connect(where, 0, soon(), true, &peer, &err), 0);
    assert_int_equal(gp_net_wait(listener, POLLIN, soon()), 0);
    assert_int_equal(gp_net_accept(listener, &conn.src.fd), 0);
    assert_int_equal(send(peer, data, size, MSG_NOSIGNAL), size);
    assert_int_equal(shutdown(peer, SHUT_WR), 0);
    while (!gp_net_hung_up(conn.src.fd))
        gp_net_wait(conn.src.fd, POLLRDHUP, soon());
    door->policy = TLS_PREFER;
    r = tls_door_begin(door, &conn, &events, &err);
    close(peer);
    close(conn.src.fd);
    close(listener);
    return r;
}

/* It is told what is wrong with its request, as one is that keeps its end open; only a
 * handshake would be in vain. */
static void
who_says_no_more_is_heard_in_clear_text_and_gets_no_handshake(void **state)
{
    static const uint8_t hello[] = {0x16, 3, 1, 0, 64, 1, 0, 0, 60, 3, 3};
    struct tls_door door = {0};

    assert_int_equal(door_begin_for("GET / HTTP/1.0\r\n", 16, &door), 0);
    assert_true(door.clear);
    door = (struct tls_door){0};
    assert_int_equal(door_begin_for(hello, sizeof(hello), &door), -ECONNRESET);
    assert_false(door.clear);
    assert_null(door.hs);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_one_psk_understand_each_other_and_nobody_else_does),
        cmocka_unit_test(wrong_psk_is_refused_by_both_ends),
        cmocka_unit_test(unknown_identity_is_refused),
        cmocka_unit_test(certificate_is_of_the_key_and_a_wrong_pin_is_refused),
        cmocka_unit_test(older_tls_is_refused),
        cmocka_unit_test(hello_cut_or_changed_anywhere_is_an_error),
        cmocka_unit_test(peer_that_has_gone_ends_the_handshake_and_not_the_process),
        cmocka_unit_test(silent_server_ends_at_the_deadline),
        cmocka_unit_test(record_changed_anywhere_is_an_error_for_good),
        cmocka_unit_test(record_sent_twice_or_left_out_is_an_error),
        cmocka_unit_test(end_within_a_record_is_a_broken_link_and_between_them_the_end),
        cmocka_unit_test(keys_change_on_the_way_and_nobody_notices),
        cmocka_unit_test(another_layer_goes_on_from_the_keys),
        cmocka_unit_test(suite_that_nobody_knows_is_named),
        cmocka_unit_test(who_says_no_more_is_heard_in_clear_text_and_gets_no_handshake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
