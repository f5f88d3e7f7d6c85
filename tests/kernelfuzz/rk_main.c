/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `make fuzz-ptx-exec`: random kernels on every build of the executor that this
 * processor can run, each in a process of its own, against the reference; or, with
 * --driver, on the first card of a libcuda.so.1, to see whether the reference is right.
 *
 *     kernelfuzz [--seed N] [--kernels N | --seconds N] [--print SEED] [--driver PATH]
 *
 * Prints a line per build, and of each kernel that differs what is left of it.
 */
#include "rk_card.h"
#include "rk_run.h"

#include "gp_err.h"
#include "sg_exec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Nobody reads more; and a card that compiles nothing differs at every seed. */
#define MAX_SHOWN 100

struct options {
    uint64_t seed, kernels;
    double seconds;
    const char *driver; /* NULL: the executor's builds */
};

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool
look(struct rk_run *run, uint64_t seed, const char *where)
{
    struct rk_kernel *k = rk_kernel_new(seed);
    bool agree = true;
    char words[256];

    for (uint64_t order = 0; order < 2 && agree; order++) {
        agree = rk_run_agrees(run, k, order * (seed + 1), words, sizeof(words));
        if (!agree) {
            char *text;
            rk_run_shrink(run, k, order * (seed + 1));
            rk_run_agrees(run, k, order * (seed + 1), words, sizeof(words));
            text = rk_print(k);
            printf("seed %" PRIu64 ", %s%s: %s\n%s\n", seed, where,
                   order ? ", fragments in random order" : "", words, text);
            free(text);
        }
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

/* As many kernels as asked for; 1 if one differs. */
static int
search_on(const struct options *o, struct rk_run *run, const char *where)
{
    double start = now();
    uint64_t n = 0, wrong = 0;

    while ((o->kernels ? n < o->kernels : now() - start < o->seconds) &&
           wrong < MAX_SHOWN)
        wrong += !look(run, o->seed + n++, where);
    printf("%s: seeds %" PRIu64 " to %" PRIu64 ", %" PRIu64 " differ, %.1f s\n", where,
           o->seed, o->seed + n - 1, wrong, now() - start);
    return wrong != 0;
}

static int
search_card(const struct options *o)
{
    struct gp_err err = {0};
    struct rk_card *card = NULL;
    struct rk_run *run;
    int r = rk_card_new(o->driver, &card, &err);

    if (r < 0) {
        fprintf(stderr, "kernelfuzz: %s\n", gp_err_msg(&err, r));
        return 2;
    }
    run = rk_run_new();
    rk_run_on_card(run, card);
    r = search_on(o, run, "the card");
    rk_run_free(run);
    rk_card_free(card);
    return r;
}

/* The process that runs one build. */
static int
search(const struct options *o, const char *isa)
{
    struct rk_run *run;
    int failed;

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
    run = rk_run_new();
    failed = search_on(o, run, isa);
    rk_run_free(run);
    return failed;
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
print_kernel(uint64_t seed)
{
    struct rk_kernel *k = rk_kernel_new(seed);
    char *text = rk_print(k);

    fputs(text, stdout);
    free(text);
    rk_kernel_free(k);
}

int
main(int argc, char **argv)
{
    struct options o = {.seed = 1, .seconds = 10};

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t n = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--seed") == 0) {
            o.seed = n;
        } else if (strcmp(argv[i], "--kernels") == 0) {
            o.kernels = n;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            o.seconds = (double)n;
        } else if (strcmp(argv[i], "--driver") == 0) {
            o.driver = argv[i + 1];
        } else if (strcmp(argv[i], "--print") == 0) {
            print_kernel(n);
            return 0;
        } else {
            fprintf(stderr, "kernelfuzz: no option %s; see the top of rk_main.c\n",
                    argv[i]);
            return 2;
        }
    }
    return o.driver ? search_card(&o) : search_all(&o);
}
