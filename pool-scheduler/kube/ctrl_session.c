/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions that the controller keeps alive, by the name of their ElasticGPU.
 *
 * After a restart the scheduler's list says which there are; what else is known of one
 * comes back when it is asked for again.  One that ended without our doing (at its
 * server, by an administrator, with the scheduler's state) is found when it is renewed:
 * soon after the pool has changed, and every CHECK_NS in case no change is seen,
 * because another session got the same part of the card meanwhile.
 */
#include "ctl_call.h"
#include "ctl_limits.h"
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <string.h>

static const char PREFIX[] = CTL_OWNER_KUBE;

#define CHECK_NS (10 * GP_NS_PER_S)
#define RETRY_NS (5 * GP_NS_PER_S)
/* After changes of the pool all are renewed at most this often. */
#define CHECK_PAUSE_NS (2 * GP_NS_PER_S)

static struct ctrl_session *
find(const struct ctrl *ctrl, const char *name)
{
    return (struct ctrl_session *)(intptr_t)json_integer_value(
        json_object_get(ctrl->sessions, name));
}

static struct ctrl_session *
find_or_make(struct ctrl *ctrl, const char *name)
{
    struct ctrl_session *session = find(ctrl, name);

    if (session)
        return session;
    session = calloc(1, sizeof(*session));
    if (session)
        json_object_set_new(ctrl->sessions, name, json_integer((intptr_t)session));
    return session;
}

static uint64_t
next_renewal(uint32_t lease_ms)
{
    return gp_now_ns() + gp_min(lease_ms * GP_NS_PER_MS / 2, CHECK_NS);
}

static void
drop(struct ctrl *ctrl, const char *name)
{
    free(find(ctrl, name));
    json_object_del(ctrl->sessions, name);
}

void
ctrl_session_fini(struct ctrl *ctrl)
{
    const char *name;
    json_t *address;

    json_object_foreach(ctrl->sessions, name, address)
        free((void *)(intptr_t)json_integer_value(address));
    json_object_clear(ctrl->sessions);
}

bool
ctrl_session_known(const struct ctrl *ctrl, const char *name)
{
    const struct ctrl_session *session = find(ctrl, name);

    return session && !session->ending;
}

bool
ctrl_session_open(const struct ctrl *ctrl, const char *name)
{
    const struct ctrl_session *session = find(ctrl, name);

    return session && !session->ending && !session->unsure;
}

bool
ctrl_session_holds(const struct ctrl *ctrl, const char *name)
{
    return find(ctrl, name);
}

int
ctrl_session_load(struct ctrl *ctrl, struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    int r = ctrl_pool_status(&ctrl->pool, true, &reply, err);

    if (r < 0)
        return r;
    ctrl_session_fini(ctrl);
    for (size_t i = 0; i < reply->status->n_sessions; i++) {
        const Gpupool__Ctl__CtlSessionStatus *s = reply->status->sessions[i];
        struct ctrl_session *session;

        if (strncmp(s->owner, PREFIX, sizeof(PREFIX) - 1) != 0)
            continue;
        session = find_or_make(ctrl, s->owner + sizeof(PREFIX) - 1);
        if (!session)
            return -ENOMEM;
        session->grant.id = s->session_id;
        gp_str_copy(session->grant.session, sizeof(session->grant.session), s->session);
        session->renew_ns = next_renewal(s->lease_left_ms);
    }
    return 0;
}

void
ctrl_session_unsure(struct ctrl *ctrl, const char *name)
{
    struct ctrl_session *session = find_or_make(ctrl, name);

    if (session)
        session->unsure = !session->grant.id;
}

int
ctrl_session_granted(struct ctrl *ctrl, const char *name,
                     const struct ctrl_grant *grant)
{
    struct ctrl_session *session = find_or_make(ctrl, name);

    if (!session)
        return -ENOMEM;
    session->grant = *grant;
    session->whole = true;
    session->unsure = false;
    session->renew_ns = next_renewal(grant->lease_ms);
    return 0;
}

int
ctrl_session_ensure(struct ctrl *ctrl, const char *name, const char *program,
                    const struct kube_ask *ask, const struct kube_class *class,
                    const struct ctrl_grant **ret, struct gp_err *err)
{
    struct ctrl_session *session = find(ctrl, name);
    struct ctrl_grant grant;
    int r = session && session->ending ? ctrl_session_end(ctrl, name, 0, err) : 0;

    if (r < 0)
        return r;
    session = find(ctrl, name);
    if (session && session->whole) {
        *ret = &session->grant;
        return 0;
    }
    r = ctrl_pool_open(&ctrl->pool, name, program, ask, class, &grant, err);
    if (r < 0) {
        if (r == -ENOSPC)
            drop(ctrl, name); /* there would be one */
        else if (ctrl->pool.sent)
            ctrl_session_unsure(ctrl, name);
        return r;
    }
    r = ctrl_session_granted(ctrl, name, &grant);
    if (!r)
        *ret = &find(ctrl, name)->grant;
    return r;
}

int
ctrl_session_ensure_many(struct ctrl *ctrl, const struct ctrl_wanted *list, size_t n,
                         size_t *ret_failed, struct gp_err *err)
{
    int r = 0;

    for (size_t i = 0; !r && i < n; i++) {
        const struct ctrl_session *session = find(ctrl, list[i].name);

        *ret_failed = i;
        if (session && session->ending)
            r = ctrl_session_end(ctrl, list[i].name, 0, err);
    }
    if (!r)
        r = ctrl_pool_open_many(&ctrl->pool, list, n, ret_failed, err);
    for (size_t i = 0; r < 0 && i < n; i++) {
        if (r == -ENOSPC)
            drop(ctrl, list[i].name); /* there would be one */
        else if (ctrl->pool.sent)
            ctrl_session_unsure(ctrl, list[i].name);
    }
    return r;
}

int
ctrl_session_end(struct ctrl *ctrl, const char *name, uint32_t patience_ms,
                 struct gp_err *err)
{
    struct ctrl_session *session = find(ctrl, name);
    int r = 0;

    if (!session)
        return 0;
    session->ending = true;
    session->renew_ns = gp_now_ns() + RETRY_NS;
    if (session->unsure)
        r = ctrl_pool_find(&ctrl->pool, name, &session->grant.id, err);
    if (!r)
        r = ctrl_pool_close(&ctrl->pool, session->grant.id, patience_ms, err);
    if (r < 0 && r != -ENOENT)
        return r;
    drop(ctrl, name);
    return 0;
}

/* Its claim, or nobody, asks for another. */
static void
has_ended(struct ctrl *ctrl, const char *name, const struct ctrl_session *session)
{
    const json_t *gpu = kube_watch_get(&ctrl->gpus, "", name);
    const json_t *claim =
        kube_watch_get(&ctrl->claims, kube_str(gpu, "spec.claimRef.namespace"),
                       kube_str(gpu, "spec.claimRef.name"));
    CLEANUP_FREE char *words =
        gp_str_printf("session %s has ended, and not with the claim; another is opened "
                      "as soon as there is room",
                      session->grant.session);

    gp_log_warn("session", "%s: its session %s has ended", name,
                session->grant.session);
    if (claim && words)
        ctrl_event(ctrl, &KUBE_CLAIMS, claim, true, "SessionEnded", words);
    ctrl_queue_name(ctrl, "g:", name);
    drop(ctrl, name);
}

/* What became of its renewal. */
static void
renewed(struct ctrl *ctrl, const char *name, struct ctrl_session *session, int r)
{
    if (r == -ENOENT) {
        has_ended(ctrl, name, session);
        return;
    }
    /* A session whose key is not known is asked for again, which renews it. */
    if (!session->whole)
        ctrl_queue_name(ctrl, "g:", name);
    session->renew_ns = r < 0 || !session->whole
                            ? gp_now_ns() + RETRY_NS
                            : next_renewal(session->grant.lease_ms);
}

/* Sessions that one request renews. */
struct batch {
    size_t n;
    const char *names[CTL_RENEW_MAX];
    struct ctrl_session *sessions[CTL_RENEW_MAX];
    struct ctrl_renewal list[CTL_RENEW_MAX];
};

static void
batch_send(struct ctrl *ctrl, struct batch *batch)
{
    struct gp_err err = {0};
    int r = batch->n ? ctrl_pool_renew(&ctrl->pool, batch->list, batch->n, &err) : 0;

    for (size_t i = 0; i < batch->n; i++)
        renewed(ctrl, batch->names[i], batch->sessions[i],
                r < 0 ? r : batch->list[i].r);
    batch->n = 0;
}

static void
batch_add(struct ctrl *ctrl, struct batch *batch, const char *name,
          struct ctrl_session *session)
{
    if (!session->whole) {
        renewed(ctrl, name, session, 0);
        return;
    }
    batch->names[batch->n] = name;
    batch->sessions[batch->n] = session;
    batch->list[batch->n++] =
        (struct ctrl_renewal){.id = session->grant.id, .key = session->grant.key};
    if (batch->n == CTL_RENEW_MAX)
        batch_send(ctrl, batch);
}

void
ctrl_session_check(struct ctrl *ctrl)
{
    ctrl->sessions_changed = true;
}

/* All are due when the pool has changed. */
static bool
check_due(struct ctrl *ctrl, uint64_t now)
{
    if (!ctrl->sessions_changed || now < ctrl->sessions_checked_ns + CHECK_PAUSE_NS)
        return false;
    ctrl->sessions_changed = false;
    ctrl->sessions_checked_ns = now;
    return true;
}

/* Whether one is due; those that soon will be are then renewed with it. */
static bool
any_due(const struct ctrl *ctrl, uint64_t now)
{
    const char *name;
    json_t *address;

    json_object_foreach(ctrl->sessions, name, address)
    {
        const struct ctrl_session *session =
            (void *)(intptr_t)json_integer_value(address);

        if (session->renew_ns <= now)
            return true;
    }
    return false;
}

static uint64_t
early_ns(const struct ctrl_session *session)
{
    return session->whole ? session->grant.lease_ms * GP_NS_PER_MS / 8 : 0;
}

/* False: nobody answers. */
static bool
try_to_end(struct ctrl *ctrl, const char *name)
{
    struct gp_err err = {0};
    int r = ctrl_session_end(ctrl, name, 0, &err);

    if (r < 0)
        gp_log_warn("session", "%s: not closed: %s", name, gp_err_msg(&err, r));
    else
        ctrl_queue_name(ctrl, "g:", name);
    return r == 0;
}

/* A session that no object stands for: its claim was deleted while nobody looked. */
static bool
is_orphan(const struct ctrl *ctrl, const char *name)
{
    const char *key;
    json_t *claim;

    if (kube_watch_get(&ctrl->gpus, "", name))
        return false;
    json_object_foreach(ctrl->claims.objects, key, claim)
    {
        if (strcmp(kube_str(claim, "spec.elasticGPUName"), name) == 0)
            return false;
    }
    gp_log_info("session", "%s: nothing stands for it any more, closed", name);
    return true;
}

void
ctrl_session_tick(struct ctrl *ctrl)
{
    uint64_t now = gp_now_ns();
    bool orphans = now > ctrl->orphans_ns, check = check_due(ctrl, now);
    bool due = check || any_due(ctrl, now);
    bool answered = true; /* else those that are to end wait for the next time */
    struct batch batch = {.n = 0};
    const char *name;
    json_t *address;
    void *next;

    if (orphans)
        ctrl->orphans_ns = now + 600 * GP_NS_PER_S;
    json_object_foreach_safe(ctrl->sessions, next, name, address)
    {
        struct ctrl_session *session = (void *)(intptr_t)json_integer_value(address);
        CLEANUP_FREE char *copy = NULL;

        if (orphans && !session->ending && is_orphan(ctrl, name)) {
            session->ending = true;
            session->renew_ns = now;
        }
        if (!session->ending) {
            if (check || (due && session->renew_ns <= now + early_ns(session)))
                batch_add(ctrl, &batch, name, session);
        } else if (answered && session->renew_ns <= now && (copy = strdup(name))) {
            answered = try_to_end(ctrl, copy);
        }
    }
    batch_send(ctrl, &batch);
}
