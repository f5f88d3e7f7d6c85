/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: who holds which slices, until when.
 *
 * A session is owned by struct sched_sessions from sched_sessions_add() until
 * sched_session_free(), and holds its slices of the pool for just as long.  Event
 * loop thread only.  It keeps no state on disk (sched_store.h) and sends nothing.
 *
 * States: open -> closing -> gone.  A closing session has no lease and no ticket
 * any more, but some server of it has not yet said that its workers are gone, so what
 * it held cannot be given to another.
 */
#ifndef SCHED_SESSION_H
#define SCHED_SESSION_H

#include "ctl_limits.h"
#include "gp_base.h"
#include "gp_tree.h"
#include "sched_account.h"
#include "sched_place.h"
#include "sched_tenant.h"

#include <stdint.h>

struct sched_conn;
struct sched_rules;
struct sched_sessions;

#define SCHED_CLASS_NAME_MAX 32   /* of a priority class, with the NUL */
#define SCHED_SESSION_NAME_MAX 16 /* "s4294967295" */

struct sched_owner {
    char name[CTL_OWNER_MAX];
    unsigned n_sessions;
    struct sched_session *sessions; /* newest first */
    struct sched_holding holding;   /* of all of them */
    struct gp_tree_node by_name;
};

/* What a slice really uses, as its server says. */
struct sched_use {
    uint64_t used_bytes, high_bytes, moved_bytes;
    uint64_t gpu_ns, wait_ns, launches;
    uint32_t share_permille; /* of the card's time, between the last two samples */
    uint64_t sample_ns, sample_gpu_ns;
    bool reported; /* to this scheduler, ever */
    /* When it began here, and what has been charged since: a server says what it likes,
     * and a slice uses no more of its card than the time that has passed. */
    uint64_t since_ns;
    struct sched_spent charged;
};

/* What of a session is on one server: slices that stand together in its list. */
struct sched_part {
    struct sched_session *session;
    struct sched_server *server;
    uint32_t first, n_slices;
    /* As last reported; nothing is in use when the server is not connected. */
    uint32_t attachments;
    char *links; /* what they go over, in words; NULL: they go over nothing */
    uint64_t report_serial; /* of the report that named it last */
    uint32_t close_number;  /* of the notice that closes it, see sched_server.closes */
    bool gone;              /* closing, and the server has no workers of it */
    struct gp_tree_node by_server;
};

/* Who may want a session to end before its client does, each for one reason. */
enum sched_limit_kind {
    SCHED_PREEMPTION,  /* a waiter that it makes room for */
    SCHED_RESERVATION, /* a reservation of a card of it */
    SCHED_LIMITS
};

struct sched_limit {
    const void *by; /* that waiter or reservation; NULL: there is no such limit */
    uint64_t end_ns;
    char *words; /* why it ends then; NULL: there was no memory for them */
};

/* Half a million of them are held, so each is one allocation of what it needs: its
 * slices, parts and strings are behind it. */
struct sched_session {
    uint64_t id;
    char name[SCHED_SESSION_NAME_MAX]; /* "s7": the number of its id */
    uint8_t lease_key[CTL_LEASE_KEY_SIZE];
    struct sched_owner *owner;
    const char *program;
    enum ticket_policy policy;
    bool offline;
    enum ticket_spatial spatial;
    uint32_t core_limit, max_attachments, lease_ms;
    uint64_t opened_unix;
    const char *class_name; /* its priority class */
    uint64_t ends_unix;     /* its time limit; 0: none */
    uint64_t ends_ns; /* no lease goes beyond it: the first of that limit and of */
    struct sched_limit limits[SCHED_LIMITS]; /* these */
    uint64_t reserved_from;                  /* of the reservation that it ends for */
    struct sched_tenant *tenant;
    struct sched_amount amount; /* charged to it */
    bool bound; /* its tickets are good for who has the secret of @client_key only */
    uint8_t client_key[TICKET_CLIENT_KEY_SIZE];
    struct sched_slice *slices;
    uint32_t n_slices;

    bool closing;
    uint64_t lease_end_ns; /* gp_now_ns() clock */
    struct gp_tree_node by_lease;

    struct sched_part *parts; /* room for as many as slices */
    uint32_t n_parts;
    struct sched_use *use; /* as many as slices */

    /* The connection whose end ends the session soon, and its list; sched_conn.c's. */
    struct sched_conn *holder;
    struct sched_session *held_next, **held_link;
    /* A close request that is answered when the session is gone; sched_conn.c's. */
    struct sched_conn *closer;
    uint32_t closer_request;
    struct sched_session *closing_next, **closing_link;

    /* Opened, and answered when it is on disk; sched_commit.c's. */
    bool pending, pending_hold;
    bool pending_many; /* with others, by a request that is answered apart */
    struct sched_conn *pending_conn; /* NULL: it is gone */
    uint32_t pending_request;
    struct sched_session *pending_next;
    uint64_t open_serial; /* of the transaction that has it; sched_store.h */
    uint64_t end_serial;  /* of the one that ends it */

    struct sched_session *owner_next, **owner_link; /* among its owner's */
    struct gp_tree_node by_id;
};

/*
 * The id of a session: an epoch of 31 bits above a number of 32.
 *
 * The number counts the sessions of one state file and is what people see ("s7").  The
 * epoch is random and new at each start of the scheduler, so that an id never comes
 * again when the state was lost, came from an old copy, or ended in a power cut:
 * servers remember ids that were closed and join clients to ids that are open. Sessions
 * keep their ids over a restart.
 */
