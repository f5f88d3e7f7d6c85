/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels ask of a runtime: printf, assert, malloc, and the workspace of a
 * cooperative launch.
 *
 * One per context.  Text is collected and comes out when the host synchronises:
 * on stdout and stderr of this process, or through the hook that a pool server
 * sets.  Lock held for all functions; sg_output_flush() drops it while it writes.
 */
#ifndef SG_OUTPUT_H
#define SG_OUTPUT_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_ctx;
struct sg_hooks;
struct sg_output;

/* @fd is 1 (printf) or 2 (assert).  Called from the thread that synchronises,
 * without any lock of the library. */
typedef void (*sg_output_fn)(void *user, CUcontext ctx, int fd, const char *text,
                             size_t len);

/* Exported, a private entry of softgpu.  NULL: back to stdout and stderr. */
void sg_set_output_hook(sg_output_fn fn, void *user);

/* Exported, a private entry of softgpu: the program that a hook belongs to ends.
 * Kernels are not waited for.  What contexts have to say, and what was not freed, goes
 * to the hook; @line gets the last line, empty if it is in the log, @counts errors and
 * allocations.  0: nothing is checked, as with @line NULL, which only asks. */
int sg_check_end(char *line, size_t size, uint64_t counts[2]);

/* With the context (sg_ctx_part). */
CUresult sg_output_begin(struct sg_ctx *ctx);
void sg_output_end(struct sg_ctx *ctx);
/* What cudaGraphSetConditional() of a kernel does; called without the lock. */
void sg_output_on_condition(void (*fn)(void *user, uint64_t handle, uint32_t value));
void sg_output_hooks(struct sg_ctx *ctx, struct sg_hooks *ret_hooks);
void sg_output_flush(struct sg_ctx *ctx);

/* A line for the user's stderr where a hook leads there; elsewhere the log does.  Takes
 * the lock for itself. */
void sg_output_say(const char *words);

/* Lines for the user's stderr, wherever @ctx (NULL: the process) is used from.  Called
 * without the lock. */
void sg_output_tell(struct sg_ctx *ctx, const char *text, size_t len);

/* The limit can no longer change: its buffer exists. */
bool sg_output_in_use(const struct sg_output *out, CUlimit limit);

/* What kernels have by malloc() at @addr: its size, 0 if it is not the start of such a
 * block.  Its end, as by free(). */
uint64_t sg_output_heap_size(const struct sg_ctx *ctx, uint64_t addr);
void sg_output_heap_free(struct sg_ctx *ctx, uint64_t addr);

/* 64 zeroed bytes of device memory; 0: none left. */
uint64_t sg_output_workspace_take(struct sg_ctx *ctx);
void sg_output_workspace_give(struct sg_ctx *ctx, uint64_t addr);

#endif
