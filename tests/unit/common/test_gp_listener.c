/* SPDX-License-Identifier: Apache-2.0 */
/* A listening socket that runs out of descriptors. */
#include "ut.h"

#include "gp_listener.h"
#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

struct fixture {
    struct gp_loop *loop;
    struct gp_listener listener;
    struct gp_loop_timer end;
    int accepted, troubles, error;
    int stop_after; /* connections */
};

static void
on_accept(struct gp_listener *listener, int fd)
{
    struct fixture *f = container_of(listener, struct fixture, listener);

    close(fd);
    if (++f->accepted == f->stop_after)
        gp_loop_stop(f->loop, 1);
}

static void
on_trouble(struct gp_listener *listener, int error)
{
    struct fixture *f = container_of(listener, struct fixture, listener);

    f->troubles++;
    f->error = error;
}

static void
on_end(struct gp_loop_timer *timer)
{
    gp_loop_stop(container_of(timer, struct fixture, end)->loop, 0);
}

static unsigned
start(struct fixture *f)
{
    int fd;

    assert_int_equal(gp_loop_new(&f->loop, NULL), 0);
    assert_int_equal(gp_net_listen("127.0.0.1:0", 0, 64, &fd, NULL), 0);
    assert_int_equal(gp_listener_init(&f->listener, f->loop, fd, on_accept, on_trouble),
                     0);
    return gp_net_port(fd);
}

static int
dial(unsigned port)
{
    char address[32];
    int fd;

    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    assert_int_equal(
        gp_net_connect(address, 0, gp_now_ns() + 10 * GP_NS_PER_S, true, &fd, NULL), 0);
    return fd;
}

static void
set_file_limit(rlim_t n)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Without the pause the loop would turn hundreds of thousands of times in this second,
 * once for each line that it could log. */
static void
lack_of_descriptors_pauses_and_then_connections_are_accepted(void **state)
{
    struct fixture f = {.stop_after = 2};
    unsigned port = start(&f);
    int first = dial(port), second = dial(port);
    struct rlimit before;

    getrlimit(RLIMIT_NOFILE, &before);
    set_file_limit((rlim_t)second + 1);
    gp_loop_timer_set(f.loop, &f.end, gp_now_ns() + GP_NS_PER_S, on_end);
    assert_int_equal(gp_loop_run(f.loop), 0);
    assert_int_equal(f.accepted, 0);
    assert_int_equal(f.error, -EMFILE);
    assert_in_range(f.troubles, 1, 1000 / GP_LISTENER_PAUSE_MS + 1);

    set_file_limit(before.rlim_cur);
    gp_loop_timer_set(f.loop, &f.end, gp_now_ns() + 60 * GP_NS_PER_S, on_end);
    assert_int_equal(gp_loop_run(f.loop), 1);
    gp_loop_timer_del(&f.end);
    close(first);
    close(second);
    gp_listener_fini(&f.listener);
    gp_listener_fini(&f.listener); /* a second time is a no-op */
    gp_loop_free(f.loop);
}

/* More connections than one turn of the loop accepts. */
static void
all_connections_of_a_burst_are_accepted(void **state)
{
    enum { N = GP_LISTENER_BATCH + 8 };
    struct fixture f = {.stop_after = N};
    unsigned port = start(&f);
    int fds[N];

    for (int i = 0; i < N; i++)
        fds[i] = dial(port);
    gp_loop_timer_set(f.loop, &f.end, gp_now_ns() + 60 * GP_NS_PER_S, on_end);
    assert_int_equal(gp_loop_run(f.loop), 1);
    gp_loop_timer_del(&f.end);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    gp_listener_fini(&f.listener);
    gp_loop_free(f.loop);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lack_of_descriptors_pauses_and_then_connections_are_accepted),
        cmocka_unit_test(all_connections_of_a_burst_are_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