static inline uint64_t
sched_id_make(uint32_t epoch, uint32_t number)
{
    return (uint64_t)epoch << 32 | number;
}

static inline uint32_t
sched_id_epoch(uint64_t id)
{
    return (uint32_t)(id >> 32);
}

static inline uint32_t
sched_id_number(uint64_t id)
{
    return (uint32_t)id;
}

/* What of it is on @server; NULL: nothing. */
struct sched_part *sched_session_part(struct sched_session *session,
                                      const struct sched_server *server);

/* Processes that use it: each attaches to all of its servers. */
uint32_t sched_session_attachments(const struct sched_session *session);
/* Has none of its servers reported to this scheduler? */
bool sched_session_unseen(const struct sched_session *session);

struct sched_sessions {
    struct sched_pool *pool;
    struct gp_tree by_id, by_lease, by_server, owners;
    struct sched_accounts accounts;
    uint64_t enter_from[2]; /* the owner whose turn it is; sched_sessions_enter() */
    uint64_t next_id;
    struct sched_tenants tenants;
    /* A tenant holds more (or, @less, less) than before; or NULL. */
    void (*on_charged)(void *arg, struct sched_tenant *tenant, bool less);
    void *on_charged_arg;
};

/* What slices are, for quotas. */
struct sched_amount sched_decision_amount(const struct sched_decision *decision);
/* The rules have changed: every session belongs to the tenant that they name now. */
void sched_sessions_set_rules(struct sched_sessions *set,
                              const struct sched_rules *rules);

void sched_sessions_init(struct sched_sessions *set, struct sched_pool *pool);
void sched_sessions_fini(struct sched_sessions *set);

/* What a session is made from; strings are copied, and made printable. */
struct sched_session_spec {
    uint64_t id;              /* 0: the next one */
    const uint8_t *lease_key; /* NULL: a new one */
    const char *owner, *program;
    enum ticket_policy policy;
    bool offline;
    enum ticket_spatial spatial;
    uint32_t core_limit, max_attachments, lease_ms;
    uint64_t opened_unix;
    const char *class_name; /* NULL: none */
    uint64_t ends_unix;
    bool bound;
    uint8_t client_key[TICKET_CLIENT_KEY_SIZE];
};

/* Make a session and take @decision's slices for it.  -ENOSPC: they are not free. */
int sched_sessions_add(struct sched_sessions *set,
                       const struct sched_session_spec *spec,
                       const struct sched_decision *decision, uint64_t now_ns,
                       struct sched_session **ret_session);
/* Give its slices back and forget it.  It must not be held or awaited any more. */
void sched_session_free(struct sched_sessions *set, struct sched_session *session);

struct sched_session *sched_sessions_find(const struct sched_sessions *set,
                                          uint64_t id);
/* By what people call it: "s7" is 7, whatever its epoch. */
struct sched_session *sched_sessions_find_number(const struct sched_sessions *set,
                                                 uint64_t number);
struct sched_session *sched_sessions_next(const struct sched_sessions *set,
                                          const struct sched_session *after);
/* What sessions have on one server, closing ones included, in order of their numbers.
 */
struct sched_part *sched_sessions_next_on(const struct sched_sessions *set,
                                          const struct sched_server *server,
                                          const struct sched_part *after);
/* Who holds sessions under that name; NULL: nobody. */
/* Enter into the accounts what owners hold, for the next @most of them whose last entry
 * is @older_ns ago. */
void sched_sessions_enter(struct sched_sessions *set, uint64_t now_ns,
                          uint64_t older_ns, size_t most);
const struct sched_owner *sched_sessions_owner(const struct sched_sessions *set,
                                               const char *name);
unsigned sched_sessions_of_owner(const struct sched_sessions *set, const char *owner);
/* The oldest session of @owner that is open, or NULL. */
struct sched_session *sched_sessions_find_owner(const struct sched_sessions *set,
                                                const char *owner);

/* Its server reports what slice @i uses, or says nothing of it any more. */
void sched_session_used(struct sched_session *session, uint32_t i,
                        const struct sched_use *use, uint64_t now_ns);
void sched_session_unused(struct sched_part *part);

/* What its attachments on that server go over, "": nothing. */
void sched_part_set_links(struct sched_part *part, const char *links);
/* Why it ends at ends_ns. */
const char *sched_session_end_words(const struct sched_session *session);

/* @limit holds from now on, instead of the one of its kind that there was; its words
 * are copied. */
void sched_session_limit(struct sched_sessions *set, struct sched_session *session,
                         enum sched_limit_kind kind, const struct sched_limit *limit);
/* The limit of that kind holds no more; what else ends the session stays. */
void sched_session_unlimit(struct sched_sessions *set, struct sched_session *session,
                           enum sched_limit_kind kind);
/* Move the end of the lease, within its limits.  Only while open. */
void sched_session_lease(struct sched_sessions *set, struct sched_session *session,
                         uint64_t end_ns);
/* Open -> closing. */
void sched_session_closing(struct sched_sessions *set, struct sched_session *session);
/* The open session whose lease ends first, or NULL. */
struct sched_session *sched_sessions_first_lease(const struct sched_sessions *set);

#endif
