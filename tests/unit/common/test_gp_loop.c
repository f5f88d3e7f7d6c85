/* SPDX-License-Identifier: Apache-2.0 */
/* Timers, descriptors and signals of the event loop. */
#include "ut.h"

#include "gp_loop.h"
#include "gp_time.h"

#include <signal.h>
#include <sys/epoll.h>

struct order {
    struct gp_loop_timer timer;
    struct gp_loop *loop;
    char *trail;
    char mark;
};

static void
on_timer(struct gp_loop_timer *src)
{
    struct order *o = container_of(src, struct order, timer);

    while (*o->trail)
        o->trail++;
    *o->trail = o->mark;
    if (o->mark == 'c')
        gp_loop_stop(o->loop, 42);
}

static void
timers_fire_in_order_of_deadline(void **state)
{
    char trail[8] = "";
    struct gp_loop *loop;
    struct order a = {.trail = trail, .mark = 'a'}, b = a, c = a, dead = a;
    uint64_t now = gp_now_ns();

    assert_int_equal(gp_loop_new(&loop, NULL), 0);
    b.mark = 'b', c.mark = 'c', dead.mark = 'x';
    a.loop = b.loop = c.loop = loop;
    gp_loop_timer_set(loop, &c.timer, now + 3 * GP_NS_PER_MS, on_timer);
    gp_loop_timer_set(loop, &b.timer, now + 99 * GP_NS_PER_S, on_timer);
    gp_loop_timer_set(loop, &dead.timer, now, on_timer);
    gp_loop_timer_set(loop, &a.timer, now + GP_NS_PER_MS, on_timer);
    gp_loop_timer_set(loop, &b.timer, now + 2 * GP_NS_PER_MS, on_timer); /* re-armed */
    gp_loop_timer_del(&dead.timer);
    gp_loop_timer_del(&dead.timer);
    assert_int_equal(gp_loop_run(loop), 42);
    assert_string_equal(trail, "abc");
    gp_loop_free(loop);
}

#define MANY 5000

struct many {
    struct gp_loop_timer timers[MANY];
    struct gp_loop *loop;
    uint64_t last_ns;
    unsigned fired;
};

static struct many many;

static void
on_one_of_many(struct gp_loop_timer *src)
{
    assert_true(src->deadline_ns >= many.last_ns);
    many.last_ns = src->deadline_ns;
    if (++many.fired == MANY / 2)
        gp_loop_stop(many.loop, 0);
}

static void
thousands_of_timers_fire_in_order(void **state)
{
    uint64_t now = gp_now_ns();

    assert_int_equal(gp_loop_new(&many.loop, NULL), 0);
    for (unsigned i = 0; i < MANY;
         i++) /* some at the same time, each other one twice */
        gp_loop_timer_set(many.loop, &many.timers[i], now + i * 7919 % 1000 * 1000,
                          on_one_of_many);
    for (unsigned i = 0; i < MANY; i += 2)
        gp_loop_timer_set(many.loop, &many.timers[i], now + i * 104729 % 1000 * 1000,
                          on_one_of_many);
    for (unsigned i = 1; i < MANY; i += 2)
        gp_loop_timer_del(&many.timers[i]);
    assert_int_equal(gp_loop_run(many.loop), 0);
    assert_int_equal(many.fired, MANY / 2);
    gp_loop_free(many.loop);
}

struct pair {
    struct gp_loop_fd src;
    struct pair *other;
    struct gp_loop *loop;
    int calls;
};

static void
on_ready(struct gp_loop_fd *src, uint32_t revents)
{
    struct pair *p = container_of(src, struct pair, src);

    p->calls++;
    gp_loop_fd_del(&p->other->src); /* its event is in the same batch */
    gp_loop_stop(p->loop, 0);
}

static void
removed_source_is_not_called_from_the_same_batch(void **state)
{
    struct pair a = {0}, b = {0};
    struct gp_loop *loop;
    int fa[2], fb[2];

    assert_int_equal(pipe(fa) | pipe(fb), 0);
    assert_int_equal(gp_loop_new(&loop, NULL), 0);
    a.other = &b, b.other = &a;
    a.loop = b.loop = loop;
    assert_int_equal(gp_loop_fd_add(loop, &a.src, fa[0], EPOLLIN, on_ready), 0);
    assert_int_equal(gp_loop_fd_add(loop, &b.src, fb[0], EPOLLIN, on_ready), 0);
    assert_int_equal(write(fa[1], "x", 1) + write(fb[1], "x", 1), 2);
    gp_loop_run(loop);
    assert_int_equal(a.calls + b.calls, 1);
    gp_loop_free(loop);
    for (int i = 0; i < 2; i++)
        close(fa[i]), close(fb[i]);
}

static void
on_signal(struct gp_loop *loop, int signo, void *arg)
{
    *(int *)arg = signo;
    gp_loop_stop(loop, 0);
}

static void
signal_arrives_through_the_loop(void **state)
{
    struct gp_loop *loop;
    int got = 0;

    assert_int_equal(gp_loop_new(&loop, NULL), 0);
    assert_int_equal(
        gp_loop_signals(loop, (int[]){SIGUSR1, SIGTERM, 0}, on_signal, &got, NULL), 0);
    raise(SIGTERM);
    gp_loop_run(loop);
    assert_int_equal(got, SIGTERM);
    gp_loop_free(loop);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_of_deadline),
        cmocka_unit_test(thousands_of_timers_fire_in_order),
        cmocka_unit_test(removed_source_is_not_called_from_the_same_batch),
        cmocka_unit_test(signal_arrives_through_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
