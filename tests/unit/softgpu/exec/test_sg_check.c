/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOFTGPU_CHECK in the executor: every kind of fault is found at its line and lane, and
 * kernels that keep to the rules are not accused.
 *
 * Most kernels come in two forms: with what puts their threads in order, and without.
 */
#include "ut_sgx.h"

#include "ut.h"

#include "sg_shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL (SG_CHECK_FAULTS | SG_CHECK_INIT | SG_CHECK_RACES | SG_CHECK_BARRIERS)

/* %r1: tid, %r2: 4 * tid, %r3: 4 * (the thread half a block further), %r4: address of
 * the thread's word of s, %r5: of the other's; %rd1: the buffer. */
#define HEAD                                                                           \
    UT_SGX_HEAD                                                                        \
    ".file 1 \"a.cu\"\n.file 2 \"b.cuh\"\n"                                            \
    ".visible .entry k(.param .u64 a)\n{\n"                                            \
    ".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 mb;\n"                       \
    ".reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<8>;\n"         \
    "ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;\n"              \
    "mov.u32 %r6, %ntid.x; shl.b32 %r7, %r6, 2; shl.b32 %r8, %r6, 1;\n"                \
    "add.u32 %r3, %r2, %r8; rem.u32 %r3, %r3, %r7; mov.u32 %r9, s;\n"                  \
    "add.u32 %r4, %r9, %r2; add.u32 %r5, %r9, %r3;\n"
#define KERNEL(body) HEAD body "ret;\n}\n"

/* Runs one block; what was found stays in @u. */
static void
run(struct ut_sgx *u, const char *ptx, unsigned threads)
{
    ut_sgx_open_checked(u, ptx, ALL);
    ut_sgx_param(u, 0, (uintptr_t)ut_sgx_buf(u, 4096));
    ut_sgx_shape(u, 1, threads);
    ut_sgx_run(u);
}

static void
is_clean(const char *ptx, unsigned threads)
{
    struct ut_sgx u;

    run(&u, ptx, threads);
    ut_sgx_is_clean(&u, ptx);
}

static void
has(const char *ptx, unsigned threads, enum sg_finding_kind kind, const char *words)
{
    struct ut_sgx u;

    run(&u, ptx, threads);
    ut_sgx_has(&u, kind, words);
}

#define RACE SG_FINDING_RACE
#define WRITE_OWN ".loc 1 10 0\nst.shared.u32 [%r4], %r1;\n"
#define READ_OTHER ".loc 1 12 0\nld.shared.u32 %r10, [%r5];\n"
#define SYNC ".loc 1 11 0\nbar.sync 0;\n"

static void
reads_before_a_barrier_race(void **state)
{
    (void)state;
    has(KERNEL(WRITE_OWN READ_OTHER), 64, RACE,
        "race on shared memory: load of 4 bytes at shared 0x");
    has(KERNEL(WRITE_OWN READ_OTHER), 64, RACE, "at a.cu:12, PTX line ");
    has(KERNEL(WRITE_OWN READ_OTHER), 64, RACE, "was written at a.cu:10, PTX line ");
    is_clean(KERNEL(WRITE_OWN SYNC READ_OTHER), 64);
    is_clean(KERNEL(WRITE_OWN SYNC READ_OTHER), 256);
    is_clean(KERNEL(WRITE_OWN "barrier.sync 3, %r6;\n" READ_OTHER), 96);
    is_clean(KERNEL(WRITE_OWN "bar.red.popc.u32 %r11, 1, 1;\n" READ_OTHER), 96);
}

/* The barrier that loops forget: the next round's stores against this round's loads. */
static void
stores_of_the_next_round_race(void **state)
{
#define ROUNDS(second)                                                                 \
    KERNEL("mov.u32 %r20, 0;\nLOOP:\n" WRITE_OWN SYNC READ_OTHER second                \
           "add.u32 %r1, %r1, 1; add.u32 %r20, %r20, 1; setp.lt.u32 %p1, %r20, 4;\n"   \
           "@%p1 bra LOOP;\n")
    (void)state;
    has(ROUNDS(""), 64, RACE, "at a.cu:12");
    has(ROUNDS(""), 64, RACE, "was written at a.cu:10");
    is_clean(ROUNDS("bar.sync 0;\n"), 64);
}

