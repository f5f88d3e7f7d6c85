/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmark programs share: the clock, pinning, medians, and the lines
 * that bench/run.py reads.
 *
 * A measured value leaves as `KEY VALUE` on standard output, one a line; the
 * runner merges rounds and forms ratios.  One thread; not thread-safe.
 */
#ifndef BENCH_H
#define BENCH_H

#include "cuda_names.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CU(call) bench_check(call, #call, __FILE__, __LINE__)

static inline uint64_t
bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* End the process with words unless @result is CUDA_SUCCESS. */
void bench_check(CUresult result, const char *call, const char *file, int line);

/* End the process with "@what: strerror(errno)". */
_Noreturn void bench_die(const char *what);

/* CPU time of this process (all threads), user and system, in ns. */
uint64_t bench_cpu_ns(void);

/* Keep this process and its children on one core; -1 leaves them alone. */
void bench_pin(int core);

/* How many cores this process may run on. */
int bench_cores(void);

/* Processor time of another process so far, ns; 0 when it is gone. */
uint64_t bench_cpu_of_ns(int pid);

/* Processor time of the workers of the pool server whose process BENCH_SERVER in the
 * environment names, so of those that serve this program and its children; 0 without
 * it. */
uint64_t bench_workers_cpu_ns(void);

/* Memory whose pages exist already, full of noise. */
void *bench_memory(size_t size);
/* Bytes that no compression makes smaller. */
void bench_noise(void *memory, size_t size);

/* A collection of durations in ns; percentiles sort it. */
struct bench_times {
    uint64_t *ns;
    size_t count, room;
};

void bench_times_add(struct bench_times *times, uint64_t ns);
double bench_times_percentile(struct bench_times *times, double percent);
void bench_times_free(struct bench_times *times);

void bench_say(const char *key, double value);

/* Which measures to take: --only=WORD takes those whose key begins with WORD. */
int bench_wants(int argc, char **argv, const char *name);
long bench_option(int argc, char **argv, const char *name, long otherwise);
/* NULL without the option. */
const char *bench_option_text(int argc, char **argv, const char *name);

#endif
