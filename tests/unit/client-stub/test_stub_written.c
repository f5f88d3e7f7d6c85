/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's word on which pages the program has written to.
 */
#include "stub_written.h"
#include "ut.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((uint64_t)STUB_WRITTEN_PAGE)
#define PAGES 64u

static uint8_t *mem;

static int
map_memory(void **state)
{
    (void)state;
    mem = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mem == MAP_FAILED ? -1 : 0;
}

static int
unmap_memory(void **state)
{
    (void)state;
    return munmap(mem, PAGES * PAGE);
}

static void
watch(void)
{
    if (stub_written_watch(mem, PAGES * PAGE))
        return;
    print_message("skip: this kernel does not say which pages were written\n");
    skip();
}

/* A bit for each page that @next told of. */
static uint64_t
told(uint64_t (*next)(uint64_t *at, uint64_t end))
{
    uint64_t at = (uintptr_t)mem, end = at + PAGES * PAGE, bits = 0, n;

    while (at < end && (n = next(&at, end))) {
        assert_int_not_equal(n, UINT64_MAX);
        for (uint64_t p = at; p < at + n; p += PAGE)
            bits |= UINT64_C(1) << (p - (uintptr_t)mem) / PAGE;
        at += n;
    }
    return bits;
}

static uint64_t
taken(void)
{
    return told(stub_written_take);
}

static void
stores_are_told_once(void **state)
{
    (void)state;
    watch();
    taken();
    mem[5 * PAGE + 17] = 1;
    memset(mem + 9 * PAGE, 2, 3 * PAGE);
    assert_int_equal(taken(), 1u << 5 | 7u << 9);
    assert_int_equal(taken(), 0);
    mem[10 * PAGE] = 3;
    assert_int_equal(taken(), 1u << 10);
    assert_int_equal(mem[9 * PAGE] + mem[11 * PAGE], 4); /* reads are no writes */
    assert_int_equal(taken(), 0);
}

static void
pages_from_before_the_watch_are_told(void **state)
{
    (void)state;
    mem[0] = mem[63 * PAGE] = 1;
    watch();
    assert_int_equal(taken() & (UINT64_C(1) << 63 | 1), UINT64_C(1) << 63 | 1);
    assert_int_equal(taken(), 0);
}

/* With write protection of other kinds they would fail. */
static void
system_calls_may_write(void **state)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

    (void)state;
    watch();
    memset(mem, 1, PAGES * PAGE);
    assert_int_equal(taken(), UINT64_MAX);
    assert_int_equal(read(fd, mem + 7 * PAGE - 10, 20), 20);
    close(fd);
    assert_int_equal(taken(), 3u << 6);
    assert_int_equal(mem[7 * PAGE], 0);
}

static void
children_do_not_disturb(void **state)
{
    pid_t child;

    (void)state;
    watch();
    memset(mem, 1, PAGES * PAGE);
    assert_int_equal(taken(), UINT64_MAX);
    child = fork();
    if (child == 0) {
        mem[3 * PAGE] = 9;
        _exit(mem[3 * PAGE] != 9);
    }
    mem[20 * PAGE] = 2;
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(taken(), 1u << 20);
    assert_int_equal(mem[3 * PAGE], 1);
    mem[3 * PAGE] = 4;
    assert_int_equal(taken(), 1u << 3);
}

static void
other_memory_in_its_place_ends_the_watch(void **state)
{
    uint64_t at = (uintptr_t)mem;

    (void)state;
    watch();
    assert_ptr_equal(mmap(mem, PAGES * PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     mem);
    mem[0] = 1;
    assert_int_equal(stub_written_take(&at, at + PAGES * PAGE), UINT64_MAX);
}

static uint64_t
ever(void)
{
    return told(stub_written_ever);
}

static void
pages_that_were_never_written_hold_zeros(void **state)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    pid_t child;

    (void)state;
    watch(); /* or skip */
    assert_int_equal(madvise(mem, PAGES * PAGE, MADV_NOHUGEPAGE), 0);
    assert_int_equal(ever(), 0);
    assert_int_equal(mem[3 * PAGE] + mem[40 * PAGE], 0); /* reads are no writes */
    assert_int_equal(ever(), 0);
    mem[5 * PAGE + 17] = 1;
    memset(mem + 9 * PAGE, 0, 3 * PAGE);
    assert_int_equal(ever(), 1u << 5 | 7u << 9);
    assert_int_equal(ever(), 1u << 5 | 7u << 9); /* for good */
    assert_int_equal(read(fd, mem + 41 * PAGE - 10, 20), 20);
    close(fd);
    assert_int_equal(ever(), 1u << 5 | 7u << 9 | UINT64_C(3) << 40);
    child = fork();
    if (child == 0) {
        mem[20 * PAGE] = 9;
        _exit(mem[20 * PAGE] != 9);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(ever(), 1u << 5 | 7u << 9 | UINT64_C(3) << 40);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, map_memory, unmap_memory)
    const struct CMUnitTest tests[] = {
        T(stores_are_told_once),
        T(pages_from_before_the_watch_are_told),
        T(system_calls_may_write),
        T(children_do_not_disturb),
        T(other_memory_in_its_place_ends_the_watch),
        T(pages_that_were_never_written_hold_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
