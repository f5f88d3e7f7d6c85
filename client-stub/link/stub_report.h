/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that returned an error, and calls that waited for the server, counted for
 * `gpupool doctor -- PROGRAM` (proto/wire_report.h), which names its file in
 * GPUPOOL_REPORT.  Any thread.
 */
#ifndef STUB_REPORT_H
#define STUB_REPORT_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* Calls are counted; written when the library is loaded. */
extern bool stub_reporting;

/* When the library is loaded; true when there is somebody to report to. */
bool stub_report_open(const char *path);

/* Around every exported call.  Calls that a call makes itself are not counted. */
void stub_report_enter(void);
void stub_report_leave(uint16_t call, CUresult result);

/* That call, which had returned, has failed since. */
void stub_report_deferred(uint16_t call, CUresult result);

#endif
