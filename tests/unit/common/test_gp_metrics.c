/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics endpoint's answers, and the escapes of its text. */
#include "ut.h"

#include "gp_err.h"
#include "gp_http.h"
#include "gp_loop.h"
#include "gp_metrics.h"
#include "gp_net.h"
#include "gp_time.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

struct fixture {
    struct gp_loop *loop;
    struct gp_metrics *metrics;
    struct gp_loop_fd client;
    char answer[4096];
    size_t len;
};

static void
answer_one(void *arg, const struct gp_http_request *request,
           struct gp_http_answer *answer)
{
    gp_metrics_head(answer->body, "x_total", "counter", "What x is.");
    fprintf(answer->body, "x_total %d\n", *(const int *)arg);
    if (!strcmp(request->path, "/metric"))
        fputs("y 1\n", answer->body);
}

static void
on_answer(struct gp_loop_fd *src, uint32_t revents)
{
    struct fixture *f = container_of(src, struct fixture, client);
    ssize_t n = read(src->fd, f->answer + f->len, sizeof(f->answer) - 1 - f->len);

    (void)revents;
    if (n > 0)
        f->len += (size_t)n;
    else
        gp_loop_stop(f->loop, 0);
}

/* What @request is answered, on an endpoint at @address. */
static void
ask(struct fixture *f, const char *address, const char *request)
{
    int fd;

    f->len = 0;
    memset(f->answer, 0, sizeof(f->answer));
    assert_int_equal(
        gp_net_connect(address, 0, gp_now_ns() + 10 * GP_NS_PER_S, true, &fd, NULL), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    assert_int_equal(gp_loop_fd_add(f->loop, &f->client, fd, EPOLLIN, on_answer), 0);
    assert_int_equal(gp_loop_run(f->loop), 0);
    gp_loop_fd_del(&f->client);
    close(fd);
}

static void
endpoint_answers_metrics_health_and_nothing_else(void **state)
{
    static const struct {
        const char *request, *status, *words;
    } cases[] = {
        {"GET /metrics HTTP/1.0\r\n\r\n", "200 OK", "# HELP x_total What x is.\n"},
        {"GET /metric HTTP/1.0\r\n\r\n", "200 OK", "\nx_total 7\ny 1\n"},
        {"GET /metrics HTTP/1.0\r\n\r\n", "200 OK",
         "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"},
        {"GET /healthz HTTP/1.0\r\n\r\n", "200 OK", "\r\n\r\nok\n"},
        {"GET /more HTTP/1.0\r\n\r\n", "200 OK", "x_total 7\n"},
        {"GET /else HTTP/1.0\r\n\r\n", "404 ", "/metrics, /more and /healthz"},
        {"POST /metrics HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "405 ", "only GET"},
    };
    struct fixture f = {0};
    struct gp_err err = {0};
    char folder[] = "/tmp/ut-metrics-XXXXXX";
    char address[64];
    int number = 7;

    assert_non_null(mkdtemp(folder));
    snprintf(address, sizeof(address), "unix:%s/metrics", folder);
    assert_int_equal(gp_loop_new(&f.loop, NULL), 0);
    if (gp_metrics_start(f.loop,
                         &(struct gp_metrics_config){.listen = address,
                                                     .area = "test",
                                                     .more = "/more",
                                                     .answer = answer_one,
                                                     .arg = &number},
                         &f.metrics, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ask(&f, address, cases[i].request);
        assert_non_null(strstr(f.answer, cases[i].status));
        assert_non_null(strstr(f.answer, cases[i].words));
    }
    gp_metrics_stop(f.metrics);
    gp_loop_free(f.loop);
    unlink(address + strlen("unix:"));
    rmdir(folder);
}

/* More than sockets take at once. */
#define LARGE ((size_t)16 << 20)
#define PIECE ((size_t)100 * 1000)

struct large {
    char *text, *got;
    size_t given, len;
    unsigned done;
    struct gp_loop *loop;
    struct gp_loop_fd client;
};

static void
large_done(void *state)
{
    ((struct large *)state)->done++;
}

static bool
large_next(void *state, FILE *body)
{
    struct large *large = state;
    size_t n = gp_min(PIECE, LARGE - large->given);

    fwrite(large->text + large->given, 1, n, body);
    large->given += n;
    return large->given < LARGE;
}

/* /metrics has a tail, /metric comes in pieces. */
static void
answer_large(void *arg, const struct gp_http_request *request,
             struct gp_http_answer *answer)
{
    struct large *large = arg;

    fputs("begin ", answer->body);
    answer->state = large;
    answer->done = large_done;
    if (!strcmp(request->path, "/metric")) {
        large->given = 0;
        answer->next = large_next;
    } else {
        answer->tail = large->text;
        answer->tail_size = LARGE;
    }
}

static void
on_large(struct gp_loop_fd *src, uint32_t revents)
{
    struct large *large = container_of(src, struct large, client);
    ssize_t n = read(src->fd, large->got + large->len, LARGE + 4096 - large->len);

    (void)revents;
    if (n > 0)
        large->len += (size_t)n;
    else
        gp_loop_stop(large->loop, 0);
}

static void
get_large(struct large *large, const char *address, const char *request)
{
    char *body;
    int fd;

    large->len = 0;
    assert_int_equal(
        gp_net_connect(address, 0, gp_now_ns() + 10 * GP_NS_PER_S, true, &fd, NULL), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    assert_int_equal(gp_loop_fd_add(large->loop, &large->client, fd, EPOLLIN, on_large),
                     0);
    assert_int_equal(gp_loop_run(large->loop), 0);
    gp_loop_fd_del(&large->client);
    close(fd);
    body = memmem(large->got, large->len, "\r\n\r\nbegin ", 10);
    assert_non_null(body);
    body += 10;
    assert_int_equal(large->got + large->len - body, LARGE);
    assert_memory_equal(body, large->text, LARGE);
}

static void
large_answers_arrive_whole(void **state)
{
    struct large large = {.text = malloc(LARGE), .got = malloc(LARGE + 4096)};
    struct gp_metrics *metrics;
    struct gp_err err = {0};
    char folder[] = "/tmp/ut-metrics-XXXXXX";
    char address[64];

    assert_true(large.text && large.got);
    for (size_t i = 0; i < LARGE; i++)
        large.text[i] = (char)(' ' + i * 7 / 11 % 90);
    assert_non_null(mkdtemp(folder));
    snprintf(address, sizeof(address), "unix:%s/metrics", folder);
    assert_int_equal(gp_loop_new(&large.loop, NULL), 0);
    if (gp_metrics_start(large.loop,
                         &(struct gp_metrics_config){.listen = address,
                                                     .area = "test",
                                                     .answer = answer_large,
                                                     .arg = &large},
                         &metrics, &err) < 0)
        fail_msg("%s", err.msg);
    for (unsigned i = 1; i <= 2; i++) {
        get_large(&large, address, "GET /metrics HTTP/1.0\r\n\r\n");
        get_large(&large, address, "GET /metric HTTP/1.0\r\n\r\n");
    }
    gp_metrics_stop(metrics);
    assert_int_equal(large.done, 4);
    gp_loop_free(large.loop);
    unlink(address + strlen("unix:"));
    rmdir(folder);
    free(large.text);
    free(large.got);
}

static void
labels_are_escaped(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    gp_metrics_label(out, "owner", "a\"b\\c\nd");
    fclose(out);
    assert_string_equal(text, "owner=\"a\\\"b\\\\c\\nd\"");
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoint_answers_metrics_health_and_nothing_else),
        cmocka_unit_test(large_answers_arrive_whole),
        cmocka_unit_test(labels_are_escaped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
