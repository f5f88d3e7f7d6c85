/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of one kind, kept like the API server's: a list, then a watch.
 *
 * Caller's storage, on the event loop of its kube_http.  The objects belong to it.
 * on_change() is called for every difference, after the store holds it, from the middle
 * of a response: it takes notes (a queue) and makes no request.
 *
 *   list --(pages)--> watch --(ends)--> watch from the last version
 *                       '--(410, or an ERROR event with it)--> list
 *   a page over KUBE_PAGE_MAX: half of it, at once
 *   429: after what Retry-After says; no answer: after a growing pause.
 *
 * A list is compared with what is known, so what was deleted meanwhile is noticed.
 * What was written by ourselves is put in at once (kube_watch_put()); an older event
 * that arrives later is ignored.
 */
#ifndef KUBE_WATCH_H
#define KUBE_WATCH_H

#include "gp_base.h"
#include "gp_loop.h"
#include "kube_api.h"
#include "kube_http.h"

/* etcd refuses objects over 1.5 MiB. */
#define KUBE_EVENT_MAX (8u * 1024u * 1024u)
/* A page of a list: 500 objects of 30 KiB, or one of the largest.  Parsed it takes
 * several times as much, and whoever makes pods chooses their size.  Of a page that is
 * longer, half as many objects are asked for. */
#define KUBE_PAGE_MAX (16u * 1024u * 1024u)

struct kube_watch {
    const struct kube_resource *res;
    const char *ns;    /* NULL: all namespaces */
    const char *query; /* "labelSelector=..." or "fieldSelector=...", escaped for a URL;
                        * NULL: all */
    /* Parts that are not kept, to save memory; may be NULL. */
    void (*trim)(json_t *object);
    void (*on_change)(struct kube_watch *watch, const char *key, const json_t *object);
    void *owner;

    json_t *objects;       /* by key */
    const json_t *removed; /* in an on_change() without an object: what it was */
    bool synced;           /* at least one whole list has been read */
    uint64_t lists, events;

    struct kube_http *http;
    struct kube_stream stream;
    struct gp_loop *loop;
    struct gp_loop_timer timer;
    enum { KUBE_LISTING, KUBE_WATCHING } state;
    char *version, *next_page;
    unsigned page; /* objects in one; 0: as many as at the beginning of a list */
    json_t *seen;  /* while listing */
    char *buf;
    size_t len, cap;
    unsigned attempts;
    bool expired; /* the version is too old */
};

/* @res, @ns, @query, @trim, @on_change, @owner are set; the rest is zero. */
int kube_watch_start(struct kube_watch *watch, struct kube_http *http,
                     struct gp_loop *loop, struct gp_err *err);
void kube_watch_stop(struct kube_watch *watch);

/* NULL when there is none. */
json_t *kube_watch_get(const struct kube_watch *watch, const char *ns,
                       const char *name);
/* What a write returned.  Takes no reference away from the caller. */
void kube_watch_put(struct kube_watch *watch, json_t *object);
/* A delete succeeded and nothing held it. */
void kube_watch_remove(struct kube_watch *watch, const char *key);

#endif
