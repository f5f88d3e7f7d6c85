/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layers of a worker's sandbox are told (wrk_sandbox.h): filled in by
 * wrk_main.c from the worker's configuration, read by each layer once.  Main thread.
 */
#ifndef WRK_SANDBOX_CONF_H
#define WRK_SANDBOX_CONF_H

#include <stdbool.h>
#include <stdint.h>

struct wrk_sandbox {
    const char *user;     /* name or number; "": stay */
    const char *exports;  /* folder of the session on a software card, or "" */
    const char *readable; /* further paths, with colons between */
    uint64_t memory;      /* private memory beside the driver's at start; 0: no limit */
    uint64_t file_bytes;  /* of any one file; 0: no limit */
    bool own_user;        /* nobody but this session's workers is @user */
    bool soft;            /* the driver is software: no devices, no code made late */
    bool log;             /* system calls beyond the list are logged, not denied */
};

#endif
