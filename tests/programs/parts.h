/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that look at one family of calls, part by part.
 *
 * Every part prints one line, and a wrong answer one more with its place; nothing
 * printed differs from machine to machine, so a remote run can be compared with one on
 * the driver itself.  The programs know CUDA and nothing of gpupool.
 */
#ifndef PROGRAMS_PARTS_H
#define PROGRAMS_PARTS_H

#include "cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a part: give up when the call fails. */
#define TRY(call) CODE(call, CUDA_SUCCESS)

/* In a part: give up when the call answers anything but @code. */
#define CODE(call, code)                                                               \
    do {                                                                               \
        int r_ = (int)(call);                                                          \
        if (r_ != (int)(code)) {                                                       \
            printf("%s:%d: %s: %d\n", __func__, __LINE__, #call, r_);                  \
            return 1;                                                                  \
        }                                                                              \
    } while (0)

#define SAME(a, b)                                                                     \
    do {                                                                               \
        long long a_ = (long long)(a), b_ = (long long)(b);                            \
        if (a_ != b_) {                                                                \
            printf("%s:%d: %s is %lld, not %lld\n", __func__, __LINE__, #a, a_, b_);   \
            return 1;                                                                  \
        }                                                                              \
    } while (0)

/* The error of a call that may come with the next one that waits. */
static inline CUresult
settled(CUresult r)
{
    return r != CUDA_SUCCESS ? r : cuCtxSynchronize();
}

struct part {
    const char *name;
    int (*run)(void);
};

static inline int
part_run(const struct part *part)
{
    int bad = part->run();

    printf("%s: %s\n", part->name, bad ? "WRONG" : "ok");
    fflush(stdout);
    return bad;
}

/* main()'s value. */
static inline int
parts_run(const struct part *parts, size_t n)
{
    int wrong = 0;

    for (size_t i = 0; i < n; i++)
        wrong |= part_run(&parts[i]);
    return wrong;
}

/* The same with a process for each part, which initialises the driver itself: for parts
 * that leave the process without a context that works. */
static inline int
parts_run_apart(const struct part *parts, size_t n)
{
    int wrong = 0;

    for (size_t i = 0; i < n; i++) {
        int status = 0;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
            exit(part_run(&parts[i]) != 0);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            return 2;
        if (WIFSIGNALED(status))
            printf("%s: ended by signal %d\n", parts[i].name, WTERMSIG(status));
        wrong |= status != 0;
    }
    return wrong;
}

#endif
