/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which CUDA driver stands behind the worker: a library, opened by name.
 *
 * The driver API is the only interface to a backend; a second one would have to
 * be kept equal for ever.  Opened once, never closed (drivers do not like it).
 */
#ifndef WRK_DRIVER_H
#define WRK_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

struct drv;
struct gp_err;

/* @name: "softgpu" or "null" (beside the program, in ../lib), "cuda" (the
 * system's libcuda.so.1), or a path. */
int wrk_driver_open(const char *name, struct drv *drv, struct gp_err *err);

/* Before cuInit: a client with several servers needs addresses that differ.  softgpu
 * takes them from the part that the client's number of us tells; a driver without such
 * a setting may hand out what another server's does, which the client notices. */
void wrk_driver_place(uint32_t links, uint32_t link);

/* An entry of the open driver that is none of CUDA's; NULL when it has none such. */
void *wrk_driver_symbol(const char *name);

/* The file of the open driver, into @path of PATH_MAX bytes; false: not known. */
bool wrk_driver_file(char *path);

#endif