static void
two_writers_race(void **state)
{
    (void)state;
    has(KERNEL(".loc 2 7 0\nst.shared.u32 [s], %r1;\n"), 32, RACE,
        "is written with another value at b.cuh:7");
    has(KERNEL("shr.u32 %r11, %r1, 5; st.shared.u32 [s], %r11;\n"), 64, RACE,
        "was written at PTX line");
    /* a flag that several threads set to the same value */
    is_clean(KERNEL("mov.u32 %r11, 1; st.shared.u32 [s], %r11;\n"), 128);
}

static void
lanes_of_a_warp_race(void **state)
{
    (void)state;
    has(KERNEL(WRITE_OWN READ_OTHER), 32, RACE, "lane 0");
    is_clean(KERNEL(WRITE_OWN "bar.warp.sync -1;\n" READ_OTHER), 32);
    has(KERNEL(WRITE_OWN "bar.warp.sync -1;\n" READ_OTHER), 64, RACE, "was written");
    /* its own word is nobody else's */
    is_clean(KERNEL(WRITE_OWN "ld.shared.u32 %r10, [%r4];\n" WRITE_OWN), 64);
}

static void
neighbouring_bytes_are_no_race(void **state)
{
    (void)state;
    is_clean(KERNEL("add.u32 %r11, %r9, %r1; st.shared.u8 [%r11], %r1;\n"), 128);
    is_clean(KERNEL("add.u32 %r11, %r9, %r1; add.u32 %r11, %r11, %r1;\n"
                    "cvt.u16.u32 %h1, %r1; st.shared.u16 [%r11], %h1;\n"),
             128);
    has(KERNEL("shr.u32 %r11, %r1, 1; add.u32 %r11, %r9, %r11;\n"
               "st.shared.u8 [%r11], %r1;\n"),
        128, RACE, "store of 1 bytes");
}

static void
strong_accesses_and_atomics_are_no_race(void **state)
{
    (void)state;
    is_clean(KERNEL("st.volatile.shared.u32 [%r4], %r1;\n"
                    "ld.volatile.shared.u32 %r10, [%r5];\n"),
             64);
    is_clean(KERNEL("atom.shared.add.u32 %r10, [s], 1; red.shared.add.u32 [s], 2;\n"),
             128);
    has(KERNEL("red.shared.add.u32 [s], 1;\n.loc 1 20 0\nld.shared.u32 %r10, [s];\n"),
        64, RACE, "a.cu:20");
    is_clean(KERNEL("red.shared.add.u32 [s], 1; bar.sync 0;\n"
                    "ld.shared.u32 %r10, [s];\n"),
             64);
    /* zeroed by one thread, and not waited for */
    has(KERNEL("setp.eq.u32 %p1, %r1, 40; mov.u32 %r11, 77;\n"
               "@%p1 st.shared.u32 [s], %r11; red.shared.add.u32 [s], 1;\n"),
        64, RACE, "store of 4 bytes");
}

