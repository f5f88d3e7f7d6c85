/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_object.h"

#include "gp_str.h"
#include "gp_time.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

json_t *
kube_at(const json_t *object, const char *path)
{
    const json_t *at = object;

    while (at && *path) {
        size_t n = strcspn(path, ".");
        char key[64];

        if (n >= sizeof(key))
            return NULL;
        memcpy(key, path, n);
        key[n] = '\0';
        at = json_object_get(at, key);
        path += n + (path[n] == '.');
    }
    return (json_t *)at;
}

const char *
kube_str(const json_t *object, const char *path)
{
    const char *text = json_string_value(kube_at(object, path));

    return text ? text : "";
}

const char *
kube_str_key(const json_t *object, const char *path, const char *key)
{
    const char *text = json_string_value(json_object_get(kube_at(object, path), key));

    return text ? text : "";
}

const char *
kube_name(const json_t *object)
{
    return kube_str(object, "metadata.name");
}

const char *
kube_ns(const json_t *object)
{
    return kube_str(object, "metadata.namespace");
}

const char *
kube_uid(const json_t *object)
{
    return kube_str(object, "metadata.uid");
}

uint64_t
kube_revision(const json_t *object)
{
    uint64_t n;

    return gp_str_u64(kube_str(object, "metadata.resourceVersion"), 0, UINT64_MAX, &n) <
                   0
               ? 0
               : n;
}

bool
kube_deleted(const json_t *object)
{
    return *kube_str(object, "metadata.deletionTimestamp");
}

char *
kube_key_of(const char *ns, const char *name)
{
    return *ns ? gp_str_printf("%s/%s", ns, name) : strdup(name);
}

char *
kube_key(const json_t *object)
{
    return kube_key_of(kube_ns(object), kube_name(object));
}

static bool
is_ours(const char *key)
{
    static const char DOMAIN[] = "elasticgpu.io";
    size_t n = strcspn(key, "/"), len = sizeof(DOMAIN) - 1;

    return key[n] && n >= len && strncmp(key + n - len, DOMAIN, len) == 0 &&
           (n == len || key[n - len - 1] == '.');
}

void
kube_trim_annotations(json_t *object, const char *also)
{
    json_t *annotations = kube_at(object, "metadata.annotations"), *value;
    json_t *kept = json_object();
    const char *key;

    json_object_foreach(annotations, key, value)
    {
        if (is_ours(key) || (also && strcmp(key, also) == 0))
            json_object_set(kept, key, value);
    }
    if (annotations)
        json_object_set(json_object_get(object, "metadata"), "annotations", kept);
    json_decref(kept);
}

bool
kube_has_finalizer(const json_t *object, const char *finalizer)
{
    json_t *item;
    size_t i;

    json_array_foreach(kube_at(object, "metadata.finalizers"), i,
                       item) if (json_is_string(item) &&
                                 strcmp(json_string_value(item), finalizer) ==
                                     0) return true;
    return false;
}

json_t *
kube_finalizers(const json_t *object, const char *finalizer, bool with)
{
    json_t *list = json_array(), *item;
    size_t i;

    json_array_foreach(kube_at(object, "metadata.finalizers"), i,
                       item) if (json_is_string(item) &&
                                 strcmp(json_string_value(item), finalizer) != 0)
        json_array_append(list, item);
    if (with)
        json_array_append_new(list, json_string(finalizer));
    return list;
}

json_t *
kube_condition(const json_t *conditions, const char *type)
{
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)conditions, i, item)
    {
        if (strcmp(kube_str(item, "type"), type) == 0)
            return item;
    }
    return NULL;
}

bool
kube_condition_set(json_t *conditions, const char *type, bool status,
                   const char *reason, const char *message)
{
    const char *word = status ? "True" : "False";
    json_t *item = kube_condition(conditions, type);
    char now[KUBE_TIME_TEXT];
    bool turned;

    if (!item) {
        json_array_append_new(conditions,
                              json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", type,
                                        "status", word, "reason", reason, "message",
                                        message, "lastTransitionTime", kube_time(now)));
        return true;
    }
    turned = strcmp(kube_str(item, "status"), word) != 0;
    if (!turned && strcmp(kube_str(item, "reason"), reason) == 0 &&
        strcmp(kube_str(item, "message"), message) == 0)
        return false;
    json_object_set_new(item, "status", json_string(word));
    json_object_set_new(item, "reason", json_string(reason));
    json_object_set_new(item, "message", json_string(message));
    if (turned)
        json_object_set_new(item, "lastTransitionTime", json_string(kube_time(now)));
    return true;
}

const char *
kube_time(char buf[KUBE_TIME_TEXT])
{
    time_t now = (time_t)(gp_wall_ns() / GP_NS_PER_S);
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(buf, KUBE_TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return buf;
}

const char *
kube_time_micro(char buf[KUBE_TIME_TEXT])
{
    uint64_t ns = gp_wall_ns();
    time_t now = (time_t)(ns / GP_NS_PER_S);
    char seconds[24];
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf, KUBE_TIME_TEXT, "%s.%06uZ", seconds,
             (unsigned)(ns % GP_NS_PER_S / 1000));
    return buf;
}
