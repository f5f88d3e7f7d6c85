/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generated entries (names.S) come here with their number; what is returned is
 * where they jump to, with all their arguments as they were.
 */
#include "faultdrv.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in cuda.h. */
typedef void host_fn(void *user);
typedef void stream_callback(void *stream, int status, void *user);

struct host_params {
    host_fn *fn;
    void *user;
};

/* In names.S, ended by NULL. */
extern const char *const faultdrv_names[];
void *faultdrv_pick(unsigned number);

#define NAMES_MAX 1024
#define OPERATING_SYSTEM 304

static void *real[NAMES_MAX];
static struct faultdrv *control;
static _Thread_local int result;

static int
fail(void)
{
    return result;
}

static void __attribute__((constructor)) open_both(void)
{
    const char *file = getenv("FAULTDRV_CONTROL"), *name = getenv("FAULTDRV_REAL");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;

    if (!library || fd < 0) {
        fprintf(stderr, "faultdrv: FAULTDRV_REAL or FAULTDRV_CONTROL: cannot open\n");
        _exit(2);
    }
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (control == MAP_FAILED)
        _exit(2);
    for (unsigned i = 0; i < NAMES_MAX && faultdrv_names[i]; i++)
        real[i] = dlsym(library, faultdrv_names[i]);
}

/* NULL if it could not. */
static void *
name_myself(void *arg)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/comm", (long)syscall(SYS_gettid));
    file = fopen(path, "w");
    if (!file || fputs("faultdrv", file) < 0 || fclose(file) != 0)
        return NULL;
    return arg;
}

static int
starts(void)
{
    pthread_t thread;
    void *named = NULL;

    if (pthread_create(&thread, NULL, name_myself, control) != 0)
        return 0;
    pthread_join(thread, &named);
    return named != NULL;
}

static int
is_meant(unsigned number)
{
    char stem[FAULTDRV_NAME];

    snprintf(stem, sizeof(stem), "%s", faultdrv_names[number]);
    faultdrv_stem(stem);
    return strcmp(stem, control->stem) == 0;
}

/* ---- FAULTDRV_HOLD ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    unsigned running; /* host functions */
} hosts = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void
host_count(int by)
{
    pthread_mutex_lock(&hosts.lock);
    hosts.running += (unsigned)by;
    pthread_cond_broadcast(&hosts.returned);
    pthread_mutex_unlock(&hosts.lock);
}

static void
host_await_all(void)
{
    pthread_mutex_lock(&hosts.lock);
    while (hosts.running)
        pthread_cond_wait(&hosts.returned, &hosts.lock);
    pthread_mutex_unlock(&hosts.lock);
}

/* What a host function of ours is given in place of the caller's; never freed. */
struct host {
    struct host_params params;
    stream_callback *callback;
};

static void
host_run(void *arg)
{
    struct host *host = arg;

    host_count(1);
    host->params.fn(host->params.user);
    host_count(-1);
}

static void
host_call_back(void *stream, int status, void *arg)
{
    struct host *host = arg;

    host_count(1);
    host->callback(stream, status, host->params.user);
    host_count(-1);
}

static struct host_params
host_wrap(host_fn *fn, stream_callback *callback, void *user)
{
    struct host *host = malloc(sizeof(*host));

    if (!host)
        abort();
    *host = (struct host){{fn, user}, callback};
    return (struct host_params){host_run, host};
}

static void *
real_named(const char *name)
{
    unsigned i = 0;

    while (strcmp(faultdrv_names[i], name) != 0)
        i++;
    return real[i];
}

static int
launch_host_func(void *stream, host_fn *fn, void *user)
{
    int (*call)(void *, host_fn *, void *) = real_named("cuLaunchHostFunc");

    return call(stream, host_run, host_wrap(fn, NULL, user).user);
}

static int
stream_add_callback(void *stream, stream_callback *fn, void *user, unsigned flags)
{
    int (*call)(void *, stream_callback *, void *, unsigned) =
        real_named("cuStreamAddCallback");

    return call(stream, host_call_back, host_wrap(NULL, fn, user).user, flags);
}

