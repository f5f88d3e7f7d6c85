/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's changes of shared memory in frames of their own: many small ones in one
 * frame (internal to stub_managed.c).  Everything is about the current link's server,
 * which has to know the calls: managed_runs_usable().  Locked by stub_managed.c.
 */
#ifndef STUB_MANAGED_RUNS_H
#define STUB_MANAGED_RUNS_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

bool managed_runs_usable(void);

/* The server knows changes by digests of what both ends agreed on, and has to be told
 * when the client has something else: managed_runs_stale(). */
bool managed_runs_digests(void);

/* A frame that fills: the copies will be made by way of @stream.  @quiet: the devices
 * have no work, so both ends agree on what is sent. */
void managed_runs_open(CUstream stream, bool quiet);
/* Send @n bytes to @dev; work that is sent behind it finds them. */
CUresult managed_runs_bytes(uint64_t dev, const uint8_t *bytes, uint64_t n);
/* Both ends have the same bytes, once the copies in the stream are complete. */
CUresult managed_runs_agreed(uint64_t dev, uint64_t n);
/* The client's bytes there have changed otherwise; nothing for servers that need no
 * such word. */
CUresult managed_runs_stale(uint64_t dev, uint64_t n);
CUresult managed_runs_close(void);

/* One agreement, in a frame by itself. */
CUresult managed_runs_agree(uint64_t dev, uint64_t n, CUstream stream);

#endif
