/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many client processes of one session: idle, busy, coming one after the other, or all
 * at once.  bench/sessions.py starts it on several sessions and reads /proc meanwhile.
 *
 *   --clients=N            attach, then wait (until a line or the end of the input)
 *   --clients=N --late=1   the processes start, wait for a line, then attach at once
 *   --busy-ms=M            before they end, all make synchronous calls for so long
 *   --launch=1             which are a launch and a wait for it
 *   --churn=N --at-a-time=K --rate=R
 *                          N short processes, R a second at most (0: as many as go), K
 *                          at a time at most
 *
 * Each client is this program again, so that it shares no memory with the others that
 * programs of users would not share.  What all wait for is the end of a pipe: nobody
 * polls.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS_MAX 1024
#define BYTES 65536
#define BUCKETS 1024 /* 16 for each power of two */
/* Descriptors of a client: the tallies, the gates, a pipe to its parent.  They are
 * above all of the parent's own. */
#define SHARED_FD 40
#define GATE_FD(n) (SHARED_FD + 1 + (n))
#define TOLD_FD (GATE_FD(2))

enum gate { GATE_ATTACH, GATE_END, GATES };

extern const char sessions_ptx[];
__asm__(".pushsection .rodata\n"
        "sessions_ptx:\n"
        ".incbin \"vecadd.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");

struct tally {
    uint64_t attach_ns, calls, worst_ns;
};

struct shared {
    uint64_t busy_ns;
    bool launch;
    struct tally clients[CLIENTS_MAX];
    _Atomic uint32_t buckets[BUCKETS]; /* calls by how long they took */
};

static unsigned
bucket_of(uint64_t ns)
{
    unsigned power;

    if (ns < 16)
        return (unsigned)ns;
    power = 63 - (unsigned)__builtin_clzll(ns);
    return 16 * (power - 3) + (unsigned)(ns >> (power - 4) & 15);
}

/* The first duration of the next bucket. */
static uint64_t
bucket_end(unsigned bucket)
{
    if (bucket < 16)
        return bucket + 1;
    return (uint64_t)(16 + bucket % 16 + 1) << (bucket / 16 - 1);
}

/* --- a client --------------------------------------------------------------------- */

static void
pass(enum gate gate)
{
    char byte;

    while (read(GATE_FD(gate), &byte, 1) < 0 && errno == EINTR)
        ;
}

static void
tell(void)
{
    if (write(TOLD_FD, "", 1) != 1)
        bench_die("write");
}

static void
attach(CUdeviceptr *ret_dev, char *bytes)
{
    CUcontext context;
    CUdevice device;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    CU(cuMemAlloc(ret_dev, BYTES));
    CU(cuMemcpyHtoD(*ret_dev, bytes, BYTES));
    CU(cuMemcpyDtoH(bytes, *ret_dev, BYTES));
}

/* A round trip and nothing else; see fast.c. */
static void
ask(void)
{
    size_t free_bytes, total;

    CU(cuMemGetInfo(&free_bytes, &total));
}

