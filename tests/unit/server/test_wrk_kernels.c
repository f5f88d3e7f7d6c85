/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of kernels with drivers that tell them and drivers that do not, played by
 * the test. */
#include "ut.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_kernels.h"
#include "wrk_log_mute.h"
#include "wrk_output.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#define MODULE ((CUmodule)(uintptr_t)0x1000)
#define OTHER ((CUmodule)(uintptr_t)0x2000)
#define LIBRARY ((CUlibrary)(uintptr_t)0x3000)
#define ONE ((CUfunction)(uintptr_t)0x1001)
#define TWO ((CUfunction)(uintptr_t)0x1002)

static const char image[] = ".version 8.0\n.target sm_70\n.address_size 64\n"
                            ".entry one(.param .u8 a, .param .u64 b) { ret; }\n"
                            ".entry two(.param .u32 a) { ret; }\n"
                            ".entry odd(.param .texref a) { ret; }\n"
                            ".entry gone(.param .u32 a) { ret; }\n";

static struct drv driver;
static struct wrk_priv priv;
static struct wrk worker = {.drv = &driver, .priv = &priv, .ctx_index = 7};
static struct wrk_kernel_params known;
static char said[1024];
static int muted;

void
wrk_log_mute(void)
{
    muted++;
}

void
wrk_log_unmute(void)
{
    muted--;
}

void
wrk_output_say(struct wrk *w, const char *fmt, ...)
{
    va_list ap;

    (void)w;
    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}

/* ---- the driver ---------------------------------------------------------------------
 */

