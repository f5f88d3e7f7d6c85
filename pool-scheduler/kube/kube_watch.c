/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_watch.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE 500
/* The server ends a watch after this; without a byte for longer the link is dead
 * (bookmarks come every minute). */
#define WATCH_S 290
#define IDLE_S 330
#define RETRY_MIN_NS (100 * GP_NS_PER_MS)
#define RETRY_MAX_NS (5 * GP_NS_PER_S)

static void begin(struct kube_watch *watch);

/* ----------------------------------------------------------------- objects -- */

json_t *
kube_watch_get(const struct kube_watch *watch, const char *ns, const char *name)
{
    CLEANUP_FREE char *key = kube_key_of(watch->res->namespaced ? ns : "", name);

    return key ? json_object_get(watch->objects, key) : NULL;
}

static void
store(struct kube_watch *watch, const char *key, json_t *object)
{
    json_t *old = json_object_get(watch->objects, key);

    if (old && kube_revision(old) >= kube_revision(object) &&
        strcmp(kube_uid(old), kube_uid(object)) == 0)
        return;
    json_object_del(json_object_get(object, "metadata"), "managedFields");
    if (watch->trim)
        watch->trim(object);
    json_object_set(watch->objects, key, object);
    watch->on_change(watch, key, object);
}

void
kube_watch_put(struct kube_watch *watch, json_t *object)
{
    CLEANUP_FREE char *key = kube_key(object);

    if (key)
        store(watch, key, object);
}

void
kube_watch_remove(struct kube_watch *watch, const char *key)
{
    json_t *old = json_incref(json_object_get(watch->objects, key));

    if (old) {
        json_object_del(watch->objects, key);
        watch->removed = old;
        watch->on_change(watch, key, NULL);
        watch->removed = NULL;
    }
    json_decref(old);
}

/* -------------------------------------------------------------------- list -- */

static void
remember_version(struct kube_watch *watch, const json_t *metadata)
{
    const char *version = kube_str(metadata, "resourceVersion");
    char *copy = *version ? strdup(version) : NULL;

    if (!copy)
        return;
    free(watch->version);
    watch->version = copy;
}

/* Items of a list have no kind of their own. */
static void
list_item(struct kube_watch *watch, json_t *object)
{
    CLEANUP_FREE char *key = kube_key(object);

    if (!key)
        return;
    json_object_set_new(watch->seen, key, json_true());
    store(watch, key, object);
}

static void
forget_unseen(struct kube_watch *watch)
{
    const char *key;
    json_t *object;
    void *next;

    json_object_foreach_safe(watch->objects, next, key,
                             object) if (!json_object_get(watch->seen, key))
    {
        CLEANUP_FREE char *copy = strdup(key);

        if (copy)
            kube_watch_remove(watch, copy);
    }
}

/* The body of a page has come. */
static int
list_page(struct kube_watch *watch)
{
    json_t *list = json_loadb(watch->buf, watch->len, 0, NULL), *item;
    const char *next = kube_str(list, "metadata.continue");
    size_t i;

    if (!list)
        return -EPROTO;
    json_array_foreach(json_object_get(list, "items"), i, item) list_item(watch, item);
    free(watch->next_page);
    watch->next_page = *next ? strdup(next) : NULL;
    if (!watch->next_page) {
        watch->page = 0;
        forget_unseen(watch);
        remember_version(watch, json_object_get(list, "metadata"));
        json_decref(watch->seen);
        watch->seen = NULL;
        watch->state = KUBE_WATCHING;
        watch->synced = true;
        watch->lists++;
    }
    json_decref(list);
    return 0;
}

/* ------------------------------------------------------------------- watch -- */

static int
watch_error(struct kube_watch *watch, const json_t *status)
{
    long code = (long)json_integer_value(json_object_get(status, "code"));

    gp_log_debug("kube", "watch of %s: %s", watch->res->plural,
                 kube_str(status, "message"));
    watch->expired = code == 410 || code == 0;
    return code == 410 ? -ESTALE : -EAGAIN;
}

static int
watch_event(struct kube_watch *watch, const char *line, size_t len)
{
    CLEANUP_JSON json_t *event = json_loadb(line, len, 0, NULL);
    const char *type = kube_str(event, "type");
    json_t *object = json_object_get(event, "object");
    CLEANUP_FREE char *key = object ? kube_key(object) : NULL;

    if (!event || !object || !key)
        return -EPROTO;
    watch->events++;
    watch->attempts = 0;
    if (strcmp(type, "ERROR") == 0)
        return watch_error(watch, object);
    remember_version(watch, json_object_get(object, "metadata"));
    if (strcmp(type, "DELETED") == 0)
        kube_watch_remove(watch, key);
    else if (strcmp(type, "BOOKMARK") != 0)
        store(watch, key, object);
    return 0;
}

static int
watch_lines(struct kube_watch *watch)
{
    size_t at = 0;
    char *end;
    int r = 0;

    while (!r && (end = memchr(watch->buf + at, '\n', watch->len - at))) {
        size_t n = (size_t)(end - watch->buf) - at;

        if (n)
            r = watch_event(watch, watch->buf + at, n);
        at += n + 1;
    }
    memmove(watch->buf, watch->buf + at, watch->len - at);
    watch->len -= at;
    return r < 0 ? r : watch->len > KUBE_EVENT_MAX ? -EMSGSIZE : 0;
}

