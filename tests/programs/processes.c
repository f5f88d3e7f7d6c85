/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that use the same memory one after another: each asks for most of it as
 * soon as the one before has ended, however that was, or says that it has freed its
 * own.  A driver frees memory before the call returns, and before anybody can know that
 * the process has ended.
 *
 * The processes are forked by one that never initialises the driver.
 */
#include "parts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define SIZE ((size_t)200 << 20)
#define TIMES 6

static int
begin(void)
{
    CUcontext ctx;

    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    return 0;
}

/* ---- one ends, the next begins ---- */

static int
hold(void)
{
    CUdeviceptr p;

    if (begin())
        return 1;
    TRY(cuMemAlloc_v2(&p, SIZE));
    TRY(cuMemsetD8_v2(p, 1, 1 << 20));
    return 0;
}

static int
hold_and_end(int signo)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (hold()) {
            fflush(stdout);
            _exit(1);
        }
        if (signo < 0)
            exit(0);
        if (signo)
            raise(signo);
        _exit(0);
    }
    SAME(waitpid(pid, &status, 0), pid);
    if (signo > 0)
        SAME(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signo);
    else
        SAME(status, 0);
    return 0;
}

static int
ended(void)
{
    static const int how[] = {-1, 0, SIGKILL, SIGTERM};

    for (unsigned i = 0; i < 3 * sizeof(how) / sizeof(how[0]); i++)
        if (hold_and_end(how[i % (sizeof(how) / sizeof(how[0]))]))
            return 1;
    return 0;
}

/* ---- one frees, the other allocates ---- */

struct memory {
    CUdeviceptr p;
    CUarray array;
    CUmemGenericAllocationHandle handle;
};

enum how {
    HOW_PLAIN,
    HOW_ARRAY,
    HOW_VMM,
    HOW_PITCH,
    HOW_BUSY, /* plain, and freed behind work of the context */
    HOWS,
};

static int
take(struct memory *m, enum how how)
{
    CUDA_ARRAY_DESCRIPTOR array = {.Width = 8192,
                                   .Height = SIZE / 8192,
                                   .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                   .NumChannels = 1};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    size_t pitch;

    switch (how) {
    case HOW_ARRAY:
        TRY(cuArrayCreate_v2(&m->array, &array));
        return 0;
    case HOW_VMM:
        TRY(cuMemCreate(&m->handle, SIZE, &prop, 0));
        return 0;
    case HOW_PITCH:
        TRY(cuMemAllocPitch_v2(&m->p, &pitch, 4096, SIZE / 4096, 4));
        return 0;
    default:
        TRY(cuMemAlloc_v2(&m->p, SIZE));
        return 0;
    }
}

static void
rest(void *arg)
{
    (void)arg;
    usleep(100000);
}

static int
give(struct memory *m, enum how how)
{
    switch (how) {
    case HOW_ARRAY:
        TRY(cuArrayDestroy(m->array));
        return 0;
    case HOW_VMM:
        TRY(cuMemRelease(m->handle));
        return 0;
    case HOW_BUSY:
        TRY(cuLaunchHostFunc(NULL, rest, NULL));
        /* fall through */
    default:
        TRY(cuMemFree_v2(m->p));
        return 0;
    }
}

/* Reads of @in when it is this one's turn, and writes to @out when it is over. */
static int
take_turns(int in, int out)
{
    struct memory m = {0};
    char turn = 0;

    for (unsigned i = 0; i < TIMES * HOWS; i++) {
        SAME(read(in, &turn, 1), 1);
        if (take(&m, (enum how)(i / TIMES)) || give(&m, (enum how)(i / TIMES)))
            return 1;
        SAME(write(out, &turn, 1), 1);
    }
    return 0;
}

static pid_t
start(int in, int out, int others_in, int others_out)
{
    pid_t pid = fork();
    int bad;

    if (pid)
        return pid;
    close(others_in);
    close(others_out);
    bad = begin() || take_turns(in, out);
    fflush(stdout);
    exit(bad);
}

static int
freed(void)
{
    int there[2], back[2], status[2] = {1, 1};
    pid_t one, two;

    SAME(pipe(there) || pipe(back), 0);
    one = start(back[0], there[1], there[0], back[1]);
    two = start(there[0], back[1], back[0], there[1]);
    SAME(write(back[1], "", 1), 1);
    close(there[0]);
    close(there[1]);
    close(back[1]);
    SAME(waitpid(one, &status[0], 0), one);
    SAME(waitpid(two, &status[1], 0), two);
    close(back[0]);
    SAME(status[0], 0);
    SAME(status[1], 0);
    return 0;
}

/* ---- one frees as the last thing that it does, and does not end ---- */

static CUdeviceptr freed_last;
static int says_freed;

/* Before the destructor of the driver's library. */
__attribute__((destructor)) static void
free_last(void)
{
    if (freed_last && cuMemFree_v2(freed_last) == CUDA_SUCCESS &&
        write(says_freed, "", 1) == 1)
        freed_last = 0;
}

/* What stdio has not written is written after all destructors, and waits until somebody
 * reads of @full, of which this is the other end. */
static int
end_slowly(int full)
{
    static const char bytes[4096];

    SAME(fcntl(full, F_SETFL, O_NONBLOCK), 0);
    while (write(full, bytes, sizeof(bytes)) > 0 || write(full, bytes, 1) > 0)
        ;
    SAME(fcntl(full, F_SETFL, 0), 0);
    SAME(dup2(full, STDOUT_FILENO), STDOUT_FILENO);
    SAME(setvbuf(stdout, NULL, _IOFBF, 0), 0);
    putchar('x');
    return 0;
}

static void
run_slow(int full, int says)
{
    CUdeviceptr p;

    if (begin() || cuMemAlloc_v2(&p, 1) || cuMemFree_v2(p) || cuMemAlloc_v2(&p, SIZE) ||
        end_slowly(full))
        _exit(1);
    freed_last = p;
    says_freed = says;
    exit(0);
}

static int
ending(void)
{
    int full[2], says[2], status = 1;
    char said = 1;
    pid_t slow, next;

    SAME(pipe(full) || pipe(says), 0);
    slow = fork();
    if (slow == 0) {
        close(full[0]);
        run_slow(full[1], says[1]);
    }
    close(full[1]);
    close(says[1]);
    SAME(read(says[0], &said, 1), 1);
    next = fork();
    if (next == 0)
        exit(hold());
    SAME(waitpid(next, &status, 0), next);
    SAME(status, 0);
    SAME(waitpid(slow, &status, WNOHANG), 0);
    close(full[0]);
    SAME(waitpid(slow, &status, 0), slow);
    SAME(status, 0);
    close(says[0]);
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"memory of a process that has ended", ended},
        {"memory that another process has freed", freed},
        {"memory that was freed by a process that does not end", ending},
    };

    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
