/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler of one pool: its configuration and everything it holds.
 *
 * One object per process, on main()'s stack frame for its whole life; event loop
 * thread only, and there is no other thread.  The order of events:
 *
 *   request -> sched_conn (decode, caps) -> sched_handle_* (rules, decision)
 *           -> pool and sessions (memory) -> store (disk) -> reply
 *
 * Nothing is answered before it is on disk.  Time enters through one timer
 * (tick) that ends leases and notices silent servers.  (Not sched.h: that is the C
 * library's.)
 */
#ifndef SCHED_DAEMON_H
#define SCHED_DAEMON_H

#include "gp_base.h"
#include "gp_listener.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "sched_auth.h"
#include "sched_pool.h"
#include "sched_request.h"
#include "sched_session.h"

#include <stdint.h>

struct gp_err;
struct sched_conn;
struct sched_metrics;
struct sched_store;
struct sched_kube;
struct ticket_key;

/* Clients. A server host of the largest kind seen runs about 1,000 sessions, each with
 * one client connection. */
#define SCHED_CLIENTS_MAX 16384
/* Connections that have said nothing yet: they may send a registration, which is large,
 * so few are kept; when one more comes, the oldest goes. */
#define SCHED_STRANGERS_MAX 512

struct sched_config {
    const char *listen;
    const char *state_dir;
    const char *metrics_listen; /* NULL: none */
    const char *ready_file;     /* NULL: none */
    const char *local;          /* "unix:/path"; NULL: STATE_DIR/scheduler.sock */
    char *tokens[SCHED_ROLES];  /* NULL: none, see sched_auth.h */
    struct sched_server_token *server_tokens; /* beside the shared one */
    unsigned n_server_tokens;
    bool anonymous[SCHED_ROLES]; /* open to everybody, by choice */
    uint32_t heartbeat_ms, dead_after_ms;
    uint64_t
        forget_ms; /* a server that is away for so long, and holds nothing, is gone */
    uint32_t lease_ms;                   /* when the client does not say */
    uint32_t lease_min_ms, lease_max_ms; /* whatever the client says */
    uint32_t hold_grace_ms; /* left to a held session whose connection broke */
    enum sched_placement placement;
    unsigned owner_sessions;   /* cap per owner */
    uint32_t max_attachments;  /* per session, when the client does not say */
    bool kube_pods;            /* answer pods that show their token */
    struct kube_config *kube;  /* the API server that knows the tokens */
    const char *kube_audience; /* that tokens must be made for */
};

struct sched_counters {
    uint64_t opened, refused, closed, expired, lost_connections, bad_requests;
};

struct sched {
    struct sched_config config;
    struct gp_loop *loop;
    struct gp_listener listener, local; /* TCP, Unix socket */
    struct gp_log_limit accept_log;     /* strangers can provoke these lines */
    struct gp_loop_timer tick;
    struct sched_pool *pool;
    struct sched_sessions sessions;
    struct sched_store *store;
    struct { /* sched_commit.h */
        struct gp_loop_timer timer;
        struct sched_session *first, **end; /* wait for the commit, oldest first */
    } commit;
    struct ticket_key *key;
    struct sched_metrics *metrics;
    struct sched_kube *kube; /* NULL: pods are not served; sched_pod.c's */
    struct sched_conn *conns;
    struct sched_link strangers; /* oldest first */
    unsigned n_strangers;
    unsigned n_clients;      /* connections that are not servers', strangers included */
    unsigned n_waiting;      /* of them, waiting for servers */
    unsigned n_pool_watches; /* of them, waiting for a change of the pool */
    uint64_t next_report;    /* serial of reports, never 0 */
    uint64_t started_ns;
    struct sched_counters counters;
};

/* Open state and key, listen, start the clock.  On failure sched_fini() is still due.
 */
int sched_init(struct sched *sched, const struct sched_config *config,
               struct gp_err *err);
int sched_run(struct sched *sched); /* until SIGTERM or SIGINT */
void sched_fini(struct sched *sched);

/* End a session: tell its servers, answer its holder's close when the workers are gone.
 * @words say why.  The session may be freed when this returns. */
void sched_session_end(struct sched *sched, struct sched_session *session,
                       const char *words);
/* The workers of @part are gone; when it was the last one, everything is given back and
 * the session freed. */
void sched_session_gone(struct sched *sched, struct sched_part *part);
/* @server has lost its connection. */
void sched_server_lost(struct sched *sched, struct sched_server *server,
                       const char *words);
unsigned sched_servers_alive(const struct sched *sched);

#endif
