/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_replica.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_asker.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_list_next.h"
#include "sched_store.h"
#include "store.h"
#include "store_etcd.h"
#include "store_sqlite.h"
#include "ticket_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The ticket key's record of a shared store: replicas sign with one key. */
#define KEY_MAX 4096

/* -------------------------------------------------------------------- open -- */

/* The store's key wins over the file's; the first scheduler of a pool puts its own. */
static int
share_key(struct store *store, const char *path, struct gp_err *err)
{
    CLEANUP_FREE char *own = NULL, *shared = NULL;
    size_t len;
    int r = gp_file_read(path, KEY_MAX, &own, &len, err);

    if (!r)
        r = store->ops->shared->put_once(store, STORE_TICKET_KEY, own, &shared, err);
    if (!r && strcmp(own, shared) != 0)
        r = gp_file_replace(path, shared, strlen(shared), 0600, err);
    if (own)
        explicit_bzero(own, strlen(own));
    if (shared)
        explicit_bzero(shared, strlen(shared));
    return r;
}

static char *
key_path(const struct sched *sched)
{
    return gp_str_printf("%s/ticket-key.pem", sched->config.state_dir);
}

int
sched_replica_publish_key(const struct sched *sched, const struct ticket_key *key,
                          const struct ticket_key *old, struct gp_err *err)
{
    CLEANUP_FREE char *path =
        gp_str_printf("%s/ticket-key.pub", sched->config.state_dir);

    return path ? ticket_key_save_pub(key, old, path, err) : -ENOMEM;
}

static int
read_key(const char *path, bool kept_elsewhere, struct ticket_key **ret,
         struct ticket_key **ret_old, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    int r = kept_elsewhere ? ticket_key_open(path, &key, err)
                           : ticket_key_load(path, &key, err);

    if (!r)
        r = ticket_key_read_old(path, ret_old, err);
    if (r < 0)
        return kept_elsewhere ? gp_err_wrap(err, r, "--key-file") : r;
    *ret = TAKE_PTR(key);
    return 0;
}

int
sched_replica_read_key(const struct sched *sched, struct ticket_key **ret,
                       struct ticket_key **ret_old, struct gp_err *err)
{
    CLEANUP_FREE char *path = key_path(sched);

