/* SPDX-License-Identifier: Apache-2.0 */
/* The journal against a model: a plain array of every byte that was ever sent. */
#include "ut.h"

#include "xport_journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 4096u
#define LARGE 16384u /* the longest frame */
#define STREAM (8u << 20)

static uint8_t *stream; /* the model */
static struct xport_journal journal;

static uint32_t
draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * below >> 24);
}

/* Everything that is not acknowledged is there, from any byte on. */
static void
check_all(uint64_t from)
{
    while (from < journal.end) {
        const uint8_t *bytes;
        int64_t n = xport_journal_at(&journal, from, &bytes);

        assert_true(n > 0);
        assert_true(from + (uint64_t)n <= journal.end);
        assert_memory_equal(bytes, stream + from, (size_t)n);
        from += (uint64_t)n;
    }
}

static bool
send_frame(uint32_t n)
{
    if ((size_t)(xport_journal_room_end(&journal) - journal.frames.room) < n &&
        xport_journal_next_block(&journal, n) < 0)
        return false;
    memcpy(journal.frames.room, stream + journal.end, n);
    xport_journal_sent(&journal, n);
    return true;
}

/* The caller's memory is somebody else's as soon as its call has ended. */
static void
send_payload(uint32_t n)
{
    uint8_t *lent = malloc(n);

    memcpy(lent, stream + journal.end, n);
    xport_journal_sent_lent(&journal, lent, n);
    xport_journal_keep(&journal, UINT64_MAX);
    while (xport_journal_lent(&journal, UINT64_MAX)) {
        assert_int_equal(xport_journal_ack(&journal, journal.acked + 512, journal.end),
                         0);
        xport_journal_keep(&journal, UINT64_MAX);
    }
    memset(lent, 0xee, n);
    free(lent);
}

static void
run(uint32_t seed)
{
    uint32_t state = seed;

    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    while (journal.end < STREAM / 2) {
        uint32_t what = draw(&state, 10);
        uint64_t open = journal.end - journal.acked;

        if (xport_journal_full(&journal))
            xport_journal_compact(&journal);
        if (what < 6 && !xport_journal_full(&journal))
            send_frame(8 * (1 + draw(&state, draw(&state, 20) ? 40 : LARGE / 8)));
        else if (what < 8 && !xport_journal_full(&journal))
            send_payload(1 + draw(&state, 3 * BLOCK));
        else
            xport_journal_ack(&journal,
                              journal.acked + draw(&state, (uint32_t)open + 1),
                              journal.end);
        check_all(journal.acked);
    }
    xport_journal_fini(&journal);
}

static void
test_every_unacknowledged_byte_is_kept(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 6; seed++) {
        print_message("seed %u\n", seed);
        run(seed);
    }
}

static void
test_memory_is_bounded(void **state)
{
    uint32_t frames = 0;

    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    while (send_frame(256))
        frames++;
    assert_true(frames * 256 <= XPORT_JOURNAL_MAX);
    assert_int_equal(xport_journal_next_block(&journal, 1), -EAGAIN);
    assert_int_equal(xport_journal_ack(&journal, BLOCK, journal.end), 0);
    assert_true(send_frame(256));
    check_all(journal.acked);
    xport_journal_fini(&journal);
}

/* Frames get along with few blocks until their sender asks for more.  Copies of
 * payloads may use all of them, because the peer need not acknowledge as little as
 * that. */
static void
test_small_journal_grows_when_asked(void **state)
{
    unsigned blocks = XPORT_JOURNAL_BLOCKS_NEAR;

    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    xport_journal_stay_small(&journal);
    for (;;) {
        while (send_frame(BLOCK))
            ;
        assert_int_equal(journal.blocks.made, blocks);
        if (!xport_journal_grow(&journal))
            break;
        blocks = gp_min(2 * blocks, journal.blocks.most);
    }
    assert_int_equal(blocks, journal.blocks.most);
    xport_journal_fini(&journal);

    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    xport_journal_stay_small(&journal);
    while (send_frame(BLOCK))
        ;
    xport_journal_sent_lent(&journal, stream + journal.end, 2 * BLOCK);
    xport_journal_keep(&journal, UINT64_MAX);
    assert_int_equal(xport_journal_lent(&journal, UINT64_MAX), 0);
    check_all(0);
    xport_journal_fini(&journal);
}

/* Nothing is acknowledged, and every part is short. */
static void
test_many_short_payloads_need_no_acknowledgement(void **state)
{
    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    for (int i = 0; i < 1000; i++) {
        if (xport_journal_full(&journal))
            xport_journal_compact(&journal);
        assert_false(xport_journal_full(&journal));
        assert_true(send_frame(24));
        send_payload(1);
    }
    assert_int_equal(journal.acked, 0);
    check_all(0);
    xport_journal_fini(&journal);
}

/* A payload that is copied to several blocks needs more places than it had. */
static void
test_payload_behind_many_short_ones_needs_no_acknowledgement(void **state)
{
    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    for (unsigned i = 0; i < XPORT_JOURNAL_PARTS / 2; i++) {
        assert_false(xport_journal_full(&journal));
        assert_true(send_frame(24));
        send_payload(i < XPORT_JOURNAL_PARTS / 2 - 1 ? 1 : 2 * BLOCK);
    }
    assert_int_equal(journal.acked, 0);
    check_all(0);
    xport_journal_fini(&journal);
}

