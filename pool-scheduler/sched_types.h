/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two objects that most of the scheduler works on: the scheduler itself and a
 * connection to it, a pool server's or a client's.
 *
 * Only their fields.  The scheduler is one object per process, on main()'s stack frame
 * for its whole life, made by sched_init().  A connection is owned by sched->conns from
 * sched_serve_accept() until sched_serve_end().  Event loop thread only: the others, of
 * the store's writer, the signatures and the page, are given what they need.
 */
#ifndef SCHED_TYPES_H
#define SCHED_TYPES_H

#include "etcd_http.h"
#include "gp_base.h"
#include "gp_listener.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_msg.h"
#include "gp_option.h"
#include "gp_rate.h"
#include "sched_account_age.h"
#include "sched_copied.h"
#include "sched_events.h"
#include "sched_pool.h"
#include "sched_request.h"
#include "sched_session.h"
#include "store_events.h"
#include "tls_door.h"

#include <stdint.h>

struct ctl_transcript;
struct sched_answer;
struct sched_conn;
struct sched_fed;
struct sched_fed_ask;
struct sched_history;
struct sched_kube;
struct gp_metrics;
struct sched_metrics_page;
struct sched_pod;
struct sched_read;
struct sched_relay;
struct sched_relay_ask;
struct sched_rules;
struct sched_signer;
struct sched_store;
struct sched_token;
struct sched_tokens;
struct sched_wait;
struct sched_waits;
struct ticket_key;
struct view;

/* Servers with tokens of their own: as many as a pool of the largest kind has hosts. */
#define SCHED_SERVER_TOKENS_MAX 16384

enum sched_role {
    SCHED_ROLE_SERVER, /* registers cards */
    SCHED_ROLE_CLIENT, /* opens sessions, sees the status */
    SCHED_ROLE_ADMIN,  /* drains servers, closes sessions of others */
    SCHED_ROLES,
};

/* Connections of clients: one for each host whose sessions are held, one for each
 * request that waits in the queue (10,000 are measured), and those that open or close
 * just now. */
#define SCHED_CLIENTS_MAX 16384
/* Addresses that they come from are told apart by so many values of a hash. */
#define SCHED_CROWD_BUCKETS 4096
/* Answers in memory that peers have not read yet, in all: each of them may have some
 * MiB and take its time. */
#define SCHED_UNREAD_MAX ((size_t)512 << 20)
/* Connections that have said nothing yet (sched_door.h): they may send a registration,
 * which is large, so few are served at a time; when one more comes, the oldest goes, of
 * the same address when that has a quarter of them.  But each has some time first, in
 * which further ones wait unread. */
#define SCHED_UNPROVEN_MAX 512
#define SCHED_UNPROVEN_NS (1 * GP_NS_PER_S)
/* Those that wait: a descriptor each, as many as a listening socket has in its queue.
 */
#define SCHED_DOOR_MAX 4096
/* While so many tickets of batches wait for a signature, at 4 KiB each, sessions whose
 * tickets are good for another while get theirs with the next renewal: after a restart
 * all sessions of a large pool are due at once. */
#define SCHED_BATCH_TICKETS_MAX 16384

struct sched_reread;

struct sched_config {
    const char *listen;
    const char *state_dir;
    const char *key_file;             /* NULL: in the state directory */
    const char *metrics_listen;       /* NULL: none */
    const char *http;                 /* page and JSON API; NULL: none */
    const char *http_cert, *http_key; /* PEM files; NULL: clear text */
    bool http_public;                 /* they need no token, by choice */
    const char *ready_file;           /* NULL: none */
    const char *rules;                /* file; NULL: none, see sched_rules.h */
    const char *log;                  /* gp_log_set_filter() */
    const char *tls;                  /* "require", "prefer", "off"; NULL: prefer */
    const char *local;                /* "unix:/path"; NULL: STATE_DIR/scheduler.sock */
    /* Files of tokens, each NULL for none: sched_tokens.h. */
    const char *token_files[SCHED_ROLES], *server_tokens_file, *users_file;
    bool anonymous[SCHED_ROLES]; /* open to everybody, by choice */
    uint32_t heartbeat_ms, dead_after_ms;
    /* a server that is away for so long, and holds nothing, is gone */
    uint64_t forget_ms;
    uint32_t lease_ms;                   /* when the client does not say */
    uint32_t lease_min_ms, lease_max_ms; /* whatever the client says */
    uint32_t hold_grace_ms; /* left to a held session whose connection broke */
    /* A server that was lost is expected back for so long, and requests that fit
     * nowhere are to be asked again meanwhile; 0: never. */
    uint32_t server_return_ms;
    enum sched_placement placement;
    unsigned owner_sessions;                 /* cap per owner */
    uint32_t account_days, account_write_ms; /* 0: sched_account_keep.h's */
    uint32_t max_attachments;   /* per session, when the client does not say */
    uint32_t attachments_limit; /* whatever the client says */
    size_t unread_max;          /* 0: SCHED_UNREAD_MAX; tests have little */
    unsigned clients_max;       /* 0: SCHED_CLIENTS_MAX; tests have few */
    size_t batch_tickets;       /* 0: SCHED_BATCH_TICKETS_MAX; tests have few */
    uint32_t rate_requests, rate_opens, rate_denials; /* a second and peer; 0: any */
    uint32_t rate_reads;       /* milliseconds in a second and peer; 0: any */
    bool kube_pods;            /* answer pods that show their token */
    struct kube_config *kube;  /* the API server that knows the tokens */
    const char *kube_audience; /* that tokens must be made for */
    struct etcd_config etcd;   /* urls NULL: the embedded store */
    /* Reads command line, environment and file once more, after SIGHUP: *ret->config is
     * @now with what may change without a restart.  NULL: nothing does. */
    int (*reread)(const struct sched_config *now, struct sched_reread *ret,
                  struct gp_err *err);
};

