/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that a thread makes for a loop; the thread sanitizer sees who passes what
 * to whom without an order (`make test-tsan`). */
#include "ut.h"

#include "ctl_dial.h"
#include "gp_err.h"
#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_NS (60 * GP_NS_PER_S)

struct fixture {
    struct gp_loop *loop;
    struct ctl_dial dial;
    struct gp_loop_timer end;
    int listener;
    char address[32];
    int calls, result, fd;
    char words[256];
};

static void
on_done(struct ctl_dial *dial, int r, struct ctl_link *link, const struct gp_err *err)
{
    struct fixture *f = container_of(dial, struct fixture, dial);

    f->calls++;
    f->result = r;
    f->fd = r < 0 ? -1 : TAKE_FD(link->fd);
    snprintf(f->words, sizeof(f->words), "%s", r < 0 ? gp_err_msg(err, r) : "");
    gp_loop_stop(f->loop, 0);
}

static void
on_end(struct gp_loop_timer *timer)
{
    gp_loop_stop(container_of(timer, struct fixture, end)->loop, -ETIMEDOUT);
}

static void
begin(struct fixture *f)
{
    *f = (struct fixture){.fd = -1};
    assert_int_equal(gp_loop_new(&f->loop, NULL), 0);
    assert_int_equal(gp_net_listen("127.0.0.1:0", 0, 64, &f->listener, NULL), 0);
    snprintf(f->address, sizeof(f->address), "127.0.0.1:%u", gp_net_port(f->listener));
}

static void
dial(struct fixture *f)
{
    assert_int_equal(
        ctl_dial_start(&f->dial, f->loop, f->address, NULL, NULL, TIMEOUT_NS, on_done),
        0);
    assert_non_null(f->dial.job);
}

static int
turn(struct fixture *f, uint64_t ns)
{
    int r;

    gp_loop_timer_set(f->loop, &f->end, gp_now_ns() + ns, on_end);
    r = gp_loop_run(f->loop);
    gp_loop_timer_del(&f->end);
    return r;
}

static int
accept_one(const struct fixture *f)
{
    struct pollfd poll_fd = {.fd = f->listener, .events = POLLIN};
    int fd = -1;

    assert_int_equal(poll(&poll_fd, 1, TIMEOUT_NS / GP_NS_PER_MS), 1);
    assert_int_equal(gp_net_accept(f->listener, &fd), 0);
    return fd;
}

/* The other end closes it. */
static void
await_hang_up(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char byte;

    assert_int_equal(poll(&poll_fd, 1, TIMEOUT_NS / GP_NS_PER_MS), 1);
    assert_int_equal(read(fd, &byte, 1), 0);
    close(fd);
}

static void
end(struct fixture *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->listener >= 0)
        close(f->listener);
    gp_loop_free(f->loop);
}

/* Again and again: the storage of a dial serves for the next. */
static void
link_comes_to_the_loop_and_is_its_own(void **state)
{
    struct fixture f;
    int peer;

    begin(&f);
    for (int i = 1; i <= 20; i++) {
        dial(&f);
        assert_int_equal(turn(&f, TIMEOUT_NS), 0);
        assert_int_equal(f.calls, i);
        assert_int_equal(f.result, 0);
        assert_null(f.dial.job);
        peer = accept_one(&f);
        assert_int_equal(write(f.fd, "x", 1), 1);
        close(TAKE_FD(f.fd));
        close(peer);
    }
    end(&f);
}

static void
refusal_comes_with_its_words(void **state)
{
    struct fixture f;

    begin(&f);
    close(TAKE_FD(f.listener));
    dial(&f);
    assert_int_equal(turn(&f, TIMEOUT_NS), 0);
    assert_int_equal(f.result, -ECONNREFUSED);
    assert_non_null(strstr(f.words, f.address));
    end(&f);
}

static void
nothing_is_called_back_after_a_cancel_and_the_link_is_closed(void **state)
{
    struct fixture f;

    begin(&f);
    dial(&f);
    ctl_dial_cancel(&f.dial);
    assert_null(f.dial.job);
    ctl_dial_cancel(&f.dial); /* a second time is a no-op */
    await_hang_up(accept_one(&f));
    assert_int_equal(turn(&f, 0), -ETIMEDOUT);
    assert_int_equal(f.calls, 0);
    end(&f);
}

static void
result_that_is_there_is_not_called_back_after_a_cancel(void **state)
{
    struct fixture f;
    int peer;

    begin(&f);
    dial(&f);
    peer = accept_one(&f);
    assert_int_equal(
        poll(&(struct pollfd){.fd = f.dial.src.fd, .events = POLLIN}, 1, -1), 1);
    ctl_dial_cancel(&f.dial);
    await_hang_up(peer);
    assert_int_equal(turn(&f, 0), -ETIMEDOUT);
    assert_int_equal(f.calls, 0);
    end(&f);
}

static void
later_attempts_may_take_longer_up_to_a_limit(void **state)
{
    for (int several = 0; several < 2; several++) {
        uint64_t first = ctl_dial_timeout_ns(0, several);

        assert_true(ctl_dial_timeout_ns(1, several) > first);
        assert_true(ctl_dial_timeout_ns(1000, several) <= 4 * first);
        assert_true(ctl_dial_timeout_ns(1000, several) >=
                    ctl_dial_timeout_ns(1, several));
    }
    assert_true(ctl_dial_timeout_ns(0, true) < ctl_dial_timeout_ns(0, false));
}

static void
pauses_differ(void **state)
{
    uint64_t first = ctl_dial_pause_ns(GP_NS_PER_S), ns;
    bool differ = false;

    for (int i = 0; i < 100; i++) {
        ns = ctl_dial_pause_ns(GP_NS_PER_S);
        assert_in_range(ns, GP_NS_PER_S / 2, GP_NS_PER_S + GP_NS_PER_S / 2);
        differ |= ns != first;
    }
    assert_true(differ);
    assert_int_equal(ctl_dial_pause_ns(0), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_comes_to_the_loop_and_is_its_own),
        cmocka_unit_test(refusal_comes_with_its_words),
        cmocka_unit_test(nothing_is_called_back_after_a_cancel_and_the_link_is_closed),
        cmocka_unit_test(result_that_is_there_is_not_called_back_after_a_cancel),
        cmocka_unit_test(later_attempts_may_take_longer_up_to_a_limit),
        cmocka_unit_test(pauses_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
