/* SPDX-License-Identifier: Apache-2.0 */
/* The private tables, called as runtimes were seen to call them. */
#include "ut_stub.h"

#include "stub_manual.h"

static const CUuuid cudart_id = {{0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4,
                                  (char)0xe7, 0x4a, (char)0x89, (char)0x87, (char)0xd9,
                                  0x39, 0x12, (char)0xfd, (char)0x9d, (char)0xf9}};
static const CUuuid hooks_id = {{(char)0xa0, (char)0x94, 0x79, (char)0x8c, 0x2e, 0x74,
                                 0x2e, 0x74, (char)0x93, (char)0xf2, 0x08, 0x00, 0x20,
                                 0x0c, 0x0a, 0x66}};
static const CUuuid storage_id = {
    {(char)0xc6, (char)0x93, 0x33, 0x6e, 0x11, 0x21, (char)0xdf, 0x11, (char)0xa8,
     (char)0xc3, 0x68, (char)0xf3, 0x55, (char)0xd8, (char)0x95, (char)0x93}};

static int
attach(void **state)
{
    ut_stub_attach(NULL);
    return 0;
}

static void *const *
table(const CUuuid *id)
{
    const void *words = NULL;

    assert_int_equal(stub_impl_cuGetExportTable(&words, id), CUDA_SUCCESS);
    return words;
}

static void
unknown_table_is_refused_and_the_pointer_cleared(void **state)
{
    CUuuid id = {{1, 2, 3}};
    const void *words = &id;

    assert_int_equal(stub_impl_cuGetExportTable(&words, &id), CUDA_ERROR_INVALID_VALUE);
    assert_null(words);
    assert_int_equal(stub_impl_cuGetExportTable(NULL, &id), CUDA_ERROR_INVALID_VALUE);
}

static void
primary_context_is_told_without_being_retained(void **state)
{
    CUresult (*primary)(CUcontext *, CUdevice);
    void *const *words = table(&cudart_id);
    CUcontext ctx = NULL;

    assert_true((uintptr_t)words[0] >= 13 * 8);
    memcpy(&primary, &words[2], sizeof(primary));
    assert_int_equal(primary(&ctx, 1), CUDA_SUCCESS);
    assert_ptr_equal(ctx, stub_ctx_handle(stub_ctx_primary(1)));
    assert_false(atomic_load(&stub_ctx_primary(1)->alive));
    assert_int_equal(primary(&ctx, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void
hook_flags_are_many_and_zero(void **state)
{
    void (*get)(uint32_t **, size_t *);
    void *const *words = table(&hooks_id);
    uint32_t *flags = NULL;
    size_t count = 0;

    assert_true((uintptr_t)words[0] >= 7 * 8);
    memcpy(&get, &words[2], sizeof(get));
    get(&flags, &count);
    assert_true(count >= 523);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(flags[i], 0);
    memcpy(&get, &words[6], sizeof(get));
    get(&flags, &count);
    assert_true(count >= 14);
}

static void
storage_miss_is_an_error_and_a_hit_is_not(void **state)
{
    CUresult (*put)(CUcontext, void *, void *, void *), (*del)(CUcontext, void *),
        (*get)(void **, CUcontext, void *);
    void *const *words = table(&storage_id);
    CUcontext ctx = stub_ctx_handle(stub_ctx_primary(0));
    int key, value;
    void *got = NULL;

    memcpy(&put, &words[0], sizeof(put));
    memcpy(&del, &words[1], sizeof(del));
    memcpy(&get, &words[2], sizeof(get));
    assert_null(words[3]);
    assert_int_not_equal(get(&got, NULL, &key), CUDA_SUCCESS);
    assert_int_equal(stub_impl_cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    assert_int_not_equal(get(&got, NULL, &key), CUDA_SUCCESS);
    assert_int_equal(put(NULL, &key, &value, NULL), CUDA_SUCCESS);
    assert_int_equal(get(&got, NULL, &key), CUDA_SUCCESS);
    assert_ptr_equal(got, &value);
    assert_int_equal(get(&got, ctx, &key), CUDA_SUCCESS);
    assert_int_equal(del(ctx, &key), CUDA_SUCCESS);
    assert_int_not_equal(get(&got, NULL, &key), CUDA_SUCCESS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_table_is_refused_and_the_pointer_cleared),
        cmocka_unit_test(primary_context_is_told_without_being_retained),
        cmocka_unit_test(hook_flags_are_many_and_zero),
        cmocka_unit_test(storage_miss_is_an_error_and_a_hit_is_not),
    };

    return cmocka_run_group_tests(tests, attach, NULL);
}
