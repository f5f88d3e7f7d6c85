/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is etcd's history still the one that was followed so far?
 *
 * A watch goes on behind the last revision that it saw.  In an etcd that was restored
 * from a snapshot, or emptied, that revision is of the future, and the watch would wait
 * for it without a word; or it is of other changes, and those before it would be
 * missing.  So, before a watch goes on, the record of the fence (store_etcd.h), which
 * no two transactions leave alike, is read as of that revision.  The watcher's thread
 * only.
 */
#ifndef ETCD_HISTORY_H
#define ETCD_HISTORY_H

#include "etcd_http.h"

/* Longer than each value of the fence. */
#define ETCD_MARK_MAX 96

/* A record as it was seen last; zeroed: there was none. */
struct etcd_mark {
    int64_t mod_revision;
    char value[ETCD_MARK_MAX];
};

/* Each change of the pool changes one of them. */
struct etcd_history {
    const char *fence_key, *leader_key;
    struct etcd_mark fence, leader;
};

/* The record is @kv now; NULL: there is none. */
void etcd_mark_see(struct etcd_mark *mark, const json_t *kv);
/* 0: the history up to *revision is the one that was seen; when etcd has compacted that
 * revision, and nothing has changed since, *revision is a later one.  -ESTALE: it is
 * not, @err says why.  Another error: etcd did not answer. */
int etcd_history_check(const struct etcd_history *history, struct etcd_http *http,
                       int64_t *revision, unsigned timeout_ms, struct gp_err *err);

#endif
