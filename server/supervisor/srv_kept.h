/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept memory: what the supervisor knows and its successor has to know.
 *
 * A memory file without pointers that begins with struct srv_kept_head.  The supervisor
 * maps it and works in it, so it is up to date at whatever instruction the supervisor
 * dies; the keeper (srv_keeper.h) holds the descriptor, and the successor maps the same
 * file.  No worker ever gets one.
 *
 * The supervisor may have died in the middle of a change, so each user checks the
 * values.  It may also have been of another version (docs/versions.md):
 *
 *   - Fields are appended at the end of the structure that begins with the head, never
 *     to an element of an array, and one that is zero means what was there before the
 *     field.  The files are longer than the structure, so there is room for them.
 *   - The head says how many bytes its writer knew.  A newer one finds zeros behind
 *     those; an older one leaves what it does not know alone and says that it knew
 *     less, because nobody has kept that up to date: the next one finds zeros there.
 *   - Whoever changes anything else raises SRV_KEPT_VERSION, and keeps reading the
 *     version before.
 *
 * SRV_KEPT_SIZE() beside each structure fails to compile when one of them changes.
 */
#ifndef SRV_KEPT_H
#define SRV_KEPT_H

#include "gp_base.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;

#define SRV_KEPT_MAGIC 0x67706b31u /* "gpk1" */
/* 4: files without room, which are the same otherwise. */
#define SRV_KEPT_VERSION 5
#define SRV_KEPT_OLDEST 4
/* Room behind each structure, at least. */
#define SRV_KEPT_ROOM 4096u

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

/* What everybody knows about @type: fields may be appended and counted here, nothing
 * else. */
#define SRV_KEPT_SIZE(type, bytes)                                                     \
    static_assert(sizeof(type) == (bytes),                                             \
                  #type " is kept for other versions: see srv_kept.h")

/* A new one of @size bytes, zero behind its head; *ret_fd and the mapping are the
 * caller's. */
int srv_kept_new(enum srv_kept_kind kind, size_t size, int *ret_fd, void **ret_map,
                 struct gp_err *err);

/* The one behind @fd, which stays the caller's, as this version knows it.  -EPROTO: it
 * is of a version that this one does not read, which the log says, or none of that
 * kind.
 */
int srv_kept_map(int fd, enum srv_kept_kind kind, size_t size, void **ret_map);

void srv_kept_unmap(void *map, size_t size); /* NULL is a no-op */

#endif
