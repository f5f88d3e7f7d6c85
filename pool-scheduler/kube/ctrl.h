/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller: claims, cards and pods of a cluster on one side, the pool scheduler
 * on the other.
 *
 * One object per process, on main()'s stack; one thread, one event loop.  Watches keep
 * the objects (kube_watch.h) and put names into the queue; the queue is worked off one
 * name at a time, with requests that wait, and only while this process holds the lease.
 *
 * Looking at a name again is always safe: names of what is made follow from what it is
 * made for, the scheduler opens one session per name however often it is asked, and a
 * finalizer is set before anything is taken.  So a kill at any point, a second answer,
 * an old object are repaired by looking again.
 *
 *   c:ns/name   a claim   ctrl_claim.c        g:name   a slice        ctrl_gpu.c
 *   p:ns/name   a pod     ctrl_pod.c          cards    all cards      ctrl_cards.c
 *   r:ns/name   a ResourceClaim               ctrl_dra.c
 */
#ifndef CTRL_H
#define CTRL_H

#include "control.pb-c.h"
#include "ctrl_dra_state.h"
#include "ctrl_pool.h"
#include "ctrl_queue.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "kube_ask.h"
#include "kube_http.h"
#include "kube_object.h"
#include "kube_watch.h"

#include <errno.h>

struct gp_err;
struct kube_config;
struct sent_event;

#define CTRL_FINALIZER "elasticgpu.io/session"
#define CTRL_GATE "elasticgpu.io/claims"
#define CTRL_GENERATED "elasticgpu.io/generated-for" /* label: the pod's uid */
#define CTRL_KIND "elasticgpu.io/kind"               /* label: card or slice */

/* An error after which a name is not looked at again until its object changes. */
#define CTRL_INVALID (-ENOTRECOVERABLE)

struct ctrl_config {
    const char *identity; /* of this process, for the lease */
    const char *ns;       /* where the lease is */
    const char *lease;    /* its name */
    unsigned lease_s, renew_s;
    const char *ready_file;
    uint64_t server_grace_ns; /* how long a server may be silent */
    bool dra;                 /* serve ResourceClaims */
    unsigned dra_parts;       /* of a card, where devices are exclusive */
    bool legacy_gpus;         /* publish GPU objects as well */
};

struct ctrl_places {
    struct ctrl_place *first; /* in the order in which they were taken */
    unsigned n;
    uint64_t retry_ns; /* nobody answered: none connects before */
};

struct ctrl {
    struct ctrl_config config;
    struct gp_loop *loop;
    struct kube_http *http;
    struct kube_watch claims, classes, gpus, pods, quotas;
    struct kube_watch legacy; /* ctrl_legacy.c's */
    struct kube_watch leases; /* ctrl_lease.c's: the one lease */
    struct ctrl_dra dra;
    struct ctrl_pool pool;
    struct ctrl_queue queue;
    struct gp_loop_timer work, tick;
    json_t *waiting;  /* names of those that want something that others hold, and
                         when words about it were written last, in ns */
    json_t *users;    /* claim's key -> keys of the pods that name it */
    json_t *uses;     /* pod's key -> keys of the claims that it names */
    json_t *sessions; /* ElasticGPU's name -> address of its struct ctrl_session */
    json_t *told;     /* object's uid -> the last event about it */
    struct ctrl_places places; /* ctrl_place.c's: claims in the scheduler's queue */
    struct {
        bool held;
        uint64_t until_ns; /* work may be done until then */
        char *query;       /* of the watch */
        char seen[128];    /* the holder and time that were read last */
        uint64_t seen_ns;
        uint64_t next_ns;
    } lease;
    bool started; /* everything has been looked at since the lease was taken */
    struct gp_log_limit refusals; /* of objects, in the log */
    uint64_t orphans_ns;
    bool sessions_changed;        /* the pool has, since they were all renewed */
    uint64_t sessions_checked_ns; /* which was then */
    struct { /* ctrl_event.c's: a status that waits for a second one */
        bool on;
        struct kube_watch *watch;
        json_t *object, *patch;
    } held;
    struct sent_event *events; /* ctrl_event.c's */
    unsigned n_events;
};

int ctrl_init(struct ctrl *ctrl, const struct ctrl_config *config,
              const struct kube_config *kube, const char *scheduler,
              const char *token_file, uint32_t session_lease_ms, struct gp_err *err);
int ctrl_run(struct ctrl *ctrl); /* until SIGTERM or SIGINT */
void ctrl_fini(struct ctrl *ctrl);
/* Look at it soon. */
void ctrl_queue_name(struct ctrl *ctrl, const char *kind, const char *key);
/* Look at it whenever something may have become free, from now on or no more. */
void ctrl_set_waiting(struct ctrl *ctrl, const char *kind, const char *key, bool waits);

/* May the words about what waits, and for nothing else than before, be written anew? If
 * not, it is looked at again when they may. */
bool ctrl_words_due(struct ctrl *ctrl, const char *kind, const char *key);

