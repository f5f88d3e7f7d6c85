/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver behind the worker: a library, opened by name.
 *
 * The driver API is the only interface to a backend, because a second one would have to
 * be kept equal for ever.  Opened once and never closed, which drivers do not support
 * well.
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

/* The driver does not start, by @result of cuInit(): -ENODEV, with its name for that
 * and what an operator can do about it. */
int wrk_driver_refused(const char *name, const struct drv *drv, int result,
                       struct gp_err *err);

/* Before cuInit.  A client with several servers needs GPU addresses that differ between
 * them.  softgpu takes them from a range that depends on the server's number at the
 * client; a driver without such a setting may return an address that another server
 * uses, which the client detects. */
void wrk_driver_place(uint32_t links, uint32_t link);

/* An entry of the open driver that is none of CUDA's; NULL when it has none such. */
void *wrk_driver_symbol(const char *name);

/* The file of the open driver, into @path of PATH_MAX bytes; false: not known. */
bool wrk_driver_file(char *path);

/* The NVML of driver @name, which is open: its own, or the system's for the system's
 * CUDA driver.  NULL: none. */
void *wrk_driver_nvml(const char *name);

#endif
