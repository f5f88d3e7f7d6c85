/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts on the client: stacks, storage, devices. */
#include "ut_stub.h"

#include "stub_ctx_storage.h"
#include "stub_manual.h"
#include "wire_format.h"

#include <errno.h>
#include <pthread.h>

static int key_a, key_b, dtor_calls;

static int
attach(void **state)
{
    if (!stub_links[0].attach)
        ut_stub_attach(NULL);
    return 0;
}

static void
count_dtor(CUcontext ctx, void *key, void *value)
{
    dtor_calls += *(int *)value;
}

static void
storage_returns_what_was_put_under_that_key(void **state)
{
    struct stub_ctx *ctx = stub_ctx_primary(0);
    int one = 1, two = 2;
    void *got;

    assert_int_equal(stub_ctx_storage_get(&ctx->storage, &key_a, &got), -ENOENT);
    assert_int_equal(stub_ctx_storage_put(&ctx->storage, &key_a, &one, NULL), 0);
    assert_int_equal(stub_ctx_storage_put(&ctx->storage, &key_b, &two, NULL), 0);
    assert_int_equal(stub_ctx_storage_get(&ctx->storage, &key_a, &got), 0);
    assert_ptr_equal(got, &one);
    assert_int_equal(stub_ctx_storage_get(&stub_ctx_primary(1)->storage, &key_a, &got),
                     -ENOENT);
    assert_int_equal(stub_ctx_storage_del(&ctx->storage, &key_a), 0);
    assert_int_equal(stub_ctx_storage_del(&ctx->storage, &key_a), -ENOENT);
    assert_int_equal(stub_ctx_storage_get(&ctx->storage, &key_a, &got), -ENOENT);
    assert_int_equal(stub_ctx_storage_get(&ctx->storage, &key_b, &got), 0);
    assert_int_equal(stub_ctx_storage_del(&ctx->storage, &key_b), 0);
}

static void
storage_of_an_ended_context_is_destructed_once(void **state)
{
    struct stub_ctx *ctx = stub_ctx_new(0, 0);
    int value = 7;

    assert_int_equal(stub_ctx_storage_put(&ctx->storage, &key_a, &value, count_dtor),
                     0);
    dtor_calls = 0;
    stub_ctx_push(ctx);
    stub_ctx_end(ctx);
    assert_int_equal(dtor_calls, 7);
    assert_non_null(stub_ctx_pop());
}

static void *
get_until_told(void *arg)
{
    struct stub_ctx *ctx = stub_ctx_primary(0);
    atomic_bool *stop = arg;
    void *got;

    while (!atomic_load(stop))
        if (stub_ctx_storage_get(&ctx->storage, &key_a, &got) == 0 && got != &key_a)
            return NULL;
    return arg;
}

static void
readers_never_see_another_keys_value(void **state)
{
    struct stub_ctx *ctx = stub_ctx_primary(0);
    atomic_bool stop = false;
    pthread_t reader;
    void *ok;

    assert_int_equal(pthread_create(&reader, NULL, get_until_told, &stop), 0);
    for (int i = 0; i < 50000; i++) {
        stub_ctx_storage_put(&ctx->storage, &key_a, &key_a, NULL);
        stub_ctx_storage_del(&ctx->storage, &key_a);
        stub_ctx_storage_put(&ctx->storage, &key_b, &key_b, NULL);
        stub_ctx_storage_del(&ctx->storage, &key_b);
    }
    atomic_store(&stop, true);
    pthread_join(reader, &ok);
    assert_non_null(ok);
}

