/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the driver's functions, after the start: readable, and nothing else. */
#include "ut.h"

#include "gp_err.h"
#include "wrk_async.h"
#include "wrk_seal.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char __start_wrk_sealed[], __stop_wrk_sealed[];

WRK_SEALED static struct wrk_sealed_drv table;

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
    wrk_async_prefer(&table.drv);
    assert_int_equal(signal_of_write((char *)&table), 0);
    assert_int_equal(wrk_seal(&err), 0);
    assert_int_equal(signal_of_write((char *)&table), SIGSEGV);
    assert_int_equal(signal_of_write((char *)&table + sizeof(table) - 1), SIGSEGV);
    assert_int_equal(table.drv.cuInit(0), CUDA_SUCCESS);
}

/* The one here, and the copy that calls without a stream go through. */
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
        cmocka_unit_test(a_write_to_a_sealed_table_faults),
        cmocka_unit_test(every_table_of_the_section_is_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
