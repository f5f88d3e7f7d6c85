/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated code under wrong input: wrong arguments into every stub, wrong frames into
 * every entry of the dispatch.  The driver behind them agrees to everything, so that
 * nothing but generated code can be what refuses.
 */
#include "ut.h"

#include "gen_loop.h"
#include "negative_calls.h"
#include "test_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUTATIONS 60

static uint64_t body[WIRE_FRAME_MAX / 8];
static void *scratch;

uint64_t
codec_test_number(uint32_t seed)
{
    uint64_t x = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ x >> 29;
}

void
codec_test_fill(void *part, uint64_t count, size_t elem, int is_string)
{
    memset(part, is_string ? 'x' : 0, count * elem);
    if (is_string && count)
        ((char *)part)[count - 1] = '\0';
}

void
codec_test_read(const void *part, uint64_t count, size_t elem)
{
}

static CUresult
agree(void)
{
    return CUDA_SUCCESS;
}

/* A driver that has every function, does nothing and says yes. */
static int
agreeable(void **state)
{
    void *fn = (void *)agree;

    gen_loop_reset();
    for (size_t at = 0; at < sizeof(loop.drv); at += sizeof(fn))
        memcpy((char *)&loop.drv + at, &fn, sizeof(fn));
    memset(scratch, 0, NEGATIVE_SCRATCH);
    return 0;
}

static int
scratch_make(void **state)
{
    scratch = calloc(1, NEGATIVE_SCRATCH);
    return scratch ? 0 : -1;
}

static int
scratch_free(void **state)
{
    free(scratch);
    return 0;
}

static void
call_all(enum negative_kind kind, bool (*refuses)(const struct negative_call *call))
{
    for (unsigned i = 0; i < negative_call_count; i++) {
        const struct negative_call *call = &negative_calls[i];
        struct negative n = {.kind = kind, .scratch = scratch};
        CUresult r;

        agreeable(NULL);
        n.foreign_kind = WIRE_KIND_LINK;
        n.foreign = gen_loop_handle(WIRE_KIND_LINK, scratch);
        r = call->call(&n);
        if (refuses(call) && r == CUDA_SUCCESS)
            fail_msg("%s takes arguments of kind %d", call->name, (int)kind);
    }
}

static bool
refuses_null(const struct negative_call *call)
{
    return call->needs_pointer || call->needs_handle;
}

static bool
refuses_handle(const struct negative_call *call)
{
    return call->needs_handle;
}

static bool
refuses_nothing(const struct negative_call *call)
{
    return false;
}

static void
null_outputs_and_null_handles_are_refused(void **state)
{
    call_all(NEGATIVE_ZERO, refuses_null);
    call_all(NEGATIVE_NULL, refuses_handle);
}

static void
stale_handles_are_refused(void **state)
{
    call_all(NEGATIVE_STALE, refuses_handle);
}

static void
handles_of_another_kind_are_refused(void **state)
{
    call_all(NEGATIVE_FOREIGN, refuses_handle);
}

static void
the_largest_numbers_do_no_harm(void **state)
{
    call_all(NEGATIVE_HUGE, refuses_nothing);
}

static void
every_intact_frame_is_taken(void **state)
{
    unsigned requests = 0;

    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];
        uint32_t size;

        if (!t->request)
            continue;
        agreeable(NULL);
        size = t->make(body, 1);
        if (!gen_loop_frame(t->call, body, size) && !strstr(loop.bad, "past its cap"))
            fail_msg("%s: %s", t->name, loop.bad);
        requests++;
    }
    assert_true(requests > 250);
}

static void
every_frame_cut_short_is_refused(void **state)
{
    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];
        uint32_t size;

        if (!t->request)
            continue;
        agreeable(NULL);
        size = t->make(body, 1);
        for (uint32_t cut = 0; cut < size; cut++)
            if (gen_loop_frame(t->call, body, cut))
                fail_msg("%s: taken with %u of %u bytes", t->name, cut, size);
    }
}

static void
mutated_frames_do_no_harm(void **state)
{
    for (unsigned i = 0; i < codec_test_count; i++) {
        const struct codec_test *t = &codec_tests[i];

        if (!t->request)
            continue;
        for (uint32_t round = 0; round < MUTATIONS; round++) {
            uint64_t r = codec_test_number(round * 7919 + i);
            uint32_t size = t->make(body, round);

            if (!size)
                break;
            agreeable(NULL);
            for (unsigned n = 0; n < 1 + r % 4; n++, r = codec_test_number((uint32_t)r))
                ((unsigned char *)body)[(r >> 8) % size] ^=
                    (unsigned char)(1 + r % 255);
            gen_loop_frame(t->call, body, size);
        }
    }
}

static void
a_call_with_another_calls_body_does_no_harm(void **state)
{
    for (unsigned i = 0; i < codec_test_count; i++) {
        uint32_t size = codec_tests[i].make(body, 2);

        if (i % 8 == 0)
            agreeable(NULL);
        for (unsigned k = i % 7; k < codec_test_count; k += 7)
            if (codec_tests[k].request)
                gen_loop_frame(codec_tests[k].call, body, size);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_outputs_and_null_handles_are_refused),
        cmocka_unit_test(stale_handles_are_refused),
        cmocka_unit_test(handles_of_another_kind_are_refused),
        cmocka_unit_test(the_largest_numbers_do_no_harm),
        cmocka_unit_test(every_intact_frame_is_taken),
        cmocka_unit_test(every_frame_cut_short_is_refused),
        cmocka_unit_test(mutated_frames_do_no_harm),
        cmocka_unit_test(a_call_with_another_calls_body_does_no_harm),
    };

    return cmocka_run_group_tests_name("gen_hostile", tests, scratch_make,
                                       scratch_free);
}