static void
current_context_is_the_top_of_the_threads_stack(void **state)
{
    CUcontext a = stub_ctx_handle(stub_ctx_primary(0)),
              b = stub_ctx_handle(stub_ctx_primary(1)), got;
    CUdevice dev;

    assert_int_equal(stub_impl_cuCtxGetCurrent(&got), CUDA_SUCCESS);
    assert_null(got);
    assert_int_equal(stub_impl_cuCtxGetDevice(&dev), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(stub_impl_cuCtxPopCurrent_v2(&got), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(stub_impl_cuCtxSetCurrent(a), CUDA_SUCCESS);
    assert_int_equal(stub_impl_cuCtxPushCurrent_v2(b), CUDA_SUCCESS);
    assert_int_equal(stub_impl_cuCtxGetDevice(&dev), CUDA_SUCCESS);
    assert_int_equal(dev, 1);
    assert_int_equal(stub_tls.ctx_index, 2);
    assert_int_equal(stub_impl_cuCtxSetCurrent(a), CUDA_SUCCESS);
    assert_int_equal(stub_tls.ctx_index, 1);
    assert_int_equal(stub_impl_cuCtxPopCurrent_v2(&got), CUDA_SUCCESS);
    assert_ptr_equal(got, a);
    assert_int_equal(stub_impl_cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(stub_tls.ctx_index, 0);
}

static void
unknown_context_is_refused(void **state)
{
    CUcontext bad = (CUcontext)wire_handle_make(WIRE_KIND_CTX, 0, 999);
    int on_stack;

    assert_int_equal(stub_impl_cuCtxSetCurrent(bad), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(stub_impl_cuCtxPushCurrent_v2(bad), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(stub_impl_cuCtxPushCurrent_v2((CUcontext)&on_stack),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(stub_impl_cuCtxPushCurrent_v2(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void
api_version_of_a_context_not_alive_is_an_error(void **state)
{
    struct stub_ctx *ctx = stub_ctx_primary(0);
    unsigned int version;

    atomic_store(&ctx->alive, false);
    assert_int_equal(stub_impl_cuCtxGetApiVersion(stub_ctx_handle(ctx), &version),
                     CUDA_ERROR_CONTEXT_IS_DESTROYED);
    atomic_store(&ctx->alive, true);
    assert_int_equal(stub_impl_cuCtxGetApiVersion(stub_ctx_handle(ctx), &version),
                     CUDA_SUCCESS);
    assert_int_equal(version, 3020);
}

static void
attributes_come_from_the_snapshot_and_unknown_ones_are_zero(void **state)
{
    int v = -1;

    assert_int_equal(stub_impl_cuDeviceGetAttribute(&v, 33, 1), CUDA_SUCCESS);
    assert_int_equal(v, 1033);
    assert_int_equal(stub_impl_cuDeviceGetAttribute(&v, 143, 0), CUDA_SUCCESS);
    assert_int_equal(v, 0);
    assert_int_equal(stub_impl_cuDeviceGetAttribute(&v, 0, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stub_impl_cuDeviceGetAttribute(&v, 100000, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stub_impl_cuDeviceGetAttribute(&v, 1, 2),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(stub_impl_cuDeviceGetAttribute(NULL, 1, 0),
                     CUDA_ERROR_INVALID_VALUE);
}

static void
visible_devices_choose_and_order(void **state)
{
    char name[16];

    stub_device_init("1,0", false);
    assert_int_equal(stub_device_count, 2);
    assert_int_equal(stub_impl_cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
    assert_string_equal(name, "second");
    assert_int_equal(stub_device_wire(0), 1);
    assert_int_equal(stub_device_from_wire(1), 0);
    stub_device_init("0,7,1", false);
    assert_int_equal(stub_device_count, 1);
    stub_device_init("GPU-11111111", false);
    assert_int_equal(stub_device_count, 1);
    assert_int_equal(stub_devices[0].wire, 1);
    stub_device_init("-1", false);
    assert_int_equal(stub_device_count, 0);
    stub_device_init("", false);
    assert_int_equal(stub_device_count, 0);
    stub_device_init(NULL, false);
    assert_int_equal(stub_device_count, 2);
}

static void
bus_order_renumbers_before_devices_are_chosen(void **state)
{
    static int32_t first[64], second[64];

    first[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID - 1] = 9;
    second[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID - 1] = 4;
    ut_cards[0].attributes = first;
    ut_cards[1].attributes = second;
    stub_device_init(NULL, true);
    assert_int_equal(stub_device_wire(0), 1);
    assert_int_equal(stub_device_wire(1), 0);
    stub_device_init("0", true);
    assert_int_equal(stub_device_count, 1);
    assert_int_equal(stub_device_wire(0), 1);
    stub_device_init("0", false);
    assert_int_equal(stub_device_wire(0), 0);
    ut_cards[0].attributes = ut_cards[1].attributes = ut_attributes;
    stub_device_init(NULL, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storage_returns_what_was_put_under_that_key),
        cmocka_unit_test(storage_of_an_ended_context_is_destructed_once),
        cmocka_unit_test(readers_never_see_another_keys_value),
        cmocka_unit_test(current_context_is_the_top_of_the_threads_stack),
        cmocka_unit_test(unknown_context_is_refused),
        cmocka_unit_test(api_version_of_a_context_not_alive_is_an_error),
        cmocka_unit_test(attributes_come_from_the_snapshot_and_unknown_ones_are_zero),
        cmocka_unit_test(visible_devices_choose_and_order),
        cmocka_unit_test(bus_order_renumbers_before_devices_are_chosen),
    };

    return cmocka_run_group_tests(tests, attach, NULL);
}
