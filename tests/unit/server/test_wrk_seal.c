/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the driver's functions: what of ours is entered at the start, and that
 * after it they are readable and nothing else. */
#include "ut.h"

#include "gp_err.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_drv_shims.h"
#include "wrk_evpool.h"
#include "wrk_governor.h"
#include "wrk_hostfn_due.h"
#include "wrk_kernels.h"
#include "wrk_seal.h"
#include "wrk_wait.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char __start_wrk_sealed[], __stop_wrk_sealed[];

WRK_SEALED static struct wrk_sealed_drv table;
static struct wrk_priv priv;
static struct wrk worker = {.drv = &table.drv, .priv = &priv};

/* ---- what the shims call -----------------------------------------------------------
 */

static struct {
    unsigned acquired, launched, listed;
    uint64_t copied;
    CUstream stream;
} seen;

void
wrk_governor_idle(struct wrk *w)
{
    (void)w;
}

void
wrk_governor_acquire_copy(struct wrk *w, struct wrk_charge *charge, CUstream stream,
                          uint64_t bytes)
{
    assert_ptr_equal(w, &worker);
    (void)charge;
    seen.acquired++;
    seen.stream = stream;
    seen.copied = bytes;
}

void
wrk_governor_launched_n(struct wrk *w, const struct wrk_charge *charge, unsigned n)
{
    assert_ptr_equal(w, &worker);
    (void)charge;
    seen.launched += n;
}

/* No stream of these tests is captured with work in it. */
CUresult
wrk_ctx_use(struct wrk *w, uint32_t index)
{
    return CUDA_SUCCESS;
}

uint32_t
wrk_ctx_of_stream(const struct wrk *w, const void *stream)
{
    return 0;
}

CUevent
wrk_evpool_get(struct wrk *w, uint32_t ctx_index)
{
    return NULL;
}

void
wrk_evpool_put(struct wrk *w, uint32_t ctx_index, CUevent event)
{
}

bool
wrk_hostfn_due(struct wrk *w)
{
    (void)w;
    return false;
}

CUresult
wrk_handle_get(struct wrk *w, unsigned kind, uint64_t id, void **ret)
{
    (void)w;
    (void)kind;
    (void)id;
    *ret = NULL;
    return CUDA_SUCCESS;
}

void
wrk_wait_captures(struct wrk *w)
{
    (void)w;
}

CUresult
wrk_kernels_functions(struct wrk *w, CUmodule module, CUfunction *ret, unsigned cap,
                      unsigned *ret_n)
{
    assert_ptr_equal(w, &worker);
    (void)module;
    (void)ret;
    (void)cap;
    seen.listed++;
    *ret_n = 7;
    return CUDA_SUCCESS;
}

/* ---- a driver ----------------------------------------------------------------------
 */

static CUresult
own_dtod_async(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    assert_int_equal(seen.acquired, 1); /* the turn comes before the work */
    return dst == 1 && src == 2 && n == 300 && stream == seen.stream
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
own_dtod(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    (void)dst;
    (void)src;
    (void)n;
    fail_msg("the form that may wait was called");
    return CUDA_ERROR_UNKNOWN;
}

static CUresult
own_begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream;
    (void)mode;
    return CUDA_SUCCESS;
}

static CUresult
own_param_info(CUfunction func, size_t i, size_t *offset, size_t *size)
{
    (void)func;
    (void)i;
    (void)offset;
    (void)size;
    return CUDA_SUCCESS;
}

static int
forget(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof(seen));
    memset(&priv, 0, sizeof(priv));
    return 0;
}

/* ---- shims -------------------------------------------------------------------------
 */

