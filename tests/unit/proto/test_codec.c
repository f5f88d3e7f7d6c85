/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every body of every call: what is written comes back, what is cut short or changed
 * is refused or at least read within its bounds.
 *
 * Bodies lie at the end of a page that a forbidden page follows, so that a decoder
 * which lets a reader one byte too far ends the test, with or without sanitizers.
 */
#include "ut.h"

#include "test_codec.h"

#include "wire_codec.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEEDS 3
#define MUTATIONS 40

static uint64_t sum; /* of the bytes written, or read, since it was cleared */
static char *fence;  /* first forbidden byte */
static uint64_t body[WIRE_FRAME_MAX / 8];

uint64_t
codec_test_number(uint32_t seed)
{
    uint64_t x = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ x >> 29;
}

static void
sum_add(const unsigned char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
}

void
codec_test_fill(void *part, uint64_t count, size_t elem, int is_string)
{
    unsigned char *p = part;
    uint64_t n = count * elem;

    for (uint64_t i = 0; i < n; i++)
        p[i] = is_string ? (unsigned char)('a' + i % 26) : (unsigned char)(i * 7 + 1);
    if (is_string && n)
        p[n - 1] = '\0';
    sum_add(p, n);
}

void
codec_test_read(const void *part, uint64_t count, size_t elem)
{
    if (part)
        sum_add(part, count * elem);
}

/* A copy of @size bytes that ends where reading ends, or in the word before it: bodies
 * are aligned. */
static void *
fenced(const void *from, size_t size)
{
    char *to = fence - wire_align((uint32_t)size);

    memcpy(to, from, size);
    return to;
}

static int
fence_make(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), span = 2 * (size_t)WIRE_FRAME_MAX;
    char *map = mmap(NULL, span + page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED || mprotect(map + span, page, PROT_NONE) < 0)
        return -1;
    fence = map + span;
    return 0;
}

static void
body_written_is_body_read(void **state)
{
    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];

        for (uint32_t seed = 0; seed < SEEDS; seed++) {
            uint64_t written;
            uint32_t size;

            sum = 0;
            size = t->make(body, seed);
            written = sum;
            sum = 0;
            if (size % WIRE_ALIGN || !t->open(fenced(body, size), size))
                fail_msg("%s: %u bytes do not come back", t->name, size);
            if (sum != written)
                fail_msg("%s: the parts read are not the parts written", t->name);
        }
    }
}

static void
body_cut_at_any_byte_is_refused(void **state)
{
    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];
        uint32_t size = t->make(body, 1);

        for (uint32_t cut = 0; cut < size; cut++)
            if (t->open(fenced(body, cut), cut))
                fail_msg("%s: taken with %u of %u bytes", t->name, cut, size);
    }
}

static void
body_with_a_word_too_many_is_refused(void **state)
{
    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];
        uint32_t size = t->make(body, 1);

        memset((char *)body + size, 0, WIRE_ALIGN);
        if (t->open(fenced(body, size + WIRE_ALIGN), size + WIRE_ALIGN))
            fail_msg("%s: taken with a word too many", t->name);
    }
}

static void
mutated_body_is_read_within_its_bounds(void **state)
{
    uint64_t accepted = 0, refused = 0;

    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];

        for (uint32_t round = 0; round < MUTATIONS; round++) {
            uint32_t size = t->make(body, round);
            uint64_t r = codec_test_number(round * 7919 + i);
            unsigned char *at;

            if (!size)
                break;
            at = fenced(body, size);
            for (unsigned n = 0; n < 1 + r % 4; n++, r = codec_test_number((uint32_t)r))
                at[(r >> 8) % size] ^= (unsigned char)(1 + (r >> 40) % 255);
            if (t->open(at, size))
                accepted++;
            else
                refused++;
        }
    }
    assert_true(accepted > 0);
    assert_true(refused > 0);
}

static void
body_of_random_words_is_read_within_its_bounds(void **state)
{
    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];
        uint32_t size = t->make(body, 0);

        for (uint32_t round = 0; round < MUTATIONS; round++) {
            for (uint32_t w = 0; w < size / 8; w++)
                body[w] = codec_test_number(round * 104729 + w) >> (w + round) % 61;
            t->open(fenced(body, size), size);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(body_written_is_body_read),
        cmocka_unit_test(body_cut_at_any_byte_is_refused),
        cmocka_unit_test(body_with_a_word_too_many_is_refused),
        cmocka_unit_test(mutated_body_is_read_within_its_bounds),
        cmocka_unit_test(body_of_random_words_is_read_within_its_bounds),
    };

    return cmocka_run_group_tests_name("codec", tests, fence_make, NULL);
}