    if (!path)
        return -ENOMEM;
    if (sched->config.key_file)
        return read_key(sched->config.key_file, true, ret, ret_old, err);
    if (sched->replica.shared)
        return 0;
    /* One that is not there would be made, which only the first start may. */
    if (access(path, R_OK) < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    return read_key(path, false, ret, ret_old, err);
}

static int
open_key(struct sched *sched, struct store *store, struct gp_err *err)
{
    const char *given = sched->config.key_file;
    CLEANUP_FREE char *own = key_path(sched);
    CLEANUP(ticket_key_freep) struct ticket_key *first = NULL;
    int r = own ? 0 : -ENOMEM;

    if (!r && store->ops->shared && !given) {
        r = ticket_key_load(own, &first, err); /* made, if there is none */
        if (!r)
            r = share_key(store, own, err);
    }
    if (!r)
        r = read_key(given ? given : own, given, &sched->key, &sched->old_key, err);
    return r < 0 ? r
                 : sched_replica_publish_key(sched, sched->key, sched->old_key, err);
}

static int
open_store(struct sched *sched, struct store **ret_store, struct gp_err *err)
{
    CLEANUP_FREE char *db = gp_str_printf("%s/scheduler.db", sched->config.state_dir);

    if (!db)
        return -ENOMEM;
    return sched->config.etcd.urls
               ? store_etcd_open(&sched->config.etcd, ret_store, err)
               : store_sqlite_open(db, ret_store, err);
}

/* It decides from now on. */
static int
lead(struct sched *sched, struct gp_err *err)
{
    int r = sched_store_start_epoch(sched->store, &sched->sessions, err);

    sched->replica.leads = !r;
    return r;
}

int
sched_replica_open(struct sched *sched, struct gp_err *err)
{
    struct store *store = NULL;
    int r = open_store(sched, &store, err);

    if (r < 0)
        return r;
    r = open_key(sched, store, err);
    if (r < 0) {
        store->ops->close(store);
        return r;
    }
    if (store->ops->shared)
        sched->replica.shared = store;
    r = sched_store_new(store, &sched->store);
    if (!r)
        r = sched_store_load(sched->store, sched->pool, &sched->sessions, gp_now_ns(),
                             err);
    if (!r && !sched->replica.shared)
        r = lead(sched, err);
    return r < 0 ? r : sched_store_commit(sched->store, err);
}

/* ------------------------------------------------------------------ follow -- */

static void
start_again(struct sched *sched, const char *words)
{
    /* What comes behind the first reason follows from it. */
    if (!sched->replica.ends)
        gp_log_warn("sched", "starting again as a follower: %s", words);
    sched->replica.ends = true;
    gp_loop_stop(sched->loop, SCHED_START_AGAIN);
}

/* Clients and servers did not talk to this one: sessions get a full term. */
static void
take_over(struct sched *sched)
{
    struct sched_session *s = NULL;
    struct gp_err err = {0};
    uint64_t now = gp_now_ns();
    int r;

    for (struct sched_server *v = sched->pool->servers; v; v = v->next) {
        v->alive = false;
        v->left = false; /* that is not on record */
        v->seen_ns = now;
        sched_pool_server_update(sched->pool, v);
    }
    while ((s = sched_sessions_next(&sched->sessions, s)))
        sched_session_lease(&sched->sessions, s, now + s->lease_ms * GP_NS_PER_MS);
    sched->started_ns = now;
    r = lead(sched, &err);
    if (r < 0) {
        start_again(sched, gp_err_msg(&err, r));
        return;
    }
    sched_commit_soon(sched);
    sched_events_add(&sched->events, "lead", NULL, NULL, NULL,
                     "this scheduler leads now");
    gp_log_info("sched", "leads now, with %u %s and %zu %s", sched->pool->n_servers,
                gp_plural(sched->pool->n_servers, "server", "servers"),
                sched->sessions.by_id.count,
                gp_plural(sched->sessions.by_id.count, "session", "sessions"));
}

static void
follow(struct sched *sched, const struct store_event *event)
{
    struct gp_err err = {0};
    int r = sched_store_follow(sched->store, sched->pool, &sched->sessions, gp_now_ns(),
                               event->key, event->value, event->size, &err);

    if (r < 0)
        start_again(sched, gp_err_msg(&err, r));
}

static void
on_event(void *arg, const struct store_event *event)
{
    struct sched *sched = arg;

    switch (event->kind) {
    case STORE_CHANGED:
        if (!sched->replica.leads)
            follow(sched, event);
        break;
    case STORE_LEADER:
        gp_str_copy(sched->replica.leader, sizeof(sched->replica.leader),
                    event->value ? (const char *)event->value : "");
        sched->replica.term++;
        break;
    case STORE_LEADING:
        take_over(sched);
        break;
    case STORE_LOST:
        start_again(sched, event->value ? (const char *)event->value
                                        : "the leadership is lost");
        break;
    }
}

int
sched_replica_start(struct sched *sched, struct gp_err *err)
{
    struct store *store = sched->replica.shared;
    int r;

    sched->commit.stale = start_again;
    if (!store)
        return 0;
    r = store_events_init(&sched->replica.events, sched->loop, on_event, sched);
    if (r < 0)
        return gp_err_set(err, r, "event loop: %s", strerror(-r));
    return store->ops->shared->join(store, sched->config.etcd.advertise,
                                    &sched->replica.events, err);
}

void
sched_replica_fini(struct sched *sched)
{
    struct store *store = sched->replica.shared;

    if (store)
        store->ops->shared->resign(store);
    store_events_fini(&sched->replica.events);
}

/* ----------------------------------------------------------------- requests -- */

bool
sched_replica_leads(const struct sched *sched)
{
    const struct store *store = sched->replica.shared;

    return sched->replica.leads && (!store || store->ops->shared->leads(store));
}

bool
sched_replica_follows(const struct sched *sched)
{
    return sched->replica.shared && !sched_replica_leads(sched);
}

/* Of a scheduler that follows: what it has from the store, or has copied of the
 * leader's memory. */
static bool
is_copied(const struct sched *sched, const Gpupool__Ctl__CtlList *list)
{
    switch (list->kind) {
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_EVENTS:
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_HISTORY:
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOLS:
        return sched_copy_time(&sched->copy, list);
    default:
        return !sched_list_next_is_of_leader(list);
    }
}

static bool
is_answered_here(const struct sched *sched, const Gpupool__Ctl__CtlRequest *req)
{
    switch (req->body_case) {
    case GPUPOOL__CTL__CTL_REQUEST__BODY_HELLO:
    case GPUPOOL__CTL__CTL_REQUEST__BODY_PROVE:
    case GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS:
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_LIST:
        return is_copied(sched, req->list);
    case GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN:
        return req->open->explain;
    default:
        return false;
    }
}

/* " (what keeps it from following or leading)", or "".  Addresses of etcd are for the
 * log: nobody has proven anything yet who is answered so. */
static const char *
trouble_of(const struct sched *sched, char *buf, size_t size)
{
    struct store *store = sched->replica.shared;
    char words[256];

    store->ops->shared->trouble(store, words, sizeof(words));
    if (strstr(words, "://"))
        gp_str_copy(words, sizeof(words),
                    "its etcd does not answer; its log says more");
    snprintf(buf, size, "%s%s%s", *words ? " (" : "", words, *words ? ")" : "");
    return buf;
}

bool
sched_replica_knows(const struct sched *sched, const Gpupool__Ctl__CtlRequest *req,
                    const char **ret_leader, struct gp_err *err)
{
    char trouble[260];

    /* An old leader whose time is over names nobody: it does not know the new one. */
    *ret_leader = sched->replica.leads ? "" : sched->replica.leader;
    if (sched_replica_leads(sched) || is_answered_here(sched, req))
        return true;
    if (**ret_leader && sched_asker_reads(req))
        gp_err_set(
            err, -EAGAIN,
            "this scheduler does not lead, and %s, which does, does not answer it",
            *ret_leader);
    else if (**ret_leader)
        gp_err_set(err, -EAGAIN, "this scheduler does not lead, try %s%s", *ret_leader,
                   trouble_of(sched, trouble, sizeof(trouble)));
    else
        gp_err_set(err, -EAGAIN,
                   "this scheduler does not lead, and none does now: try again%s",
                   trouble_of(sched, trouble, sizeof(trouble)));
    return false;
}

bool
sched_replica_answers(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    struct gp_err err = {0};
    const char *leader;

    if (sched_replica_knows(conn->sched, req, &leader, &err))
        return true;
    sched_conn_not_leader(conn, req->id, err.msg, leader);
    return false;
}

void
sched_replica_server(struct sched *sched, const struct sched_server *server)
{
    struct gp_err err = {0};

    if (!sched->replica.shared || !sched->replica.leads)
        return;
    sched_commit_soon(sched);
    if (sched_store_put_server(sched->store, server, &err) < 0)
        gp_log_error("server", "%s: %s", server->name, err.msg);
}
