/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection learns about spinning. */
#include "ut.h"

#include "gp_time.h"
#include "xport_stream.h"

#include <unistd.h>

static int looks;

/* It comes with the third look. */
static bool
has_come(struct xport_stream *stream)
{
    (void)stream;
    return ++looks >= 3;
}

/* So much that taking it out takes longer than any gap between two looks. */
static int
take_much(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    (void)stream, (void)buf;
    if (looks < 3)
        return -EAGAIN;
    usleep(200);
    *ret_n = len;
    return 0;
}

static int
sleep_until_it_has_come(struct xport_stream *stream, uint64_t deadline_ns)
{
    (void)stream, (void)deadline_ns;
    looks = 3;
    return 0;
}

/* A copy of many bytes arrives in pieces, and each was taken for a pause in which
 * somebody else ran here: after a few of them the connection slept for every piece. */
static void
taking_much_out_is_no_lost_spin(void **state)
{
    static const struct xport_stream_io io = {
        .read = take_much, .readable = has_come, .wait = sleep_until_it_has_come};
    struct xport_stream *stream = xport_stream_alloc(sizeof(*stream));
    bool learnt = false;

    (void)state;
    stream->io = &io;
    /* This thread may be switched away at any time, but not always. */
    for (int i = 0; i < 2000 && !learnt; i++) {
        uint64_t spun = stream->conn.stats.rx_spun;
        uint8_t buf[16];
        size_t n = 0;

        looks = 0;
        assert_int_equal(
            xport_stream_read_later(stream, buf, sizeof(buf), &n, GP_FOREVER), 0);
        assert_int_equal(n, sizeof(buf));
        learnt = stream->conn.stats.rx_spun > spun && !stream->spin.backoff;
    }
    assert_true(learnt);
    free(stream);
}

/* A frame that came while another thread had our core was no reason to spin.  The clock
 * says so, which is read for one won spin in XPORT_SPIN_CHECKED, and for each from then
 * on until spinning pays again. */
static void
spin_won_by_being_switched_away_is_found_out(void **state)
{
    struct xport_spin spin = {.gap_ns = XPORT_SPIN_GAP_NS};
    uint32_t skip = 0;

    (void)state;
    for (uint32_t i = 0; i < XPORT_SPIN_CHECKED; i++) {
        assert_int_equal(spin.backoff, 0);
        xport_spin_begin(&spin);
        spin.last_ns -= GP_NS_PER_MS;
        xport_spin_won(&spin);
    }
    for (int i = 0; i < 4; i++) {
        assert_true(spin.skip > skip);
        skip = spin.skip;
        xport_spin_begin(&spin);
        spin.last_ns -= GP_NS_PER_MS;
        xport_spin_won(&spin);
    }
    assert_true(spin.skip > skip);
}

/* The clock says that the time is up, and that nobody else ran here. */
static bool
time_is_up(struct xport_spin *spin)
{
    xport_spin_begin(spin);
    spin->until_ns = spin->last_ns;
    return !xport_spin_again(spin);
}

static void
win(struct xport_spin *spin, uint32_t n)
{
    while (n--) {
        xport_spin_begin(spin);
        xport_spin_won(spin);
    }
}

/* A program that makes many calls, then a pause: the wait behind the pause used to be
 * one without a spin, so that the second call behind it was as slow as the first.  Who
 * makes few calls between two pauses spins in vain as often as it pays, and stops. */
static void
spin_lost_by_a_pause_is_forgiven_who_won_many(void **state)
{
    struct xport_spin spin = {.gap_ns = UINT32_MAX};

    (void)state;
    for (int i = 0; i < 10; i++) {
        win(&spin, XPORT_SPIN_CREDIT);
        assert_true(time_is_up(&spin));
        assert_false(xport_spin_skips(&spin));
    }
    for (uint32_t i = 1; i < 10; i++) {
        win(&spin, 1);
        assert_true(time_is_up(&spin));
        assert_true(xport_spin_skips(&spin));
        while (xport_spin_skips(&spin))
            ;
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taking_much_out_is_no_lost_spin),
        cmocka_unit_test(spin_won_by_being_switched_away_is_found_out),
        cmocka_unit_test(spin_lost_by_a_pause_is_forgiven_who_won_many)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
