/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several client processes at once, each with a raw link and an attachment of its own:
 * synchronous calls of all of them together beside round trips of all raw links
 * together.
 *
 * The sides take turns of equal length; a ratio is raw round trips / calls of one turn
 * of each.  --clients=N (4).  How equally the clients were served is Jain's index of
 * their calls.
 */
#include "rows.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS_MAX 64
#define SLICES 20
#define TURN_NS 40000000L
#define KEPT 20000 /* durations of each client and side */

enum side { IDLE = -1, OURS, RAW, SIDES };

struct tally {
    _Atomic int busy;
    uint64_t calls[SIDES], kept[SIDES];
    uint32_t ns[SIDES][KEPT];
};

static struct shared {
    _Atomic int ready, side, over;
    struct tally clients[CLIENTS_MAX];
} * shared;

static void
rest(long ns)
{
    struct timespec time = {.tv_nsec = ns};

    nanosleep(&time, NULL);
}

static void
act(struct bench_raw *raw, enum side side)
{
    size_t free_bytes, total;

    if (side == RAW)
        raw_link_ping(&raw->call);
    else
        CU(cuMemGetInfo(&free_bytes, &total));
}

static void
take_part(struct bench_raw *raw, struct tally *t, enum side side)
{
    while (atomic_load(&shared->side) == (int)side) {
        uint64_t start = bench_now_ns(), took;

        act(raw, side);
        took = bench_now_ns() - start;
        t->calls[side]++;
        if (t->kept[side] < KEPT)
            t->ns[side][t->kept[side]++] =
                took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    }
}

static _Noreturn void
client(int argc, char **argv, struct tally *t)
{
    struct bench_raw raw;
    CUcontext context;
    CUdevice device;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_raw_open(&raw, argc, argv, 1 << 20);
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    for (int i = 0; i < 200; i++)
        act(&raw, i % 2 ? RAW : OURS);
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->over)) {
        enum side side = (enum side)atomic_load(&shared->side);

        if (side == IDLE) {
            rest(200000);
            continue;
        }
        atomic_store(&t->busy, 1);
        take_part(&raw, t, side);
        atomic_store(&t->busy, 0);
    }
    CU(cuCtxDestroy(context));
    bench_raw_close(&raw);
    _exit(0);
}

/* Calls of all clients in one turn, by the time that it really took. */
static double
rate_of_turn(int n, enum side side)
{
    uint64_t start = bench_now_ns(), before = 0, calls = 0, took;

    for (int i = 0; i < n; i++)
        before += shared->clients[i].calls[side];
    atomic_store(&shared->side, side);
    rest(TURN_NS);
    atomic_store(&shared->side, IDLE);
    took = bench_now_ns() - start;
    for (int i = 0; i < n; i++)
        while (atomic_load(&shared->clients[i].busy))
            rest(100000);
    for (int i = 0; i < n; i++)
        calls += shared->clients[i].calls[side];
    return (double)(calls - before) * 1e9 / (double)took;
}

static double
jain(int n, enum side side)
{
    double sum = 0, squares = 0;

    for (int i = 0; i < n; i++) {
        double calls = (double)shared->clients[i].calls[side];

        sum += calls;
        squares += calls * calls;
    }
    return sum * sum / (n * squares);
}

static double
percentile_us(int n, enum side side, double percent)
{
    struct bench_times all = {0};
    double us;

    for (int i = 0; i < n; i++)
        for (uint64_t k = 0; k < shared->clients[i].kept[side]; k++)
            bench_times_add(&all, shared->clients[i].ns[side][k]);
    us = bench_times_percentile(&all, percent) / 1e3;
    bench_times_free(&all);
    return us;
}

static void
measure(int n)
{
    struct bench_times ours = {0}, raw = {0};

    printf("SAMPLES clients_sync_ratio");
    for (int slice = 0; slice < SLICES; slice++) {
        double a, b;

        if (slice % 2) {
            b = rate_of_turn(n, RAW);
            a = rate_of_turn(n, OURS);
        } else {
            a = rate_of_turn(n, OURS);
            b = rate_of_turn(n, RAW);
        }
        printf(" %.5g", b / a);
        bench_times_add(&ours, (uint64_t)a);
        bench_times_add(&raw, (uint64_t)b);
    }
    printf("\n");
    bench_say("clients_calls_per_s", bench_times_percentile(&ours, 50));
    bench_say("clients_raw_per_s", bench_times_percentile(&raw, 50));
    bench_say("clients_p99_us", percentile_us(n, OURS, 99));
    bench_say("clients_raw_p99_us", percentile_us(n, RAW, 99));
    bench_say("clients_jain", jain(n, OURS));
    bench_say("clients_raw_jain", jain(n, RAW));
}

static int
end(int n)
{
    int failed = 0, status;

    atomic_store(&shared->over, 1);
    for (int i = 0; i < n; i++)
        failed |= wait(&status) < 0 || status != 0;
    return failed;
}

int
main(int argc, char **argv)
{
    int n = (int)bench_option(argc, argv, "--clients", 4);

    if (n < 1 || n > CLIENTS_MAX) {
        fprintf(stderr, "clients: 1 to %d clients\n", CLIENTS_MAX);
        return 2;
    }
    bench_pin((int)bench_option(argc, argv, "--core", -1));
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        bench_die("mmap");
    atomic_store(&shared->side, IDLE);
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid < 0)
            bench_die("fork");
        if (pid == 0)
            client(argc, argv, &shared->clients[i]);
    }
    while (atomic_load(&shared->ready) < n) {
        if (waitpid(-1, NULL, WNOHANG) != 0) {
            fprintf(stderr, "clients: one of them did not start\n");
            return 1;
        }
        rest(1000000);
    }
    measure(n);
    return end(n);
}
