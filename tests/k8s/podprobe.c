/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container of a test pod runs: an ordinary program of the driver API, which
 * knows CUDA and nothing of gpupool or Kubernetes.
 *
 *   podprobe MIB CARDS [hold SECONDS] [fork]
 *
 * It must see CARDS cards of MIB MiB each (0: any), add vectors right, be refused more
 * memory than it was promised, and be given half of it.  `hold` then uses the card
 * until SIGTERM or for so long; a CUDA error on the way is a failure.  `fork` does all
 * of it in a child process first, and in the parent afterwards.  Where the image has
 * /vecadd-static, a program of the static CUDA runtime, that runs first, in a process
 * of its own, and must succeed, too.  What was seen goes to stdout and to the
 * container's termination log.
 */
#include "prog.h"
#include "ref_vecadd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

PROG_EMBED(podprobe_ptx, "vecadd.ptx");

static volatile sig_atomic_t the_end;

static void
on_term(int signo)
{
    the_end = 1;
}

static void
say(const char *fmt, ...)
{
    char line[300];
    va_list args;
    int fd, n;

    va_start(args, fmt);
    n = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    puts(line);
    fflush(stdout);
    fd = open("/dev/termination-log", O_WRONLY | O_TRUNC);
    if (fd >= 0 && write(fd, line, (size_t)n) != n)
        puts("(no termination log)");
    if (fd >= 0)
        close(fd);
}

static void
fail(const char *what, unsigned long long got, unsigned long long want)
{
    say("%s: %llu, not %llu", what, got, want);
    exit(1);
}

static void
add_vectors(struct prog *prog)
{
    size_t bytes = VECADD_COUNT * sizeof(float);
    float *a = util_alloc(1, bytes), *b = util_alloc(1, bytes),
          *sum = util_alloc(1, bytes);
    CUfunction kernel = prog_kernel(prog, "vecadd");
    CUdeviceptr dev[3];
    unsigned count = VECADD_COUNT;
    void *params[] = {&dev[0], &dev[1], &dev[2], &count};
    size_t wrong;

    vecadd_fill(a, b);
    for (int i = 0; i < 3; i++)
        CU(cuMemAlloc(&dev[i], bytes));
    CU(cuMemcpyHtoD(dev[0], a, bytes));
    CU(cuMemcpyHtoD(dev[1], b, bytes));
    CU(cuLaunchKernel(kernel, VECADD_BLOCKS, 1, 1, VECADD_BLOCK, 1, 1, 0, NULL, params,
                      NULL));
    CU(cuMemcpyDtoH(sum, dev[2], bytes));
    wrong = vecadd_count_wrong(a, b, sum);
    for (int i = 0; i < 3; i++)
        CU(cuMemFree(dev[i]));
    if (vecadd_report(wrong, sum) != 0)
        fail("wrong sums", wrong, 0);
    free(a);
    free(b);
    free(sum);
}

static void
check_limits(size_t mib)
{
    size_t free_bytes, total, device_total;
    CUdeviceptr half, over;
    CUresult r;

    CU(cuMemGetInfo(&free_bytes, &total));
    CU(cuDeviceTotalMem(&device_total, 0));
    if (mib && total >> 20 != mib)
        fail("MiB by cuMemGetInfo", total >> 20, mib);
    if (mib && device_total >> 20 != mib)
        fail("MiB by cuDeviceTotalMem", device_total >> 20, mib);
    r = cuMemAlloc(&over, total + (1 << 20));
    if (r != CUDA_ERROR_OUT_OF_MEMORY)
        fail("the result of taking too much", r, CUDA_ERROR_OUT_OF_MEMORY);
    CU(cuMemAlloc(&half, free_bytes / 2));
    r = cuMemAlloc(&over, free_bytes / 2 + (2 << 20));
    if (r != CUDA_ERROR_OUT_OF_MEMORY)
        fail("the result of taking too much in two pieces", r,
             CUDA_ERROR_OUT_OF_MEMORY);
    CU(cuMemFree(half));
}

static void
probe(size_t mib, int cards, int hold)
{
    char *name[] = {(char *)"podprobe", NULL};
    struct prog prog;
    int n = 0;

    prog_begin(&prog, 1, name, "podprobe", podprobe_ptx);
    CU(cuDeviceGetCount(&n));
    if (cards && n != cards)
        fail("cards", (unsigned)n, (unsigned)cards);
    add_vectors(&prog);
    check_limits(mib);
    say("cards=%d mib=%zu right", n, mib);
    for (int i = 0; i < hold * 5 && !the_end; i++) {
        add_vectors(&prog);
        usleep(200000);
    }
    prog_end(&prog);
}

static void
run_static_runtime(void)
{
    static const char PROGRAM[] = "/vecadd-static";
    int status;
    pid_t child;

    if (access(PROGRAM, X_OK) != 0)
        return;
    child = fork();
    if (!child) {
        execl(PROGRAM, PROGRAM, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status) {
        say("the program of the static runtime failed");
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    int cards = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0, hold = 0, status;

    signal(SIGTERM, on_term);
    run_static_runtime();
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "hold") == 0 && i + 1 < argc)
            hold = (int)strtol(argv[++i], NULL, 10);
        if (strcmp(argv[i], "fork") == 0) {
            pid_t child = fork();

            if (!child) {
                probe(mib, cards, 0);
                return 0;
            }
            if (child < 0 || waitpid(child, &status, 0) < 0 || status) {
                say("the child failed");
                return 1;
            }
        }
    }
    probe(mib, cards, hold);
    return 0;
}
