/* SPDX-License-Identifier: Apache-2.0 */
/* Both forms of the search, beside the plainest one. */
#include "gp_scan.c"

#include "ut.h"

#define SIZE 1100u

static uint64_t state = 1;

static uint32_t
random_word(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

static size_t
plainest(const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    for (size_t at = 0; at + 4 <= n; at += 4) {
        uint32_t word;

        memcpy(&word, p + at, sizeof(word));
        if (word - least <= span)
            return at;
    }
    return n;
}

/* What the processor at hand does not choose has to be right as well. */
static size_t
with_any_vectors(const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    size_t at = scan_plain(p, blocks_any(p, n, least, span), n, least, span);

    return at == SIZE_MAX ? n : at;
}

/* Copies are whole, and touch nothing beside them. */
static void
copies_agree(const uint8_t *p, size_t n, uint32_t least, uint32_t span, bool found)
{
    size_t skip = (uintptr_t)p % 61, whole = n / BLOCK * BLOCK;
    uint8_t to[SIZE + 80];

    memset(to, 0x5a, sizeof(to));
    assert_int_equal(gp_scan_copy(to + skip, p, n, least, span), found);
    assert_memory_equal(to + skip, p, n);
    for (size_t i = 0; i < sizeof(to); i++)
        if (i < skip || i >= skip + n)
            assert_int_equal(to[i], 0x5a);
    memset(to, 0x5a, sizeof(to));
    assert_int_equal(copy_blocks_any(to, p, whole, least, span),
                     plainest(p, whole, least, span) < whole);
    assert_memory_equal(to, p, whole);
}

static void
agree(const uint8_t *p, size_t n, uint32_t least, uint32_t span)
{
    size_t at = plainest(p, n, least, span);

    copies_agree(p, n, least, span, at + 4 <= n);
    assert_int_equal(gp_scan_words(p, n, least, span), at);
    assert_int_equal(with_any_vectors(p, n, least, span), at);
}

/* One word in the range, or none, at every place and any alignment; words beside the
 * range on both sides. */
static void
test_finds_the_first_word(void **state_)
{
    static const uint32_t ranges[][2] = {
        {0x7f00, 16}, {0, 0}, {0, UINT32_MAX}, {UINT32_MAX - 3, 8}, {0x80000000, 0}};
    uint8_t bytes[SIZE + 8];

    (void)state_;
    for (size_t r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++) {
        uint32_t least = ranges[r][0], span = ranges[r][1];

        for (unsigned i = 0; i < 3000; i++) {
            size_t skip = i % 8, n = random_word() % (SIZE + 1),
                   put = random_word() % (n + 8);
            uint32_t outside = i % 2 ? least - 1 : least + span + 1;
            uint32_t word =
                least + (uint32_t)((uint64_t)random_word() % ((uint64_t)span + 1));

            for (size_t k = 0; k + 4 <= sizeof(bytes) - skip; k += 4)
                memcpy(bytes + skip + k, &outside, 4);
            if (put + 4 <= n)
                memcpy(bytes + skip + put / 4 * 4, &word, 4);
            agree(bytes + skip, n, least, span);
        }
    }
}

static void
test_agrees_on_random_bytes(void **state_)
{
    uint8_t bytes[SIZE];

    (void)state_;
    for (unsigned i = 0; i < 3000; i++) {
        for (size_t k = 0; k < SIZE; k += 4) {
            uint32_t word = random_word();

            memcpy(bytes + k, &word, 4);
        }
        agree(bytes + i % 16, (SIZE - 16) - i % 300, random_word(),
              UINT32_MAX >> (i % 12));
    }
}

/* The bytes behind the last whole word, and those behind the end, are not looked at. */
static void
test_stays_inside(void **state_)
{
    uint8_t bytes[SIZE];

    (void)state_;
    memset(bytes, 0, sizeof(bytes));
    for (size_t n = 0; n < SIZE - 8; n++) {
        memset(bytes, 0xff, n / 4 * 4);
        assert_int_equal(gp_scan_words(bytes, n, 0, 0), n);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_first_word),
        cmocka_unit_test(test_agrees_on_random_bytes),
        cmocka_unit_test(test_stays_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
