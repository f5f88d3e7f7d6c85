/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `make fuzz-ptx-exec`: random kernels on every build of the executor that this
 * processor can run, each in a process of its own, against the reference; or, with
 * --driver, on the first card of a libcuda.so.1, to see whether the reference is right.
 *
 *     kernelfuzz [--seed N] [--kernels N | --seconds N] [--print SEED]
 *                [--driver PATH] [--jobs N] [--specials FILE]
 *
 * Prints a line per build, and of each kernel that differs what is left of it.  --jobs:
 * so many processes share a card.  --specials: no random kernels, but every form on
 * special operands (rk_probe.h).
 */
#include "rk_card.h"
#include "rk_probe.h"
#include "rk_run.h"

#include "gp_err.h"
#include "sg_exec.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Nobody reads more; and a card that compiles nothing differs at every seed. */
#define MAX_SHOWN 100
/* A card is lent for minutes, and shrinking compiles a kernel dozens of times. */
#define MAX_SHRUNK_ON_CARD 30
#define MAX_JOBS 64

struct options {
    uint64_t seed, kernels;
    double seconds;
    unsigned jobs;
    bool print;
    const char *driver;   /* NULL: the executor's builds */
    const char *specials; /* the file for what differs, or NULL */
};

/* One process's part of the search: every of-th seed. */
struct job {
    unsigned number, of;
    unsigned shrinks; /* what is left of them */
    int lock;         /* the processes print one after the other */
    bool on_card;
    uint64_t n, wrong; /* what came of it */
};

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct rk_kernel *
make_kernel(uint64_t seed, bool on_card)
{
    struct rk_kernel *k = rk_kernel_new(seed);

    if (on_card)
        rk_kernel_for_card(k);
    return k;
}

/* @k differs, by these words. */
static void
show(struct rk_run *run, struct rk_kernel *k, uint64_t order, const char *where,
     struct job *job, char *words, size_t size)
{
    char *text = NULL;

    if (job->shrinks) {
        job->shrinks--;
        rk_run_shrink(run, k, order);
        rk_run_agrees(run, k, order, words, size);
        text = rk_print(k);
    }
    flock(job->lock, LOCK_EX);
    printf("seed %" PRIu64 ", %s%s: %s\n%s\n", k->seed, where,
           order ? ", fragments in random order" : "", words, text ? text : "");
    fflush(stdout);
    flock(job->lock, LOCK_UN);
    free(text);
}

/* On a card there is no order of fragments to choose. */
static bool
look(struct rk_run *run, uint64_t seed, const char *where, struct job *job)
{
    struct rk_kernel *k = make_kernel(seed, job->on_card);
    bool agree = true;
    char words[256];

    for (uint64_t order = 0; order < (job->on_card ? 1 : 2) && agree; order++) {
        agree = rk_run_agrees(run, k, order * (seed + 1), words, sizeof(words));
        if (!agree)
            show(run, k, order * (seed + 1), where, job, words, sizeof(words));
    }
    rk_kernel_free(k);
    return agree;
}

/* The compiler is in the folder lib of the build that this program is of. */
static bool
jit_found(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

    if (n <= 0)
        return false;
    path[n] = '\0';
    for (int up = 0; up < 3; up++)
        if (strrchr(path, '/'))
            *strrchr(path, '/') = '\0';
    snprintf(path + strlen(path), 64, "/lib/libsoftgpu-jit.so");
    setenv("SOFTGPU_JIT_LIB", path, 0);
    return access(getenv("SOFTGPU_JIT_LIB"), R_OK) == 0;
}

/* As many kernels as asked for. */
static void
search_part(const struct options *o, struct rk_run *run, const char *where,
            struct job *job)
{
    double start = now();

    for (uint64_t i = job->number; job->wrong < MAX_SHOWN; i += job->of) {
        if (o->kernels ? i >= o->kernels : now() - start >= o->seconds)
            return;
        job->wrong += !look(run, o->seed + i, where, job);
        job->n++;
    }
}

static void
say_sum(const struct options *o, const char *where, uint64_t n, uint64_t wrong,
        double seconds)
{
    printf("%s: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " differ, %.1f s\n",
           where, n, o->seed, wrong, seconds);
}

/* A lock of this process's own: of another open file than the others'. */
static int
open_lock(void)
{
    return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
}

static int
search_card_part(const struct options *o, struct job *job)
{
    struct gp_err err = {0};
    struct rk_card *card = NULL;
    struct rk_run *run;
    int r = rk_card_new(o->driver, &card, &err);

    if (r < 0) {
        fprintf(stderr, "kernelfuzz: %s\n", gp_err_msg(&err, r));
        return 2;
    }
    job->lock = open_lock();
    run = rk_run_new();
    rk_run_on_card(run, card);
    search_part(o, run, "the card", job);
    rk_run_free(run);
    rk_card_free(card);
    close(job->lock);
    return job->wrong != 0;
}

