/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to the scheduler: a pool server's or a client's.
 *
 * Owned by sched->conns from accept until sched_conn_free().  Event loop thread
 * only.  It decodes, applies caps and calls the handler; it decides nothing.
 *
 * A peer that breaks the protocol (bytes that are no message, a request without an
 * id, an unknown request) is disconnected; a refusal keeps the connection.
 */
#ifndef SCHED_CONN_H
#define SCHED_CONN_H

#include "control.pb-c.h"
#include "gp_base.h"
#include "gp_loop.h"
#include "gp_msg.h"
#include "sched_auth.h"
#include "sched_pool.h"

struct ctl_transcript;
struct gp_err;
struct sched;
struct sched_reasons;
struct sched_server_token;
struct sched_pod;
struct sched_session;

struct sched_conn {
    struct gp_msg_conn msg;
    struct sched *sched;
    char peer[64];
    bool own_user;            /* of the Unix socket: this process's user, or root */
    bool known;               /* has shown a right token or lease key */
    bool proven[SCHED_ROLES]; /* roles whose token it has proven */
    struct ctl_transcript *transcript; /* of its hello, until the proof; or NULL */
    char *hello_server;                /* the server's name in it */
    const struct sched_server_token *server_token; /* shown, of one server's own */
    unsigned refusals;                             /* while it was not */
    uint64_t unread_ns;         /* when it last took enough of what waits for it, and */
    uint64_t unread_sent;       /* how much it had taken then */
    struct gp_loop_timer idle;  /* silence ends the connection */
    struct sched_link stranger; /* while it is not known; else next is NULL */
    struct sched_server *server;   /* after a registration */
    struct sched_session *held;    /* end soon after this connection */
    struct sched_session *opening; /* until the commit; sched_commit.h */
    struct sched_session *closing; /* closes that wait for their server */
    struct {
        uint32_t request, servers; /* request 0: not waiting */
        struct gp_loop_timer timeout;
    } wait;
    struct {
        uint32_t request; /* 0: not watching */
        uint64_t seen;
        struct gp_loop_timer timeout;
    } pool_watch;          /* sched_watch_pool.c's */
    struct sched_pod *pod; /* a pod's token is being reviewed; sched_pod.c's */
    struct sched_conn *next, **link;
};

/* A new connection; takes @fd. */
void sched_conn_accept(struct sched *sched, int fd);
void sched_conn_free(struct sched_conn *conn);

/* Disconnect the peers that have not read their answers for too long. */
void sched_conn_sweep_unread(struct sched *sched, uint64_t now);

/* Send a reply.  A peer that cannot get it is disconnected later, by its own event. */
void sched_conn_reply(struct sched_conn *conn, const Gpupool__Ctl__CtlReply *reply);
/* Send a refusal.  @reasons may be NULL. */
void sched_conn_refuse(struct sched_conn *conn, uint32_t request,
                       Gpupool__Ctl__CtlCode code, const char *words,
                       const struct sched_reasons *reasons);

/* Something has been done for it: its silence counts from now. */
void sched_conn_touch(struct sched_conn *conn);

/* A held session follows the connection; it moves when another connection holds it. */
void sched_conn_hold(struct sched_conn *conn, struct sched_session *session);
void sched_conn_unhold(struct sched_session *session);
/* The request is answered by sched_conn_closed(). */
void sched_conn_await_close(struct sched_conn *conn, struct sched_session *session,
                            uint32_t request);
void sched_conn_closed(struct sched_session *session);

#endif
