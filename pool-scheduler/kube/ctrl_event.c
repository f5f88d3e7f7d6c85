/* SPDX-License-Identifier: Apache-2.0 */
/* Events and status: what people read. */
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Objects whose last event is remembered; forgotten all at once beyond. */
#define TOLD_MAX 50000

static bool
told_already(struct ctrl *ctrl, const char *uid, const char *reason,
             const char *message)
{
    CLEANUP_FREE char *words = gp_str_printf("%s: %s", reason, message);
    const char *last = json_string_value(json_object_get(ctrl->told, uid));

    if (!words || (last && strcmp(last, words) == 0))
        return true;
    if (json_object_size(ctrl->told) > TOLD_MAX)
        json_object_clear(ctrl->told);
    json_object_set_new(ctrl->told, uid, json_string(words));
    return false;
}

void
ctrl_event(struct ctrl *ctrl, const struct kube_resource *res, const json_t *object,
           bool warning, const char *reason, const char *message)
{
    const char *ns = *kube_ns(object) ? kube_ns(object) : "default";
    CLEANUP_FREE char *name =
        gp_str_printf("%.200s.%" PRIx64, kube_name(object), gp_wall_ns());
    char now[KUBE_TIME_TEXT];
    struct gp_err err = {0};
    json_t *event;

    if (!name || told_already(ctrl, kube_uid(object), reason, message))
        return;
    kube_time(now);
    event = json_pack(
        "{s:{s:s, s:s}, s:{s:s, s:s, s:s, s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:i, "
        "s:{s:s}}",
        "metadata", "name", name, "namespace", ns, "involvedObject", "apiVersion",
        kube_resource_version(res), "kind", res->kind, "namespace", kube_ns(object),
        "name", kube_name(object), "uid", kube_uid(object), "reason", reason, "message",
        message, "type", warning ? "Warning" : "Normal", "firstTimestamp", now,
        "lastTimestamp", now, "count", 1, "source", "component", "gpupool-controller");
    /* An event is a courtesy: one that is lost is only logged. */
    if (!event || kube_api_create(ctrl->http, &KUBE_EVENTS, ns, event, NULL, &err) < 0)
        gp_log_debug("event", "%s", err.msg);
    json_decref(event);
    gp_log_info("event", "%s %s/%s: %s: %s", res->kind, kube_ns(object),
                kube_name(object), reason, message);
}

/* Does @status say nothing that @now does not say?  null stands for absent. */
static bool
says_already(const json_t *now, const json_t *status)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)status, key, value)
    {
        json_t *old = json_object_get(now, key);

        if (json_is_null(value) ? old != NULL : !old || !json_equal(old, value))
            return false;
    }
    return true;
}

/* Takes @status over. */
int
ctrl_status(struct ctrl *ctrl, struct kube_watch *watch, const json_t *object,
            json_t *status, struct gp_err *err)
{
    CLEANUP_JSON json_t *owned = status, *answer = NULL;
    CLEANUP_JSON json_t *patch = NULL;
    int r;

    if (says_already(json_object_get(object, "status"), owned))
        return 0;
    patch = json_pack("{s:{s:s}, s:O}", "metadata", "uid", kube_uid(object), "status",
                      owned);
    if (!patch)
        return -ENOMEM;
    r = kube_api_patch(ctrl->http, watch->res, kube_ns(object), kube_name(object),
                       "status", patch, &answer, err);
    if (r < 0)
        return r;
    kube_watch_put(watch, answer);
    return 0;
}