struct sched_reread {
    struct sched_config config;
    struct gp_option_changes changes;
};

struct sched_counters {
    uint64_t waited, gave_up, preempted; /* for room; while waiting; for others */
    uint64_t opened, refused, closed, expired, lost_connections, bad_requests;
};

/* Parts of a millisecond that `reads` counts. */
#define SCHED_READS_UNITS 100

struct sched_rates { /* sched_rates.h */
    struct gp_rate requests, opens, owners, denials, reads;
    struct gp_rate connections; /* by TCP, as many as requests */
    struct gp_rate tickets;     /* of batches: each as a request of its own */
};

/* Peers whose reads wait are told apart by so many values of a hash. */
#define SCHED_READS_BUCKETS 4096

struct sched {
    struct sched_config config;
    struct gp_loop *loop;
    struct gp_listener listener, local; /* TCP, Unix socket */
    /* Unauthenticated peers can provoke these lines. */
    struct gp_log_limit accept_log, crowd_log, refused_log, often_log;
    struct gp_loop_timer tick;
    uint64_t ticked_ns; /* when it came last */
    struct sched_pool *pool;
    struct sched_sessions sessions;
    struct sched_account_age account_age; /* of what sessions.accounts has */
    struct sched_store *store;
    struct sched_signer *signer;
    struct sched_rules *rules;
    struct sched_waits *waits;                        /* sched_wait.h */
    struct sched_fed *fed;                            /* other pools; sched_fed.h */
    struct sched_fed_ask *fed_waits, **fed_waits_end; /* they are asked again for */
    bool fed_asking;                                  /* for one of them */
    struct {                                          /* sched_commit.h */
        struct gp_loop_timer timer;
        struct sched_session *first, **end;          /* opens that wait, oldest first */
        struct sched_answer *answers, **answers_end; /* that wait for the disk */
        uint64_t queued; /* the serial of the newest of them */
        bool sending;    /* one that has waited is being sent */
        uint64_t after;  /* what is sent now waits for this transaction, and */
        bool in_effect;  /* tells of an order that is in effect without it */
        struct gp_log_limit failures;
        bool failing; /* the last transaction was not written */
        /* It is on disk, but who opened it is gone; set at the start. */
        void (*orphaned)(struct sched *sched, struct sched_session *session);
        /* This scheduler leads no more, for the reason @words; set at the start. */
        void (*stale)(struct sched *sched, const char *words);
    } commit;
    struct {                  /* sched_replica.h */
        struct store *shared; /* NULL: the store is this scheduler's alone */
        struct store_events events;
        bool leads;
        bool ends;                     /* it starts again, and the log says why */
        uint64_t term;                 /* grows when another leads */
        char leader[CTL_ENDPOINT_MAX]; /* while another leads; or empty */
    } replica;
    struct sched_tokens *tokens;      /* sched_tokens.h */
    struct ticket_key *key, *old_key; /* that of before a change, still good, or NULL */
    uint64_t sign_old_ns;             /* until then tickets are signed with that one */
    uint64_t signs_since_unix;        /* the key does since then, or this process */
    size_t batch_tickets;             /* that wait for a signature; sched_renewed.c's */
    enum tls_policy tls_policy;
    struct tls_context *tls; /* of @key; NULL: off */
    struct gp_metrics *metrics;
    struct sched_metrics_page *metrics_page; /* sched_metrics_cards.h */
    struct sched_relay *relay;               /* to the one that leads; sched_relay.h */
    struct sched_copy copy;                  /* of its memory; sched_copied.h */
    struct view *view;                       /* NULL: no page and no API; view.h */
    struct sched_events events;
    struct sched_history *history;
    struct sched_ended *ended;
    struct sched_kube *kube; /* NULL: pods are not served; sched_pod.c's */
    struct sched_conn *conns;
    struct {                       /* sched_door.h */
        struct sched_link served;  /* oldest first */
        struct sched_link waiting; /* the same */
        unsigned n_served, n_waiting;
        uint16_t served_of[SCHED_CROWD_BUCKETS]; /* by address */
        uint16_t waiting_of[SCHED_CROWD_BUCKETS];
        struct gp_loop_timer timer; /* when one may be served */
        uint64_t next_end_ns;       /* none that has had its time goes before */
        /* Set at the start. */
        void (*serve)(struct sched *sched, int fd, uint64_t from);
        void (*end)(struct sched_conn *conn);
    } door;
    unsigned n_clients; /* connections that are not servers', unauthenticated peers
                           included */
    uint16_t crowd[SCHED_CROWD_BUCKETS]; /* of them, by address; sched_crowd.h */
    unsigned n_waiting;                  /* of them, waiting for servers */
    unsigned n_pool_watches;             /* of them, waiting for a change of the pool */
    struct {                             /* sched_reads.h */
        struct gp_tree waiting;
        struct gp_loop_timer timer; /* armed: a read was answered in this turn */
        uint64_t spent_ns;          /* in this turn */
        uint64_t round, arrived;
        uint16_t counts[SCHED_READS_BUCKETS]; /* of those that wait */
        /* Answers one, and may end its connection; set at the start. */
        void (*answer)(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req);
    } reads;
    uint64_t next_report; /* serial of reports, never 0 */
    uint64_t started_ns;
    uint64_t lost_ns; /* when a server was lost, the last time; 0: not yet */
    struct sched_counters counters;
    struct sched_rates rates;
};

