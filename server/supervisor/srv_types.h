/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two objects that most of the supervisor works on: a session and a worker process.
 *
 * Only their fields.  A session is made and freed by srv_session.c and owned by
 * srv->sessions; a worker by srv_worker.c and srv->workers.  Modules that serve one of
 * them (exports, peer connections, requests of a worker) include this header and
 * neither of those two, which are above them.  Event-loop thread only.
 */
#ifndef SRV_TYPES_H
#define SRV_TYPES_H

#include "attach_proof.h"
#include "gp_base.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "srv_jail.h"
#include "srv_kept.h"
#include "ticket.h"
#include "wire_image.h"
#include "wrk_conf.h"
#include "xport.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct srv;
struct srv_ledger;
struct srv_desk;
struct srv_export;
struct srv_exports_kept;
struct srv_resume;
struct srv_worker_log;

/* What outlives the supervisor of each of them (srv_kept.h). */
struct srv_session_kept {
    struct srv_kept_head head;
    uint32_t which; /* of the claims: the other ones are being changed */
    uint32_t closed, next_attachment, uid;
    char exports[128];
    struct ticket_claims claims[2];
};
SRV_KEPT_SIZE(struct srv_session_kept, 6000);

struct srv_resume_kept {
    uint8_t key[ATTACH_KEY_SIZE];
    uint32_t seconds, usable, secure, acks_seen, link, pid;
};

struct srv_worker_kept {
    struct srv_kept_head head;
    uint32_t form; /* WRK_SHARED_FORM of its supervisor */
    uint32_t slot;
    uint64_t session_id;
    char name[WRK_ATTACHMENT_MAX];
    uint32_t client_pid, link;
    uint32_t stripes_seen, stripe_round, peers_seen;
    uint8_t image_nonce[WIRE_IMAGE_NONCE];
    uint8_t lane_cookies[XPORT_STRIPES_MAX][WIRE_STRIPE_COOKIE];
    uint8_t ending_cookie[WIRE_ENDING_COOKIE];
    uint8_t peer_cookies[WIRE_LINKS_MAX][WIRE_PEER_COOKIE];
    struct srv_resume_kept resume;
    uint32_t control_round; /* of the next control connection, at least */
};
SRV_KEPT_SIZE(struct srv_worker_kept, 624);

/* The descriptors of a worker that the keeper has, in this order; a newer version may
 * have more behind them. */
enum srv_worker_fd {
    SRV_WORKER_CLIENT, /* shut down by the keeper when the worker ends */
    SRV_WORKER_DESK,
    SRV_WORKER_NOTICE,
    SRV_WORKER_WAKE,
    SRV_WORKER_ASK,  /* our end */
    SRV_WORKER_LINK, /* the same */
    SRV_WORKER_ADOPT,
    SRV_WORKER_DESK_KEPT,
    SRV_WORKER_KEPT,
    SRV_WORKER_LOG, /* our end; an older supervisor has none */
    SRV_WORKER_FDS,
};

/* The same of a session. */
enum srv_session_fd {
    SRV_SESSION_KEPT,
    SRV_SESSION_LEDGER,
    SRV_SESSION_SEGMENT,
    SRV_SESSION_FDS,
};

struct srv_session {
    struct srv *srv;
    struct srv_session *next;
    struct ticket_claims claims; /* of the youngest ticket seen */
    bool closed;                 /* by the scheduler: refuse its tickets */
    struct srv_ledger *ledger;   /* what its workers use, and its limits */
    uint32_t n_workers;
    uint32_t next_attachment;         /* the number in "s7.c2" */
    struct srv_export *shares;        /* srv_export.h */
    struct srv_exports_kept *exports; /* their table; NULL: there was none yet */
    uint32_t n_shares;
    uint64_t log_ns; /* until then it has used what it may log (srv_worker_log.h) */
    struct srv_cell cell; /* of its workers */
    struct srv_session_kept *kept;
};

struct srv_worker {
    struct srv *srv;
    struct srv_worker *next;
    struct srv_session *session;
    uint32_t slot;
    struct srv_desk *desk; /* what it and the arbiter show each other */
    pid_t pid;
    char name[WRK_ATTACHMENT_MAX];
    struct gp_loop_fd client;              /* our descriptor of its socket */
    struct gp_loop_fd ask;                 /* our end of what it asks, -1: closed */
    uint8_t image_nonce[WIRE_IMAGE_NONCE]; /* what proofs of this attachment hold */
    struct gp_loop_timer kill_timer;
    uint8_t lane_cookies[XPORT_STRIPES_MAX][WIRE_STRIPE_COOKIE];
    uint8_t ending_cookie[WIRE_ENDING_COOKIE]; /* who may ask how it ended */
    uint32_t stripes_seen;                     /* a bit for each that has come ... */
    uint32_t stripe_round;                     /* ... in this round (attach.proto) */
    uint8_t peer_cookies[WIRE_LINKS_MAX][WIRE_PEER_COOKIE]; /* by the other's number */
    uint32_t link;       /* which of the client's servers we are */
    uint32_t peers_seen; /* a bit for each server that has connected */
    uint32_t peers_dialled;
    struct gp_log_limit refusal_log, link_log; /* lines that worker or client cause */
    uint64_t from;        /* gp_net_peer_hash() of the client; 0: not known any more */
    uint64_t starting_ns; /* since when it starts; 0: its client has been answered */
    bool ending;
    const char *why;            /* it is ending; static words */
    struct srv_resume *resume;  /* srv_resume.h; NULL: it ends with its link */
    struct srv_worker_log *log; /* NULL: of an older supervisor */
    uint64_t key;               /* the keeper's name of it */
    int adopt;                  /* our end of WRK_FD_ADOPT */
    struct srv_worker_kept *kept;
};

#endif
