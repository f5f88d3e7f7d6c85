/* SPDX-License-Identifier: Apache-2.0 */
/* Who may replace the link of an attachment, and how often. */
#include "ut.h"

#include "attach.pb-c.h"
#include "srv.h"
#include "srv_resume.h"
#include "srv_types.h"
#include "wrk_request.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static struct srv srv;
static struct srv_worker worker, other;
static int channel = -1; /* the worker's end */
static int backs;        /* descriptors of new links that the server watches */
static uint8_t token[ATTACH_COOKIE_SIZE];

static const uint8_t key[ATTACH_KEY_SIZE] = {1, 2, 3}, foreign[ATTACH_KEY_SIZE] = {9};
static const struct tls_keys clear = {0}, secure = {.suite = TLS_SUITE_AES128};

static void
start(const struct tls_keys *tls, bool rdma)
{
    bool tls_on = tls->suite != TLS_SUITE_NONE;
    int fd;

    memset(&worker, 0, sizeof(worker));
    memset(&other, 0, sizeof(other));
    srv.workers = &other;
    other.next = &worker;
    worker.srv = other.srv = &srv;
    backs = 0;
    assert_int_equal(srv_resume_new(&other, foreign, false, tls_on, 60, &fd, NULL), 0);
    close(fd);
    assert_int_equal(srv_resume_new(&worker, key, rdma, tls_on, 60, &channel, NULL), 0);
}

static void
end(void)
{
    srv_resume_free(&worker);
    srv_resume_free(&other);
    close(channel);
}

static Gpupool__AttachRequest
request(const uint8_t *of, bool acks, uint32_t number)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;

    attach_cookie_make(of, acks ? ATTACH_COOKIE_ACKS : ATTACH_COOKIE_RESUME, number,
                       token);
    req.resume_token.data = token;
    req.resume_token.len = sizeof(token);
    req.resume_seq = number;
    req.resume_acks = acks;
    req.resume_received = 7;
    return req;
}

static void
on_back(struct srv_worker *w, int fd)
{
    assert_ptr_equal(w, &worker);
    close(fd);
    backs++;
}

/* A connection comes with that; what the worker gets of it. */
static bool
comes(const Gpupool__AttachRequest *req, const struct tls_keys *tls)
{
    struct srv_worker *w = srv_resume_find(&srv, req, tls->suite != TLS_SUITE_NONE);
    struct wrk_request msg;
    int pair[2], fd;

    if (!w)
        return false;
    assert_ptr_equal(w, &worker);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(srv_resume_give(w, req, pair[0], tls, on_back), 0);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(wrk_request_recv(channel, &msg, &fd, MSG_DONTWAIT), 0);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(msg.kind, req->resume_acks ? WRK_REQUEST_ACKS : WRK_REQUEST_LINK);
    assert_int_equal(msg.own, req->resume_seq);
    assert_int_equal(msg.tls.suite, tls->suite);
    assert_int_equal(msg.slice, req->resume_rdma);
    if (req->resume_rdma) {
        uint8_t cookie[ATTACH_COOKIE_SIZE];

        attach_cookie_make(key, ATTACH_COOKIE_RDMA, req->resume_seq, cookie);
        assert_memory_equal(msg.secret, cookie, sizeof(cookie));
    }
    return true;
}

static bool
link_comes(uint32_t number)
{
    Gpupool__AttachRequest req = request(key, false, number);

    return comes(&req, &clear);
}

static bool
acks_come(uint32_t number)
{
    Gpupool__AttachRequest req = request(key, true, number);

    return comes(&req, &clear);
}

static void
test_token_is_good_once(void **state)
{
    (void)state;
    start(&clear, false);
    assert_true(link_comes(1));
    assert_false(link_comes(1)); /* who has seen it on the line, for example */
    assert_true(link_comes(5));
    assert_false(link_comes(4)); /* made before, and held back by somebody */
    assert_false(link_comes(0));
    assert_int_equal(backs, 2);
    end();
}

/* Only a client that says so may go on over RDMA, and its cookie is good for one link.
 */
static void
test_client_says_that_it_would_go_on_over_rdma(void **state)
{
    Gpupool__AttachRequest req;

    (void)state;
    start(&clear, false);
    assert_true(link_comes(2));
    req = request(key, false, 3);
    req.resume_rdma = true;
    assert_true(comes(&req, &clear));
    assert_false(comes(&req, &clear));
    end();
}

static void
test_acknowledgements_belong_to_the_link_in_use(void **state)
{
    (void)state;
    start(&clear, false);
    assert_true(acks_come(0));
    assert_false(acks_come(0));
    assert_false(acks_come(1));
    assert_true(link_comes(1));
    assert_false(acks_come(0));
    assert_true(acks_come(1));
    assert_false(acks_come(1));
    end();
}

static void
test_token_of_one_kind_is_none_of_the_other(void **state)
{
    Gpupool__AttachRequest req;

    (void)state;
    start(&clear, false);
    req = request(key, false, 1);
    req.resume_acks = true;
    assert_false(comes(&req, &clear));
    req = request(key, true, 1);
    req.resume_acks = false;
    assert_false(comes(&req, &clear));
    req = request(key, false, 1);
    req.resume_seq = 2; /* the number is in it */
    assert_false(comes(&req, &clear));
    req = request((const uint8_t[ATTACH_KEY_SIZE]){4}, false, 1);
    assert_false(comes(&req, &clear));
    req = request(key, false, 1);
    req.resume_token.len--;
    assert_false(comes(&req, &clear));
    end();
}

