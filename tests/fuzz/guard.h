/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver may be given: no pointer and no handle that the client chose.
 *
 * The generated functions of guard_calls.c stand before a driver's and look at every
 * pointer and handle of their arguments and of the structures that those point to.  One
 * that is a number of the client's frames reached the driver without being looked up:
 * the program ends.  Handles that the driver gave are known, whatever their value; of
 * textures, surfaces and resources only those that it made may reach it.  Addresses in
 * memory that the worker has mapped where the client has it too (wrk_unified.h) may.
 * Device addresses are the driver's to check.  Test code; the reader's thread.
 */
#ifndef GUARD_H
#define GUARD_H

#include "cuda_abi.h"

#include <stddef.h>
#include <stdint.h>

struct drv;
struct wrk;

/* Stand before the functions of @drv, for good. */
void guard_prefer(struct drv *drv);

/* From now on the client has sent these @size bytes and nothing else. */
void guard_begin(const void *frames, size_t size);
/* It has gone: the next one may agree on a range of addresses of its own. */
void guard_end(struct wrk *w);

/* For the generated functions. */
void guard_call(const char *name);
void guard_pointer(const char *what, uint64_t value);
void guard_handle(const char *what, uint64_t value);
void guard_given(uint64_t handle);
void guard_made(uint64_t object); /* a texture or a surface */
void guard_object(const char *what, uint64_t object);
void guard_made_resource(const CUdevResource *resource);
void guard_resource(const CUdevResource *resource);
uintptr_t guard_new(void); /* a handle that no driver gave; nothing follows it */
void guard_memory_type(int type);
void guard_attribute(int id, const CUlaunchAttributeValue *value);
void guard_node(const CUgraphNodeParams *node);

static inline uint64_t
guard_minus(uint64_t n, uint64_t less)
{
    return n > less ? n - less : 0;
}

#endif
