/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the environment makes of a software card: its model, size, number and name; and
 * what the log says of a kernel that faults.
 *
 * Settings are read once, by cuInit, so each case is this program again, started with a
 * role; it answers in words on its standard output.
 */
#include "ut_sgapi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------- the other process */

static int
role_card(void)
{
    int cards, major, minor, sms, shared;
    char name[64] = "";
    size_t bytes;

    if (cuInit(0) || cuDeviceGetCount(&cards) || cuDeviceTotalMem_v2(&bytes, 0) ||
        cuDeviceGetName(name, sizeof(name), 0) ||
        cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) ||
        cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0) ||
        cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) ||
        cuDeviceGetAttribute(
            &shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0)) {
        printf("none\n");
        return 0;
    }
    printf("%d cards, %d.%d, %d multiprocessors, %zu MiB, %d shared, %s\n", cards,
           major, minor, sms, bytes >> 20, shared, name);
    return 0;
}

/* Block 2 lies behind the 128 words that there are. */
static int
role_fault(void)
{
    struct ut_sg sg;
    CUdeviceptr p;

    ut_sg_open(&sg, 0);
    if (cuMemAlloc_v2(&p, 512) || ut_sg_run(sg.add_one, 3, 64, 0, p, 3 * 64))
        return 2;
    printf("%d 0x%llx\n", (int)cuCtxSynchronize(), (unsigned long long)p + 512);
    return 0;
}

/* A kernel that nobody ever lets go. */
static int
role_late(void)
{
    int limited = -1, first, then;
    struct ut_sg sg;
    CUdeviceptr p;

    ut_sg_open(&sg, 0);
    if (cuDeviceGetAttribute(&limited, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0) ||
        cuMemAlloc_v2(&p, 512) || cuMemsetD8_v2(p, 0, 512) ||
        ut_sg_run(sg.spin, 9, 64, 0, p, 0))
        return 2;
    first = (int)cuCtxSynchronize();
    then = (int)cuMemsetD8_v2(p, 0, 512);
    printf("limited %d, %d, then %d\n", limited, first, then);
    return 0;
}

static void
private_memory(rlim_t most)
{
    struct rlimit limit = {most, RLIM_INFINITY};

    setrlimit(RLIMIT_DATA, &limit);
}

/* As where vm.overcommit_memory is 2: addresses that can be written count as memory. */
static int
role_strict(rlim_t at_first)
{
    uint32_t first = 0, last = 0;
    struct ut_sg sg;
    CUdeviceptr p;
    CUresult r;

    private_memory(at_first);
    ut_sg_open(&sg, 0);
    private_memory(1u << 30);
    for (unsigned i = 0; i < 100; i++)
        if (cuMemAlloc_v2(&p, 40u << 20) || cuMemsetD32_v2(p, i, 10u << 20) ||
            ut_sg_run(sg.add_one, 1, 64, 0, p, 64) || cuCtxSynchronize() ||
            cuMemcpyDtoH_v2(&first, p, 4) ||
            cuMemcpyDtoH_v2(&last, p + (40u << 20) - 4, 4) || cuMemFree_v2(p))
            return printf("allocation %u\n", i), 0;
    printf("%u and %u", first, last);
    if (cuMemAllocManaged(&p, 1u << 20, CU_MEM_ATTACH_GLOBAL))
        return 0;
    *(char *)(uintptr_t)(p + 1000) = 1;
    private_memory(1u << 20);
    r = cuMemAlloc_v2(&p, 40u << 20);
    private_memory(1u << 30);
    printf(", %d, %d\n", (int)r, (int)cuMemAlloc_v2(&p, 40u << 20));
    return 0;
}

/* ------------------------------------------------------------------- its reader */

