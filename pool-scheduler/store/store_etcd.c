/* SPDX-License-Identifier: Apache-2.0 */
#include "store_etcd.h"

#include "etcd_history.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "store.h"
#include "store_batch.h"
#include "store_events.h"
#include "store_trouble.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* etcd takes 128 operations and 1.5 MiB in a transaction unless it is told otherwise;
 * each operation has up to 100 bytes beside its key and value. */
static const struct store_bound TXN = {.ops = 120, .bytes = 1024 * 1024};
/* Records in one answer of a load. */
#define ETCD_PAGE 5000
#define CALL_MS 1000
#define RETRY_MS 200
/* Until the watch shows a leader its own key; else another had better try. */
#define SHOWN_NS (10 * GP_NS_PER_S)
/* So long who was not shown its own key leaves the leadership to the others, unless its
 * watch shows something before: else it would take what they may get in its turn. */
#define DEAF_NS (60 * GP_NS_PER_S)
/* Keys end before this: "0" is the character after "/". */

struct store_etcd {
    struct store store;
    struct etcd_config own; /* as it was at the start: another thread reloads */
    const struct etcd_config *config;
    struct etcd_http *http; /* the event loop's, then the writer's */
    struct store_events *events;
    int64_t revision;     /* of the load */
    int64_t fence;        /* modification revision of the fence key */
    uint64_t serial;      /* of this scheduler's transactions */
    char incarnation[40]; /* random, in the fence key */
    _Atomic int64_t term; /* creation revision of the leader key while it is ours */
    _Atomic uint64_t until_ns; /* the lease is ours at least until then */
    atomic_bool stop, watching;
    pthread_t keeper, watcher;
    bool has_keeper, has_watcher;
    int64_t lease;                  /* the keeper's */
    uint64_t won_ns;                /* the same: since when it has the leadership */
    _Atomic int64_t announced_term; /* the watcher's */
    struct etcd_history history;    /* the watcher's */
    struct store_trouble trouble;   /* the keeper's */
};

/* Of this process, which opens the store anew: until when it leaves the leadership to
 * the others, by boot_ns(); 0: it may lead. */
static _Atomic uint64_t deaf_until_ns;

static struct store_etcd *
etcd_of(const struct store *store)
{
    return container_of((struct store *)(uintptr_t)store, struct store_etcd, store);
}

/* A clock that goes on while the machine sleeps, as etcd's leases do. */
static uint64_t
boot_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * GP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void
idle_sleep(struct store_etcd *e, unsigned ms)
{
    for (; ms && !atomic_load(&e->stop); ms -= gp_min(ms, 20u))
        usleep(20000);
}

/* -------------------------------------------------------------------- load -- */

