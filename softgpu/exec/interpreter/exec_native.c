/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread compiles, in the order of asking; it starts with the first unit that is
 * hot and ends with the process.  A unit that is freed is taken out of the queue, or
 * waited for.
 */
#include "exec_native.h"

#include "exec_scalar.h"
#include "gp_base.h"
#include "gp_err.h"
#include "sg_exec.h"
#include "sg_native.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Warp instructions after which a unit is compiled: some milliseconds of the
 * interpreter's, and more of them the longer compiling takes. */
#define HOT 1000000u
#define HOT_PER_OP 50000u

enum mode { MODE_OFF, MODE_BACKGROUND, MODE_WAIT };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum mode mode;
bool sg_native_counts;
static const struct sg_jit *jit;
static struct sg_native_host host;

#define MAX_WAITING 256
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct sg_unit *waiting[MAX_WAITING];
static unsigned n_waiting;
static const struct sg_unit *compiling;
static bool started;

void
sg_native_scalar(const struct sg_insn *op, void *d, const void *a, const void *b,
                 const void *c, uint32_t m)
{
    const unsigned cls[4] = {op->x & 3, op->x >> 2 & 3, op->x >> 4 & 3, op->x >> 6 & 3};
    const void *from[4] = {NULL, a, b, c};
    sg_fn *fn = sg_fns[op->imm].fn;

    SG_FOR_LANES(i, m)
    {
        uint64_t in[4] = {0}, r;
        for (int k = 1; k < 4; k++) {
            if (!from[k])
                continue;
            if (cls[k] == SG_W)
                in[k] = ((const uint32_t *)from[k])[i];
            else if (cls[k] == SG_D)
                in[k] = ((const uint64_t *)from[k])[i];
            else
                in[k] = *(const uint32_t *)from[k] >> i & 1;
        }
        r = fn(in[1], in[2], in[3]);
        if (cls[0] == SG_W)
            ((uint32_t *)d)[i] = (uint32_t)r;
        else if (cls[0] == SG_D)
            ((uint64_t *)d)[i] = r;
        else
            *(uint32_t *)d = (*(uint32_t *)d & ~(1u << i)) | (uint32_t)(r & 1) << i;
    }
}

static void
say(const char *what, const char *why)
{
    if (getenv("SOFTGPU_JIT_LOG"))
        fprintf(stderr, "softgpu: %s: %s\n", what, why);
}

/* The plug-in is beside the library (or program) that this is a part of, or where
 * SOFTGPU_JIT_LIB says. */
static void *
plugin_open(void)
{
    const char *named = getenv("SOFTGPU_JIT_LIB"), *slash;
    char path[4096];
    Dl_info info;
    void *lib;

    if (named)
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (dladdr(&once, &info) && info.dli_fname &&
        (slash = strrchr(info.dli_fname, '/')) != NULL) {
        snprintf(path, sizeof(path), "%.*s/libsoftgpu-jit.so",
                 (int)(slash - info.dli_fname), info.dli_fname);
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (lib)
            return lib;
    }
    return dlopen("libsoftgpu-jit.so", RTLD_NOW | RTLD_LOCAL);
}

static bool
host_init(void)
{
    const char *level = sg_exec_isa();

#if defined(__x86_64__)
    host.level = (uint32_t)level[1] - '0';
    host.mem = host.level == 4 ? sg_native_mem_v4 : sg_native_mem_v3;
    host.scalar = host.level == 4 ? sg_native_scalar_v4 : sg_native_scalar_v3;
    return host.level >= 3;
#else
    (void)level;
    return false;
#endif
}

static void
native_init(void)
{
    const char *ask = getenv("SOFTGPU_JIT");
    void *lib;

    if (!ask || (strcmp(ask, "1") != 0 && strcmp(ask, "wait") != 0))
        return;
    if (!host_init()) {
        say("no machine code", "the executor's build is below x86-64-v3");
        return;
    }
    lib = plugin_open();
    if (!lib) {
        say("no machine code", dlerror());
        return;
    }
    jit = dlsym(lib, "sg_jit");
    if (!jit || jit->abi != SG_NATIVE_ABI) {
        say("no machine code", "libsoftgpu-jit.so is of another version");
        return;
    }
    mode = strcmp(ask, "wait") == 0 ? MODE_WAIT : MODE_BACKGROUND;
    sg_native_counts = mode == MODE_BACKGROUND;
}

