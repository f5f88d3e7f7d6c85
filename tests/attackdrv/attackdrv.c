/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that takes its worker over: what a client could do that has found a way to
 * run its own code there.
 *
 * Everything is softgpu's but cuMemAlloc_v2(), which carries out an attack when it is
 * asked for one of a few odd sizes.  It knows nothing of the worker but its memory:
 * pages that begin with a mark of what the supervisor shares with workers, found by
 * reading all that lies around the libraries.
 *
 * The result is that of an allocation, or CUDA_ERROR_UNKNOWN when there was nothing to
 * attack: then the test would show nothing.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u
#define AROUND (UINT64_C(512) << 20)
#define FOUND_MAX 32u
#define UNKNOWN 999

enum attack {
    ATTACK_INDEX = 7777001,    /* an index that others follow */
    ATTACK_LOCK = 7777002,     /* a lock that nobody opens */
    ATTACK_LIMIT = 7777003,    /* the session's own limit of memory */
    ATTACK_SCRIBBLE = 7777004, /* everything, again and again, until the end */
    ATTACK_SMALL = 7777005,    /* the same with small numbers */
};

/* Files that the supervisor shares with workers, in this version and the one before. */
static const uint32_t marks[] = {
    0x67637233u, /* the card's arbiter, read-write; before the arbiter was a thread */
    0x67707333u, /* the session's segment, read-write; before the arbiter was a thread
                  */
    0x67706431u, /* the worker's desk */
    0x67706e31u, /* its notice, read-only */
    0x67707334u, /* the session's segment, read-only */
};

static struct {
    volatile uint8_t *at;
    uint32_t mark;
    size_t size;
    bool writable;
} found[FOUND_MAX];
static unsigned n_found;

/* --- looking around ----------------------------------------------------------------
 */

static sigjmp_buf away;

static void
on_fault(int signo)
{
    siglongjmp(away, signo);
}

static bool
can_read(volatile uint8_t *at, uint32_t *ret)
{
    if (sigsetjmp(away, 1))
        return false;
    *ret = *(volatile uint32_t *)(uintptr_t)at;
    return true;
}

static bool
can_write(volatile uint8_t *at)
{
    mprotect((void *)(uintptr_t)at, PAGE, PROT_READ | PROT_WRITE);
    if (sigsetjmp(away, 1))
        return false;
    *(volatile uint32_t *)(uintptr_t)at = *(volatile uint32_t *)(uintptr_t)at;
    return true;
}

static void
note(volatile uint8_t *at, uint32_t mark)
{
    uint32_t size = 0, word;

    can_read(at + 4, &size);
    if (mark == marks[0] || size < 64 || size > 8u << 20)
        size = 16 * PAGE;
    for (uint32_t end = 0; end < size; end += PAGE)
        if (!can_read(at + end, &word))
            size = end;
    found[n_found].at = at;
    found[n_found].mark = mark;
    found[n_found].size = size;
    found[n_found++].writable = can_write(at);
}

static void
look_around(void)
{
    struct sigaction act = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    struct sigaction segv, bus;
    uintptr_t here = (uintptr_t)&look_around & ~(uintptr_t)(PAGE - 1);

    sigaction(SIGSEGV, &act, &segv);
    sigaction(SIGBUS, &act, &bus);
    n_found = 0;
    for (uintptr_t at = here - AROUND; at < here + AROUND; at += PAGE) {
        volatile uint8_t *page = (volatile uint8_t *)at;
        uint32_t mark = 0;

        if (!can_read(page, &mark))
            continue;
        for (unsigned i = 0; i < sizeof(marks) / sizeof(*marks); i++)
            if (mark == marks[i] && n_found < FOUND_MAX)
                note(page, mark);
    }
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
}

/* --- attacks -----------------------------------------------------------------------
 */

static bool
write_index(void)
{
    bool done = false;

    for (unsigned i = 0; i < n_found; i++) {
        volatile uint32_t *word = (volatile uint32_t *)(uintptr_t)found[i].at;

        if (!found[i].writable)
            continue;
        done = true;
        for (size_t k = 2; k + 1 < found[i].size / 4; k++)
            if (word[k] == (uint32_t)getpid() || found[i].mark == marks[2])
                word[k + 1] = 0x41414141;
    }
    return done;
}

static bool
write_lock(void)
{
    bool done = false;

    for (unsigned i = 0; i < n_found; i++) {
        volatile uint32_t *word = (volatile uint32_t *)(uintptr_t)found[i].at;

        if (!found[i].writable)
            continue;
        done = true;
        for (size_t k = 2; k < 64; k++)
            if (found[i].mark == marks[0] ? k == 2 : word[k] == 0)
                word[k] = 1;
    }
    return done;
}

static bool
write_limit(void)
{
    bool done = false;

    for (unsigned i = 0; i < n_found; i++) {
        volatile uint64_t *word = (volatile uint64_t *)(uintptr_t)found[i].at;

        done |= found[i].mark == marks[1] || found[i].mark == marks[4];
        for (size_t k = 1; found[i].writable && k < found[i].size / 8; k++)
            if (word[k] == UINT64_C(64) << 20)
                word[k] = UINT64_C(1) << 40;
    }
    return done;
}

static uint64_t
next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Whatever is a wake-up descriptor: descriptors without a file, such as an eventfd. The
 * card's own memory is softgpu's, in a file that all its processes write; that is left
 * alone. */
static void
ring(void)
{
    for (int fd = 3; fd < 16; fd++) {
        struct stat st;

        if (fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0)
            eventfd_write(fd, 1);
    }
}

static void *
scribble_main(void *small)
{
    uint64_t seed = 88172645463325252u + (uint64_t)getpid();

    for (;;) {
        for (unsigned i = 0; i < n_found; i++) {
            volatile uint32_t *word = (volatile uint32_t *)(uintptr_t)found[i].at;

            for (unsigned n = 0; found[i].writable && n < 256; n++) {
                uint64_t value = next(&seed);

                word[2 + next(&seed) % (found[i].size / 4 - 2)] =
                    small ? (uint32_t)(value % 4) : (uint32_t)value | 0x100;
            }
        }
        ring();
        usleep(200);
    }
    return NULL;
}

static bool
begin_scribbling(bool small)
{
    bool any = false;
    pthread_t thread;

    for (unsigned i = 0; i < n_found; i++)
        any |= found[i].writable;
    return any && pthread_create(&thread, NULL, scribble_main,
                                 small ? (void *)&n_found : NULL) == 0;
}

static bool
attack(enum attack what)
{
    look_around();
    switch (what) {
    case ATTACK_INDEX:
        return write_index();
    case ATTACK_LOCK:
        return write_lock();
    case ATTACK_LIMIT:
        return write_limit();
    case ATTACK_SCRIBBLE:
    case ATTACK_SMALL:
        return begin_scribbling(what == ATTACK_SMALL);
    }
    return false;
}

__attribute__((visibility("default"))) int cuMemAlloc_v2(uint64_t *at, size_t bytes);

int
cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
    int (*real)(uint64_t *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "cuMemAlloc_v2");

    memcpy(&real, &symbol, sizeof(real));
    if (bytes >= ATTACK_INDEX && bytes <= ATTACK_SMALL && !attack((enum attack)bytes))
        return UNKNOWN;
    return real ? real(at, bytes) : UNKNOWN;
}