/* ctrl_lease.c */
int ctrl_lease_start(struct ctrl *ctrl, struct gp_err *err);
/* Keep or try to get the lease.  Called twice a second; asks the API server only when
 * the lease is to be renewed or taken. */
void ctrl_lease_tick(struct ctrl *ctrl);
/* Give it back, if it is held, so that the next controller need not wait. */
void ctrl_lease_stop(struct ctrl *ctrl);

/* ctrl_event.c: an event about @object.  The same words twice are said once. */
void ctrl_event(struct ctrl *ctrl, const struct kube_resource *res,
                const json_t *object, bool warning, const char *reason,
                const char *message);
void ctrl_events_stop(struct ctrl *ctrl);
/* Merge @status into that of @object; nothing is sent when it says so already.
 * CTRL_INVALID: the API server will not take it, however often it is asked. */
int ctrl_status(struct ctrl *ctrl, struct kube_watch *watch, const json_t *object,
                json_t *status, struct gp_err *err);
/* From here on a status waits until there is a second one, and both are written at the
 * same time; until ctrl_status_flush(), which must follow. */
void ctrl_status_hold(struct ctrl *ctrl);
/* Write what still waits, or, after an error, do not. */
int ctrl_status_flush(struct ctrl *ctrl, bool failed, struct gp_err *err);

/* ctrl_session.c */
struct ctrl_session {
    struct ctrl_grant grant;
    bool whole;        /* the grant is known, not only its number */
    bool unsure;       /* asked for, and not answered: there may be one */
    bool ending;       /* to be closed, and not yet known to be */
    uint64_t renew_ns; /* when its lease is half over, or it is to be looked after */
};
int ctrl_session_load(struct ctrl *ctrl, struct gp_err *err);
int ctrl_session_ensure(struct ctrl *ctrl, const char *name, const char *program,
                        const struct kube_ask *ask, const struct kube_class *class,
                        const struct ctrl_grant **ret, struct gp_err *err);
/* Open all of @list that are not open yet, or none; the grants are then had by
 * ctrl_session_ensure() for each.  As ctrl_pool_open_many(). */
int ctrl_session_ensure_many(struct ctrl *ctrl, const struct ctrl_wanted *list,
                             size_t n, size_t *ret_failed, struct gp_err *err);
/* It was opened for a claim that waited in the scheduler's queue.  -ENOMEM. */
int ctrl_session_granted(struct ctrl *ctrl, const char *name,
                         const struct ctrl_grant *grant);
/* It was asked for and nobody answered: whoever ends it looks whether there is one. */
void ctrl_session_unsure(struct ctrl *ctrl, const char *name);
/* Is there one that is to stay? */
bool ctrl_session_known(const struct ctrl *ctrl, const char *name);
/* The same, and it is known to be open: its request was answered. */
bool ctrl_session_open(const struct ctrl *ctrl, const char *name);
/* Does it hold a part of the pool?  One that is being ended does, too. */
bool ctrl_session_holds(const struct ctrl *ctrl, const char *name);
/* It has ended, or never been.  The servers' answer is waited for @patience_ms (0: as
 * usual).  -errno: nobody knows; it is not renewed any more, and tried again until the
 * scheduler says that it is closing. */
int ctrl_session_end(struct ctrl *ctrl, const char *name, uint32_t patience_ms,
                     struct gp_err *err);
/* The pool has changed: see soon whether all of them are still open. */
void ctrl_session_check(struct ctrl *ctrl);
/* Renew what is due, and close what nothing stands for.  Called twice a second. */
void ctrl_session_tick(struct ctrl *ctrl);
void ctrl_session_fini(struct ctrl *ctrl);

/* ctrl_place.c: places of claims in the scheduler's queue.  The scheduler keeps cards
 * for sixteen.  Where all are taken, a namespace that has fewer gets one of that which
 * has most. */
#define CTRL_PLACES_MAX 32
/* Has the claim @key a place for @wanted?  -EAGAIN: yes, and waits there; @err says for
 * what.  0: it has none, or it was served: open the session. */
int ctrl_place_look(struct ctrl *ctrl, const char *key,
                    const struct ctrl_wanted *wanted, struct gp_err *err);
/* There was no room for @wanted, as @words say: the claim @key, which waits in no
 * place, takes one if it can.  True: it has one, or was refused one a moment ago. */
bool ctrl_place_take(struct ctrl *ctrl, const char *key,
                     const struct ctrl_wanted *wanted, const char *words);
/* As that for @n claims that are served together: each of @keys has a place for that of
 * @list in its place, or none has. */
bool ctrl_places_take(struct ctrl *ctrl, const char *const *keys,
                      const struct ctrl_wanted *list, size_t n, const char *words);
/* What the claim waits for in its place; NULL: it has none, or was refused one. */
const char *ctrl_place_words(struct ctrl *ctrl, const char *key);
/* It gives its place back; none is no mistake. */
void ctrl_place_leave(struct ctrl *ctrl, const char *key);
/* All give theirs back. */
void ctrl_places_leave(struct ctrl *ctrl);

