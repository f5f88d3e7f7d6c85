/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing the parts that all objects have.  Plain functions on JSON; the
 * object stays the caller's, strings point into it.
 */
#ifndef KUBE_OBJECT_H
#define KUBE_OBJECT_H

#include "gp_base.h"

#include <jansson.h>

/* A string at "a.b.c", or "" when there is none. */
const char *kube_str(const json_t *object, const char *path);
/* A value at "a.b.c", or NULL. */
json_t *kube_at(const json_t *object, const char *path);
/* A member whose key may hold dots: kube_at(object, path)[key], or "". */
const char *kube_str_key(const json_t *object, const char *path, const char *key);

const char *kube_name(const json_t *object);
const char *kube_ns(const json_t *object); /* "" when it has none */
const char *kube_uid(const json_t *object);
uint64_t kube_revision(const json_t *object); /* of metadata.resourceVersion */
bool kube_deleted(const json_t *object);      /* has a deletionTimestamp */

/* "namespace/name", or "name". malloc'ed. */
char *kube_key(const json_t *object);
char *kube_key_of(const char *ns, const char *name);

/* Of its annotations keep those of elasticgpu.io and its sub-domains, and @also (NULL:
 * none): whoever writes an object may give it 256 KiB of others. */
void kube_trim_annotations(json_t *object, const char *also);

bool kube_has_finalizer(const json_t *object, const char *finalizer);
/* A new list: that of @object with or without @finalizer. */
json_t *kube_finalizers(const json_t *object, const char *finalizer, bool with);

/* The one of that type in @conditions, a list of status.conditions; NULL: none. */
json_t *kube_condition(const json_t *conditions, const char *type);
/* Set a condition of status.conditions in @conditions (a list); its time moves only
 * when its status does.  True when anything changed. */
bool kube_condition_set(json_t *conditions, const char *type, bool status,
                        const char *reason, const char *message);
/* "2026-11-22T10:00:00Z" */
#define KUBE_TIME_TEXT 32
const char *kube_time(char buf[KUBE_TIME_TEXT]);
const char *kube_time_micro(char buf[KUBE_TIME_TEXT]);

static inline void
kube_decrefp(json_t **object)
{
    json_decref(*object);
}
#define CLEANUP_JSON CLEANUP(kube_decrefp)

#endif
