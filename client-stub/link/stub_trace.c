/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_trace.h"

#include "gp_fsize.h"
#include "gp_time.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

bool stub_tracing;

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
    if (gp_fsize_write(STDERR_FILENO, line, (size_t)n) < 0)
        stub_tracing = false;
}