static void
test_attachment_of_tls_does_not_go_on_in_clear_text(void **state)
{
    Gpupool__AttachRequest req;

    (void)state;
    start(&secure, false);
    req = request(key, false, 1);
    assert_false(comes(&req, &clear));
    assert_true(comes(&req, &secure));
    req = request(key, true, 1);
    assert_false(comes(&req, &clear));
    assert_true(comes(&req, &secure));
    end();
    start(&clear, false);
    req = request(key, false, 1);
    assert_false(comes(&req, &secure));
    end();
}

static void
test_rdma_of_a_client_that_stays_away_is_not_replaced(void **state)
{
    (void)state;
    start(&clear, true);
    assert_false(link_comes(1));
    assert_true(acks_come(0)); /* it has turned out to be TCP */
    assert_true(link_comes(1));
    end();
}

static void
test_ending_attachment_is_not_replaced(void **state)
{
    (void)state;
    start(&clear, false);
    worker.ending = true;
    assert_false(link_comes(1));
    end();
}

static int
control_comes(const uint8_t *of, uint32_t round, bool tls_on)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    struct srv_worker *w;
    int r;

    attach_cookie_make(of, ATTACH_COOKIE_CONTROL, round, token);
    req.control_cookie.data = token;
    req.control_cookie.len = sizeof(token);
    req.control_round = round;
    r = srv_resume_control(&srv, &req, tls_on, &w);
    return r < 0 ? r
                 : srv_resume_control_give(w, STDIN_FILENO, tls_on ? &secure : &clear);
}

static void
control_connections_go_to_their_worker_and_each_once(void **state)
{
    struct srv_worker_kept kept = {0}, kept_other = {0};
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    struct wrk_request msg;
    struct srv_worker *w;
    int fd;

    (void)state;
    start(&secure, false);
    worker.kept = &kept;
    other.kept = &kept_other;
    assert_int_equal(control_comes(key, 0, false), -ENOENT); /* TLS began it */
    assert_int_equal(control_comes(key, 0, true), 0);
    assert_int_equal(wrk_request_recv(channel, &msg, &fd, MSG_DONTWAIT), 0);
    assert_int_equal(msg.kind, WRK_REQUEST_CONTROL);
    assert_int_equal(msg.tls.suite, secure.suite);
    close(fd);
    assert_int_equal(control_comes(key, 0, true), -ENOENT);
    assert_int_equal(control_comes(key, 5, true), 0);
    assert_int_equal(control_comes(key, 4, true), -ENOENT);
    assert_int_equal(control_comes((const uint8_t[ATTACH_KEY_SIZE]){4}, 6, true),
                     -ENOENT);
    assert_int_equal(control_comes(key, UINT32_MAX, true), -EINVAL);
    assert_int_equal(srv_resume_control(&srv, &req, true, &w), -EINVAL);
    assert_int_equal(kept.control_round, 6); /* what a successor goes on from */
    worker.ending = true;
    assert_int_equal(control_comes(key, 7, true), -ENOENT);
    worker.ending = false;
    worker.kept = other.kept = NULL;
    end();
}

static void
worker_that_reads_no_links_holds_few(void **state)
{
    uint32_t n = 0;
    int r = 0;

    (void)state;
    start(&clear, false);
    while (n < 100 && r == 0) {
        Gpupool__AttachRequest req = request(key, false, ++n);
        struct srv_worker *w = srv_resume_find(&srv, &req, false);

        assert_ptr_equal(w, &worker);
        r = srv_resume_give(w, &req, STDIN_FILENO, &clear, on_back);
    }
    assert_in_range(n, 4, 64);
    assert_int_equal(r, -EAGAIN);
    end();
}

static void
worker_that_reads_no_control_connections_holds_few(void **state)
{
    struct srv_worker_kept kept = {0};
    uint32_t n = 0;

    (void)state;
    start(&clear, false);
    worker.kept = &kept;
    while (n < 100 && control_comes(key, n, false) == 0)
        n++;
    assert_in_range(n, 4, 64);
    assert_int_equal(control_comes(key, n, false), -EAGAIN);
    worker.kept = NULL;
    end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_connections_go_to_their_worker_and_each_once),
        cmocka_unit_test(worker_that_reads_no_control_connections_holds_few),
        cmocka_unit_test(worker_that_reads_no_links_holds_few),
        cmocka_unit_test(test_token_is_good_once),
        cmocka_unit_test(test_client_says_that_it_would_go_on_over_rdma),
        cmocka_unit_test(test_acknowledgements_belong_to_the_link_in_use),
        cmocka_unit_test(test_token_of_one_kind_is_none_of_the_other),
        cmocka_unit_test(test_attachment_of_tls_does_not_go_on_in_clear_text),
        cmocka_unit_test(test_rdma_of_a_client_that_stays_away_is_not_replaced),
        cmocka_unit_test(test_ending_attachment_is_not_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
