/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_report.h"

#include "gp_base.h"
#include "stub_tls.h"
#include "wire_report.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

bool stub_reporting;

static struct wire_report *report;

bool
stub_report_open(const char *path)
{
    CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;
    void *at;

    if (fd < 0 || fstat(fd, &st) < 0 || (size_t)st.st_size < sizeof(*report))
        return false;
    at = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return false;
    report = at;
    if (report->magic != WIRE_REPORT_MAGIC) {
        munmap(at, sizeof(*report));
        report = NULL;
        return false;
    }
    atomic_fetch_add(&report->processes, 1);
    return true;
}

void
stub_report_enter(void)
{
    if (stub_tls.nested++ == 0)
        stub_tls.trips = 0;
}

void
stub_report_leave(uint16_t call, CUresult result)
{
    if (--stub_tls.nested || !report)
        return;
    wire_report_call_made(report, call, stub_tls.trips);
    /* "Not ready" is what a query is for. */
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        wire_report_add(report, call, (uint16_t)result);
}

void
stub_report_deferred(uint16_t call, CUresult result)
{
    if (report)
        wire_report_add(report, call, (uint16_t)result | WIRE_REPORT_DEFERRED);
}
