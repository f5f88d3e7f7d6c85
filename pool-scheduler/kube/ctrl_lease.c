/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One controller at a time, by a Lease object.
 *
 * A holder renews it every few seconds.  Everybody watches it; a controller that sees
 * it unchanged for its whole term, by its own clock, takes it.  Each write carries the
 * version that was seen, so of two that try one is refused, and so is one whose watch
 * has fallen behind.  Work stops well before the term is over when a renewal fails, so
 * two never work at a time unless one process is suspended in the middle of a request;
 * what it then sends carries versions and names under which it does no harm (ctrl.h).
 */
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static json_t *
lease_object(const struct ctrl *ctrl, const json_t *old, const char *holder)
{
    char now[KUBE_TIME_TEXT];
    json_t *lease = old ? json_deep_copy(old) : NULL, *spec;
    bool same = strcmp(kube_str(old, "spec.holderIdentity"), holder) == 0;
    json_int_t turns = json_integer_value(kube_at(old, "spec.leaseTransitions"));

    if (!lease)
        lease = json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion",
                          "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name",
                          ctrl->config.lease, "namespace", ctrl->config.ns);
    spec = json_object_get(lease, "spec");
    if (!spec) {
        spec = json_object();
        json_object_set_new(lease, "spec", spec);
    }
    kube_time_micro(now);
    json_object_set_new(spec, "holderIdentity", json_string(holder));
    json_object_set_new(spec, "leaseDurationSeconds",
                        json_integer(ctrl->config.lease_s));
    json_object_set_new(spec, "renewTime", json_string(now));
    if (!same) {
        json_object_set_new(spec, "acquireTime", json_string(now));
        json_object_set_new(spec, "leaseTransitions", json_integer(turns + 1));
    }
    return lease;
}

/* The answer is kept, so that the next renewal carries its version. */
static int
write_lease(struct ctrl *ctrl, const json_t *old, const char *holder,
            struct gp_err *err)
{
    CLEANUP_JSON json_t *lease = lease_object(ctrl, old, holder), *answer = NULL;
    int r;

    if (old)
        r = kube_api_update(ctrl->http, &KUBE_LEASES, ctrl->config.ns,
                            ctrl->config.lease, NULL, lease, &answer, err);
    else
        r = kube_api_create(ctrl->http, &KUBE_LEASES, ctrl->config.ns, lease, &answer,
                            err);
    if (!r)
        kube_watch_put(&ctrl->leases, answer);
    return r;
}

/* May it be taken?  Remembers what was seen, and when. */
static bool
is_free(struct ctrl *ctrl, const json_t *lease, uint64_t now)
{
    const char *holder = kube_str(lease, "spec.holderIdentity");
    char seen[sizeof(ctrl->lease.seen)];

    if (!lease || !*holder || strcmp(holder, ctrl->config.identity) == 0)
        return true;
    snprintf(seen, sizeof(seen), "%s %s", holder, kube_str(lease, "spec.renewTime"));
    if (strcmp(seen, ctrl->lease.seen) != 0) {
        gp_str_copy(ctrl->lease.seen, sizeof(ctrl->lease.seen), seen);
        ctrl->lease.seen_ns = now;
        return false;
    }
    return now - ctrl->lease.seen_ns > ctrl->config.lease_s * GP_NS_PER_S;
}

/* Somebody wrote it and the watch has not said so: its link may be dead. */
static void
read_lease(struct ctrl *ctrl)
{
    CLEANUP_JSON json_t *lease = NULL;

    if (kube_api_get(ctrl->http, &KUBE_LEASES, ctrl->config.ns, ctrl->config.lease,
                     &lease, NULL) == 0)
        kube_watch_put(&ctrl->leases, lease);
}

static json_t *
known_lease(const struct ctrl *ctrl)
{
    return kube_watch_get(&ctrl->leases, ctrl->config.ns, ctrl->config.lease);
}

static void
try_lease(struct ctrl *ctrl, uint64_t now)
{
    CLEANUP_JSON json_t *lease = json_incref(known_lease(ctrl));
    struct gp_err err = {0};
    int r = write_lease(ctrl, lease, ctrl->config.identity, &err);

    if (r < 0) {
        ctrl->lease.next_ns = now + GP_NS_PER_S;
        if (r == -ESTALE || r == -EEXIST)
            read_lease(ctrl);
        if (ctrl->lease.held || (r != -ESTALE && r != -EEXIST))
            gp_log_warn("lease", "not renewed: %s", gp_err_msg(&err, r));
        return;
    }
    if (!ctrl->lease.held) {
        gp_log_info("lease", "%s holds it now", ctrl->config.identity);
        ctrl->started = false; /* whoever had it meanwhile may have changed anything */
    }
    ctrl->lease.held = true;
    ctrl->lease.next_ns = now + ctrl->config.renew_s * GP_NS_PER_S;
    /* Counted from before the request was sent. */
    ctrl->lease.until_ns = now + ctrl->config.lease_s * GP_NS_PER_S * 2 / 3;
}

void
ctrl_lease_tick(struct ctrl *ctrl)
{
    const char *identity = ctrl->config.identity;
    uint64_t now = gp_now_ns();

    if (!ctrl->leases.synced)
        return;
    /* Another one has it, or had it and gave it back. */
    if (strcmp(kube_str(known_lease(ctrl), "spec.holderIdentity"), identity) != 0)
        ctrl->lease.held = false;
    if (is_free(ctrl, known_lease(ctrl), now) && now >= ctrl->lease.next_ns)
        try_lease(ctrl, now);
}

static void
on_change(struct kube_watch *watch, const char *key, const json_t *lease)
{
    /* The tick looks at it. */
}

int
ctrl_lease_start(struct ctrl *ctrl, struct gp_err *err)
{
    ctrl->lease.query =
        gp_str_printf("fieldSelector=metadata.name%%3D%s", ctrl->config.lease);
    if (!ctrl->lease.query)
        return -ENOMEM;
    ctrl->leases.res = &KUBE_LEASES;
    ctrl->leases.ns = ctrl->config.ns;
    ctrl->leases.query = ctrl->lease.query;
    ctrl->leases.on_change = on_change;
    ctrl->leases.owner = ctrl;
    return kube_watch_start(&ctrl->leases, ctrl->http, ctrl->loop, err);
}

void
ctrl_lease_stop(struct ctrl *ctrl)
{
    CLEANUP_JSON json_t *lease =
        ctrl->leases.objects ? json_incref(known_lease(ctrl)) : NULL;

    if (ctrl->lease.held && lease &&
        strcmp(kube_str(lease, "spec.holderIdentity"), ctrl->config.identity) == 0)
        write_lease(ctrl, lease, "", NULL);
    ctrl->lease.held = false;
    kube_watch_stop(&ctrl->leases);
    free(ctrl->lease.query);
    ctrl->lease.query = NULL;
}
