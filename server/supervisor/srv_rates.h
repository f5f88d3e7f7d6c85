/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often clients may come: per address (per user on the Unix socket) and per owner.
 *
 * Part of struct srv, from srv_rates_init() to srv_rates_fini(); event loop only.  Not
 * the caps on what exists at a time (srv.h): those stay when the rates are switched
 * off.
 */
#ifndef SRV_RATES_H
#define SRV_RATES_H

#include "gp_log.h"
#include "gp_rate.h"

/* Each of 8 processes of a job on each of 8 cards, with 15 connections, at once. */
#define SRV_RATE_CONNECTIONS 500
/* A worker's start takes about 10 ms of a core, so one address occupies one core at
 * most; a thousand processes at once, which is --max-attachments, are within the burst.
 */
#define SRV_RATE_ATTACHES 100
/* Wrong tickets, proofs and cookies: a sound client makes none, but for a library that
 * retries with an old one. */
#define SRV_RATE_REFUSALS 20
/* Owners come from several hosts.  A multiple, so that no single address that writes
 * another's name into its requests uses up what the other may do. */
#define SRV_RATE_OWNER_HOSTS 4

struct srv_rates {
    struct gp_rate connections, attaches, owners, refusals;
    struct gp_log_limit connections_log;
};

/* Of each address, in a second.  -ENOMEM. */
int srv_rates_init(struct srv_rates *rates, uint32_t connections, uint32_t attaches,
                   uint32_t refusals);
void srv_rates_fini(struct srv_rates *rates);

/* Each returns 0, or the milliseconds after which the peer may try again. */
uint32_t srv_rates_connection(struct srv_rates *rates, uint64_t from);
/* A request that asks for something, before it is looked at. */
uint32_t srv_rates_attach(struct srv_rates *rates, uint64_t from);
/* The same for a connection that belongs to an attachment: it shows a cookie. */
uint32_t srv_rates_further(struct srv_rates *rates, uint64_t from);
/* A ticket that is good and proven. */
uint32_t srv_rates_owner(struct srv_rates *rates, const char *owner);

/* What was shown was wrong. */
void srv_rates_refused(struct srv_rates *rates, uint64_t from);

#endif