/* A block is used again from its start when nothing in it is needed, and not before. */
static void
test_acknowledged_block_is_used_from_its_start(void **state)
{
    uint8_t *start;

    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    start = journal.frames.room;
    send_frame(64);
    send_frame(128);
    assert_int_equal(xport_journal_ack(&journal, 191, journal.end), 0);
    xport_journal_rewind(&journal);
    assert_int_equal(xport_journal_used(&journal), 192);
    assert_int_equal(xport_journal_ack(&journal, 192, journal.end), 0);
    xport_journal_rewind(&journal);
    assert_ptr_equal(journal.frames.room, start);
    assert_int_equal(xport_journal_used(&journal), 0);
    send_frame(64);
    check_all(192);
    xport_journal_fini(&journal);
}

/* A frame that no block holds gets one of its own, and short ones do not take its
 * place. */
static void
test_long_frames_have_blocks_of_their_own(void **state)
{
    unsigned frames = 0;

    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    while (send_frame(BLOCK))
        frames++;
    assert_true(frames >= 4);
    for (unsigned i = 0; i < XPORT_JOURNAL_LARGE_MAX; i++)
        assert_true(send_frame(LARGE));
    assert_false(send_frame(LARGE));
    check_all(0);
    xport_journal_fini(&journal);
}

static void
test_what_was_never_sent_cannot_be_acknowledged(void **state)
{
    const uint8_t *bytes;

    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    send_frame(64);
    assert_int_equal(xport_journal_ack(&journal, 65, journal.end), -EPROTO);
    assert_int_equal(xport_journal_at(&journal, 65, &bytes), -ERANGE);
    assert_int_equal(xport_journal_ack(&journal, 32, journal.end), 0);
    assert_int_equal(xport_journal_at(&journal, 31, &bytes), -ERANGE);
    assert_int_equal(xport_journal_at(&journal, 32, &bytes), 32);
    assert_int_equal(xport_journal_at(&journal, 64, &bytes), 0);
    xport_journal_fini(&journal);
}

/* It is neither copied nor sent again: the journal ends in front of it, if it ends with
 * it. */
static void
test_memory_of_a_card_is_given_back(void **state)
{
    const uint8_t *bytes;

    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    assert_true(send_frame(64));
    xport_journal_sent_card(&journal, 0x1000, 100);
    xport_journal_sent_card(&journal, 0x2000, 50);
    assert_int_equal(xport_journal_lent(&journal, UINT64_MAX), 0);
    xport_journal_keep(&journal, UINT64_MAX);
    assert_int_equal(xport_journal_at(&journal, 64, &bytes), -ERANGE);
    assert_int_equal(xport_journal_ack(&journal, 90, journal.end), 0);
    assert_int_equal(xport_journal_give_back(&journal), 124);
    assert_int_equal(journal.end, 90);
    assert_int_equal(xport_journal_give_back(&journal), 0);
    xport_journal_sent_card(&journal, 0x3000, 8);
    assert_true(send_frame(64));
    assert_int_equal(xport_journal_give_back(&journal), -EPROTO);
    assert_int_equal(xport_journal_ack(&journal, 98, journal.end), 0);
    assert_int_equal(xport_journal_give_back(&journal), 0);
    xport_journal_fini(&journal);
}

/* Only their places are kept, which lie together whatever the parts were. */
static void
test_bytes_of_a_source_are_places_in_it(void **state)
{
    const uint8_t *bytes;
    uint64_t place = 0;

    (void)state;
    assert_int_equal(xport_journal_init(&journal, BLOCK, LARGE), 0);
    assert_true(send_frame(64));
    assert_false(xport_journal_has_source(&journal));
    for (uint64_t at = 1000; at < 1000 + 1000 * 100; at += 100)
        xport_journal_sent_source(&journal, at, 100);
    assert_int_equal(journal.n, 2);
    assert_true(send_frame(64));
    assert_int_equal(xport_journal_lent(&journal, UINT64_MAX), 0);
    assert_int_equal(xport_journal_source(&journal, 63, &place), 0);
    assert_int_equal(xport_journal_source(&journal, 64 + 250, &place), 100000 - 250);
    assert_int_equal(place, 1250);
    assert_int_equal(xport_journal_at(&journal, 64 + 250, &bytes), -ERANGE);
    assert_int_equal(xport_journal_source(&journal, 64 + 100000, &place), 0);
    assert_int_equal(xport_journal_at(&journal, 64 + 100000, &bytes), 64);
    assert_int_equal(xport_journal_ack(&journal, 64 + 99990, journal.end), 0);
    assert_true(xport_journal_has_source(&journal));
    assert_int_equal(xport_journal_source(&journal, 64 + 99990, &place), 10);
    assert_int_equal(place, 1000 + 99990);
    assert_int_equal(xport_journal_give_back(&journal), 0);
    assert_int_equal(xport_journal_ack(&journal, 64 + 100000, journal.end), 0);
    assert_false(xport_journal_has_source(&journal));
    xport_journal_fini(&journal);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_unacknowledged_byte_is_kept),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_small_journal_grows_when_asked),
        cmocka_unit_test(test_many_short_payloads_need_no_acknowledgement),
        cmocka_unit_test(test_payload_behind_many_short_ones_needs_no_acknowledgement),
        cmocka_unit_test(test_acknowledged_block_is_used_from_its_start),
        cmocka_unit_test(test_long_frames_have_blocks_of_their_own),
        cmocka_unit_test(test_memory_of_a_card_is_given_back),
        cmocka_unit_test(test_bytes_of_a_source_are_places_in_it),
        cmocka_unit_test(test_what_was_never_sent_cannot_be_acknowledged),
    };
    uint32_t state = 7;

    stream = malloc(STREAM);
    for (uint32_t i = 0; i < STREAM; i++)
        stream[i] = (uint8_t)draw(&state, 256);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
