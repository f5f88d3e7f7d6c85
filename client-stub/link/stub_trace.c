/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of GPUPOOL_TRACE=1, and the calls that are not supported.
 */
#include "gp_log.h"
#include "gp_time.h"
#include "stub_call.h"
#include "wire_trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

GP_HOT_DATA bool stub_slow;
bool stub_tracing, stub_reporting;

/* One write(2) per line: threads and processes do not mix within one. */
void
stub_trace(const char *fmt, ...)
{
    uint64_t us = gp_now_ns() / GP_NS_PER_US;
    char line[2048];
    va_list args;
    int n, m;

    n = snprintf(line, sizeof(line), "[%ld %" PRIu64 ".%06" PRIu64 "] ",
                 syscall(SYS_gettid), us / 1000000, us % 1000000);
    va_start(args, fmt);
    m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, args);
    va_end(args);
    if (m < 0)
        return;
    n = gp_min(n + m, (int)sizeof(line) - 2);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        stub_tracing = false;
}

#define CALL_NUMBERS 65536u

static _Atomic uint64_t refused_total;
static _Atomic uint8_t refused[CALL_NUMBERS / 8];

CUresult
stub_unsupported(uint16_t call)
{
    uint8_t bit = (uint8_t)(1u << (call & 7));
    const char *name;

    atomic_fetch_add_explicit(&refused_total, 1, memory_order_relaxed);
    if (atomic_fetch_or(&refused[call >> 3], bit) & bit)
        return CUDA_ERROR_NOT_SUPPORTED;
    name = wire_call_name(call);
    gp_log_warn("stub", "%s (call 0x%04x) is not carried by gpupool",
                name ? name : "unknown call", call);
    return CUDA_ERROR_NOT_SUPPORTED;
}