/* ------------------------------------------------------------------ stream -- */

static int
on_data(struct kube_stream *stream, const char *data, size_t len)
{
    struct kube_watch *watch = container_of(stream, struct kube_watch, stream);
    size_t need = watch->len + len;

    if (need > (watch->state == KUBE_LISTING ? KUBE_PAGE_MAX : KUBE_BODY_MAX))
        return -EMSGSIZE;
    if (need > watch->cap) {
        size_t cap = gp_max(need, 2 * watch->cap);
        char *more = realloc(watch->buf, cap);

        if (!more)
            return -ENOMEM;
        watch->buf = more;
        watch->cap = cap;
    }
    memcpy(watch->buf + watch->len, data, len);
    watch->len = need;
    return stream->status == 200 && watch->state == KUBE_WATCHING ? watch_lines(watch)
                                                                  : 0;
}

static void
on_timer(struct gp_loop_timer *timer)
{
    begin(container_of(timer, struct kube_watch, timer));
}

static void
again(struct kube_watch *watch, uint64_t after_ns)
{
    gp_loop_timer_set(watch->loop, &watch->timer, gp_now_ns() + after_ns, on_timer);
}

static void
again_later(struct kube_watch *watch, const char *words)
{
    uint64_t pause = RETRY_MIN_NS << gp_min(watch->attempts, 6u);

    if (watch->attempts++ == 3)
        gp_log_warn("kube", "%s: %s; trying on", watch->res->plural, words);
    if (watch->stream.retry_after_s)
        pause = watch->stream.retry_after_s * GP_NS_PER_S;
    again(watch, gp_min(pause, RETRY_MAX_NS));
}

static unsigned
page_of(const struct kube_watch *watch)
{
    return watch->page ? watch->page : PAGE;
}

static void
on_end(struct kube_stream *stream, int r, const char *words)
{
    struct kube_watch *watch = container_of(stream, struct kube_watch, stream);
    long status = stream->status;

    watch->expired |= status == 410;
    if (watch->state == KUBE_LISTING && r == -EMSGSIZE && page_of(watch) > 1) {
        watch->page = page_of(watch) / 2;
        again(watch, 0);
        return;
    }
    if (watch->expired) { /* begin again, at the first page */
        watch->expired = false;
        watch->state = KUBE_LISTING;
        free(watch->next_page);
        watch->next_page = NULL;
        json_decref(watch->seen);
        watch->seen = NULL;
        again(watch, 0);
    } else if (status == 200 && watch->state == KUBE_LISTING && !r &&
               list_page(watch) == 0) {
        watch->attempts = 0;
        again(watch, 0);
    } else if (status == 200 && watch->state == KUBE_WATCHING && !r) {
        again(watch, watch->attempts++ ? RETRY_MIN_NS : 0);
    } else {
        char answer[160];

        snprintf(answer, sizeof(answer), "the API server answers HTTP %ld%s", status,
                 status == 404
                     ? ": it does not know the kind; install its "
                       "CustomResourceDefinition, as gpupool kube install does"
                     : "");
        again_later(watch, r ? words : answer);
    }
}

static char *
path_of(const struct kube_watch *watch)
{
    CLEANUP_FREE char *path = kube_path(watch->res, watch->ns, NULL, NULL);
    const char *query = watch->query ? watch->query : "";
    const char *and = *query ? "&" : "";

    if (!path)
        return NULL;
    if (watch->state == KUBE_LISTING)
        return gp_str_printf("%s?limit=%u%s%s%s%s", path, page_of(watch), and, query,
                             watch->next_page ? "&continue=" : "",
                             watch->next_page ? watch->next_page : "");
    return gp_str_printf("%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d"
                         "&resourceVersion=%s%s%s",
                         path, WATCH_S, watch->version ? watch->version : "0", and,
                         query);
}

static void
begin(struct kube_watch *watch)
{
    CLEANUP_FREE char *path = path_of(watch);
    struct kube_request req = {"GET", path, NULL, NULL};

    watch->len = 0;
    if (watch->state == KUBE_LISTING && !watch->seen)
        watch->seen = json_object();
    if (!path || kube_stream_start(watch->http, &watch->stream, &req, IDLE_S, NULL) < 0)
        again_later(watch, "out of memory");
}

/* ------------------------------------------------------------- start, stop -- */

int
kube_watch_start(struct kube_watch *watch, struct kube_http *http, struct gp_loop *loop,
                 struct gp_err *err)
{
    watch->http = http;
    watch->loop = loop;
    watch->stream.on_data = on_data;
    watch->stream.on_end = on_end;
    watch->objects = json_object();
    if (!watch->objects)
        return -ENOMEM;
    begin(watch);
    return 0;
}

void
kube_watch_stop(struct kube_watch *watch)
{
    kube_stream_stop(&watch->stream);
    gp_loop_timer_del(&watch->timer);
    json_decref(watch->objects);
    json_decref(watch->seen);
    free(watch->version);
    free(watch->next_page);
    free(watch->buf);
    watch->objects = watch->seen = NULL;
    watch->version = watch->next_page = watch->buf = NULL;
    watch->cap = watch->len = 0;
}