static void
launch(CUfunction kernel, CUdeviceptr dev)
{
    unsigned count = 32;
    void *params[] = {&dev, &dev, &dev, &count};

    CU(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    CU(cuCtxSynchronize());
}

static void
make_calls(struct shared *shared, struct tally *tally, CUfunction kernel,
           CUdeviceptr dev)
{
    static uint32_t buckets[BUCKETS];
    uint64_t begun = bench_now_ns(), now = begun;

    while (now - begun < shared->busy_ns) {
        uint64_t took;

        if (kernel)
            launch(kernel, dev);
        else
            ask();
        took = bench_now_ns() - now;
        now += took;
        tally->calls++;
        if (took > tally->worst_ns)
            tally->worst_ns = took;
        buckets[bucket_of(took)]++;
    }
    for (unsigned i = 0; i < BUCKETS; i++)
        atomic_fetch_add(&shared->buckets[i], buckets[i]);
}

static void
client(int number)
{
    static char bytes[BYTES];
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    struct tally *tally;
    CUfunction kernel = NULL;
    CUmodule module;
    CUdeviceptr dev;
    uint64_t begun;

    if (shared == MAP_FAILED)
        bench_die("mmap");
    tally = &shared->clients[number];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tell();
    pass(GATE_ATTACH);
    begun = bench_now_ns();
    attach(&dev, bytes);
    tally->attach_ns = bench_now_ns() - begun;
    if (shared->launch) {
        CU(cuModuleLoadData(&module, sessions_ptx));
        CU(cuModuleGetFunction(&kernel, module, "vecadd"));
        launch(kernel, dev);
    }
    tell();
    pass(GATE_END);
    make_calls(shared, tally, kernel, dev);
    CU(cuMemFree(dev));
}

/* A short program. */
static void
come_and_go(void)
{
    static char bytes[BYTES];
    CUdeviceptr dev;

    attach(&dev, bytes);
    CU(cuMemFree(dev));
}

/* --- the parent ------------------------------------------------------------------- */

struct group {
    int clients, gates[GATES][2], told[2], file;
    struct shared *shared;
};

static void
make_pipe(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC) < 0)
        bench_die("pipe2");
}

static void
group_init(struct group *g, int clients, uint64_t busy_ms, bool launches)
{
    g->clients = clients;
    g->file = memfd_create("sessions", MFD_CLOEXEC);
    if (g->file < 0 || ftruncate(g->file, sizeof(*g->shared)) < 0)
        bench_die("memfd_create");
    g->shared =
        mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE, MAP_SHARED, g->file, 0);
    if (g->shared == MAP_FAILED)
        bench_die("mmap");
    g->shared->busy_ns = busy_ms * 1000000u;
    g->shared->launch = launches;
    for (int i = 0; i < GATES; i++)
        make_pipe(g->gates[i]);
    make_pipe(g->told);
}

static void
start(struct group *g, int number)
{
    char word[16];
    pid_t child = fork();

    if (child < 0)
        bench_die("fork");
    if (child)
        return;
    /* The gates' writing ends are closed by exec, so only the parent holds them. */
    if (dup2(g->file, SHARED_FD) < 0 || dup2(g->told[1], TOLD_FD) < 0)
        _exit(127);
    for (int i = 0; i < GATES; i++)
        if (dup2(g->gates[i][0], GATE_FD(i)) < 0)
            _exit(127);
    snprintf(word, sizeof(word), "%d", number);
    execl("/proc/self/exe", "sessions", "--client", word, NULL);
    _exit(127);
}

/* Until every client has told once more, or one has ended, which is its failure. */
static void
await_all(struct group *g)
{
    for (int told = 0; told < g->clients;) {
        struct pollfd fd = {.fd = g->told[0], .events = POLLIN};
        char bytes[CLIENTS_MAX];

        if (poll(&fd, 1, 200) > 0) {
            ssize_t n = read(g->told[0], bytes, (size_t)(g->clients - told));

            told += n > 0 ? (int)n : 0;
        } else if (waitpid(-1, NULL, WNOHANG) != 0) {
            fprintf(stderr, "sessions: a client ended before its time\n");
            exit(1);
        }
    }
}

static void
say_and_await_line(const char *words)
{
    char byte;

    puts(words);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
        ;
}

static void
report(struct group *g)
{
    uint64_t worst = 0;

    printf("SAMPLES attach_ms");
    for (int i = 0; i < g->clients; i++)
        printf(" %.4g", (double)g->shared->clients[i].attach_ns / 1e6);
    printf("\nSAMPLES calls");
    for (int i = 0; i < g->clients; i++)
        printf(" %.9g", (double)g->shared->clients[i].calls);
    printf("\n");
    for (unsigned i = 0; i < BUCKETS; i++)
        if (g->shared->buckets[i])
            printf("took_ns_%llu %u\n", (unsigned long long)bucket_end(i),
                   g->shared->buckets[i]);
    for (int i = 0; i < g->clients; i++)
        if (g->shared->clients[i].worst_ns > worst)
            worst = g->shared->clients[i].worst_ns;
    bench_say("worst_ms", (double)worst / 1e6);
}