static void
copies_without_a_stream_are_charged_and_go_into_the_default_one(void **state)
{
    struct drv drv = {.cuMemcpyDtoDAsync_v2 = own_dtod_async,
                      .cuMemcpyDtoD_v2 = own_dtod};

    (void)state;
    wrk_drv_shims_enter(&worker, &drv);
    assert_int_equal(drv.cuMemcpyDtoD_v2(1, 2, 300), CUDA_SUCCESS);
    assert_null(seen.stream);
    assert_int_equal(seen.copied, 300);
    assert_int_equal(seen.acquired, 1);
    assert_int_equal(seen.launched, 1);
}

static void
what_the_driver_lacks_stays_absent(void **state)
{
    struct drv drv = {.cuMemcpyDtoD_v2 = own_dtod,
                      .cuFuncGetParamInfo = own_param_info};
    struct drv before = drv;

    (void)state;
    wrk_drv_shims_enter(&worker, &drv);
    assert_memory_equal(&drv, &before, sizeof(drv));
}

static void
capture_is_noted(void **state)
{
    struct drv drv = {.cuStreamBeginCapture_v2 = own_begin_capture};

    (void)state;
    wrk_drv_shims_enter(&worker, &drv);
    assert_false(priv.captures);
    assert_int_equal(drv.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_SUCCESS);
    assert_true(priv.captures);
}

static void
functions_of_modules_are_listed_for_a_driver_that_cannot(void **state)
{
    CUfunction found[2] = {(CUfunction)(uintptr_t)1, (CUfunction)(uintptr_t)1};
    struct drv drv = {.cuInit = NULL};
    unsigned n = 0;

    (void)state;
    wrk_drv_shims_enter(&worker, &drv);
    assert_int_equal(drv.cuModuleGetFunctionCount(&n, NULL), CUDA_SUCCESS);
    assert_int_equal(n, 7);
    assert_int_equal(drv.cuModuleEnumerateFunctions(found, 2, NULL), CUDA_SUCCESS);
    assert_null(found[0]);
    assert_null(found[1]);
    assert_int_equal(seen.listed, 2);
}

/* ---- the seal ----------------------------------------------------------------------
 */

static CUresult
agree(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* The signal that a write to @at ends a process with; 0: none. */
static int
signal_of_write(char *at)
{
    const struct rlimit none = {0};
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's, otherwise */
        *(volatile char *)at = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
a_write_to_a_sealed_table_faults(void **state)
{
    struct gp_err err = {0};

    (void)state;
    table.drv.cuInit = agree;
    wrk_drv_shims_enter(&worker, &table.drv);
    assert_int_equal(signal_of_write((char *)&table), 0);
    assert_int_equal(wrk_seal(&err), 0);
    assert_int_equal(signal_of_write((char *)&table), SIGSEGV);
    assert_int_equal(signal_of_write((char *)&table + sizeof(table) - 1), SIGSEGV);
    assert_int_equal(table.drv.cuInit(0), CUDA_SUCCESS);
}

/* The one here, and the driver as it was found. */
static void
every_table_of_the_section_is_sealed(void **state)
{
    struct gp_err err = {0};

    (void)state;
    assert_true((size_t)(__stop_wrk_sealed - __start_wrk_sealed) >= 2 * sizeof(table));
    assert_int_equal((uintptr_t)__start_wrk_sealed % WRK_SEAL_PAGE, 0);
    assert_int_equal((uintptr_t)__stop_wrk_sealed % WRK_SEAL_PAGE, 0);
    assert_int_equal(wrk_seal(&err), 0);
    for (char *at = __start_wrk_sealed; at < __stop_wrk_sealed; at += WRK_SEAL_PAGE)
        assert_int_equal(signal_of_write(at), SIGSEGV);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            copies_without_a_stream_are_charged_and_go_into_the_default_one, forget),
        cmocka_unit_test_setup(what_the_driver_lacks_stays_absent, forget),
        cmocka_unit_test_setup(capture_is_noted, forget),
        cmocka_unit_test_setup(functions_of_modules_are_listed_for_a_driver_that_cannot,
                               forget),
        cmocka_unit_test(a_write_to_a_sealed_table_faults),
        cmocka_unit_test(every_table_of_the_section_is_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
