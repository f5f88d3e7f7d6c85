/* SPDX-License-Identifier: Apache-2.0 */
/* Clock, pinning, medians and output of the benchmark programs; see bench.h. */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

void
bench_check(CUresult result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s:%d: %s: CUresult %d\n", file, line, call, (int)result);
    exit(2);
}

void
bench_die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

uint64_t
bench_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
bench_cpu_of_ns(int pid)
{
    struct timespec now;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) < 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
bench_workers_cpu_ns(void)
{
    const char *server = getenv("BENCH_SERVER");
    char path[64];
    uint64_t sum = 0;
    FILE *children;
    int pid;

    if (!server)
        return 0;
    snprintf(path, sizeof(path), "/proc/%.10s/task/%.10s/children", server, server);
    children = fopen(path, "re");
    if (!children)
        bench_die(path);
    while (fscanf(children, "%d", &pid) == 1)
        sum += bench_cpu_of_ns(pid);
    fclose(children);
    return sum;
}

void
bench_pin(int core)
{
    cpu_set_t set;

    if (core < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        bench_die("sched_setaffinity");
}

int
bench_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        bench_die("sched_getaffinity");
    return CPU_COUNT(&set);
}

void *
bench_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED)
        bench_die("mmap");
    bench_noise(memory, size);
    return memory;
}

void
bench_noise(void *memory, size_t size)
{
    uint64_t x = 88172645463325252u;
    char *at = memory;

    for (size_t i = 0; i + sizeof(x) <= size; i += sizeof(x)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(at + i, &x, sizeof(x));
    }
}

void
bench_times_add(struct bench_times *times, uint64_t ns)
{
    if (times->count == times->room) {
        times->room = times->room ? 2 * times->room : 1024;
        times->ns = realloc(times->ns, times->room * sizeof(*times->ns));
        if (!times->ns)
            bench_die("realloc");
    }
    times->ns[times->count++] = ns;
}

static int
compare_ns(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

double
bench_times_percentile(struct bench_times *times, double percent)
{
    if (times->count == 0)
        return 0.0;
    qsort(times->ns, times->count, sizeof(*times->ns), compare_ns);
    return (double)times->ns[(size_t)((double)(times->count - 1) * percent / 100.0)];
}

void
bench_times_free(struct bench_times *times)
{
    free(times->ns);
    *times = (struct bench_times){0};
}

void
bench_say(const char *key, double value)
{
    printf("%s %.6g\n", key, value);
    fflush(stdout);
}

int
bench_wants(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--only=", 7) == 0)
            return strncmp(name, argv[i] + 7, strlen(argv[i] + 7)) == 0;
    return 1;
}

long
bench_option(int argc, char **argv, const char *name, long otherwise)
{
    size_t length = strlen(name);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return strtol(argv[i] + length + 1, NULL, 10);
    return otherwise;
}

const char *
bench_option_text(int argc, char **argv, const char *name)
{
    size_t length = strlen(name);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return NULL;
}
