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
answer_one(const void *arg, const char *path, struct gp_http_answer *answer)
{
    gp_metrics_head(answer->body, "x_total", "counter", "What x is.");
    fprintf(answer->body, "x_total %d\n", *(const int *)arg);
    if (!strcmp(path, "/metric"))
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
        {"GET / HTTP/1.0\r\n\r\n", "404 ", "/metrics and /healthz"},
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
        cmocka_unit_test(labels_are_escaped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
