/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often each peer, or each owner, may do a thing: a token bucket per hash of its
 * name (gp_net_peer_hash(), gp_hash_bytes()).
 *
 * The number of buckets is fixed, so that a flood from many addresses costs no memory.
 * A bucket that is needed for somebody else is forgotten: the one of four that is
 * nearest to full.  So a crowd of addresses weakens the limit; it never makes an
 * innocent peer pay for another, but for a collision of 64-bit keyed hashes.
 *
 * Storage is the owner's; one thread.
 */
#ifndef GP_RATE_H
#define GP_RATE_H

#include "gp_base.h"

#include <stdint.h>

/* 64 KiB per limit: more peers at a time than a server or scheduler has connections
 * that are not authenticated. */
#define GP_RATE_BUCKETS 4096

/* A bucket holds what comes in that many seconds: a job that starts many processes at
 * once is no flood. */
#define GP_RATE_BURST_S 10

struct gp_rate_bucket;

struct gp_rate {
    uint64_t step_ns;  /* between two events; 0: there is no limit */
    uint64_t burst_ns; /* how far a peer may be ahead */
    uint64_t refused;  /* for metrics */
    struct gp_rate_bucket *buckets;
};

/* @per_s events a second for each peer and GP_RATE_BURST_S times as many at once; 0: no
 * limit.  -ENOMEM. */
int gp_rate_init(struct gp_rate *rate, uint32_t per_s);
void gp_rate_fini(struct gp_rate *rate); /* zeroed storage: a no-op */

/* 0: one event of @who at @now_ns is within its limit, and is counted.  Otherwise it is
 * refused, and costs @who nothing: the nanoseconds after which the next one is not. */
uint64_t gp_rate_take(struct gp_rate *rate, uint64_t who, uint64_t now_ns);

/* The same without counting an event that is within the limit.  For limits of failures,
 * which are known only afterwards. */
uint64_t gp_rate_wait(struct gp_rate *rate, uint64_t who, uint64_t now_ns);

/* @n events of @who have happened, within the limit or not.  For limits of what is only
 * known when it has been spent: gp_rate_wait() is asked before. */
void gp_rate_spend(struct gp_rate *rate, uint64_t who, uint64_t n, uint64_t now_ns);

/* A wait for people and for wire fields: whole milliseconds, at least 1. */
uint32_t gp_rate_ms(uint64_t wait_ns);

#endif
