/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of variables of modules and libraries, counted against the session before
 * a driver loads them.
 *
 * A module's variables are in its context.  A library's come into being in each context
 * that uses it, at a moment that only the driver knows; so they count in every context
 * there is, and in each that is made while the library is loaded.  How many bytes they
 * are is read from the image (image_variables.h).
 *
 * What is counted is noted in the quota (wrk_quota.h) with its context.  Receive
 * thread, but for wrk_variables_unloaded().
 */
#ifndef WRK_VARIABLES_H
#define WRK_VARIABLES_H

#include "cuda_abi.h"

#include <stdint.h>

struct wrk;
struct wrk_image;

/* @image, or what its @parts make up, is about to be loaded as module or library @id.
 * CUDA_ERROR_OUT_OF_MEMORY: its variables are more than the session has; nothing is
 * counted. */
CUresult wrk_variables_take_module(struct wrk *w, uint64_t id, struct wrk_image *image,
                                   const unsigned long long *parts, uint32_t n_parts);
CUresult wrk_variables_take_library(struct wrk *w, uint64_t id, struct wrk_image *image,
                                    const unsigned long long *parts, uint32_t n_parts);

/* The driver has loaded library @id, which is @object, or has not loaded what was
 * taken. */
void wrk_variables_loaded(uint64_t id, const void *object);
void wrk_variables_module_failed(struct wrk *w, uint64_t id);
void wrk_variables_library_failed(struct wrk *w, uint64_t id);

/* What names the variables of library @object until they have ended; 0: it has none. */
uint64_t wrk_variables_of_library(const void *object);

/* The driver has unloaded that library: any thread.  A module's end with the entry of
 * its id (wrk_quota_end_begins()). */
void wrk_variables_unloaded(struct wrk *w, uint64_t serial);

/* Library @object is about to be unloaded: contexts that are made from now on do not
 * have its variables. */
void wrk_variables_forget(const void *object);

/* Context @index of @slice is about to be made: the variables of all libraries.
 * CUDA_ERROR_OUT_OF_MEMORY as above.  If the driver does not make it, they are given
 * back by the other one. */
CUresult wrk_variables_take_ctx(struct wrk *w, uint32_t index, uint32_t slice);
void wrk_variables_give_ctx(struct wrk *w, uint32_t index);

#endif