static void
native_free(struct sg_native *native)
{
    if (!native)
        return;
    if (native->code)
        native->free_code(native->code);
    free(native->entries);
    free(native);
}

/* The unit's end: no code may be left, nor anybody who makes it. */
static void
native_end(struct sg_unit *unit)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_waiting; i++)
        if (waiting[i] == unit) {
            memmove(waiting + i, waiting + i + 1,
                    (n_waiting - i - 1) * sizeof(*waiting));
            n_waiting--;
            break;
        }
    while (compiling == unit)
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    native_free(unit->native);
    unit->native = NULL;
}

/* Jumps back are counted against budgets and turns, by the interpreter. */
static bool
straight(const struct sg_unit *unit, const struct sg_native *native)
{
    const struct sg_unit_func *func = &unit->funcs[0];

    if (!native->entries[func->body].fn)
        return false;
    for (uint32_t at = func->body; at < func->end; at++) {
        const struct sg_insn *op = &unit->ops[at];
        if ((op->code == SG_OP_BRA || op->code == SG_OP_BRC) && op->x <= at)
            return false;
    }
    return true;
}

static void
compile(struct sg_unit *unit)
{
    struct sg_native *native = calloc(1, sizeof(*native));
    struct gp_err err = {0};
    int r = -ENOMEM;

    if (native)
        native->entries = calloc(unit->n_ops + 1u, sizeof(*native->entries));
    if (native && native->entries)
        r = jit->compile(&host, unit, native, &err);
    if (r < 0) {
        say("kernel is not compiled", gp_err_msg(&err, r));
        native_free(native);
        return;
    }
    native->straight = straight(unit, native);
    /* Who finds the operation replaced finds the entry too; see exec_interp_body.h. */
    __atomic_store_n(&unit->native, native, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < unit->n_ops; i++)
        if (native->entries[i].fn)
            __atomic_store_n(&unit->ops[i].code, SG_OP_NATIVE, __ATOMIC_RELEASE);
}

static void *
compile_all(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct sg_unit *unit;
        while (n_waiting == 0)
            pthread_cond_wait(&work, &lock);
        unit = waiting[0];
        memmove(waiting, waiting + 1, --n_waiting * sizeof(*waiting));
        compiling = unit;
        pthread_mutex_unlock(&lock);
        compile(unit);
        pthread_mutex_lock(&lock);
        compiling = NULL;
        pthread_cond_broadcast(&done);
    }
    return NULL;
}

/* With every signal blocked: they are the program's. */
static bool
start_thread(void)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    int r;

    if (started)
        return true;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 8u << 20); /* the code generator recurses */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&thread, &attr, compile_all, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return started = r == 0;
}

static void
enqueue(struct sg_unit *unit)
{
    pthread_mutex_lock(&lock);
    if (n_waiting < MAX_WAITING && start_thread()) {
        waiting[n_waiting++] = unit;
        unit->native_end = native_end;
        pthread_cond_signal(&work);
    }
    pthread_mutex_unlock(&lock);
}

/* Once for each unit, by one thread. */
static bool
first_try(struct sg_unit *unit)
{
    int no = 0;

    return __atomic_compare_exchange_n(&unit->native_try, &no, 1, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void
sg_native_launch(struct sg_unit *unit)
{
    pthread_once(&once, native_init);
    if (mode != MODE_WAIT || !first_try(unit))
        return;
    unit->native_end = native_end;
    pthread_mutex_lock(&lock);
    compile(unit);
    pthread_mutex_unlock(&lock);
}

void
sg_native_heat(struct sg_unit *unit, uint64_t n)
{
    if (__atomic_load_n(&unit->native_try, __ATOMIC_RELAXED) ||
        __atomic_add_fetch(&unit->heat, n, __ATOMIC_RELAXED) <
            HOT + (uint64_t)HOT_PER_OP * unit->n_ops)
        return;
    if (first_try(unit))
        enqueue(unit);
}
