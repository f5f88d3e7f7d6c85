/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_pins.h"

#include "gp_base.h"
#include "kube_object.h"

#include <string.h>

/* Labels of nodes that vendors, clouds and the systems before put there; a name that
 * ends with "*" is a prefix. */
static const char *const LABELS[] = {
    "nvidia.com/gpu*",
    "nvidia.com/cuda*",
    "nvidia.com/mig*",
    "nvidia-device-enable",
    "qgpu-device-enable",
    "gaia.tencent.com/gpu-model",
    "tke.cloud.tencent.com/qgpu-schedule-policy",
    "feature.node.kubernetes.io/pci-10de*",
    "feature.node.kubernetes.io/pci-0300_10de*",
    "feature.node.kubernetes.io/pci-0302_10de*",
    "cloud.google.com/gke-accelerator*",
    "k8s.amazonaws.com/accelerator",
    "accelerator",
};

static bool
pins(const char *label)
{
    for (size_t i = 0; i < ARRAY_SIZE(LABELS); i++) {
        size_t n = strlen(LABELS[i]);

        if (LABELS[i][n - 1] == '*' ? strncmp(label, LABELS[i], n - 1) == 0
                                    : strcmp(label, LABELS[i]) == 0)
            return true;
    }
    return false;
}

static void
strip_selector(json_t *spec, json_t *taken)
{
    json_t *selector = json_object_get(spec, "nodeSelector"), *value;
    json_t *out = json_object();
    const char *key;
    void *next;

    json_object_foreach_safe(selector, next, key, value)
    {
        if (!pins(key))
            continue;
        json_object_set(out, key, value);
        json_object_del(selector, key);
    }
    if (json_object_size(out))
        json_object_set(taken, "nodeSelector", out);
    json_decref(out);
}

/* True: nothing is left of the term, so it holds for every node. */
static bool
strip_term(json_t *term, json_t *out)
{
    json_t *list = json_object_get(term, "matchExpressions"), *item;
    json_t *kept = json_array();
    size_t i;

    json_array_foreach(list, i, item)
        json_array_append(pins(kube_str(item, "key")) ? out : kept, item);
    json_array_clear(list);
    json_array_extend(list, kept);
    json_decref(kept);
    return !json_array_size(list) &&
           !json_array_size(json_object_get(term, "matchFields"));
}

/* Terms are alternatives: one that holds for every node makes the others idle. */
static void
strip_affinity(json_t *spec, json_t *taken)
{
    static const char REQUIRED[] = "requiredDuringSchedulingIgnoredDuringExecution";
    json_t *affinity = kube_at(spec, "affinity.nodeAffinity"), *term;
    json_t *terms =
        json_object_get(json_object_get(affinity, REQUIRED), "nodeSelectorTerms");
    json_t *out = json_array();
    bool all = false;
    size_t i;

    json_array_foreach(terms, i, term)
    {
        size_t before = json_array_size(out);

        if (strip_term(term, out) && json_array_size(out) > before)
            all = true;
    }
    if (all)
        json_object_del(affinity, REQUIRED);
    if (json_array_size(out))
        json_object_set(taken, "nodeAffinity", out);
    json_decref(out);
}

static void
strip_runtime(json_t *spec, json_t *taken)
{
    const char *name = kube_str(spec, "runtimeClassName");

    if (strncmp(name, "nvidia", 6) != 0)
        return;
    json_object_set_new(taken, "runtimeClassName", json_string(name));
    json_object_del(spec, "runtimeClassName");
}

void
kube_pins_strip(json_t *pod, json_t *annotations)
{
    json_t *spec = json_object_get(pod, "spec"), *taken = json_object();
    char *text;

    strip_selector(spec, taken);
    strip_affinity(spec, taken);
    strip_runtime(spec, taken);
    text = json_object_size(taken) ? json_dumps(taken, JSON_COMPACT | JSON_SORT_KEYS)
                                   : NULL;
    if (text)
        json_object_set_new(annotations, "elasticgpu.io/stripped", json_string(text));
    free(text);
    json_decref(taken);
}
