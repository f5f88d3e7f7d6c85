/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the current link's server tells of the changes that its devices have made to
 * shared memory: one question about all ranges, and the bytes of small changes in the
 * answer (internal to stub_managed.c).  The server has to know the call:
 * managed_runs_usable().  Locked by stub_managed.c.
 */
#ifndef STUB_MANAGED_TOLD_H
#define STUB_MANAGED_TOLD_H

#include "cuda_abi.h"

#include <stdbool.h>

struct managed_range;

/* Take over what the devices have changed in those @ranges that @is_asked holds for.
 * @idle: none of them has work. */
CUresult managed_told_receive(struct managed_range *ranges,
                              bool (*is_asked)(const struct managed_range *range),
                              CUstream stream, bool idle);

/* What the client has of those that @is_meant holds for is not what was agreed on any
 * more; nothing for servers that need no such word. */
CUresult managed_told_stale(struct managed_range *ranges,
                            bool (*is_meant)(const struct managed_range *range),
                            CUstream stream);

#endif
