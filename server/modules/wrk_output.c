/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_output.h"

#include "gp_base.h"
#include "gp_log.h"
#include "wrk.h"
#include "wrk_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Text of one event; longer text comes in several. */
#define PIECE_MAX (32u * 1024)

/* The hook as softgpu declares it. */
struct output_hook {
    void (*set)(void (*fn)(void *user, CUcontext ctx, int fd, const char *text,
                           size_t len),
                void *user);
};

static void
send_text(struct wrk *w, int fd, const char *text, size_t len)
{
    while (len) {
        uint32_t n = (uint32_t)gp_min(len, (size_t)PIECE_MAX);
        struct wire_event_output event = {.fd = (uint32_t)fd, .len = n};

        wrk_unsolicited(w, WIRE_EVENT_OUTPUT, &event, sizeof(event), text, n);
        text += n;
        len -= n;
    }
}

/* What the driver, or the worker, has to tell the program's user. */
static void
send_cause(struct wrk *w, const char *text, size_t len)
{
    struct wire_event_cause event = {.len = (uint32_t)gp_min(len, (size_t)PIECE_MAX)};

    send_text(w, STDERR_FILENO, text, len);
    wrk_unsolicited(w, WIRE_EVENT_CAUSE, &event, sizeof(event), text, event.len);
}

void
wrk_output_say(struct wrk *w, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n > 0)
        send_cause(w, text, gp_min((size_t)n, sizeof(text) - 1));
}

/* What belongs to no context is not a kernel's: softgpu says why it refuses an image.
 */
static void
on_text(void *user, CUcontext ctx, int fd, const char *text, size_t len)
{
    if (ctx)
        send_text(user, fd, text, len);
    else
        send_cause(user, text, len);
}

static bool
hook_driver(struct wrk *w)
{
    struct output_hook hook;
    void *symbol = wrk_driver_symbol("sg_set_output_hook");

    if (!symbol)
        return false;
    hook.set = (__typeof__(hook.set))(uintptr_t)symbol;
    hook.set(on_text, w);
    return true;
}

/* ---- checks ---- */

static int (*driver_check_end)(char *line, size_t size, uint64_t counts[2]);

static void
find_check(void)
{
    void *symbol = wrk_driver_symbol("sg_check_end");

    driver_check_end = (__typeof__(driver_check_end))(uintptr_t)symbol;
}

bool
wrk_output_is_checked(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_check);
    return driver_check_end && driver_check_end(NULL, 0, NULL);
}

void
wrk_output_check_end(struct wrk *w, uint64_t counts[2])
{
    char line[512] = "";

    counts[0] = counts[1] = 0;
    if (wrk_output_is_checked() && driver_check_end(line, sizeof(line), counts))
        send_text(w, STDERR_FILENO, line, strlen(line));
}

/* ---- drivers without a hook ---- */

static ssize_t
on_stdout(void *w, const char *text, size_t len)
{
    send_text(w, STDOUT_FILENO, text, len);
    return (ssize_t)len;
}

static ssize_t
on_stderr(void *w, const char *text, size_t len)
{
    send_text(w, STDERR_FILENO, text, len);
    return (ssize_t)len;
}

/* The C library's streams are variables, which the driver reads when it prints.  They
 * are unbuffered, because it is unknown when a driver flushes, if at all. */
static bool
take_stream(FILE **stream, struct wrk *w, cookie_write_function_t *write)
{
    FILE *ours = fopencookie(w, "w", (cookie_io_functions_t){.write = write});

    if (!ours)
        return false;
    setvbuf(ours, NULL, _IONBF, 0);
    *stream = ours;
    return true;
}

struct pump {
    struct wrk *w;
    int fd;
};

static void *
pump_main(void *arg)
{
    struct pump pump = *(struct pump *)arg;
    char text[4096];
    ssize_t n;

    free(arg);
    while ((n = read(pump.fd, text, sizeof(text))) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            send_text(pump.w, STDOUT_FILENO, text, (size_t)n);
    close(pump.fd);
    return NULL;
}

static bool
pump_start(struct wrk *w)
{
    struct pump *pump = malloc(sizeof(*pump));
    pthread_t thread;
    int ends[2];
    bool ok;

    if (!pump || pipe2(ends, O_CLOEXEC) < 0) {
        free(pump);
        return false;
    }
    *pump = (struct pump){w, ends[0]};
    ok = dup2(ends[1], STDOUT_FILENO) >= 0 &&
         pthread_create(&thread, NULL, pump_main, pump) == 0;
    close(ends[1]);
    if (ok) {
        pthread_detach(thread);
    } else {
        close(ends[0]);
        free(pump);
    }
    return ok;
}

void
wrk_output_start(struct wrk *w)
{
    if (hook_driver(w))
        return;
    if (!take_stream(&stdout, w, on_stdout) || !take_stream(&stderr, w, on_stderr) ||
        !pump_start(w))
        gp_log_warn("worker", "what kernels print is lost: %s", strerror(errno));
}