/* A lock, a flag, an mbarrier: what is done before is seen behind. */
static void
locks_and_flags_put_in_order(void **state)
{
#define LOCKED(take, give)                                                             \
    KERNEL("and.b32 %r12, %r1, 31; setp.ne.u32 %p1, %r12, 0; @%p1 bra OUT;\n" take     \
           "ld.shared.u32 %r13, [s]; add.u32 %r13, %r13, 1;\n"                         \
           "st.shared.u32 [s], %r13;\n" give "OUT:\n")
#define TAKE                                                                           \
    "SPIN: atom.shared.cas.b32 %r11, [mb], 0, 1; setp.ne.u32 %p2, %r11, 0;\n"          \
    "@%p2 bra SPIN;\n"
#define GIVE "fence.acq_rel.cta; atom.shared.exch.b32 %r11, [mb], 0;\n"
    (void)state;
    is_clean(LOCKED(TAKE, GIVE), 128);
    has(LOCKED("", ""), 128, RACE, "shared 0x");

    is_clean(KERNEL("setp.ge.u32 %p1, %r1, 32; @%p1 bra WAIT;\n"
                    "st.shared.u32 [s], 5; st.release.cta.shared.u32 [s+4], 1;\n"
                    "bra OUT;\n"
                    "WAIT: ld.acquire.cta.shared.u32 %r11, [s+4];\n"
                    "setp.eq.u32 %p2, %r11, 0; @%p2 bra WAIT;\n"
                    "ld.shared.u32 %r12, [s];\nOUT:\n"),
             64);
    is_clean(KERNEL("setp.eq.u32 %p1, %r1, 0;\n"
                    "@%p1 mbarrier.init.shared.b64 [mb], 64; bar.sync 0;\n" WRITE_OWN
                    "mbarrier.arrive.shared.b64 %rd2, [mb];\n"
                    "SPIN: mbarrier.test_wait.shared.b64 %p2, [mb], %rd2;\n"
                    "@!%p2 bra SPIN;\n" READ_OTHER),
             64);
}

/* Producers arrive and go on, consumers wait: barrier 1 says "full". */
static void
named_barriers_put_in_order(void **state)
{
#define HANDED(producer, consumer, end)                                                \
    KERNEL("setp.ge.u32 %p1, %r1, 32; @%p1 bra TAKE;\n" WRITE_OWN producer             \
           "bra OUT;\nTAKE:\n" consumer READ_OTHER "OUT:\n" end)
    (void)state;
    is_clean(HANDED("bar.arrive 1, 64;\n", "bar.sync 1, 64;\n", "bar.sync 0;\n"), 64);
    has(HANDED("", "", ""), 64, RACE, "load of 4 bytes");
    /* another barrier than that of the producer */
    has(HANDED("bar.sync 2, 32;\n", "bar.sync 3, 32;\n", "bar.sync 0;\n"), 64, RACE,
        "load of 4 bytes");
    /* who has ended counts as arrived */
    is_clean(HANDED("bar.arrive 1, 64;\n", "bar.sync 1, 64;\n", ""), 64);
}

static void
copies_into_shared_memory_race(void **state)
{
#define COPIED(sync)                                                                   \
    KERNEL("cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd1, %rd2;\n"                        \
           "cp.async.ca.shared.global [%r4], [%rd2], 4; cp.async.wait_all;\n" sync     \
               READ_OTHER)
    (void)state;
    is_clean(COPIED("bar.sync 0;\n"), 64);
    has(COPIED(""), 64, RACE, "was written at PTX line");
}

static void
vectors_and_generic_addresses_are_checked(void **state)
{
#define VECTOR(sync)                                                                   \
    KERNEL("shl.b32 %r11, %r1, 3; add.u32 %r11, %r9, %r11; cvt.u64.u32 %rd2, %r11;\n"  \
           "cvta.shared.u64 %rd2, %rd2; st.v2.u32 [%rd2], {%r1, %r1};\n" sync          \
           "ld.shared.u32 %r10, [%r5];\n")
    (void)state;
    is_clean(VECTOR("bar.sync 0;\n"), 64);
    has(VECTOR(""), 64, RACE, "load of 4 bytes");
}

