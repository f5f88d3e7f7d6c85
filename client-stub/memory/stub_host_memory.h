/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What page-locked and registered memory holds beside its entry in the registry, which
 * has been removed already (stub_memory.h).
 *
 * Any thread, under no lock.
 */
#ifndef STUB_HOST_MEMORY_H
#define STUB_HOST_MEMORY_H

#include <stdint.h>

struct stub_memory;

/* Copies of graphs that read or write memory of this process, however they are made. */
extern _Atomic uint32_t stub_host_memory_in_graphs;

/* Ends the pinning of the transports, and gives memory of cuMemHostAlloc back.  What
 * the servers had of it is gone. */
void stub_host_memory_end(const struct stub_memory *m);

/* @shown: the entry of the address that devices had for registered memory, of a range
 * that stub_unified.h holds. */
void stub_host_memory_hide(const struct stub_memory *shown);

#endif
