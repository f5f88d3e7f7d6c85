/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of one host's cards: gpupool-server.
 *
 * It listens, checks tickets, starts one worker process per client process,
 * accounts and reaps.  It never parses a CUDA call and never loads a driver: a
 * crash in either ends one worker.  One thread, one event loop (main); other
 * threads do what can block: connect to the scheduler (srv_register.c), remove what
 * workers leave (srv_disposal.c).
 */
#ifndef SRV_H
#define SRV_H

#include "attach_proof.h"
#include "gp_listener.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "srv_closed.h"
#include "srv_conf.h"
#include "srv_ending.h"
#include "srv_rates.h"
#include "tls_policy.h"

#include <stdbool.h>
#include <stdint.h>

struct srv_adopt;
struct srv_disposal;
struct srv_arbiter;
struct srv_attach;
struct srv_images;
struct srv_inventory;
struct srv_watch;
struct srv_jail;
struct srv_keeper;
struct srv_state;
struct gp_metrics;
struct srv_register;
struct srv_session;
struct srv_worker;
struct ticket_keys;
struct tls_context;

/* Connections whose attach request has not arrived yet.  Each may hold 64 KiB, 32 MiB
 * in all, and lives SRV_ATTACH_MS.  Past the cap the oldest connection of the address
 * that has most of them is closed, so a host that floods the server keeps out nobody
 * but itself, and 512 leave a client on a slow line time to speak: at 5,000
 * connections a second from its own address it has 100 ms. */
#define SRV_PENDING_MAX 512

/* Time for a whole AttachRequest. */
#define SRV_ATTACH_MS 5000

/* A worker whose client is gone, or that was asked to end, gets this long before
 * it is killed: everything must be released within a second. */
#define SRV_GRACE_MS 400

/* A server that stops answers that long after the last worker, if one ended that could
 * not say why: its client asks (STUB_ENDING_MS). */
#define SRV_ASKED_MS 500

struct srv {
    struct srv_conf conf;
    int argc; /* what it was read from */
    char **argv;
    int program; /* of the workers, as it was at the start; -1 */
    struct gp_loop *loop;
    struct gp_listener listener;
    struct gp_listener local_listener; /* the Unix socket */
    bool local_open;                   /* its file is ours to remove */
    /* Lines that unauthenticated peers can provoke. */
    struct gp_log_limit accept_log, crowd_log, refusal_log;
    struct srv_rates rates;
    uint8_t secret[ATTACH_KEY_SIZE], public[ATTACH_KEY_SIZE]; /* attach_proof.h */
    enum tls_policy tls_policy;
    struct tls_context *tls;  /* what clients' handshakes are made with; NULL: off */
    struct ticket_keys *keys; /* whose tickets are honoured; NULL until known */
    struct srv_inventory *inventory;
    struct srv_health *health; /* of its cards */
    struct srv_watch *watch;   /* over them; NULL: nothing reports errors */
    struct srv_arbiter *arbiter;
    struct gp_loop_fd alarm; /* of the arbiter: srv_worker_overdue() */
    struct srv_register *reg;
    /* A session is about to be forgotten: srv_register.c's; NULL without a scheduler.
     */
    void (*session_ended)(struct srv *srv, const struct srv_session *s);
    struct gp_metrics *metrics;
    struct srv_images *images;
    struct srv_jail *jail;
    struct srv_disposal *disposal;
    struct srv_keeper *keeper; /* NULL: workers end with us */
    struct srv_state *state;
    struct srv_adopt *adopt; /* what a supervisor before us left, until it is taken */
    uint64_t image_bytes;    /* they may hold; 0: none are kept */
    char endpoint[288]; /* where clients attach, as registered with the scheduler */

    struct srv_attach *pending; /* newest first */
    unsigned n_pending;
    struct srv_attach *queued; /* newest first: good tickets that wait for a worker */
    unsigned n_queued;
    struct gp_loop_timer queue_timer;
    void (*on_started)(struct srv *srv); /* a worker has; NULL: nobody waits for it */
    struct srv_session *sessions;
    unsigned n_sessions;
    struct gp_loop_timer expiry; /* of sessions, registered or not */
    struct srv_worker *workers;
    unsigned n_workers;
    unsigned n_shares; /* of all sessions: srv_export.h */
    struct srv_endings endings;

    struct srv_closed closed; /* sessions whose tickets are refused */
    int64_t clock_ahead_s;    /* of the scheduler's, if that is worth saying; else 0 */

    bool draining; /* no new sessions: the scheduler's request */
    bool stopping; /* SIGTERM came */
    bool leaving;  /* a successor comes: workers go on */
    bool again;    /* it is this program, in this process */
    bool starting; /* what a supervisor before us left is not ours yet */
    bool untold;   /* a worker has ended meanwhile whose client may not know why */
    struct gp_loop_timer stop_timer;
    struct gp_loop_timer limits; /* of what is looked at every second */
    struct gp_loop_timer alive;  /* for the service manager's watchdog */
    uint64_t leave_ns;           /* the latest end of one that leaves */

    uint64_t refused_total;
};

/* Something that `status` shows has changed: report it soon. */
void srv_changed(struct srv *srv);

#endif