struct sched_conn {
    struct gp_msg_conn msg;
    struct tls_door door;
    struct sched *sched;
    char peer[64];
    uint64_t from; /* gp_net_peer_hash() */
    bool own_user; /* of the Unix socket: this process's user, or root */
    bool known;    /* has shown a right token or lease key */
    bool relays;   /* another scheduler of the pool; sched_asker.h */
    const struct sched_token *shown[SCHED_ROLES]; /* by the role it acted in */
    struct ticket_key *key;            /* of its TLS: proofs are made over it */
    struct ctl_transcript *transcript; /* of its hello, until the proof; or NULL */
    char *hello_server;                /* the server's name in it */
    unsigned refusals;                 /* while it was not */
    uint64_t unread_ns;        /* when it last took enough of what waits for it, and */
    uint64_t unread_sent;      /* how much it had taken then */
    struct gp_loop_timer idle; /* silence ends the connection */
    void (*on_idle)(struct gp_loop_timer *idle);
    struct sched_link unproven;    /* while it is not known; else next is NULL */
    uint64_t since_ns;             /* when that began */
    struct sched_server *server;   /* after a registration */
    struct sched_session *held;    /* end soon after this connection, a list */
    uint32_t held_lease_ms;        /* the longest lease that has been among them */
    struct sched_session *opening; /* until the commit; sched_commit.h */
    unsigned opening_many;         /* of one request, the same */
    struct sched_answer *answers, **answers_end; /* that wait; sched_commit.h */
    struct sched_read *reads;      /* that wait for their turn; sched_reads.h */
    struct sched_wait *waiting;    /* its open request waits for room; sched_wait.c's */
    struct sched_session *closing; /* closes that wait for their server */
    struct {
        uint32_t request, servers; /* request 0: not waiting */
        bool numbers_only;         /* CtlWaitServers */
        struct gp_loop_timer timeout;
    } wait;
    struct {
        uint32_t request; /* 0: not watching */
        uint64_t seen;
        struct gp_loop_timer timeout;
    } pool_watch;              /* sched_watch_pool.c's */
    struct sched_pod *pod;     /* a pod's token is being reviewed; sched_pod.c's */
    struct sched_fed_ask *fed; /* other pools are being asked; sched_fed.c's */
    struct sched_relay_ask *relayed; /* the leader is being asked; sched_relay.h */
    struct sched_conn *next, **link;
};

#endif
