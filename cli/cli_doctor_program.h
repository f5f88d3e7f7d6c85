/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program met under `gpupool doctor -- PROGRAM`: the calls that were refused or
 * failed, with reason and remedy, and how often each call waited for the server.
 *
 * The counters are in memory that the program's processes share (proto/wire_report.h),
 * found by them in GPUPOOL_REPORT.  One thread.
 */
#ifndef CLI_DOCTOR_PROGRAM_H
#define CLI_DOCTOR_PROGRAM_H

#include "gp_base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct wire_report;

struct cli_program {
    int fd;
    struct wire_report *report;
};

/* One call that failed with one result. */
struct cli_program_call {
    const char *call;
    const char *result; /* CUDA_ERROR_... */
    int code;
    unsigned count;
    bool refused;  /* gpupool carries it never, whatever the arguments */
    bool deferred; /* it had returned; the next call that waited returned the error */
    const char *reason, *remedy;
};

/* Make the memory and name it in the environment. */
int cli_program_open(struct cli_program *program, struct gp_err *err);
void cli_program_close(struct cli_program *program);

/* Processes that loaded the client library. */
unsigned cli_program_processes(const struct cli_program *program);

/* Every entry, refused calls first, then by how often; malloc'ed, NULL when there is
 * none or no memory. */
struct cli_program_call *cli_program_calls(const struct cli_program *program,
                                           size_t *ret_n);

/* How often one call was made, and how many round trips it waited for. */
struct cli_program_trips {
    const char *call;
    uint64_t calls, trips;
};

/* Every call that was made, those with most round trips first; malloc'ed, NULL when
 * there is none or no memory. */
struct cli_program_trips *cli_program_trips(const struct cli_program *program,
                                            size_t *ret_n);

#endif
