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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taking_much_out_is_no_lost_spin),
        cmocka_unit_test(spin_won_by_being_switched_away_is_found_out)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
