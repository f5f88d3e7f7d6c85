/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of this host, as a short-lived `gpupool-worker --probe` found them.
 *
 * The supervisor loads no driver itself; the probe prints one line per card and
 * ends.  Owned by struct srv, event-loop thread only.
 */
#ifndef SRV_INVENTORY_H
#define SRV_INVENTORY_H

#include "gp_base.h"
#include "ticket.h"
#include "wrk_conf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_err;
struct srv;
struct srv_inventory;
struct srv_keeper;

/* As many as a registration may name (CTL_SERVER_CARDS_MAX). */
#define SRV_CARDS_MAX 64

#define SRV_FABRIC_MAX 64

struct srv_card {
    uint8_t uuid[TICKET_UUID_SIZE];
    char name[128];
    uint64_t memory;   /* what sessions may use together */
    uint64_t reserved; /* kept back by --memory-scaling */
    uint32_t sms;
    uint32_t cc_major;
    uint32_t cc_minor;
    uint32_t index;              /* as the driver counts */
    char fabric[SRV_FABRIC_MAX]; /* "UUID/CLIQUE", or empty */
    uint32_t island; /* cards that are linked to each other have the same; 0: none */
    struct wrk_facts facts;
    uint32_t at; /* in this inventory: its number at the arbiter (srv_arbiter.h) */
};

/* Start the probe; @done is called once from the loop, with 0 or -errno (the
 * words have been logged).  */
int srv_inventory_start(struct srv *srv, void (*done)(struct srv *srv, int result),
                        struct srv_inventory **ret, struct gp_err *err);
/* As the probe of a supervisor that is gone found them; @fd stays the caller's. */
int srv_inventory_adopt(struct srv *srv, int fd, struct srv_inventory **ret,
                        struct gp_err *err);
/* Leave what the probe found with the keeper. */
void srv_inventory_keep(const struct srv_inventory *inv, struct srv_keeper *keeper);
void srv_inventory_free(struct srv_inventory *inv); /* NULL is a no-op */

/* SIGCHLD: true when @pid was the probe. */
bool srv_inventory_reaped(struct srv_inventory *inv, pid_t pid, int status);

uint32_t srv_inventory_count(const struct srv_inventory *inv);
const struct srv_card *srv_inventory_card(const struct srv_inventory *inv, uint32_t i);
const struct srv_card *srv_inventory_find(const struct srv_inventory *inv,
                                          const uint8_t uuid[TICKET_UUID_SIZE]);
/* Addresses of the RDMA ports that are offered, with commas between. */
const char *srv_inventory_rdma(const struct srv_inventory *inv);
/* The fabric that all of the cards are in, as NVML says; "": none. */
const char *srv_inventory_fabric(const struct srv_inventory *inv);
/* Does NVML report errors of the cards? */
bool srv_inventory_reports(const struct srv_inventory *inv);
uint32_t srv_inventory_driver_version(const struct srv_inventory *inv);

#endif
