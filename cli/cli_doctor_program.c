/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_doctor_program.h"

#include "cuda_abi.h"
#include "gp_err.h"
#include "gp_fsize.h"
#include "wire_report.h"
#include "wire_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int
cli_program_open(struct cli_program *program, struct gp_err *err)
{
    char path[64];

    program->fd = memfd_create("gpupool-report", MFD_CLOEXEC);
    program->report = MAP_FAILED;
    if (program->fd >= 0 && gp_fsize_resize(program->fd, sizeof(*program->report)) == 0)
        program->report = mmap(NULL, sizeof(*program->report), PROT_READ | PROT_WRITE,
                               MAP_SHARED, program->fd, 0);
    if (program->report == MAP_FAILED) {
        int r = -errno;

        program->report = NULL;
        return gp_err_set(err, r, "no memory for a report: %s", strerror(-r));
    }
    program->report->magic = WIRE_REPORT_MAGIC;
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), program->fd);
    if (setenv("GPUPOOL_REPORT", path, 1) < 0)
        return gp_err_set(err, -ENOMEM, "out of memory");
    return 0;
}

void
cli_program_close(struct cli_program *program)
{
    unsetenv("GPUPOOL_REPORT");
    if (program->report)
        munmap(program->report, sizeof(*program->report));
    if (program->fd >= 0)
        close(program->fd);
    program->report = NULL;
    program->fd = -1;
}

unsigned
cli_program_processes(const struct cli_program *program)
{
    return atomic_load(&program->report->processes);
}

/* ---- words --------------------------------------------------------------------- */

struct advice {
    int code;
    const char *reason, *remedy;
};

static const struct advice advices[] = {
    {CUDA_ERROR_INVALID_VALUE, "the program passed something that no driver takes",
     "GPUPOOL_TRACE=1 prints its arguments"},
    {CUDA_ERROR_OUT_OF_MEMORY, "the session's memory is used up",
     "ask for more: gpupool run --memory; `gpupool status` says what is used"},
    {CUDA_ERROR_NOT_INITIALIZED, "made before cuInit, or after the program's end",
     NULL},
    {CUDA_ERROR_NO_DEVICE, "the program got no card",
     "the line on stderr says why; is CUDA_VISIBLE_DEVICES set?"},
    {CUDA_ERROR_INVALID_DEVICE, "the session has no such device",
     "it has as many as slices were asked for: gpupool run --core 200 gives two"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "the connection or the worker is gone",
     "the server's log says how it ended"},
    {CUDA_ERROR_INVALID_IMAGE,
     "the device code is damaged, or of a form not known here",
     "GPUPOOL_LOG=stub:warn says more"},
    {CUDA_ERROR_INVALID_CONTEXT, "no context is current, or the one named has ended",
     NULL},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "the program has no code for the server's card",
     "build it with PTX, or for the card's compute capability"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the server's driver is older than the PTX",
     "install a newer driver on the server"},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "these two cards do not reach each other",
     "ask for slices on one server"},
    {CUDA_ERROR_NOT_FOUND, "a name or attribute that is not there; programs often try",
     NULL},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel used memory that is not the card's",
     "host pointers must be mapped: cuMemHostGetDevicePointer, docs/managed.md"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "a block asks for more than the card has",
     NULL},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran longer than the server allows", NULL},
    {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
     "not all blocks fit on the multiprocessors of the slice at a time",
     "ask for a larger share"},
    {CUDA_ERROR_ASSERT, "a kernel's assertion failed; its words are on stderr", NULL},
    {CUDA_ERROR_NOT_PERMITTED, "the ticket or the state does not allow it", NULL},
    {CUDA_ERROR_NOT_SUPPORTED,
     "these arguments are not carried, or the server's driver or card cannot do it",
     "GPUPOOL_LOG=stub:warn and GPUPOOL_TRACE=1 say which"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "client and server are of different age",
     "install the same gpupool on both"},
};

static void
advise(struct cli_program_call *call, const struct wire_trace_call *known)
{
    for (size_t i = 0; i < ARRAY_SIZE(advices); i++)
        if (advices[i].code == call->code) {
            call->reason = advices[i].reason;
            call->remedy = advices[i].remedy;
        }
    if (!known || !known->refusal)
        return;
    call->refused = true;
    call->reason = known->refusal;
    call->remedy = "a program that needs it must run beside its card";
}

/* ---- reading ------------------------------------------------------------------- */

static int
compare(const void *left, const void *right)
{
    const struct cli_program_call *a = left, *b = right;
    int names;

    if (a->refused != b->refused)
        return a->refused ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    names = strcmp(a->call, b->call);
    return names ? names : a->code - b->code;
}

struct cli_program_call *
cli_program_calls(const struct cli_program *program, size_t *ret_n)
{
    struct cli_program_call *calls = calloc(WIRE_REPORT_SLOTS, sizeof(*calls));
    size_t n = 0;

    *ret_n = 0;
    for (size_t i = 0; calls && i < WIRE_REPORT_SLOTS; i++) {
        const struct wire_report_slot *slot = &program->report->slot[i];
        uint32_t what = atomic_load(&slot->what);
        const struct wire_trace_call *known = wire_call_find((uint16_t)(what >> 16));
        int code = (int)(what & 0xffff & ~WIRE_REPORT_DEFERRED);
        const char *result = wire_result_name((CUresult)code);

        if (!what)
            continue;
        calls[n] = (struct cli_program_call){
            .call = known ? known->name : "an unknown call",
            .result = result ? result : "an unknown error",
            .code = code,
            .deferred = what & WIRE_REPORT_DEFERRED,
            .count = atomic_load(&slot->count),
        };
        advise(&calls[n++], known);
    }
    if (!n) {
        free(calls);
        return NULL;
    }
    qsort(calls, n, sizeof(*calls), compare);
    *ret_n = n;
    return calls;
}

static int
compare_trips(const void *left, const void *right)
{
    const struct cli_program_trips *a = left, *b = right;

    if (a->trips != b->trips)
        return a->trips > b->trips ? -1 : 1;
    if (a->calls != b->calls)
        return a->calls > b->calls ? -1 : 1;
    return strcmp(a->call, b->call);
}

struct cli_program_trips *
cli_program_trips(const struct cli_program *program, size_t *ret_n)
{
    struct cli_program_trips *list = calloc(WIRE_REPORT_CALLS, sizeof(*list));
    size_t n = 0;

    *ret_n = 0;
    for (uint16_t number = 0; list && number < WIRE_REPORT_CALLS; number++) {
        const struct wire_report_call *entry = &program->report->call[number];
        const struct wire_trace_call *known = wire_call_find(number);
        uint64_t calls = atomic_load(&entry->calls);

        if (calls)
            list[n++] = (struct cli_program_trips){
                .call = known ? known->name : "an unknown call",
                .calls = calls,
                .trips = atomic_load(&entry->trips),
            };
    }
    if (!n) {
        free(list);
        return NULL;
    }
    qsort(list, n, sizeof(*list), compare_trips);
    *ret_n = n;
    return list;
}
