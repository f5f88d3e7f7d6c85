/* SPDX-License-Identifier: Apache-2.0 */
/* Whose connections an HTTP server ends when there are too many, or too slow ones. */
#include "ut.h"

#include "gp_err.h"
#include "gp_http.h"
#include "gp_loop.h"
#include "gp_net.h"
#include "gp_time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_NS (20 * GP_NS_PER_S)
/* More than sockets take at once. */
#define LARGE ((size_t)8 << 20)

struct fixture {
    struct gp_loop *loop;
    struct gp_http *http;
    struct gp_loop_timer pause;
    char *large;
};

static void
answer(void *arg, const struct gp_http_request *request, struct gp_http_answer *answer)
{
    const struct fixture *f = arg;

    if (!strcmp(request->path, "/large"))
        fwrite(f->large, 1, LARGE, answer->body);
    else
        fputs("well\n", answer->body);
}

static void
on_trouble(void *arg, int error)
{
    fail_msg("accept: %s", strerror(-error));
}

static void
start(struct fixture *f, unsigned request_ms, unsigned answer_ms)
{
    struct gp_err err = {0};

    f->large = calloc(1, LARGE);
    assert_non_null(f->large);
    assert_int_equal(gp_loop_new(&f->loop, NULL), 0);
    if (gp_http_start(f->loop,
                      &(struct gp_http_config){.listen = "127.0.0.1:0",
                                               .handler = answer,
                                               .on_trouble = on_trouble,
                                               .arg = f,
                                               .request_ms = request_ms,
                                               .answer_ms = answer_ms},
                      &f->http, &err) < 0)
        fail_msg("%s", err.msg);
}

static void
stop(struct fixture *f)
{
    gp_http_stop(f->http);
    gp_loop_free(f->loop);
    free(f->large);
}

static void
on_pause(struct gp_loop_timer *timer)
{
    gp_loop_stop(container_of(timer, struct fixture, pause)->loop, 0);
}

/* Let the server work for a moment. */
static void
turn(struct fixture *f)
{
    gp_loop_timer_set(f->loop, &f->pause, gp_now_ns() + 2 * GP_NS_PER_MS, on_pause);
    gp_loop_run(f->loop);
}

static int
connect_from(struct fixture *f, const char *source)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)gp_http_port(f->http))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    inet_pton(AF_INET, source, &own.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    turn(f);
    return fd;
}

static void
say(struct fixture *f, int fd, const char *text)
{
    send(fd, text, strlen(text), MSG_NOSIGNAL);
    turn(f);
}

/* Read @fd until its end; how many bytes came.  @buf, of 4096 bytes, has the first. */
static size_t
read_all(struct fixture *f, int fd, char *buf)
{
    uint64_t end = gp_now_ns() + PATIENCE_NS;
    char more[65536];
    size_t len = 0;

    for (;;) {
        ssize_t n = recv(fd, more, sizeof(more), MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) {
            assert_true(gp_now_ns() < end);
            turn(f);
            continue;
        }
        if (n <= 0)
            return len;
        if (len < 4095)
            memcpy(buf + len, more, gp_min((size_t)n, 4095 - len));
        len += (size_t)n;
    }
}

static bool
is_ended(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

#define FLOOD (3 * GP_HTTP_CONNECTIONS_MAX)

static void
flood_ends_its_own_connections_only(void **state)
{
    struct fixture f = {0};
    int flood[FLOOD], slow, reader;
    char buf[4096] = "";
    unsigned left = 0;

    start(&f, 0, 0);
    slow = connect_from(&f, "127.0.0.2");
    say(&f, slow, "GET / HTTP/1.0\r\n");
    reader = connect_from(&f, "127.0.0.3");
    say(&f, reader, "GET /large HTTP/1.0\r\n\r\n");
    for (unsigned i = 0; i < FLOOD; i++) {
        flood[i] = connect_from(&f, "127.0.0.1");
        say(&f, flood[i], "GET / HTTP/1.1\r\n");
    }
    for (unsigned i = 0; i < FLOOD; i++) {
        turn(&f);
        left += !is_ended(flood[i]);
        if (i >= FLOOD / 2)
            continue;
        assert_true(is_ended(flood[i])); /* the oldest first */
    }
    assert_true(left > 0);
    say(&f, slow, "\r\n");
    read_all(&f, slow, buf);
    assert_non_null(strstr(buf, "200 OK"));
    assert_true(read_all(&f, reader, buf) > LARGE);
    for (unsigned i = 0; i < FLOOD; i++)
        close(flood[i]);
    close(slow);
    close(reader);
    stop(&f);
}

/* Those of one address that wait for no answer end first. */
static void
answer_on_its_way_outlives_idle_connections_of_its_address(void **state)
{
    struct fixture f = {0};
    int flood[FLOOD], reader;
    char buf[4096] = "";

    start(&f, 0, 0);
    reader = connect_from(&f, "127.0.0.1");
    say(&f, reader, "GET /large HTTP/1.0\r\n\r\n");
    for (unsigned i = 0; i < FLOOD; i++)
        flood[i] = connect_from(&f, "127.0.0.1");
    assert_true(read_all(&f, reader, buf) > LARGE);
    for (unsigned i = 0; i < FLOOD; i++)
        close(flood[i]);
    close(reader);
    stop(&f);
}

/* A byte now and then is no silence, and still no request. */
static void
request_that_trickles_ends_at_its_deadline(void **state)
{
    static const char *const begins[] = {
        "GET / HTTP/1.1\r\nX: ",
        "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n",
    };
    struct fixture f = {0};

    start(&f, 200, 0);
    for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
        uint64_t end = gp_now_ns() + GP_HTTP_IDLE_S * GP_NS_PER_S / 2;
        int fd = connect_from(&f, "127.0.0.1");

        say(&f, fd, begins[i]);
        while (!is_ended(fd)) {
            assert_true(gp_now_ns() < end);
            say(&f, fd, "x");
        }
        close(fd);
    }
    stop(&f);
}

static void
answer_that_nobody_reads_ends_at_its_deadline(void **state)
{
    struct fixture f = {0};
    char buf[4096];
    int fd;

    start(&f, 0, 200);
    fd = connect_from(&f, "127.0.0.1");
    say(&f, fd, "GET /large HTTP/1.0\r\n\r\n");
    for (uint64_t end = gp_now_ns() + 400 * GP_NS_PER_MS; gp_now_ns() < end;)
        turn(&f);
    assert_true(read_all(&f, fd, buf) < LARGE);
    close(fd);
    stop(&f);
}

/* A connection that is used again has time for each request. */
static void
deadline_is_of_each_request(void **state)
{
    struct fixture f = {0};
    int fd;

    start(&f, 200, 0);
    fd = connect_from(&f, "127.0.0.1");
    for (unsigned i = 0; i < 4; i++) {
        uint64_t end = gp_now_ns() + 150 * GP_NS_PER_MS;
        char buf[512];

        while (gp_now_ns() < end)
            turn(&f);
        say(&f, fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) <= 0) {
            assert_false(is_ended(fd));
            turn(&f);
        }
    }
    close(fd);
    stop(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flood_ends_its_own_connections_only),
        cmocka_unit_test(answer_on_its_way_outlives_idle_connections_of_its_address),
        cmocka_unit_test(request_that_trickles_ends_at_its_deadline),
        cmocka_unit_test(answer_that_nobody_reads_ends_at_its_deadline),
        cmocka_unit_test(deadline_is_of_each_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
