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
/* Events on their way at a time; what is more is dropped, as the API server would. */
#define EVENTS_MAX 64
#define EVENT_S 10

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

/* An event on its way: nobody waits for the answer.  It frees itself. */
struct sent_event {
    struct kube_stream stream;
    struct ctrl *ctrl;
    struct sent_event *next, **link;
};

static void
sent_free(struct sent_event *sent)
{
    *sent->link = sent->next;
    if (sent->next)
        sent->next->link = sent->link;
    sent->ctrl->n_events--;
    kube_stream_stop(&sent->stream);
    free(sent);
}

static int
on_data(struct kube_stream *stream, const char *data, size_t len)
{
    return 0;
}

/* An event is a courtesy: one that is lost is only logged. */
static void
on_end(struct kube_stream *stream, int r, const char *words)
{
    if (r < 0 || stream->status >= 300)
        gp_log_debug("event", "not written: HTTP %ld, %s", stream->status, words);
    sent_free(container_of(stream, struct sent_event, stream));
}

static void
post(struct ctrl *ctrl, const char *ns, const json_t *event)
{
    struct sent_event *sent =
        ctrl->n_events < EVENTS_MAX ? calloc(1, sizeof(*sent)) : NULL;
    CLEANUP_FREE char *path = kube_path(&KUBE_EVENTS, ns, NULL, NULL);
    CLEANUP_FREE char *body = json_dumps(event, JSON_COMPACT);
    struct kube_request req = {"POST", path, NULL, body};

    if (!sent || !path || !body) {
        free(sent);
        return;
    }
    sent->ctrl = ctrl;
    sent->stream.on_data = on_data;
    sent->stream.on_end = on_end;
    if (kube_stream_start(ctrl->http, &sent->stream, &req, EVENT_S, NULL) < 0) {
        free(sent);
        return;
    }
    sent->next = ctrl->events;
    if (sent->next)
        sent->next->link = &sent->next;
    sent->link = &ctrl->events;
    ctrl->events = sent;
    ctrl->n_events++;
}

void
ctrl_events_stop(struct ctrl *ctrl)
{
    while (ctrl->events)
        sent_free(ctrl->events);
}

void
ctrl_event(struct ctrl *ctrl, const struct kube_resource *res, const json_t *object,
           bool warning, const char *reason, const char *message)
{
    const char *ns = *kube_ns(object) ? kube_ns(object) : "default";
    CLEANUP_FREE char *name =
        gp_str_printf("%.200s.%" PRIx64, kube_name(object), gp_wall_ns());
    char now[KUBE_TIME_TEXT];
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
    if (event)
        post(ctrl, ns, event);
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

/* What a status that was refused as invalid is to who looks at its object. */
static int
final(int r)
{
    return r == -EINVAL ? CTRL_INVALID : r;
}

static int
write_one(struct ctrl *ctrl, struct kube_watch *watch, const json_t *object,
          const json_t *patch, struct gp_err *err)
{
    CLEANUP_JSON json_t *answer = NULL;
    int r = kube_api_patch(ctrl->http, watch->res, kube_ns(object), kube_name(object),
                           "status", patch, &answer, err);

    if (!r)
        kube_watch_put(watch, answer);
    return final(r);
}

static void
forget_held(struct ctrl *ctrl)
{
    json_decref(ctrl->held.object);
    json_decref(ctrl->held.patch);
    ctrl->held.object = ctrl->held.patch = NULL;
}

static struct kube_patch
patch_of(const struct kube_watch *watch, const json_t *object, const json_t *patch)
{
    return (struct kube_patch){watch->res, kube_ns(object), kube_name(object), "status",
                               patch};
}

static int
write_with_held(struct ctrl *ctrl, struct kube_watch *watch, const json_t *object,
                const json_t *patch, struct gp_err *err)
{
    const struct kube_patch both[2] = {
        patch_of(ctrl->held.watch, ctrl->held.object, ctrl->held.patch),
        patch_of(watch, object, patch)};
    json_t *answers[2] = {NULL, NULL};
    int r = kube_api_patch_both(ctrl->http, both, answers, err);

    if (answers[0])
        kube_watch_put(ctrl->held.watch, answers[0]);
    if (answers[1])
        kube_watch_put(watch, answers[1]);
    json_decref(answers[0]);
    json_decref(answers[1]);
    forget_held(ctrl);
    return final(r);
}

void
ctrl_status_hold(struct ctrl *ctrl)
{
    ctrl->held.on = true;
}

int
ctrl_status_flush(struct ctrl *ctrl, bool failed, struct gp_err *err)
{
    int r = 0;

    ctrl->held.on = false;
    if (ctrl->held.patch && !failed)
        r = write_one(ctrl, ctrl->held.watch, ctrl->held.object, ctrl->held.patch, err);
    forget_held(ctrl);
    return r;
}

/* Takes @status over. */
int
ctrl_status(struct ctrl *ctrl, struct kube_watch *watch, const json_t *object,
            json_t *status, struct gp_err *err)
{
    CLEANUP_JSON json_t *owned = status, *patch = NULL;

    if (says_already(json_object_get(object, "status"), owned))
        return 0;
    patch = json_pack("{s:{s:s}, s:O}", "metadata", "uid", kube_uid(object), "status",
                      owned);
    if (!patch)
        return -ENOMEM;
    if (ctrl->held.on && ctrl->held.patch)
        return write_with_held(ctrl, watch, object, patch, err);
    if (!ctrl->held.on)
        return write_one(ctrl, watch, object, patch, err);
    ctrl->held.watch = watch;
    ctrl->held.object = json_incref((json_t *)object);
    ctrl->held.patch = TAKE_PTR(patch);
    return 0;
}