/* Standard output and standard error of this program in @role, in @text. */
static void
ask(const char *role, char *text, size_t size)
{
    size_t n = 0;
    ssize_t r;
    int out[2];
    pid_t pid;

    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        dup2(out[1], 2);
        ut_exec_self(role, NULL);
    }
    close(out[1]);
    while (n + 1 < size && (r = read(out[0], text + n, size - 1 - n)) > 0)
        n += (size_t)r;
    text[n] = 0;
    close(out[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void
card_is(const char *name, const char *value, const char *words)
{
    char text[1024], was[64] = "";

    if (getenv(name))
        snprintf(was, sizeof(was), "%s", getenv(name));
    setenv(name, value, 1);
    ask("card", text, sizeof(text));
    setenv(name, was, 1); /* empty is as good as absent */
    if (!strstr(text, words))
        fail_msg("%s=%s: '%s' lacks '%s'", name, value, text, words);
}

static void
a_card_is_what_the_environment_says(void **state)
{
    char text[1024];

    (void)state;
    ask("card", text, sizeof(text));
    assert_string_equal(text, "1 cards, 8.6, 2 multiprocessors, 64 MiB, 101376 shared, "
                              "SoftGPU A86\n");
    card_is("SOFTGPU_CC", "7.5", "7.5, 2 multiprocessors, 64 MiB, 65536 shared");
    card_is("SOFTGPU_CC", "9.0", "9.0, 2 multiprocessors, 64 MiB, 232448 shared");
    card_is("SOFTGPU_CC", "12.0", "12.0, 2 multiprocessors, 64 MiB, 101376 shared");
    card_is("SOFTGPU_CC", "8.0", "none");
    card_is("SOFTGPU_NAME", "Our Card", "shared, Our Card\n");
    card_is("SOFTGPU_CARDS", "5", "5 cards");
    card_is("SOFTGPU_CARDS", "17", "none");
    card_is("SOFTGPU_SMS", "7", "7 multiprocessors");
    card_is("SOFTGPU_SMS", "129", "none");
    card_is("SOFTGPU_MEMORY", "96MiB", " 96 MiB");
    card_is("SOFTGPU_MEMORY", "1B", "none");
}

static void
a_fault_is_logged_with_line_lane_and_address(void **state)
{
    char text[2048], address[32];
    const char *log;
    unsigned line = 0, block = 0, thread = 0, lane = 0;

    (void)state;
    ask("fault", text, sizeof(text));
    assert_non_null(strstr(text, "700 0x"));
    log = strstr(text, " at line ");
    if (!log || sscanf(log,
                       " at line %u, address %31[^,], block (%u,0,0), "
                       "thread (%u,0,0), lane %u",
                       &line, address, &block, &thread, &lane) != 5)
        fail_msg("no fault in '%s'", text);
    assert_true(line > 0);
    assert_non_null(strstr(strstr(text, "700 ") ? strstr(text, "700 ") : "", address));
    assert_int_equal(block, 2);
    assert_int_equal(thread, 0);
    assert_int_equal(lane, 0);
}

static void
a_kernel_that_does_not_end_is_ended_by_the_time_limit(void **state)
{
    char text[2048];

    (void)state;
    setenv("SOFTGPU_TIME_LIMIT", "1", 1);
    ask("late", text, sizeof(text));
    unsetenv("SOFTGPU_TIME_LIMIT");
    if (!strstr(text, "limited 1, 702, then 702") ||
        !strstr(text, "ended after 1 s (SOFTGPU_TIME_LIMIT)"))
        fail_msg("'%s'", text);
    card_is("SOFTGPU_TIME_LIMIT", "-1", "none");
}

/* A tebibyte of addresses is reserved for each card, which is no memory: also where
 * that would be granted. */
static void
a_card_runs_where_addresses_count_as_memory(void **state)
{
    char text[2048];

    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("skip: sanitizers have memory of their own\n");
    skip();
#endif
    ask("strict", text, sizeof(text));
    assert_string_equal(text, "100 and 99, 2, 0\n");
    ask("large", text, sizeof(text));
    assert_string_equal(text, "100 and 99, 2, 0\n");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_is_what_the_environment_says),
        cmocka_unit_test(a_fault_is_logged_with_line_lane_and_address),
        cmocka_unit_test(a_kernel_that_does_not_end_is_ended_by_the_time_limit),
        cmocka_unit_test(a_card_runs_where_addresses_count_as_memory),
    };
    int rc;

    if (argc > 1)
        return !strcmp(argv[1], "card")     ? role_card()
               : !strcmp(argv[1], "fault")  ? role_fault()
               : !strcmp(argv[1], "strict") ? role_strict(1u << 30)
               : !strcmp(argv[1], "large")  ? role_strict(UINT64_C(8) << 40)
                                            : role_late();
    ut_sg_cards("1", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
