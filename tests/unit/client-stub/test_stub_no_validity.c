/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime hears from a stub that was built with VALIDITY=no. */
#include "ut_stub.h"

#include "gp_base.h"
#include "gp_log.h"
#include "stub_manual.h"

#include <sys/mman.h>
#include <unistd.h>

static const CUuuid check_id = {{(char)0xd4, 0x08, 0x20, 0x55, (char)0xbd, (char)0xe6,
                                 0x70, 0x4b, (char)0x8d, 0x34, (char)0xba, 0x12, 0x3c,
                                 0x66, (char)0xe1, (char)0xf2}};
static const CUuuid unknown_id = {{1, 2, 3}};

/* What stderr gets while the table is asked for. */
static void
ask(const CUuuid *id, char said[512])
{
    CLEANUP_FD int file = memfd_create("said", MFD_CLOEXEC), old = dup(2);
    const void *words = &words;
    ssize_t n;

    assert_true(file >= 0 && old >= 0);
    dup2(file, 2);
    gp_log_init("libcuda", GP_LOG_ERROR); /* as stub_library.c does */
    assert_int_equal(stub_impl_cuGetExportTable(&words, id), CUDA_ERROR_INVALID_VALUE);
    dup2(old, 2);
    assert_null(words);
    n = pread(file, said, 511, 0);
    said[gp_max(n, (ssize_t)0)] = 0;
}

static void
check_is_refused_and_the_user_is_told_why(void **state)
{
    char said[512];

    ask(&check_id, said);
    assert_non_null(strstr(said, "VALIDITY=no"));
}

static void
unknown_table_is_refused_in_silence(void **state)
{
    char said[512];

    ask(&unknown_id, said);
    assert_string_equal(said, "");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_is_refused_and_the_user_is_told_why),
        cmocka_unit_test(unknown_table_is_refused_in_silence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
