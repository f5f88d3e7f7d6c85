/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freeing the memory of a context that ends, with everything that each kind of memory
 * holds elsewhere.
 *
 * Above the registry (stub_memory.h), which has only the entries.  Any thread.
 */
#ifndef STUB_MEMORY_END_H
#define STUB_MEMORY_END_H

#include <stdint.h>

struct stub_feature;

/* A context ended: its device memory is gone, its host memory is given back. */
void stub_memory_drop_ctx(uint64_t ctx_unique);

/* Does so when a context ends (stub_hooks.h). */
extern const struct stub_feature stub_memory_feature;

#endif
