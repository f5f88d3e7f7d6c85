/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller's side of the pool scheduler: sessions by name, the cards, and a word
 * when something has changed.
 *
 * One object, owned by struct ctrl; event loop thread.  Requests wait (a scheduler
 * answers from memory in well under a millisecond) over one kept connection, which is
 * made anew when it broke.  The watch has a connection of its own on the loop.  Of
 * several schedulers both go to the one that leads.
 */
#ifndef CTRL_POOL_H
#define CTRL_POOL_H

#include "control.pb-c.h"
#include "ctl_addresses.h"
#include "ctl_link.h"
#include "gp_base.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_msg.h"
#include "kube_ask.h"

struct gp_err;

/* What a claim got. */
struct ctrl_grant {
    uint64_t id;
    char session[64];
    uint8_t key[16];
    uint32_t lease_ms;
    char server[64], endpoint[288], model[128];
    char uuids[16][48]; /* "GPU-..." */
    uint32_t n_slices;
    uint64_t memory; /* of each slice */
};

struct ctrl_pool {
    struct ctl_route route; /* to the scheduler that leads */
    const char *token_file; /* with a token; NULL: none is needed */
    bool only_asks; /* ctrl_pool_explain() alone: a token that lets its holder read does
                       it; else it is an administrator's */
    struct gp_log_limit token_log; /* of what is wrong with it */
    uint32_t lease_ms;
    uint32_t patience_ms; /* for an answer; 0: the usual three seconds */
    struct ctl_link link;
    bool sent;   /* the last request went out and was not answered: it may be done */
    bool single; /* the scheduler knows no renewals of many */
    uint32_t next_id;
    uint64_t requests;

    struct gp_loop *loop;
    struct gp_msg_conn conn;        /* of the watch */
    char watched[CTL_ENDPOINT_MAX]; /* where it goes */
    struct gp_loop_timer timer;
    bool connected;
    uint64_t seen;
    void (*on_change)(struct ctrl_pool *pool);
};

/* "GPU-..." */
void ctrl_pool_uuid(char text[48], const ProtobufCBinaryData *uuid);

/* Start to watch; @on_change is called once at the beginning and after every change. */
void ctrl_pool_watch(struct ctrl_pool *pool, struct gp_loop *loop,
                     void (*on_change)(struct ctrl_pool *pool));
void ctrl_pool_fini(struct ctrl_pool *pool);

/* The session of @name: opened, or the open one found again.
 * -ENOSPC: nothing fits now; -EINVAL: no pool could; -EHOSTUNREACH: no scheduler. */
int ctrl_pool_open(struct ctrl_pool *pool, const char *name, const char *program,
                   const struct kube_ask *ask, const struct kube_class *class,
                   struct ctrl_grant *ret, struct gp_err *err);
/* A session to open. */
struct ctrl_wanted {
    const char *name, *program;
    const struct kube_ask *ask;
    const struct kube_class *class;
    /* Of a place in the queue: it is served together with the others of this name, so
     * many, or not at all.  NULL: alone. */
    const char *gang;
    unsigned gang_size;
};
/* Open those of @list, CTL_OPEN_MANY_MAX at most, that are not open: all or none. Their
 * grants are fetched by ctrl_pool_open().  As that for the one at *ret_failed, for
 * which none is; -ENOTSUP: the scheduler is older than that. */
int ctrl_pool_open_many(struct ctrl_pool *pool, const struct ctrl_wanted *list,
                        size_t n, size_t *ret_failed, struct gp_err *err);
/* A place in the scheduler's queue, as it was signed there (CtlQueued); len 0: none. */
struct ctrl_place_proof {
    uint8_t bytes[128];
    size_t len;
};
/* The request to open it when there is room, for a connection of ctrl_pool_dial();
 * *ret_bytes is the caller's.  The scheduler answers it with a CtlQueued at each change
 * and at last with a CtlGrant or a CtlError.  -EINVAL: it pins no card. */
int ctrl_pool_pack_wait(struct ctrl_pool *pool, const struct ctrl_wanted *wanted,
                        const struct ctrl_place_proof *place, uint8_t **ret_bytes,
                        size_t *ret_len, struct gp_err *err);
/* A further connection, for messages on the loop, on which the token has been proven.
 * It blocks for half a second at most; @address is where it goes. */
int ctrl_pool_dial(struct ctrl_pool *pool, char address[CTL_ENDPOINT_MAX],
                   struct gp_msg_conn *conn,
                   void (*msg)(struct gp_msg_conn *, const void *, size_t),
                   void (*closed)(struct gp_msg_conn *, int), struct gp_err *err);
/* The answer says that another scheduler leads: the next connection goes there.  False:
 * it does not say so, or not which. */
bool ctrl_pool_follow(struct ctrl_pool *pool, const Gpupool__Ctl__CtlReply *reply);
/* What a grant says.  -EPROTO: it is incomplete. */
int ctrl_pool_grant(const Gpupool__Ctl__CtlGrant *grant, struct ctrl_grant *ret,
                    struct gp_err *err);
/* Where it would go now, as the name of a server; nothing is taken.  *ret_by_node: for
 * programs of another node it could be another.  As ctrl_pool_open(). */
int ctrl_pool_explain(struct ctrl_pool *pool, const struct kube_ask *ask,
                      const struct kube_class *class, char ret_server[64],
                      bool *ret_by_node, struct gp_err *err);
/* A session to renew. */
struct ctrl_renewal {
    uint64_t id;
    const uint8_t *key; /* 16 bytes */
    int r;              /* 0: it was renewed; -ENOENT: it has ended */
};
/* Renew @n of them, CTL_RENEW_MAX at most, by one request, or, with a scheduler that is
 * older than that, by one for each.  -errno: none was. */
int ctrl_pool_renew(struct ctrl_pool *pool, struct ctrl_renewal *list, size_t n,
                    struct gp_err *err);
/* Ended, or on its way out: the scheduler has said so.  It is waited @patience_ms (0:
 * as usual) for the servers of the session.  -ETIMEDOUT, -EHOSTUNREACH: nobody knows.
 */
int ctrl_pool_close(struct ctrl_pool *pool, uint64_t id, uint32_t patience_ms,
                    struct gp_err *err);
/* The id of the session of @name.  -ENOENT: it has none. */
int ctrl_pool_find(struct ctrl_pool *pool, const char *name, uint64_t *ret_id,
                   struct gp_err *err);
int ctrl_pool_status(struct ctrl_pool *pool, bool sessions,
                     Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err);

#endif
