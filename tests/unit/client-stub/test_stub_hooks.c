/* SPDX-License-Identifier: Apache-2.0 */
/* What features do in the middle of a call of the program is the library's own: no
 * capture of the program forbids it, nor does it end one. */
#include "ut.h"

#include "stub_hooks.h"
#include "stub_tls.h"

__thread struct stub_tls stub_tls;

static unsigned asked, forbidden;

static void
look(void)
{
    asked++;
    if (stub_tls.capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        forbidden++;
}

static void
look_before_call(uint16_t call)
{
    look();
}

static CUresult
look_after_wait(uint16_t call, CUresult result)
{
    look();
    return result;
}

static CUresult
look_stream_waited(uint64_t stream)
{
    look();
    return CUDA_SUCCESS;
}

static CUresult
look_spare(struct stub_link *link, uint16_t call)
{
    look();
    return CUDA_SUCCESS;
}

static void
look_drain(const void *addr, uint64_t len)
{
    look();
}

static void
look_ctx_end(struct stub_ctx *ctx)
{
    look();
}

/* The frame that is sent has the flags of the program's thread. */
static uint16_t
mode_flags(void)
{
    return (uint16_t)stub_tls.capture_mode;
}

static const struct stub_feature looks = {
    .name = "looks",
    .before_call = look_before_call,
    .after_wait = look_after_wait,
    .stream_waited = look_stream_waited,
    .frame_flags = mode_flags,
    .provide = look,
    .spare_before = look_spare,
    .spare_named = look_spare,
    .drain = look_drain,
    .ctx_end = look_ctx_end,
};

const struct stub_feature *const stub_features[] = {&looks, NULL};

static void
work_of_features_is_relaxed_and_the_call_is_not(void **state)
{
    static const uint32_t modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                     CU_STREAM_CAPTURE_MODE_RELAXED};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        asked = forbidden = 0;
        stub_tls.capture_mode = modes[i];
        stub_hooks_before_call(0);
        assert_int_equal(stub_hooks_after_wait(0, CUDA_ERROR_UNKNOWN),
                         CUDA_ERROR_UNKNOWN);
        assert_int_equal(stub_hooks_stream_waited(0), CUDA_SUCCESS);
        stub_hooks_provide();
        assert_int_equal(stub_hooks_spare_before(NULL, 0), CUDA_SUCCESS);
        assert_int_equal(stub_hooks_spare_named(NULL, 0), CUDA_SUCCESS);
        stub_hooks_drain_all();
        stub_hooks_ctx_end(NULL);
        assert_int_equal(asked, 8);
        assert_int_equal(forbidden, 0);
        assert_int_equal(stub_hooks_frame_flags(), modes[i]);
        assert_int_equal(stub_tls.capture_mode, modes[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_features_is_relaxed_and_the_call_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
