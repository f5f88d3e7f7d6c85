/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attachments per second: short processes that attach to the session's server and end,
 * some at a time.
 *
 * Each is this program again, so the start of a process is in the figure, as it is for
 * whoever runs many short programs.
 */
#include "bench.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 160 /* under the burst that a server takes from one address */
#define AT_A_TIME 4

static void
attach(void)
{
    int count = 0;

    CU(cuInit(0));
    CU(cuDeviceGetCount(&count));
    exit(count < 1);
}

static void
start(const char *program)
{
    pid_t child = fork();

    if (child < 0)
        bench_die("fork");
    if (child == 0) {
        execl(program, program, "--child", NULL);
        _exit(127);
    }
}

static void
await_one(void)
{
    int status;

    if (wait(&status) < 0 || status != 0) {
        fprintf(stderr, "attach: a process ended with %d\n", status);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    uint64_t begin;

    if (argc > 1 && !strcmp(argv[1], "--child"))
        attach();
    begin = bench_now_ns();
    for (int i = 0; i < PROCESSES; i++) {
        if (i >= AT_A_TIME)
            await_one();
        start("/proc/self/exe");
    }
    for (int i = 0; i < AT_A_TIME; i++)
        await_one();
    bench_say("attach_per_s", PROCESSES * 1e9 / (double)(bench_now_ns() - begin));
    return 0;
}