static void
divergent_barriers_are_found(void **state)
{
#define TWO_PLACES(bar)                                                                \
    KERNEL("setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW;\n.loc 1 30 0\n" bar                \
           "bra OUT;\nLOW:\n.loc 1 32 0\n" bar "OUT:\n")
    (void)state;
    has(TWO_PLACES("bar.sync 0;\n"), 32, SG_FINDING_BARRIER, "a.cu:3");
    is_clean(TWO_PLACES("barrier.sync 0;\n"), 32); /* which may be reached apart */
    /* whole warps may take different ways, and lanes may leave before */
    is_clean(KERNEL("setp.lt.u32 %p1, %r1, 32; @%p1 bra LOW;\nbar.sync 0;\n"
                    "bra OUT;\nLOW: bar.sync 0;\nOUT:\n"),
             64);
    is_clean(KERNEL("setp.lt.u32 %p1, %r1, 7; @%p1 ret;\nbar.sync 0;\n"), 64);
}

static void
faults_are_findings(void **state)
{
    (void)state;
    has(KERNEL("mul.wide.u32 %rd2, %r1, 1024; add.u64 %rd2, %rd1, %rd2;\n"
               ".loc 1 40 0\nst.global.u32 [%rd2], %r1;\n"),
        32, SG_FINDING_FAULT,
        "is outside every allocation (error 700)\n    at a.cu:40");
    has(KERNEL("add.u64 %rd2, %rd1, 2; ld.global.u32 %r10, [%rd2];\n"), 1,
        SG_FINDING_FAULT, "is misaligned (error 716)");
    has(KERNEL("setp.eq.u32 %p1, %r1, 5; @%p1 trap;\n"), 32, SG_FINDING_FAULT,
        "thread (5,0,0), lane 5");
}

/* ---------------------------------------------------------- memory never written */

static void
run_on_undefined(struct ut_sgx *u, const char *ptx, uint64_t from, uint64_t len)
{
    char *buf;

    ut_sgx_open_checked(u, ptx, SG_CHECK_INIT);
    buf = ut_sgx_buf(u, 4096);
    ut_sgx_param(u, 0, (uintptr_t)buf);
    assert_int_equal(sg_shadow_undefine((uintptr_t)buf + from, len), 0);
    ut_sgx_shape(u, 1, 32);
    ut_sgx_run(u);
}

#define AT_TID "cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd1, %rd2;\n"

static void
loads_of_memory_never_written_are_found(void **state)
{
    struct ut_sgx u;

    (void)state;
    run_on_undefined(&u, KERNEL(AT_TID ".loc 1 50 0\nld.global.u32 %r10, [%rd2];\n"),
                     39, 1);
    assert_int_equal(u.n_found, 1);
    assert_int_equal(u.found[0].kind, SG_FINDING_UNINITIALISED);
    assert_int_equal(u.found[0].at.lane, 9);
    assert_int_equal(u.found[0].at.source, 50);
    assert_string_equal(u.found[0].at.file, "a.cu");
    ut_sgx_close(&u);

    run_on_undefined(
        &u, KERNEL(AT_TID "st.global.u32 [%rd2], %r1; ld.global.u32 %r10, [%rd2];\n"),
        0, 4096);
    assert_int_equal(u.n_found, 0);
    ut_sgx_close(&u);

    run_on_undefined(
        &u, KERNEL("st.global.u8 [%rd1], %r1; ld.global.u32 %r10, [%rd1];\n"), 0, 4096);
    assert_int_equal(u.n_found, 1);
    ut_sgx_close(&u);

    run_on_undefined(&u, KERNEL("red.global.add.u32 [%rd1], 1;\n"), 0, 64);
    assert_int_equal(u.n_found, 1);
    ut_sgx_close(&u);

    /* the guard is looked at */
    run_on_undefined(&u,
                     KERNEL(AT_TID "setp.lt.u32 %p1, %r1, 4;\n"
                                   "@%p1 ld.global.u32 %r10, [%rd2];\n"
                                   "@!%p1 st.global.u32 [%rd2], %r1;\n"),
                     16, 4096 - 16);
    assert_int_equal(u.n_found, 0);
    ut_sgx_close(&u);
}

/* Against one byte for each, with ranges at all alignments and over the border between
 * two regions. */