static int
load_page(struct store_etcd *e, const json_t *reply, char **ret_last, store_row row,
          void *arg, struct gp_err *err)
{
    const size_t prefix = strlen(e->config->prefix);
    const json_t *kv;
    size_t i;
    int r = 0;

    json_array_foreach(json_object_get(reply, "kvs"), i, kv)
    {
        size_t key_size, size;
        uint8_t *key = etcd_bytes_read(json_object_get(kv, "key"), &key_size);
        CLEANUP_FREE uint8_t *value =
            etcd_bytes_read(json_object_get(kv, "value"), &size);

        free(*ret_last);
        *ret_last = (char *)key;
        if (!key || !value || key_size < prefix)
            return gp_err_set(err, -EPROTO, "etcd: a record that cannot be read");
        r = row(arg, (char *)key + prefix, value, size, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int
etcd_load(struct store *store, store_row row, void *arg, struct gp_err *err)
{
    struct store_etcd *e = etcd_of(store);
    CLEANUP_FREE char *last = NULL;
    bool more = true;
    int r = 0;

    e->revision = 0;
    while (!r && more) {
        json_t *key = last ? etcd_bytes(last, strlen(last) + 1) /* the one after it */
                           : etcd_bytes(e->config->prefix, strlen(e->config->prefix));
        json_t *reply = NULL;

        r = etcd_http_call(e->http, "/v3/kv/range",
                           json_pack("{s:o,s:o,s:i,s:I,s:s}", "key", key, "range_end",
                                     etcd_range_end(e->config->prefix), "limit",
                                     ETCD_PAGE, "revision", (json_int_t)e->revision,
                                     "sort_target", "KEY"),
                           10 * CALL_MS, &reply, err);
        if (r < 0)
            return r;
        if (!e->revision) /* the other pages are of the same moment */
            e->revision = etcd_number(json_object_get(reply, "header"), "revision");
        r = load_page(e, reply, &last, row, arg, err);
        more = json_is_true(json_object_get(reply, "more"));
        json_decref(reply);
    }
    return r;
}

/* ------------------------------------------------------------------- write -- */

static json_t *
request_of(struct store_etcd *e, const struct store_op *op)
{
    if (op->value)
        return etcd_request_put(e->http, op->key, op->value, op->size);
    return json_pack("{s:{s:o}}", "requestDeleteRange", "key",
                     etcd_key(e->http, op->key));
}

static json_t *
txn_body(struct store_etcd *e, const struct store_op *ops, size_t n, const char *fence)
{
    json_t *success = json_array();

    json_array_append_new(
        success, etcd_request_put(e->http, STORE_FENCE_KEY, fence, strlen(fence)));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(success, request_of(e, &ops[i]));
    return json_pack("{s:[o,o],s:o,s:[o,o]}", "compare",
                     etcd_compare(etcd_key(e->http, STORE_LEADER_KEY), "CREATE",
                                  "create_revision", atomic_load(&e->term)),
                     etcd_compare(etcd_key(e->http, STORE_FENCE_KEY), "MOD",
                                  "mod_revision", e->fence),
                     "success", success, "failure",
                     etcd_request_get(e->http, STORE_LEADER_KEY),
                     etcd_request_get(e->http, STORE_FENCE_KEY));
}

/* The comparison failed: perhaps because an earlier try of the same was done. */
static int
txn_refused(struct store_etcd *e, const json_t *reply, const char *fence,
            struct gp_err *err)
{
    const json_t *leader = etcd_range_record(reply, 0),
                 *mark = etcd_range_record(reply, 1);
    size_t size = 0;
    CLEANUP_FREE uint8_t *value =
        mark ? etcd_bytes_read(json_object_get(mark, "value"), &size) : NULL;

    if (!leader || etcd_number(leader, "create_revision") != atomic_load(&e->term))
        return gp_err_set(err, -ESTALE, "another scheduler leads now");
    if (!value || strcmp((char *)value, fence) != 0)
        return gp_err_set(err, -ESTALE,
                          "what etcd holds is not what this scheduler wrote last: a "
                          "snapshot was restored, or something else writes there");
    e->fence = etcd_number(mark, "mod_revision");
    return 0;
}

/* Until it is done, or this scheduler does not lead any more: what was tried may have
 * been done, so nothing else can be said. */
static int
txn_write(struct store_etcd *e, const struct store_op *ops, size_t n,
          struct gp_err *err)
{
    char fence[80];
    int r;

    snprintf(fence, sizeof(fence), "%s %" PRIu64, e->incarnation, ++e->serial);
    for (;;) {
        json_t *reply = NULL;

        if (!atomic_load(&e->term) || boot_ns() > atomic_load(&e->until_ns))
            return gp_err_set(err, -ESTALE,
                              "this scheduler does not lead any more: etcd did not "
                              "renew its lease in time");
        r = etcd_http_call(e->http, "/v3/kv/txn", txn_body(e, ops, n, fence), CALL_MS,
                           &reply, err);
        if (r == -EREMOTE)
            return r; /* etcd understood it and does not do it: "etcdserver: ..." */
        if (r < 0) {
            idle_sleep(e, RETRY_MS);
            if (atomic_load(&e->stop))
                return r;
            continue;
        }
        if (json_is_true(json_object_get(reply, "succeeded")))
            e->fence = etcd_number(json_object_get(reply, "header"), "revision");
        else
            r = txn_refused(e, reply, fence, err);
        json_decref(reply);
        return r;
    }
}

static int
etcd_write(struct store *store, const struct store_op *ops, size_t n,
           size_t *ret_written, struct gp_err *err)
{
    struct store_etcd *e = etcd_of(store);
    size_t i = 0, piece;
    int r = 0;

    /* A record is whole in one transaction, and so is a gang; who waits for several
     * waits for all. */
    for (; !r && i < n; i += r ? 0 : piece) {
        piece = store_ops_piece(ops + i, n - i, TXN);
        r = txn_write(e, ops + i, piece, err);
    }
    *ret_written = i;
    return r;
}

/* ------------------------------------------------------------------ leading -- */

static bool
etcd_leads(const struct store *store)
{
    const struct store_etcd *e = etcd_of(store);

    return atomic_load(&e->term) && boot_ns() < atomic_load(&e->until_ns);
}

static int
lease_grant(struct store_etcd *e, struct etcd_http *http, struct gp_err *err)
{
    uint64_t now = boot_ns();
    json_t *reply = NULL;
    int r = etcd_http_call(http, "/v3/lease/grant",
                           json_pack("{s:i}", "TTL", (int)e->config->lease_s), CALL_MS,
                           &reply, err);

    if (r < 0)
        return r;
    e->lease = etcd_number(reply, "ID");
    atomic_store(&e->until_ns, now + e->config->lease_s * GP_NS_PER_S);
    json_decref(reply);
    return e->lease ? 0 : gp_err_set(err, -EPROTO, "etcd: no lease");
}

/* -ENOENT: it has ended. */
static int
lease_keep(struct store_etcd *e, struct etcd_http *http, struct gp_err *err)
{
    uint64_t now = boot_ns();
    json_t *reply = NULL;
    int64_t ttl;
    int r = etcd_http_call(http, "/v3/lease/keepalive",
                           json_pack("{s:I}", "ID", (json_int_t)e->lease), CALL_MS / 2,
                           &reply, err);

    if (r < 0)
        return r;
    ttl = etcd_number(json_object_get(reply, "result"), "TTL");
    json_decref(reply);
    if (ttl <= 0)
        return gp_err_set(err, -ENOENT, "etcd: the lease has ended");
    atomic_store(&e->until_ns, now + (uint64_t)ttl * GP_NS_PER_S);
    return 0;
}

/* Take the leader key if nobody has it.  1: it is ours. */
static int
campaign(struct store_etcd *e, struct etcd_http *http, struct gp_err *err)
{
    json_t *reply = NULL;
    json_t *put = json_pack(
        "{s:{s:o,s:o,s:I}}", "requestPut", "key", etcd_key(http, STORE_LEADER_KEY),
        "value", etcd_bytes(e->config->advertise, strlen(e->config->advertise)),
        "lease", (json_int_t)e->lease);
    json_t *body = json_pack(
        "{s:[o],s:[o],s:[o]}", "compare",
        etcd_compare(etcd_key(http, STORE_LEADER_KEY), "CREATE", "create_revision", 0),
        "success", put, "failure", etcd_request_get(e->http, STORE_LEADER_KEY));
    const json_t *leader;
    int64_t term = 0;
    int r = etcd_http_call(http, "/v3/kv/txn", body, CALL_MS, &reply, err);

    if (r < 0)
        return r;
    leader = etcd_range_record(reply, 0);
    if (json_is_true(json_object_get(reply, "succeeded")))
        term = etcd_number(json_object_get(reply, "header"), "revision");
    else if (leader && etcd_number(leader, "lease") == e->lease)
        term = etcd_number(leader, "create_revision"); /* an earlier try was done */
    json_decref(reply);
    e->won_ns = boot_ns();
    atomic_store(&e->term, term);
    return term != 0;
}

/* What this scheduler holds may not be what the store has: it has to start again. */
static void
lose(struct store_etcd *e, const char *words)
{
    char *text = strdup(words);

    store_events_push(e->events, STORE_LOST, NULL, (uint8_t *)text,
                      text ? strlen(text) : 0);
    atomic_store(&e->stop, true);
}

/* Who sees what the others write tries to take the leadership over. */
static int
try_to_lead(struct store_etcd *e, struct etcd_http *http, struct gp_err *err)
{
    int r = 0;

    if (!atomic_load(&e->term) && atomic_load(&e->watching) &&
        boot_ns() >= atomic_load(&deaf_until_ns))
        r = campaign(e, http, err);
    if (r >= 0)
        store_trouble_clear(&e->trouble);
    return r;
}

/* Who has the leadership leads when the watch has shown it all changes before that.
 * If it does not, as where a proxy before etcd holds streams back, nobody would. */
static bool
is_not_shown(const struct store_etcd *e)
{
    return atomic_load(&e->term) && !atomic_load(&e->announced_term) &&
           boot_ns() - e->won_ns > SHOWN_NS;
}

/* One step of the thread that keeps the lease; milliseconds until the next. */
static unsigned
keeper_step(struct store_etcd *e, struct etcd_http *http)
{
    struct gp_err err = {0};
    int r = 0;

    if (!e->lease)
        r = lease_grant(e, http, &err);
    else
        r = lease_keep(e, http, &err);
    if (r == -ENOENT || (e->lease && boot_ns() > atomic_load(&e->until_ns))) {
        e->lease = 0;
        if (atomic_load(&e->term)) {
            gp_err_wrap(&err, r, "the leadership is lost");
            lose(e, gp_err_msg(&err, r));
            return RETRY_MS;
        }
        if (r == -ENOENT)
            return RETRY_MS; /* the next step gets another */
    }
    if (is_not_shown(e)) {
        atomic_store(&deaf_until_ns, boot_ns() + DEAF_NS);
        lose(e, "it has the leadership, and its watch of etcd does not show that");
        return RETRY_MS;
    }
    if (r >= 0)
        r = try_to_lead(e, http, &err);
    if (r < 0)
        store_trouble_set(&e->trouble, gp_err_msg(&err, r));
    return atomic_load(&e->term) && r >= 0 ? e->config->lease_s * 1000 / 5 : RETRY_MS;
}

static void
lease_revoke(struct store_etcd *e, struct etcd_http *http)
{
    json_t *reply = NULL;

    if (e->lease && etcd_http_call(http, "/v3/lease/revoke",
                                   json_pack("{s:I}", "ID", (json_int_t)e->lease),
                                   CALL_MS / 2, &reply, NULL) == 0)
        json_decref(reply);
    e->lease = 0;
}

static void *
keeper_main(void *arg)
{
    struct store_etcd *e = arg;
    CLEANUP(etcd_http_freep) struct etcd_http *http = NULL;

    if (etcd_http_new(e->config, &http, NULL) < 0)
        return NULL;
    while (!atomic_load(&e->stop))
        idle_sleep(e, keeper_step(e, http));
    lease_revoke(e, http);
    return NULL;
}

/* ------------------------------------------------------------------- watch -- */

static void
leader_changed(struct store_etcd *e, const json_t *kv, bool gone, uint8_t *value,
               size_t size)
{
    int64_t term = gone ? 0 : etcd_number(kv, "create_revision");
    bool ours = !gone && !strcmp((char *)value, e->config->advertise);

    store_events_push(e->events, STORE_LEADER, NULL, value, size); /* takes @value */
    if (gone)
        return;
    /* The answer of the campaign may come after the watch's message, also after a
     * second try: for as long as the lease holds it is worth waiting for. */
    while (ours && !atomic_load(&e->stop) && !atomic_load(&e->term) &&
           boot_ns() < atomic_load(&e->until_ns))
        usleep(10000);
    if (term == atomic_load(&e->term) && e->announced_term != term) {
        e->announced_term = term;
        store_events_push(e->events, STORE_LEADING, NULL, NULL, 0);
    }
}

static int
on_watch_event(struct store_etcd *e, const json_t *event)
{
    const json_t *kv = json_object_get(event, "kv");
    const char *type = json_string_value(json_object_get(event, "type"));
    const size_t prefix = strlen(e->config->prefix);
    bool gone = type && !strcmp(type, "DELETE");
    size_t key_size = 0, size = 0;
    CLEANUP_FREE uint8_t *key = etcd_bytes_read(json_object_get(kv, "key"), &key_size);
    uint8_t *value = gone ? NULL : etcd_bytes_read(json_object_get(kv, "value"), &size);
    const char *name = key && key_size > prefix ? (char *)key + prefix : NULL;

    if (!name || (!gone && !value)) {
        free(value);
        return -EPROTO;
    }
    e->revision = gp_max(e->revision, etcd_number(kv, "mod_revision"));
    atomic_store(&deaf_until_ns, 0); /* it hears */
    if (!strcmp(name, STORE_LEADER_KEY)) {
        etcd_mark_see(&e->history.leader, gone ? NULL : kv);
        leader_changed(e, kv, gone, value, size);
    } else if (!strcmp(name, STORE_FENCE_KEY)) {
        if (!e->announced_term) /* from then on it is the writer's */
            e->fence = gone ? 0 : etcd_number(kv, "mod_revision");
        etcd_mark_see(&e->history.fence, gone ? NULL : kv);
        free(value);
    } else {
        store_events_push(e->events, STORE_CHANGED, name, value, size);
    }
    return 0;
}

static int
on_watch_line(void *arg, json_t *message)
{
    struct store_etcd *e = arg;
    const json_t *result = json_object_get(message, "result"), *event;
    size_t i;

    if (!result)
        return -EPROTO;
    if (json_is_true(json_object_get(result, "canceled"))) {
        /* What it should begin with is compacted: changes were missed. */
        lose(e, "changes were missed that etcd has compacted meanwhile");
        return -ESTALE;
    }
    atomic_store(&e->watching, true);
    json_array_foreach(json_object_get(result, "events"), i, event)
    {
        if (on_watch_event(e, event) < 0)
            return -EPROTO;
        if (e->announced_term)
            return 1;
    }
    return 0;
}

static bool
watch_stopped(void *arg)
{
    struct store_etcd *e = arg;

    return atomic_load(&e->stop);
}

/* The changes behind the last one that was seen, until the stream ends. */
static int
watch_on(struct store_etcd *e, struct etcd_http *http, struct gp_err *err)
{
    int r = etcd_history_check(&e->history, http, &e->revision, CALL_MS, err);
    json_t *body;

    if (r < 0)
        return r;
    body = json_pack("{s:{s:o,s:o,s:I}}", "create_request", "key",
                     etcd_bytes(e->config->prefix, strlen(e->config->prefix)),
                     "range_end", etcd_range_end(e->config->prefix), "start_revision",
                     (json_int_t)e->revision + 1);
    r = etcd_http_stream(http, "/v3/watch", body, on_watch_line, watch_stopped, e, err);
    atomic_store(&e->watching, false);
    return r;
}

static void *
watcher_main(void *arg)
{
    struct store_etcd *e = arg;
    CLEANUP(etcd_http_freep) struct etcd_http *http = NULL;

    if (etcd_http_new(e->config, &http, NULL) < 0)
        return NULL;
    /* What changes while this scheduler leads is its own doing. */
    while (!atomic_load(&e->stop) && !e->announced_term) {
        struct gp_err err = {0};
        int r = watch_on(e, http, &err);

        if (r == -ESTALE)
            lose(e, err.msg);
        else if (!atomic_load(&e->stop))
            gp_log_debug("store", "watch: %s", gp_err_msg(&err, r));
        etcd_http_other(http);
        idle_sleep(e, RETRY_MS);
    }
    return NULL;
}

/* -------------------------------------------------------------------- join -- */

/* A record as of @revision, 0: of now; NULL when there is none. */
static int
read_record_of(struct store_etcd *e, const char *key, int64_t revision,
               json_t **ret_record, struct gp_err *err)
{
    json_t *reply = NULL;
    int r = etcd_http_call(e->http, "/v3/kv/range",
                           json_pack("{s:o,s:I}", "key", etcd_key(e->http, key),
                                     "revision", (json_int_t)revision),
                           CALL_MS, &reply, err);

    if (r < 0)
        return r;
    *ret_record = json_incref(json_array_get(json_object_get(reply, "kvs"), 0));
    json_decref(reply);
    return 0;
}

static int
etcd_join(struct store *store, const char *address, struct store_events *events,
          struct gp_err *err)
{
    struct store_etcd *e = etcd_of(store);
    json_t *record = NULL; /* of who leads, and of the fence, as of the load */
    size_t size = 0;
    int r;

    (void)address;
    e->events = events;
    r = read_record_of(e, STORE_FENCE_KEY, e->revision, &record, err);
    if (r < 0)
        return r;
    e->fence = record ? etcd_number(record, "mod_revision") : 0;
    etcd_mark_see(&e->history.fence, record);
    json_decref(record);
    r = read_record_of(e, STORE_LEADER_KEY, e->revision, &record, err);
    if (r < 0)
        return r;
    etcd_mark_see(&e->history.leader, record);
    if (record) {
        uint8_t *value = etcd_bytes_read(json_object_get(record, "value"), &size);

        store_events_push(events, STORE_LEADER, NULL, value, size);
    }
    json_decref(record);
    e->has_watcher = !pthread_create(&e->watcher, NULL, watcher_main, e);
    e->has_keeper = !pthread_create(&e->keeper, NULL, keeper_main, e);
    return e->has_keeper && e->has_watcher
               ? 0
               : gp_err_set(err, -EAGAIN, "etcd: no thread for it");
}

/* *ret_value stays NULL when there is no such record. */
static int
read_record(const json_t *record, const char *key, char **ret_value, struct gp_err *err)
{
    size_t size;

    if (!record)
        return 0;
    *ret_value = (char *)etcd_bytes_read(json_object_get(record, "value"), &size);
    return *ret_value ? 0 : gp_err_set(err, -EIO, "etcd: %s cannot be read", key);
}

static int
put_or_read(struct store_etcd *e, const char *key, const char *value, char **ret_value,
            struct gp_err *err)
{
    json_t *body =
        json_pack("{s:[o],s:[o],s:[o]}", "compare",
                  etcd_compare(etcd_key(e->http, key), "CREATE", "create_revision", 0),
                  "success", etcd_request_put(e->http, key, value, strlen(value)),
                  "failure", etcd_request_get(e->http, key));
    json_t *reply = NULL;
    int r = etcd_http_call(e->http, "/v3/kv/txn", body, CALL_MS, &reply, err);

    if (r < 0)
        return r;
    if (!json_is_true(json_object_get(reply, "succeeded")))
        r = read_record(etcd_range_record(reply, 0), key, ret_value, err);
    else if (!(*ret_value = strdup(value)))
        r = -ENOMEM;
    json_decref(reply);
    return r;
}

/* An etcd that is full refuses whatever might write; a scheduler that starts meanwhile
 * can follow. */
static int
etcd_put_once(struct store *store, const char *key, const char *value, char **ret_value,
              struct gp_err *err)
{
    struct store_etcd *e = etcd_of(store);
    json_t *record = NULL;
    int r = read_record_of(e, key, 0, &record, err);

    if (!r)
        r = read_record(record, key, ret_value, err);
    json_decref(record);
    return r < 0 || *ret_value ? r : put_or_read(e, key, value, ret_value, err);
}

static void
etcd_resign(struct store *store)
{
    struct store_etcd *e = etcd_of(store);

    atomic_store(&e->stop, true);
    if (e->has_keeper)
        pthread_join(e->keeper, NULL);
    if (e->has_watcher)
        pthread_join(e->watcher, NULL);
    e->has_keeper = e->has_watcher = false;
    atomic_store(&e->term, 0);
}

static int
etcd_damaged(const struct store *store, struct gp_err *err)
{
    struct gp_err why = err ? *err : (struct gp_err){0};

    return gp_err_set(
        err, -EBADMSG,
        "etcd, records under %.100s: %.160s. It was left as it is: restore "
        "a snapshot, or delete that key with etcdctl; what it was about is "
        "lost then",
        etcd_of(store)->config->prefix, gp_err_msg(&why, -EIO));
}

static void
etcd_trouble(struct store *store, char *ret, size_t size)
{
    store_trouble_words(&etcd_of(store)->trouble, ret, size);
}

static void
etcd_close(struct store *store)
{
    struct store_etcd *e = etcd_of(store);

    etcd_resign(store);
    etcd_http_free(e->http);
    free(e);
}

static const struct store_shared_ops SHARED = {
    .join = etcd_join,
    .leads = etcd_leads,
    .resign = etcd_resign,
    .put_once = etcd_put_once,
    .trouble = etcd_trouble,
};

struct pool_rows {
    store_row row;
    void *arg;
};

static int
pool_row(void *arg, const char *key, const uint8_t *value, size_t size,
         struct gp_err *err)
{
    const struct pool_rows *rows = arg;

    if (!strcmp(key, STORE_IMPORT_KEY))
        return gp_err_set(
            err, -EBUSY,
            "etcd holds a part of a pool: `gpupool-scheduler migrate` has "
            "not reached its end; wait for it or give that command again");
    return rows->row(rows->arg, key, value, size, err);
}

/* A pool, and not a part of one. */
static int
etcd_load_pool(struct store *store, store_row row, void *arg, struct gp_err *err)
{
    struct pool_rows rows = {row, arg};

    return etcd_load(store, pool_row, &rows, err);
}

static const struct store_ops OPS = {
    .name = "etcd",
    .load = etcd_load_pool,
    .write = etcd_write,
    .damaged = etcd_damaged,
    .close = etcd_close,
    .shared = &SHARED,
};

int
store_etcd_open(const struct etcd_config *config, struct store **ret_store,
                struct gp_err *err)
{
    struct store_etcd *e = calloc(1, sizeof(*e));
    uint64_t random = 0;
    int r;

    if (!e)
        return -ENOMEM;
    e->store.ops = &OPS;
    pthread_mutex_init(&e->trouble.lock, NULL);
    e->history.fence_key = STORE_FENCE_KEY;
    e->history.leader_key = STORE_LEADER_KEY;
    e->own = *config;
    e->config = &e->own;
    r = etcd_http_new(e->config, &e->http, err);
    if (!r && getentropy(&random, sizeof(random)) < 0)
        r = -EIO;
    if (r < 0) {
        etcd_close(&e->store);
        return r;
    }
    snprintf(e->incarnation, sizeof(e->incarnation), "%016" PRIx64, random);
    *ret_store = &e->store;
    return 0;
}

/* ------------------------------------------------------------------ import -- */

struct import {
    struct store_etcd *e;
    json_t *requests;
    size_t bytes; /* of their keys and values */
    size_t n;
    bool ended_early; /* an import before this one did not reach its end */
};

static int
import_flush(struct import *import, struct gp_err *err)
{
    json_t *reply = NULL;
    int r;

    if (!json_array_size(import->requests))
        return 0;
    r = etcd_http_call(import->e->http, "/v3/kv/txn",
                       json_pack("{s:O}", "success", import->requests), 5 * CALL_MS,
                       &reply, err);
    json_decref(reply);
    json_array_clear(import->requests);
    import->bytes = 0;
    return r;
}

static int
import_row(void *arg, const char *key, const uint8_t *value, size_t size,
           struct gp_err *err)
{
    struct import *import = arg;
    size_t bytes = strlen(key) + size;
    int r = import->bytes + bytes > TXN.bytes ? import_flush(import, err) : 0;

    if (r < 0)
        return r;
    json_array_append_new(import->requests,
                          etcd_request_put(import->e->http, key, value, size));
    import->bytes += bytes;
    import->n++;
    return json_array_size(import->requests) < TXN.ops ? 0 : import_flush(import, err);
}

static int
any_row(void *arg, const char *key, const uint8_t *value, size_t size,
        struct gp_err *err)
{
    struct import *import = arg;

    (void)value, (void)size;
    if (strcmp(key, STORE_IMPORT_KEY) != 0)
        return gp_err_set(err, -EEXIST, "etcd holds a pool already (%s)", key);
    import->ended_early = true;
    return -ECANCELED; /* whatever else is there */
}

/* All keys but the mark, which stays until the end. */
static int
import_clear(struct import *import, struct gp_err *err)
{
    const char *prefix = import->e->config->prefix;
    CLEANUP_FREE char *mark = gp_str_printf("%s%s", prefix, STORE_IMPORT_KEY);

    if (!mark)
        return -ENOMEM;
    json_array_append_new(import->requests,
                          json_pack("{s:{s:o,s:o}}", "requestDeleteRange", "key",
                                    etcd_bytes(prefix, strlen(prefix)), "range_end",
                                    etcd_bytes(mark, strlen(mark))));
    json_array_append_new(
        import->requests,
        json_pack("{s:{s:o,s:o}}", "requestDeleteRange", "key",
                  etcd_bytes(mark, strlen(mark) + 1) /* the one after it */,
                  "range_end", etcd_range_end(prefix)));
    return import_flush(import, err);
}

/* The mark is there before the first record and goes with the last. */
static int
import_begin(struct import *import, struct gp_err *err)
{
    struct store_etcd *e = import->e;
    int r = etcd_load(&e->store, any_row, import, err);

    if (import->ended_early)
        return import_clear(import, err);
    if (r < 0)
        return r;
    json_array_append_new(import->requests,
                          etcd_request_put(e->http, STORE_IMPORT_KEY, "1", 1));
    return import_flush(import, err);
}

static int
import_end(struct import *import, const char *key, struct gp_err *err)
{
    struct store_etcd *e = import->e;

    if (key)
        json_array_append_new(
            import->requests,
            etcd_request_put(e->http, STORE_TICKET_KEY, key, strlen(key)));
    json_array_append_new(import->requests,
                          json_pack("{s:{s:o}}", "requestDeleteRange", "key",
                                    etcd_key(e->http, STORE_IMPORT_KEY)));
    return import_flush(import, err);
}

int
store_etcd_import(struct store *etcd, struct store *from, const char *key,
                  size_t *ret_n, struct gp_err *err)
{
    struct import import = {.e = etcd_of(etcd), .requests = json_array()};
    int r = import_begin(&import, err);

    if (!r) {
        r = from->ops->load(from, import_row, &import, err);
        if (!r)
            r = import_end(&import, key, err);
        if (r < 0)
            r = gp_err_wrap(err, r,
                            "only a part was moved, which no scheduler takes for a "
                            "pool; give the same command again, and it begins anew");
    }
    json_decref(import.requests);
    *ret_n = import.n;
    return r;
}