static int
graph_add_host_node(void *node, void *graph, const void *deps, size_t n,
                    const struct host_params *params)
{
    int (*call)(void *, void *, const void *, size_t, const struct host_params *) =
        real_named("cuGraphAddHostNode");
    struct host_params ours = host_wrap(params->fn, NULL, params->user);

    return call(node, graph, deps, n, &ours);
}

static int
graph_host_node_set(void *node, const struct host_params *params)
{
    int (*call)(void *, const struct host_params *) =
        real_named("cuGraphHostNodeSetParams");
    struct host_params ours = host_wrap(params->fn, NULL, params->user);

    return call(node, &ours);
}

static int
graph_exec_host_node_set(void *exec, void *node, const struct host_params *params)
{
    int (*call)(void *, void *, const struct host_params *) =
        real_named("cuGraphExecHostNodeSetParams");
    struct host_params ours = host_wrap(params->fn, NULL, params->user);

    return call(exec, node, &ours);
}

static int
graph_host_node_get(void *node, struct host_params *ret)
{
    int (*call)(void *, struct host_params *) = real_named("cuGraphHostNodeGetParams");
    int r = call(node, ret);

    if (r == 0 && ret->fn == host_run)
        *ret = ((struct host *)ret->user)->params;
    return r;
}

static void *
hold_instead(const char *name)
{
    static const struct {
        const char *name;
        void *ours;
    } instead[] = {
        {"cuLaunchHostFunc", launch_host_func},
        {"cuStreamAddCallback", stream_add_callback},
        {"cuGraphAddHostNode", graph_add_host_node},
        {"cuGraphHostNodeSetParams", graph_host_node_set},
        {"cuGraphExecHostNodeSetParams", graph_exec_host_node_set},
        {"cuGraphHostNodeGetParams", graph_host_node_get},
    };

    for (size_t i = 0; i < sizeof(instead) / sizeof(instead[0]); i++)
        if (strcmp(name, instead[i].name) == 0)
            return instead[i].ours;
    return NULL;
}

static void *
ours_or_real(unsigned number)
{
    void *ours = faultdrv_ipc(faultdrv_names[number], real[number]);

    return ours ? ours : real[number];
}

static int
is_held(unsigned number)
{
    static const char *const stems[] = {"cuGraphLaunch", "cuEventRecord",
                                        "cuLaunchKernel"};
    char stem[FAULTDRV_NAME];

    if (control->stem[0])
        return is_meant(number);
    snprintf(stem, sizeof(stem), "%s", faultdrv_names[number]);
    faultdrv_stem(stem);
    for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++)
        if (strcmp(stem, stems[i]) == 0)
            return 1;
    return 0;
}

static void *
hold_pick(unsigned number)
{
    void *ours = hold_instead(faultdrv_names[number]);

    if (!real[number])
        return (void *)(uintptr_t)fail;
    if (is_held(number))
        host_await_all();
    return ours ? ours : ours_or_real(number);
}

/* The call may be made, though it is armed. */
static int
is_skipped(void)
{
    unsigned skip = atomic_load(&control->skip);

    while (skip && !atomic_compare_exchange_weak(&control->skip, &skip, skip - 1))
        continue;
    return skip != 0;
}

void *
faultdrv_pick(unsigned number)
{
    unsigned armed = 1;

    if (strcmp(faultdrv_names[number], "cuInit") == 0 && !starts()) {
        result = OPERATING_SYSTEM;
        return (void *)(uintptr_t)fail;
    }
    result = 801; /* it has no such function */
    if (atomic_load(&control->armed) == FAULTDRV_HOLD)
        return hold_pick(number);
    if (atomic_load(&control->armed) == FAULTDRV_DELAY) {
        if (real[number] && is_meant(number))
            usleep((useconds_t)control->result * 1000);
        return real[number] ? ours_or_real(number) : (void *)(uintptr_t)fail;
    }
    result = real[number] ? control->result : 801; /* it has no such function */
    if (atomic_load(&control->armed) && is_meant(number) &&
        (atomic_load(&control->armed) == FAULTDRV_ALWAYS ||
         (!is_skipped() &&
          atomic_compare_exchange_strong(&control->armed, &armed, 0)))) {
        if (control->late_ms)
            usleep(control->late_ms * 1000);
        return (void *)(uintptr_t)fail;
    }
    return real[number] ? ours_or_real(number) : (void *)(uintptr_t)fail;
}
