/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One range of shared memory and the moves between its copies (internal to
 * stub_managed.c).
 *
 * There is one copy here and one at each server whose devices have used it.  A copy's
 * shadow is the content that host and device last agreed on.  The host has changed the
 * bytes where its memory differs from the shadow, the device those where the received
 * bytes do; a byte that both changed keeps the host's value.  For all other servers, a
 * change of one server's device thereby is a change of the host.  Locked by
 * stub_managed.c.
 */
#ifndef STUB_MANAGED_RANGE_H
#define STUB_MANAGED_RANGE_H

#include "cuda_abi.h"
#include "stub_link.h"

#include <stdbool.h>
#include <stdint.h>

/* At one server. */
struct managed_copy {
    uint64_t dev; /* 0: it has none yet */
    uint8_t *shadow;
    uint64_t *stale; /* by page: the host may have written to it; of watched ranges */
    bool refused;    /* could not be made; that has been logged */
    bool untold;     /* the server cannot say what the device changes */
    bool lost;       /* a move failed: nobody knows what the device has changed */
    uint32_t number; /* of pages of the worker's (stub_pinned.h); 0: it is memory */
    uint64_t ctx_unique; /* of the context in which those are registered... */
    bool lapsed;         /* ...which has ended */
};

struct managed_range {
    struct managed_range *next;
    uint64_t ctx; /* handle of the context that it ends with */
    uint64_t size;
    uint8_t *host;
    uint32_t home; /* the link whose server allocated it */
    bool own;      /* the host's pages were made for it */
    bool eager;    /* the host may write while the card works */
    /* The kernel tells which of its whole pages are written to (stub_written.h). */
    bool watched;
    uint32_t dense; /* how many times not to ask, because most of them were */
    /* Page-locked memory: the servers have pages at this address, of the card's host,
     * which no call of the driver moves (stub_managed_pages.h); 0: it is not. */
    uint64_t pages;
    /* That memory is private pages of this library, which began as zeros, as the
     * shadow did: where the program has never written, both still are. */
    bool fresh;
    /* A variable of a library, which has an address of its own at each server. */
    CUlibrary library;
    char *name;
    struct managed_copy copy[STUB_LINKS_MAX];
};

/* Its copy at the current link's server is at @dev.  @host NULL: pages at that address.
 * NULL: no memory or no such place. */
struct managed_range *managed_range_new(uint64_t dev, uint8_t *host, uint64_t size);
/* The same for page-locked memory at @host, of which nobody has a copy yet. */
struct managed_range *managed_range_new_pages(uint64_t dev, uint8_t *host,
                                              uint64_t size);
void managed_range_free(struct managed_range *range);

/* The context that it belongs to has ended, by another thread; what that took with it
 * is no failure. */
bool managed_range_is_gone(const struct managed_range *range);
/* How many of the list are.  If one went while a move was made, that may have been why
 * the move failed, and it is made again without the range. */
uint32_t managed_range_count_gone(const struct managed_range *list);

/* A further copy, full of zeros at @dev of the current link's server; while changes are
 * sent. */
CUresult managed_range_join(struct managed_range *range, uint64_t dev, CUstream stream);

/* How the host's changes are sent. */
struct managed_up {
    CUstream stream;
    bool fine;  /* no more than needed for one change, because the device works */
    bool quiet; /* no device has work: both ends agree on what is sent */
    bool runs;  /* small changes go in frames of their own (stub_managed_runs.h) */
    bool sent;  /* set when something was queued into the stream */
};

/* Send the host's changes of [from, end), and of the pages that these lie in.  The copy
 * is the one at the current link's server, here and below. */
CUresult managed_range_send(struct managed_range *range, uint64_t from, uint64_t end,
                            struct managed_up *up);

/* Fetch @n bytes at @at by way of @stream and take over what the card changed. */
CUresult managed_range_fetch(struct managed_range *range, uint64_t at, uint64_t n,
                             CUstream stream);
/* The card has @got there. */
void managed_range_take(struct managed_range *range, uint64_t at, const uint8_t *got,
                        uint64_t n);

#endif
