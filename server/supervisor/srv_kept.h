/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept memory: what the supervisor knows and its successor has to know.
 *
 * A memory file without pointers that begins with struct srv_kept_head.  The supervisor
 * maps it and works in it, so it is up to date at whatever instruction the supervisor
 * dies; the keeper (srv_keeper.h) holds the descriptor, and the successor maps the same
 * file.  No worker ever gets one.
 *
 * The successor may be a newer version, and the supervisor may have died in the middle
 * of a change: srv_kept_map() checks the form, each user the values.  Whoever changes
 * one of these structures raises SRV_KEPT_VERSION.
 */
#ifndef SRV_KEPT_H
#define SRV_KEPT_H

#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

struct gp_err;

#define SRV_KEPT_MAGIC 0x67706b31u /* "gpk1" */
#define SRV_KEPT_VERSION 4

enum srv_kept_kind {
    SRV_KEPT_SERVER = 1, /* struct srv_state */
    SRV_KEPT_ARBITER,    /* srv_arbiter.c */
    SRV_KEPT_SESSION,    /* srv_session.c */
    SRV_KEPT_LEDGER,     /* srv_ledger.c */
    SRV_KEPT_WORKER,     /* struct srv_worker_kept */
    SRV_KEPT_DESK,       /* struct srv_desk_kept */
    SRV_KEPT_JAIL,       /* srv_jail.c */
    SRV_KEPT_PROBE,      /* srv_inventory.c */
    SRV_KEPT_IMAGE,      /* srv_images.c */
    SRV_KEPT_EXPORTS,    /* srv_export.c */
};

struct srv_kept_head {
    uint32_t magic, version;
    uint32_t kind; /* enum srv_kept_kind */
    uint32_t size; /* of the whole structure */
};

/* A new one of @size bytes, zero behind its head; *ret_fd and the mapping are the
 * caller's. */
int srv_kept_new(enum srv_kept_kind kind, size_t size, int *ret_fd, void **ret_map,
                 struct gp_err *err);

/* The one behind @fd, which stays the caller's.  -EPROTO: it is of another version, or
 * none of that kind. */
int srv_kept_map(int fd, enum srv_kept_kind kind, size_t size, void **ret_map);

void srv_kept_unmap(void *map, size_t size); /* NULL is a no-op */

#endif