/* ctrl_quota.c: -EDQUOT when all @n of @list together are too much for @ns, besides
 * what its claims hold, but for those whose keys are in @except. */
int ctrl_quota_check(struct ctrl *ctrl, const char *ns, const json_t *except,
                     const struct kube_ask *list, size_t n, struct gp_err *err);

/* ctrl_pod.c */
void ctrl_pod_changed(struct kube_watch *watch, const char *key, const json_t *pod);
int ctrl_pod(struct ctrl *ctrl, const char *key, struct gp_err *err);
/* The node that it is on, or the only one that it may go to; "": there are several. */
const char *ctrl_pod_node(const json_t *pod);
/* As that in spec.onlyNode of a pod of which the rest is not kept. */
const char *ctrl_pod_only_node(const json_t *spec);
/* Pods that use one shared claim at a time: maxItems of status.consumers in the CRD,
 * beyond which the API server takes no status.  A Deployment of 20 replicas is the
 * largest seen. */
#define CTRL_CONSUMERS_MAX 256
/* Keys of the claims that a pod waits for behind its gate: those of its containers, but
 * for what is allocated when it is scheduled.  A new reference; NULL: it has no gate.
 */
json_t *ctrl_pod_gate_claims(const struct ctrl *ctrl, const char *pod_key);
/* {"name", "uid", "node"} of the pods that use a claim, those of before first; at most
 * CTRL_CONSUMERS_MAX. */
json_t *ctrl_pod_consumers(struct ctrl *ctrl, const json_t *claim);

/* ctrl_claim.c, ctrl_gpu.c, ctrl_cards.c */
int ctrl_claim(struct ctrl *ctrl, const char *key, struct gp_err *err);
int ctrl_gpu(struct ctrl *ctrl, const char *name, struct gp_err *err);
/* The slice of a claim, made or brought up to date. */
int ctrl_gpu_put(struct ctrl *ctrl, const char *name, const json_t *claim,
                 const struct kube_ask *ask, const struct kube_class *class,
                 const struct ctrl_grant *grant, const json_t *consumers,
                 struct gp_err *err);
/* Its phase, in which no pod uses it. */
int ctrl_gpu_phase(struct ctrl *ctrl, const json_t *gpu, const char *phase,
                   const char *reason, const char *message, struct gp_err *err);
/* End its session and delete it. */
int ctrl_gpu_delete(struct ctrl *ctrl, const char *name, struct gp_err *err);
int ctrl_cards(struct ctrl *ctrl, struct gp_err *err);
/* What became of publishing @server, or one of its cards.  An object that the API
 * server will not take, as with a server's name that makes no label, is left out and
 * logged: 0, so that everything else is published.  Any other @r as it is. */
int ctrl_cards_published(struct ctrl *ctrl, const char *server, int r,
                         const struct gp_err *err);
/* Whether a card may be given to somebody, apart from what is free on it. */
enum ctrl_card_state {
    CTRL_CARD_OPEN,
    CTRL_CARD_DEAD,     /* its server does not report */
    CTRL_CARD_DRAINING, /* its server takes no new sessions */
    CTRL_CARD_FAULTY,
    CTRL_CARD_CORDONED,
};
enum ctrl_card_state ctrl_card_state(const Gpupool__Ctl__CtlServerStatus *server,
                                     const Gpupool__Ctl__CtlCardStatus *card);
/* What of it may still be given, as a resource list; nothing unless it is open. */
json_t *ctrl_card_allocatable(const Gpupool__Ctl__CtlServerStatus *server,
                              const Gpupool__Ctl__CtlCardStatus *card);

/* ctrl_dra.c: ResourceClaims. */
int ctrl_dra_start(struct ctrl *ctrl, struct gp_err *err);
bool ctrl_dra_synced(const struct ctrl *ctrl);
/* Everything again, after the lease was taken. */
void ctrl_dra_queue_all(struct ctrl *ctrl);
/* Bring the ResourceSlices up to what the pool says. */
int ctrl_dra_publish(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
                     struct gp_err *err);
/* Look at a ResourceClaim. */
int ctrl_dra_claim(struct ctrl *ctrl, const char *key, struct gp_err *err);

/* It does, and that is not allocated any more, or not as it was. */
bool ctrl_dra_gone(const struct ctrl *ctrl, const json_t *claim);
/* @claim has been removed: its ResourceClaim, if it stood for one, may need another. */
void ctrl_dra_removed(struct ctrl *ctrl, const json_t *claim);
/* Write onto the ResourceClaim what became of it. */
void ctrl_dra_report(struct ctrl *ctrl, const json_t *claim, bool ready,
                     const char *reason, const char *message);

/* ctrl_legacy.c: GPU objects. */
int ctrl_legacy_start(struct ctrl *ctrl, struct gp_err *err);
bool ctrl_legacy_synced(const struct ctrl *ctrl);
int ctrl_legacy_publish(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
                        struct gp_err *err);

#endif