static CUresult
get_function(CUfunction *ret, CUmodule module, const char *name)
{
    if (strcmp(name, "gone") == 0)
        return CUDA_ERROR_NOT_FOUND;
    *ret = strcmp(name, "one") == 0 ? ONE : strcmp(name, "two") == 0 ? TWO : NULL;
    return module == MODULE && *ret ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult
get_kernel(CUkernel *ret, CUlibrary library, const char *name)
{
    return library == LIBRARY ? get_function((CUfunction *)ret, MODULE, name)
                              : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult
library_module(CUmodule *ret, CUlibrary library)
{
    *ret = library == LIBRARY ? MODULE : NULL;
    return CUDA_SUCCESS;
}

static CUresult
param_info(CUfunction func, size_t i, size_t *offset, size_t *size)
{
    assert_int_equal(muted, 1);
    if (i == 2)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = i * 16;
    *size = 4;
    return CUDA_SUCCESS;
}

static int
older_driver(void **state)
{
    driver = (struct drv){.cuModuleGetFunction = get_function,
                          .cuLibraryGetKernel = get_kernel,
                          .cuLibraryGetModule = library_module};
    priv = (struct wrk_priv){.cards.driver_version = 12020};
    said[0] = 0;
    return 0;
}

static int
forget(void **state)
{
    wrk_kernels_unloaded(&worker, MODULE);
    wrk_kernels_unloaded(&worker, LIBRARY);
    free(priv.kernels);
    assert_int_equal(muted, 0);
    return 0;
}

static void
load(void *object, bool library)
{
    struct iovec piece = {(void *)(uintptr_t)image, strlen(image)};

    wrk_kernels_loaded(&worker, object, library, &piece, 1);
}

static CUresult
named(void *owner, const char *name, CUfunction func)
{
    return wrk_kernels_named(&worker, owner, name, func, false, &known);
}

/* ---- what is promised
 * ----------------------------------------------------------------- */

static void
driver_that_tells_is_asked_and_no_image_is_read(void **state)
{
    driver.cuFuncGetParamInfo = param_info;
    load(MODULE, false);
    assert_null(priv.kernels);
    assert_int_equal(named(MODULE, "any", ONE), CUDA_SUCCESS);
    assert_int_equal(known.n, 2);
    assert_int_equal(known.bytes, 20);
    assert_int_equal(known.params[1].offset, 16);
}

static void
image_tells_what_an_older_driver_does_not(void **state)
{
    load(MODULE, false);
    assert_int_equal(named(MODULE, "one", ONE), CUDA_SUCCESS);
    assert_int_equal(known.n, 2);
    assert_int_equal(known.bytes, 16);
    assert_int_equal(known.params[1].offset, 8);
    assert_int_equal(named(MODULE, "two", TWO), CUDA_SUCCESS);
    assert_int_equal(known.bytes, 4);
    assert_string_equal(said, "");
}

static void
module_of_a_library_has_the_librarys_kernels(void **state)
{
    load(LIBRARY, true);
    assert_int_equal(named(MODULE, "one", ONE), CUDA_SUCCESS);
    assert_int_equal(known.bytes, 16);
    assert_int_equal(named(LIBRARY, "two", TWO), CUDA_SUCCESS);
    assert_int_equal(known.bytes, 4);
}

static void
function_without_a_name_is_found_by_its_handle(void **state)
{
    load(MODULE, false);
    assert_int_equal(wrk_kernels_params(&worker, TWO, false, &known), CUDA_SUCCESS);
    assert_int_equal(known.bytes, 4);
    assert_int_equal(wrk_kernels_params(&worker, ONE, false, &known), CUDA_SUCCESS);
    assert_int_equal(known.bytes, 16);
    assert_int_equal(wrk_kernels_params(&worker, (CUfunction)said, false, &known),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(strstr(said, "it is in no image that was loaded"));
}

static void
kernel_that_cannot_be_told_is_refused_with_name_reason_and_remedy(void **state)
{
    load(MODULE, false);
    assert_int_equal(named(MODULE, "odd", ONE), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(strstr(said,
                           "kernel odd cannot be launched: the server's driver speaks "
                           "CUDA 12.2, and only 12.4 and newer"));
    assert_non_null(strstr(said,
                           ": a parameter of a type without a known size. A newer "
                           "driver there helps"));
    assert_int_equal(named(MODULE, "none", ONE), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(strstr(said, "kernel none cannot"));
    assert_non_null(strstr(said, "it is in none of the parts that can be read"));
}

static void
what_is_unloaded_or_in_a_destroyed_context_is_forgotten(void **state)
{
    load(MODULE, false);
    wrk_kernels_unloaded(&worker, OTHER);
    wrk_kernels_forget_ctx(&worker, 8);
    assert_int_equal(named(MODULE, "one", ONE), CUDA_SUCCESS);
    wrk_kernels_unloaded(&worker, MODULE);
    assert_int_equal(named(MODULE, "one", ONE), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(strstr(said, "it is of no image that was loaded"));
    load(MODULE, false);
    load(LIBRARY, true);
    wrk_kernels_forget_ctx(&worker, 7);
    assert_int_equal(named(LIBRARY, "one", ONE), CUDA_SUCCESS);
    wrk_kernels_unloaded(&worker, LIBRARY);
    assert_int_equal(named(MODULE, "one", ONE), CUDA_ERROR_NOT_SUPPORTED);
}

static void
functions_of_a_module_are_those_that_the_driver_knows(void **state)
{
    CUfunction found[4] = {ONE, ONE, ONE, ONE};
    unsigned n = 99;

    load(MODULE, false);
    assert_int_equal(wrk_kernels_functions(&worker, MODULE, NULL, 0, &n), CUDA_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(wrk_kernels_functions(&worker, MODULE, found, 3, &n),
                     CUDA_SUCCESS);
    assert_ptr_equal(found[0], ONE);
    assert_ptr_equal(found[1], TWO);
    assert_ptr_equal(found[2], ONE);
    assert_ptr_equal(found[3], ONE);
    assert_int_equal(wrk_kernels_functions(&worker, OTHER, NULL, 0, &n),
                     CUDA_ERROR_INVALID_HANDLE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(driver_that_tells_is_asked_and_no_image_is_read,
                                        older_driver, forget),
        cmocka_unit_test_setup_teardown(image_tells_what_an_older_driver_does_not,
                                        older_driver, forget),
        cmocka_unit_test_setup_teardown(module_of_a_library_has_the_librarys_kernels,
                                        older_driver, forget),
        cmocka_unit_test_setup_teardown(function_without_a_name_is_found_by_its_handle,
                                        older_driver, forget),
        cmocka_unit_test_setup_teardown(
            kernel_that_cannot_be_told_is_refused_with_name_reason_and_remedy,
            older_driver, forget),
        cmocka_unit_test_setup_teardown(
            what_is_unloaded_or_in_a_destroyed_context_is_forgotten, older_driver,
            forget),
        cmocka_unit_test_setup_teardown(
            functions_of_a_module_are_those_that_the_driver_knows, older_driver,
            forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
