/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: versions, stream flags, status. */
#include "ut.h"

#include "cuda_api.h"
#include "stub_manual.h"

#include <string.h>

static void *
lookup(const char *name, int version, uint64_t flags)
{
    CUdriverProcAddressQueryResult status = 99;
    void *pfn = &status;
    CUresult r = stub_impl_cuGetProcAddress_v2(name, &pfn, version, flags, &status);

    assert_int_equal(r, CUDA_SUCCESS);
    assert_int_equal(pfn != NULL, status == CU_GET_PROC_ADDRESS_SUCCESS);
    return pfn;
}

static void
version_chooses_the_variant(void **state)
{
    assert_ptr_equal(lookup("cuMemAlloc", 3020, 0), cuMemAlloc_v2);
    assert_ptr_equal(lookup("cuMemAlloc", 2000, 0), cuMemAlloc);
    assert_ptr_equal(lookup("cuGetProcAddress", 11030, 0), cuGetProcAddress);
    assert_ptr_equal(lookup("cuGetProcAddress", 12000, 0), cuGetProcAddress_v2);
    assert_ptr_equal(lookup("cuCtxCreate", 12050, 0), cuCtxCreate_v4);
    assert_ptr_equal(lookup("cuCtxCreate", 11040, 0), cuCtxCreate_v3);
    assert_ptr_equal(lookup("cuEventElapsedTime", 12070, 0), cuEventElapsedTime);
    assert_ptr_equal(lookup("cuEventElapsedTime", 20000, 0), cuEventElapsedTime_v2);
}

static void
stream_flag_prefers_the_per_thread_form_where_there_is_one(void **state)
{
    assert_ptr_equal(lookup("cuLaunchKernel", 7000, 2), cuLaunchKernel_ptsz);
    /* By the versions before that form there is none: drivers 535 and 550 say so. */
    assert_null(lookup("cuLaunchKernel", 6050, 2));
    assert_null(lookup("cuMemcpyHtoD", 3020, 3));
    assert_ptr_equal(lookup("cuMemAlloc", 2000, 2), cuMemAlloc);
    assert_ptr_equal(lookup("cuLaunchKernel", 13000, 0), cuLaunchKernel);
    assert_ptr_equal(lookup("cuLaunchKernel", 13000, 1), cuLaunchKernel);
    assert_ptr_equal(lookup("cuMemcpy", 7000, 2), cuMemcpy_ptds);
    assert_ptr_equal(lookup("cuMemAlloc", 13000, 2), cuMemAlloc_v2);
    assert_ptr_equal(lookup("cuStreamGetCaptureInfo", 12030, 2),
                     cuStreamGetCaptureInfo_v3_ptsz);
}

static void
version_has_no_sign(void **state)
{
    assert_ptr_equal(lookup("cuInit", -1, 0), cuInit);
    assert_ptr_equal(lookup("cuMemcpyHtoD", -1, 2), cuMemcpyHtoD_v2_ptds);
}

static void
unknown_and_too_new_names_are_told_apart(void **state)
{
    CUdriverProcAddressQueryResult status;
    void *pfn;

    assert_int_equal(stub_impl_cuGetProcAddress_v2("", &pfn, 0, 0, NULL), CUDA_SUCCESS);
    assert_null(pfn);
    assert_int_equal(
        stub_impl_cuGetProcAddress_v2("cuNoSuchCall", &pfn, 13000, 0, &status),
        CUDA_SUCCESS);
    assert_null(pfn);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_int_equal(
        stub_impl_cuGetProcAddress_v2("cuLibraryLoadData", &pfn, 11080, 0, &status),
        CUDA_SUCCESS);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_null(pfn);
    pfn = &status; /* the first version fails, and leaves the place alone */
    assert_int_equal(stub_impl_cuGetProcAddress("cuNoSuchCall", &pfn, 13000, 0),
                     CUDA_ERROR_NOT_FOUND);
    assert_ptr_equal(pfn, &status);
    assert_int_equal(stub_impl_cuGetProcAddress_v2(NULL, &pfn, 13000, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stub_impl_cuGetProcAddress_v2("cuInit", &pfn, 13000, 4, NULL),
                     CUDA_ERROR_INVALID_VALUE);
}

static void
error_words_exist_for_known_codes_only(void **state)
{
    const char *s = NULL;

    assert_int_equal(stub_impl_cuGetErrorName(CUDA_ERROR_NO_BINARY_FOR_GPU, &s),
                     CUDA_SUCCESS);
    assert_string_equal(s, "CUDA_ERROR_NO_BINARY_FOR_GPU");
    assert_int_equal(stub_impl_cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &s),
                     CUDA_SUCCESS);
    assert_string_equal(s, "out of memory");
    assert_int_equal(stub_impl_cuGetErrorName((CUresult)12345, &s),
                     CUDA_ERROR_INVALID_VALUE);
    assert_null(s);
    assert_int_equal(stub_impl_cuGetErrorName(CUDA_ERROR_UNKNOWN, &s), CUDA_SUCCESS);
    assert_string_equal(s, "CUDA_ERROR_UNKNOWN");
    assert_int_equal(stub_impl_cuGetErrorName(CUDA_SUCCESS, &s), CUDA_SUCCESS);
    assert_string_equal(s, "CUDA_SUCCESS");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_chooses_the_variant),
        cmocka_unit_test(stream_flag_prefers_the_per_thread_form_where_there_is_one),
        cmocka_unit_test(version_has_no_sign),
        cmocka_unit_test(unknown_and_too_new_names_are_told_apart),
        cmocka_unit_test(error_words_exist_for_known_codes_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