static int
hold(int clients, uint64_t busy_ms, bool launches, bool late)
{
    struct group g;
    int failed = 0, status;

    group_init(&g, clients, busy_ms, launches);
    for (int i = 0; i < clients; i++)
        start(&g, i);
    await_all(&g);
    if (late)
        say_and_await_line("STARTED");
    close(g.gates[GATE_ATTACH][1]);
    await_all(&g);
    say_and_await_line("ATTACHED");
    close(g.gates[GATE_END][1]);
    for (int i = 0; i < clients; i++)
        failed += wait(&status) < 0 || status != 0;
    report(&g);
    bench_say("failed", failed);
    return failed != 0;
}

/* --- one after the other ---------------------------------------------------------- */

struct churn {
    int left, at_a_time, alive, failed;
    uint64_t begun[CLIENTS_MAX];
    pid_t pids[CLIENTS_MAX];
    struct bench_times took;
};

static void
churn_start(struct churn *c)
{
    int slot = 0;

    while (c->pids[slot])
        slot++;
    c->begun[slot] = bench_now_ns();
    c->pids[slot] = fork();
    if (c->pids[slot] < 0)
        bench_die("fork");
    if (c->pids[slot] == 0) {
        execl("/proc/self/exe", "sessions", "--short", NULL);
        _exit(127);
    }
    c->alive++;
    c->left--;
}

static void
churn_reap(struct churn *c, int flags)
{
    int status, slot = 0;
    pid_t pid = waitpid(-1, &status, flags);

    if (pid <= 0)
        return;
    while (c->pids[slot] != pid)
        slot++;
    c->pids[slot] = 0;
    bench_times_add(&c->took, bench_now_ns() - c->begun[slot]);
    c->failed += status != 0;
    c->alive--;
}

static int
churn(int n, int at_a_time, int rate)
{
    static struct churn c;
    uint64_t begun = bench_now_ns(), spent;
    int started = 0;

    c.left = n;
    c.at_a_time = at_a_time;
    while (c.left || c.alive) {
        uint64_t due =
            begun + (rate ? (uint64_t)started * 1000000000u / (unsigned)rate : 0);
        uint64_t now = bench_now_ns();

        if (!c.left || c.alive >= c.at_a_time) {
            churn_reap(&c, 0);
        } else if (now >= due) {
            churn_start(&c);
            started++;
        } else {
            churn_reap(&c, WNOHANG);
            usleep((useconds_t)((due - now < 1000000 ? due - now : 1000000) / 1000));
        }
    }
    spent = bench_now_ns() - begun;
    bench_say("churn_per_s", n * 1e9 / (double)spent);
    bench_say("churn_median_ms", bench_times_percentile(&c.took, 50) / 1e6);
    bench_say("churn_p99_ms", bench_times_percentile(&c.took, 99) / 1e6);
    bench_say("failed", c.failed);
    return c.failed != 0;
}

int
main(int argc, char **argv)
{
    int clients = (int)bench_option(argc, argv, "--clients", 0);
    int short_ones = (int)bench_option(argc, argv, "--churn", 0);
    int at_a_time = (int)bench_option(argc, argv, "--at-a-time", 64);

    if (argc == 3 && strcmp(argv[1], "--client") == 0) {
        client((int)strtol(argv[2], NULL, 10));
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--short") == 0) {
        come_and_go();
        return 0;
    }
    if (short_ones > 0 && at_a_time > 0 && at_a_time <= CLIENTS_MAX)
        return churn(short_ones, at_a_time, (int)bench_option(argc, argv, "--rate", 0));
    if (clients < 1 || clients > CLIENTS_MAX) {
        fprintf(stderr, "sessions: 1 to %d clients, or --churn\n", CLIENTS_MAX);
        return 2;
    }
    return hold(clients, (uint64_t)bench_option(argc, argv, "--busy-ms", 0),
                bench_option(argc, argv, "--launch", 0) != 0,
                bench_option(argc, argv, "--late", 0) != 0);
}
