/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a driver, one line of output each.
 *
 * `probes` prints what a driver answers where CUDA's documentation leaves it open, so
 * that the outputs of a real driver, of a slice of it and of a software card can be
 * compared line by line.  It judges nothing.  Each group of questions runs in a process
 * of its own, because a question may end the process: the line "GROUP: ended by signal
 * N" is the answer then.
 *
 *     probes [PART]     all groups, or those whose name contains PART
 */
#ifndef PROGRAMS_PROBES_H
#define PROGRAMS_PROBES_H

#include "cuda_api.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

struct probe {
    const char *name;
    void (*ask)(void);
};

extern const struct probe probes_faults[], probes_old[], probes_graphs[],
    probes_memory[], probes_objects[];
extern const size_t n_probes_faults, n_probes_old, n_probes_graphs, n_probes_memory,
    n_probes_objects;

/* The context, current, and the module that every group begins with. */
extern CUcontext probe_ctx;
extern CUmodule probe_module;

#define SAY(what, call) printf("  %s: %d\n", what, (int)(call))

/* What a question needs; when it fails, the group ends with a line. */
#define NEED(call)                                                                     \
    do {                                                                               \
        CUresult need_ = (call);                                                       \
        if (need_ != CUDA_SUCCESS) {                                                   \
            printf("  cannot be asked, %s: %d\n", #call, (int)need_);                  \
            return;                                                                    \
        }                                                                              \
    } while (0)

/* Initialise the driver; make the context and load the module. */
void probe_begin(void);
CUfunction probe_kernel(const char *name);

/* One thread. */
CUresult probe_launch(CUfunction f, void **params, CUstream stream);

#endif
