/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUPOOL_TRACE=1: one whole line on stderr per call, printed by the generated wrappers
 * from their argument tables, and lines of what happens between calls.  Any thread.
 */
#ifndef STUB_TRACE_H
#define STUB_TRACE_H

#include "gp_base.h"

#include <stdbool.h>

/* Written when the library is loaded, and when stderr takes no more. */
extern bool stub_tracing;

/* The line, without its end, behind thread and time; one write(2). */
void stub_trace(const char *fmt, ...) GP_PRINTF(1, 2);

#endif
