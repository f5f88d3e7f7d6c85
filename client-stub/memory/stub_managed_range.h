/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One range of shared memory and the moves between its two copies (internal to
 * stub_managed.c).
 *
 * The shadow is what host and card last agreed on.  The host's changes are where its
 * memory differs from the shadow, the card's are where the downloaded bytes do; a
 * byte that both changed is the host's.  Locked by stub_managed.c.
 */
#ifndef STUB_MANAGED_RANGE_H
#define STUB_MANAGED_RANGE_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct managed_range {
    struct managed_range *next;
    uint64_t dev;
    uint64_t ctx; /* handle of the context that it ends with */
    uint64_t size;
    uint8_t *host;
    uint8_t *shadow;
    bool own;   /* the host's pages were made for it */
    bool eager; /* the host may write while the card works */
};

/* @host NULL: pages at the server's address.  NULL: no memory or no such place. */
struct managed_range *managed_range_new(uint64_t dev, uint8_t *host, uint64_t size);
void managed_range_free(struct managed_range *range);

/* Queue the upload of what the host changed into @stream; *@sent when there was any. */
CUresult managed_range_up(struct managed_range *range, CUstream stream, bool *sent);

/* Fetch everything by way of @stream and take over what the card changed. */
CUresult managed_range_down(struct managed_range *range, CUstream stream);

#endif
