/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of SOFTGPU_CHECK; see sg_check.h.
 *
 * A finding is the same as another one if its kind, its kernel and the line of its
 * instruction are; it is told once and counted.
 */
#include "sg_check.h"

#include "gp_err.h"
#include "sg_exec.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_KNOWN = 4096, /* findings that are told; more are counted */
    MAX_LEAKS = 100,  /* the same of allocations */
    NAME_MAX_SHOWN = 256,
};

struct known {
    enum sg_finding_kind kind;
    uint32_t line;
    uint64_t kernel; /* hash of its name */
    uint64_t count;
};

static struct {
    unsigned flags;
    int log;       /* -1: the user's stderr */
    int exit_code; /* of a process with errors; 0: its own */
    pid_t pid;
    void (*leaks)(void);
    pthread_mutex_t lock; /* of what follows */
    struct known *known;
    size_t n_known, cap_known;
    uint64_t n_errors, n_leaks;
} state = {.log = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

int
sg_check_init(const struct sg_conf *conf, void (*leaks)(void), struct gp_err *err)
{
    if (!conf->check)
        return 0;
    if (conf->check_log[0]) {
        state.log =
            open(conf->check_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (state.log < 0)
            return gp_err_set(err, -errno, "SOFTGPU_CHECK_LOG=%s: %s", conf->check_log,
                              strerror(errno));
    }
    state.exit_code = (int)conf->check_exit;
    state.pid = getpid();
    state.leaks = leaks;
    state.flags = conf->check;
    return 0;
}

unsigned
sg_check_flags(void)
{
    return state.flags;
}

/* ------------------------------------------------------------------------ text */

static uint64_t
hash_text(const char *s)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
    return h;
}

/* Without the tags that compilers of other languages put into names: f[abi:x1](int). */
static void
drop_tags(char *name)
{
    char *tag, *end;

    while ((tag = strstr(name, "[abi:")) && (end = strchr(tag, ']')))
        memmove(tag, end + 1, strlen(end + 1) + 1);
}

/* A C++ name as its source has it, if the process knows how to tell. */
static const char *
readable_name(const char *name, char buffer[NAME_MAX_SHOWN])
{
    char *(*demangle)(const char *, char *, size_t *, int *);
    void *symbol =
        strncmp(name, "_Z", 2) ? NULL : dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *text;
    int status;

    if (!symbol)
        return name;
    demangle = (__typeof__(demangle))(uintptr_t)symbol;
    text = demangle(name, NULL, NULL, &status);
    if (!text)
        return name;
    drop_tags(text);
    snprintf(buffer, NAME_MAX_SHOWN, "%s", text);
    free(text);
    return buffer;
}

static void
write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

/* What is left to tell the user. */
static size_t
tell(const char *text, size_t len)
{
    if (state.log < 0)
        return len;
    write_all(state.log, text, len);
    return 0;
}

#define PREFIX "gpupool: softgpu check: "

/* ---------------------------------------------------------------------- counting */

/* Lock held.  Whether it is new. */
static bool
remember(const struct sg_finding *f)
{
    struct known now = {f->kind, f->at.line, hash_text(f->kernel), 1};
    struct known *p;

    state.n_errors++;
    for (size_t i = 0; i < state.n_known; i++) {
        p = &state.known[i];
        if (p->kind == now.kind && p->line == now.line && p->kernel == now.kernel) {
            p->count++;
            return false;
        }
    }
    if (state.n_known == MAX_KNOWN)
        return false;
    if (state.n_known == state.cap_known) {
        size_t cap = state.cap_known ? state.cap_known * 2 : 64;

        p = reallocarray(state.known, cap, sizeof(*p));
        if (!p)
            return false;
        state.known = p;
        state.cap_known = cap;
    }
    state.known[state.n_known++] = now;
    return true;
}

size_t
sg_check_note(const struct sg_finding *finding, char text[SG_CHECK_TEXT])
{
    char name[NAME_MAX_SHOWN];
    struct sg_finding f = *finding;
    const size_t at = sizeof(PREFIX) - 1;
    bool is_new;

    pthread_mutex_lock(&state.lock);
    is_new = remember(finding);
    pthread_mutex_unlock(&state.lock);
    if (!is_new)
        return 0;
    f.kernel = readable_name(finding->kernel, name);
    memcpy(text, PREFIX, at);
    return tell(text, at + sg_finding_print(&f, text + at, SG_CHECK_TEXT - at));
}

size_t
sg_check_leak(const char *what, char text[SG_CHECK_TEXT])
{
    int n = snprintf(text, SG_CHECK_TEXT, PREFIX "leak: %s\n", what);
    bool is_told;

    pthread_mutex_lock(&state.lock);
    is_told = state.n_leaks++ < MAX_LEAKS;
    pthread_mutex_unlock(&state.lock);
    return n < 0 || !is_told ? 0
                             : tell(text, gp_min((size_t)n, (size_t)SG_CHECK_TEXT - 1));
}

/* -------------------------------------------------------------------------- end */

static const char *
plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

size_t
sg_check_summary(char *text, size_t size, struct sg_check_counts *counts)
{
    int n;

    pthread_mutex_lock(&state.lock);
    n = snprintf(text, size,
                 PREFIX "%" PRIu64 " error%s in %zu place%s, %" PRIu64
                        " allocation%s not freed%s\n",
                 state.n_errors, plural(state.n_errors), state.n_known,
                 plural(state.n_known), state.n_leaks, plural(state.n_leaks),
                 state.n_leaks > MAX_LEAKS ? ", the first 100 of them named" : "");
    *counts = (struct sg_check_counts){state.n_errors, state.n_leaks};
    pthread_mutex_unlock(&state.lock);
    return n < 0 ? 0 : tell(text, gp_min((size_t)n, size - 1));
}

__attribute__((destructor)) static void
report_at_end(void)
{
    struct sg_check_counts counts;
    char text[256];
    size_t len;

    if (!state.flags || state.pid != getpid()) /* a child has no findings of its own */
        return;
    if (state.leaks && state.flags & SG_CHECK_LEAKS)
        state.leaks();
    len = sg_check_summary(text, sizeof(text), &counts);
    write_all(STDERR_FILENO, text, len);
    if (state.exit_code && counts.errors + counts.leaks) {
        fflush(NULL);
        _exit(state.exit_code);
    }
}