/* Several processes, because the driver compiles one kernel at a time in each. */
static int
search_card(const struct options *o)
{
    struct job *jobs = mmap(NULL, sizeof(*jobs) * o->jobs, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t n = 0, wrong = 0;
    double start = now();
    int failed = 0;

    if (jobs == MAP_FAILED)
        abort();
    for (unsigned i = 0; i < o->jobs; i++) {
        jobs[i] = (struct job){.number = i, .of = o->jobs, .on_card = true};
        jobs[i].shrinks = (MAX_SHRUNK_ON_CARD + o->jobs - 1) / o->jobs;
        if (fork() == 0) {
            int r = search_card_part(o, &jobs[i]);
            fflush(stdout);
            _exit(r);
        }
    }
    for (unsigned i = 0; i < o->jobs; i++) {
        int status = 1;
        wait(&status);
        if (WIFSIGNALED(status))
            printf("a process ended by signal %d\n", WTERMSIG(status));
        failed |= WIFEXITED(status) ? WEXITSTATUS(status) : 2;
    }
    for (unsigned i = 0; i < o->jobs; i++) {
        n += jobs[i].n;
        wrong += jobs[i].wrong;
    }
    say_sum(o, "the card", n, wrong, now() - start);
    munmap(jobs, sizeof(*jobs) * o->jobs);
    return failed;
}

/* The process that runs one build. */
static int
search(const struct options *o, const char *isa)
{
    struct job job = {.of = 1, .shrinks = MAX_SHOWN};
    struct rk_run *run;
    double start = now();

    if (strcmp(isa, "jit") == 0) { /* the best build, and machine code */
        if (!jit_found()) {
            printf("jit: libsoftgpu-jit.so is not built; install llvm-14-dev\n");
            return 0;
        }
        setenv("SOFTGPU_JIT", "wait", 1);
    } else {
        setenv("SOFTGPU_ISA", isa, 1);
    }
    if (strcmp(isa, "jit") != 0 && strcmp(sg_exec_isa(), isa) != 0) {
        printf("%s: not on this processor\n", isa);
        return 0;
    }
    job.lock = open_lock();
    run = rk_run_new();
    search_part(o, run, isa, &job);
    rk_run_free(run);
    close(job.lock);
    say_sum(o, isa, job.n, job.wrong, now() - start);
    return job.wrong != 0;
}

static int
search_all(const struct options *o)
{
    static const char *const builds[] = {"v2", "v3", "v4", "generic", "jit"};
    int failed = 0;

    for (unsigned i = 0; i < ARRAY_SIZE(builds); i++) {
        int status = 1;
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child == 0) {
            int r = search(o, builds[i]);
            fflush(stdout);
            _exit(r);
        }
        waitpid(child, &status, 0);
        if (status)
            printf("%s: status %x\n", builds[i], (unsigned)status);
        failed |= status != 0;
    }
    return failed;
}

static void
print_kernel(const struct options *o)
{
    struct rk_kernel *k = make_kernel(o->seed, o->driver != NULL);
    char *text = rk_print(k);

    fputs(text, stdout);
    free(text);
    rk_kernel_free(k);
}

/* One option and its value. */
static bool
set_option(struct options *o, const char *name, const char *value)
{
    uint64_t n = strtoull(value, NULL, 0);

    if (strcmp(name, "--seed") == 0)
        o->seed = n;
    else if (strcmp(name, "--kernels") == 0)
        o->kernels = n;
    else if (strcmp(name, "--seconds") == 0)
        o->seconds = (double)n;
    else if (strcmp(name, "--jobs") == 0)
        o->jobs = n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (unsigned)n;
    else if (strcmp(name, "--driver") == 0)
        o->driver = value;
    else if (strcmp(name, "--specials") == 0)
        o->specials = value;
    else if (strcmp(name, "--print") == 0)
        o->seed = n, o->print = true;
    else
        return false;
    return true;
}

int
main(int argc, char **argv)
{
    struct options o = {.seed = 1, .seconds = 10, .jobs = 1};

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc || !set_option(&o, argv[i], argv[i + 1])) {
            fprintf(stderr, "kernelfuzz: no option %s; see the top of rk_main.c\n",
                    argv[i]);
            return 2;
        }
    }
    if (o.print) {
        print_kernel(&o);
        return 0;
    }
    if (o.specials)
        return rk_probe(o.driver, o.specials, o.jobs);
    return o.driver ? search_card(&o) : search_all(&o);
}
