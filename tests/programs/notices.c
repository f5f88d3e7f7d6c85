/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver says unsolicited: lines of its log, and notifications about memory.
 *
 * Callbacks come on whatever thread; what is printed are counts and words that are the
 * same everywhere.  The card's memory budget is 64 MiB (SOFTGPU_MEMORY_BUDGET).
 */
#include "parts.h"
#include "strict.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static CUcontext ctx;
static CUmodule module;
static bool strict;

/* What one callback has heard. */
struct heard {
    _Atomic unsigned count;
    char last[256];
    unsigned long long bytes;
    bool handle_ok;
    CUasyncCallbackHandle handle;
};

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry nothing() { ret; }\n";

/* Until @n have come; false when they do not. */
static bool
comes(struct heard *heard, unsigned n)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < 30000 && atomic_load(&heard->count) < n; i++)
        nanosleep(&pause, NULL);
    return atomic_load(&heard->count) == n;
}

static void
on_line(void *data, CUlogLevel level, char *message, size_t length)
{
    struct heard *heard = data;

    snprintf(heard->last, sizeof(heard->last), "%d %.*s", (int)level, (int)length,
             message);
    atomic_fetch_add(&heard->count, 1);
}

static void
on_budget(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
    struct heard *heard = data;

    heard->handle_ok =
        info->type == CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET && handle == heard->handle;
    heard->bytes = info->info.overBudget.bytesOverBudget;
    atomic_fetch_add(&heard->count, 1);
}

/* A call that the driver refuses. */
static CUresult
fail(void)
{
    CUfunction f;

    return cuModuleGetFunction(&f, module, "missing");
}

static int
lines_come_to_every_callback(void)
{
    static struct heard a, b;
    CUlogsCallbackHandle ha = NULL, hb = NULL;

    TRY(cuLogsRegisterCallback(on_line, &a, &ha));
    TRY(cuLogsRegisterCallback(on_line, &b, &hb));
    SAME(ha != hb, 1);
    CODE(fail(), CUDA_ERROR_NOT_FOUND);
    SAME(comes(&a, 1), 1);
    SAME(comes(&b, 1), 1);
    printf("%s\n%s\n", a.last, b.last);
    TRY(cuLogsUnregisterCallback(ha));
    CODE(fail(), CUDA_ERROR_NOT_FOUND);
    SAME(comes(&b, 2), 1);
    SAME(atomic_load(&a.count), 1);
    TRY(cuLogsUnregisterCallback(hb));
    if (strict)
        CODE(cuLogsUnregisterCallback(hb), CUDA_ERROR_INVALID_VALUE);
    CODE(cuLogsUnregisterCallback(NULL), CUDA_ERROR_INVALID_VALUE);
    CODE(cuLogsRegisterCallback(NULL, NULL, &ha), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int
the_log_can_be_read(void)
{
    char text[4096] = "", small[8] = "x", path[] = "/tmp/noticesXXXXXX";
    size_t size = sizeof(text), room = sizeof(small);
    CUlogIterator from, again;
    int fd = mkstemp(path);
    ssize_t n;

    TRY(cuLogsCurrent(&from, 0));
    again = from;
    CODE(fail(), CUDA_ERROR_NOT_FOUND);
    TRY(cuLogsDumpToMemory(&from, text, &size, 0));
    SAME(size, strlen(text));
    printf("%s", text);
    size = sizeof(text);
    TRY(cuLogsDumpToMemory(&from, text, &size, 0));
    SAME(size, 0);
    TRY(cuLogsDumpToMemory(&from, small, &room, 0));
    SAME(small[0], 0);
    TRY(cuLogsDumpToFile(&again, path, 0));
    n = read(fd, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = 0;
    printf("%s", text);
    close(fd);
    unlink(path);
    CODE(cuLogsCurrent(&from, 1), CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int
a_budget_is_noticed_each_time_it_is_passed(void)
{
    static struct heard heard, other;
    CUasyncCallbackHandle gone;
    CUdeviceptr a, b;

    TRY(cuDeviceRegisterAsyncNotification(0, on_budget, &other, &other.handle));
    TRY(cuDeviceRegisterAsyncNotification(0, on_budget, &heard, &heard.handle));
    TRY(cuMemAlloc_v2(&a, 40 * MIB));
    TRY(cuMemAlloc_v2(&b, 40 * MIB));
    SAME(comes(&heard, 1), 1);
    SAME(comes(&other, 1), 1);
    SAME(heard.handle_ok && other.handle_ok, 1);
    SAME(heard.bytes >= 16 * MIB && heard.bytes < 40 * MIB, 1);
    TRY(cuMemFree_v2(b));
    gone = other.handle;
    TRY(cuDeviceUnregisterAsyncNotification(0, gone));
    TRY(cuMemAlloc_v2(&b, 40 * MIB));
    SAME(comes(&heard, 2), 1);
    SAME(atomic_load(&other.count), 1);
    TRY(cuMemFree_v2(a));
    TRY(cuMemFree_v2(b));
    TRY(cuDeviceUnregisterAsyncNotification(0, heard.handle));
    if (strict)
        CODE(cuDeviceUnregisterAsyncNotification(0, gone), CUDA_ERROR_INVALID_VALUE);
    CODE(cuDeviceRegisterAsyncNotification(99, on_budget, NULL, &gone),
         CUDA_ERROR_INVALID_DEVICE);
    CODE(cuDeviceRegisterAsyncNotification(0, NULL, NULL, &gone),
         CUDA_ERROR_INVALID_VALUE);
    return 0;
}

/* A callback may take itself away, and make calls. */
static CUlogsCallbackHandle own;
static _Atomic int own_result = -1;

static void
on_line_leave(void *data, CUlogLevel level, char *message, size_t length)
{
    CUresult r = cuLogsUnregisterCallback(own);

    on_line(data, level, message, length);
    atomic_store(&own_result, (int)r);
}

static int
a_callback_takes_itself_away(void)
{
    static struct heard heard, last;
    CUlogsCallbackHandle handle;

    TRY(cuLogsRegisterCallback(on_line_leave, &heard, &own));
    CODE(fail(), CUDA_ERROR_NOT_FOUND);
    SAME(comes(&heard, 1), 1);
    TRY(cuLogsRegisterCallback(on_line, &last, &handle));
    CODE(fail(), CUDA_ERROR_NOT_FOUND);
    SAME(comes(&last, 1), 1);
    SAME(atomic_load(&own_result), 0);
    SAME(atomic_load(&heard.count), 1);
    TRY(cuLogsUnregisterCallback(handle));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"lines come to every callback", lines_come_to_every_callback},
        {"the log can be read", the_log_can_be_read},
        {"a callback takes itself away", a_callback_takes_itself_away},
        {"a budget is noticed each time it is passed",
         a_budget_is_noticed_each_time_it_is_passed}, /* a driver has none */
    };
    const size_t n = sizeof(parts) / sizeof(parts[0]);

    strict = strict_asked(argc, argv);

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
        cuModuleLoadData(&module, ptx) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, strict ? n : n - 1);
}