static void
shadow_remembers_bytes(void **state)
{
    enum { N = 4096, STEPS = 4000 };
    static bool model[N];
    const uint64_t base = (1ull << 30) - N / 2; /* of no memory: bits need none */
    bool tmp[N];
    unsigned seed = 1;

    (void)state;
    assert_true(sg_shadow_defined(base, N, NULL));
    assert_int_equal(sg_shadow_undefine(base, N), 0);
    assert_true(sg_shadow_defined(base - 100, 100, NULL));
    /* A kernel may name the last addresses, and beyond. */
    assert_true(sg_shadow_defined(UINT64_MAX - 7, 4, NULL));
    assert_true(sg_shadow_defined(UINT64_MAX - 1, 16, NULL));
    assert_true(sg_shadow_defined(base + N, 100, NULL));
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t from = (unsigned)rand_r(&seed) % N, at, want;
        uint64_t len = (unsigned)rand_r(&seed) % (N - from);
        uint64_t to = (unsigned)rand_r(&seed) % (N - len);
        bool all = true;

        switch (rand_r(&seed) % 3) {
        case 0:
            sg_shadow_define(base + from, len);
            memset(model + from, true, len);
            break;
        case 1:
            assert_int_equal(sg_shadow_undefine(base + from, len), 0);
            memset(model + from, false, len);
            break;
        default:
            sg_shadow_copy(base + to, base + from, len);
            memcpy(tmp, model + from, len);
            memcpy(model + to, tmp, len);
            break;
        }
        from = (unsigned)rand_r(&seed) % N;
        len = (unsigned)rand_r(&seed) % (N - from);
        for (want = from; want < from + len && all; want++)
            all = model[want];
        assert_int_equal(sg_shadow_defined(base + from, len, &at), all);
        if (!all)
            assert_int_equal(at, base + want - 1);
    }
    assert_true(sg_shadow_defined(base - 100, 100, NULL));
    assert_true(sg_shadow_defined(base + N, 100, NULL));
}

/* -------------------------------------------------------------------------- cost */

static void
dump(struct ut_sgx *u, char *text, size_t size)
{
    int fd = memfd_create("dump", 0);
    ssize_t n;

    assert_true(fd >= 0);
    assert_int_equal(sg_kernel_dump(u->launch.kernel, fd, NULL), 0);
    n = pread(fd, text, size - 1, 0);
    assert_true(n > 0);
    text[n] = 0;
    close(fd);
}

static void
code_without_checks_has_no_trace_of_them(void **state)
{
    static char plain[65536], checked[65536];
    struct ut_sgx u;

    (void)state;
    ut_sgx_open(&u, KERNEL(WRITE_OWN SYNC READ_OTHER));
    dump(&u, plain, sizeof(plain));
    ut_sgx_close(&u);
    ut_sgx_open_checked(&u, KERNEL(WRITE_OWN SYNC READ_OTHER), ALL);
    dump(&u, checked, sizeof(checked));
    ut_sgx_close(&u);
    assert_null(strstr(plain, "CHECK"));
    assert_non_null(strstr(checked, "CHECK"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_before_a_barrier_race),
        cmocka_unit_test(stores_of_the_next_round_race),
        cmocka_unit_test(two_writers_race),
        cmocka_unit_test(lanes_of_a_warp_race),
        cmocka_unit_test(neighbouring_bytes_are_no_race),
        cmocka_unit_test(strong_accesses_and_atomics_are_no_race),
        cmocka_unit_test(locks_and_flags_put_in_order),
        cmocka_unit_test(named_barriers_put_in_order),
        cmocka_unit_test(copies_into_shared_memory_race),
        cmocka_unit_test(vectors_and_generic_addresses_are_checked),
        cmocka_unit_test(divergent_barriers_are_found),
        cmocka_unit_test(faults_are_findings),
        cmocka_unit_test(loads_of_memory_never_written_are_found),
        cmocka_unit_test(shadow_remembers_bytes),
        cmocka_unit_test(code_without_checks_has_no_trace_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
