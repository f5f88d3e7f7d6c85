/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether further connections pay (transport/xport_stripes.c): a link of a known speed,
 * in front of it queues of the kernel that take some megabytes at memory's speed.
 */
#include "ut.h"
#include "xport_stripes.h"

#define MIB (1u << 20)

/* A way to the peer: what is given beyond the queue's room goes at @ns_per_byte. */
struct way {
    struct xport_rate *rate;
    double ns_per_byte;
    uint64_t queued, room;
};

static void
send_over(struct way *way, uint64_t len)
{
    uint64_t over = way->queued + len > way->room ? way->queued + len - way->room : 0;
    uint64_t taken = over ? over : 1;

    way->queued += len - over;
    way->rate->taken += taken;
    way->rate->bytes += (double)taken;
    way->rate->ns += (double)over * way->ns_per_byte + (double)(len - over) * 0.3;
}

/* Send @mib MiB in runs of one; how many of them went over the stripes at the end. */
static unsigned
send_mib(struct xport_stripes *stripes, struct way *all, struct way *one, unsigned mib)
{
    unsigned over_stripes = 0;

    for (unsigned i = 0; i < mib; i++) {
        uint32_t len = MIB;
        bool striped = xport_stripes_pay(stripes, one->rate, &len);

        send_over(striped ? all : one, len);
        if (i >= mib - 16)
            over_stripes += striped;
    }
    return over_stripes;
}

static unsigned
stripes_used(double one_ns, double all_ns, uint64_t room)
{
    struct xport_stripes stripes = {.n = 4};
    struct xport_rate main = {0};
    struct way all = {&stripes.rate, all_ns, 0, room},
               one = {&main, one_ns, 0, room / 4};

    atomic_store(&stripes.send, true);
    send_over(&one, 16 * MIB); /* what made the stripes worth a trial */
    return send_mib(&stripes, &all, &one, 96);
}

static void
faster_stripes_are_used_whatever_the_queues_hold(void **state)
{
    (void)state;
    for (uint64_t room = 0; room <= 32; room += 4)
        assert_int_equal(stripes_used(40, 10, room * MIB), 16);
}

static void
stripes_that_gain_nothing_are_left(void **state)
{
    (void)state;
    for (uint64_t room = 0; room <= 32; room += 4)
        assert_int_equal(stripes_used(10, 10, room * MIB), 0);
}

/* All of it fits into the queues: no speed was seen, and the trial ends all the same.
 */
static void
queues_that_are_never_full_end_the_trial(void **state)
{
    (void)state;
    struct xport_stripes stripes = {.n = 4};
    struct xport_rate main = {0};
    struct way all = {&stripes.rate, 10, 0, UINT64_MAX},
               one = {&main, 40, 0, UINT64_MAX};

    atomic_store(&stripes.send, true);
    send_mib(&stripes, &all, &one, 160);
    assert_true(stripes.until > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faster_stripes_are_used_whatever_the_queues_hold),
        cmocka_unit_test(stripes_that_gain_nothing_are_left),
        cmocka_unit_test(queues_that_are_never_full_end_the_trial),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
