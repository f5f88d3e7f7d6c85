/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_inject.h"

#include "gp_err.h"
#include "gp_str.h"
#include "kube_ask.h"
#include "kube_object.h"
#include "kube_pins.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLAIM "elasticgpu.io/egpuc-"
#define CLAIM_OLD "egpuc.elasticgpu.io/"
#define GENERATE "elasticgpu.io/generate-"
#define DEVICE "elasticgpu.io/dra-" /* + entry of spec.resourceClaims */
#define CLASS_LABEL "elasticgpu.io/class"
#define GATE "elasticgpu.io/claims"
#define VOLUME_LIBS "gpupool-client"
#define VOLUME_TOKEN "gpupool-token"
#define NAME_MAX_LEN 253

struct inject {
    const struct kube_inject *config;
    const char *ns, *unique;
    json_t *pod;
    json_t *annotations; /* the pod's, made when there were none */
    json_t *class;       /* of what is asked for directly; NULL: nothing is */
    struct kube_class rules;
    json_t *entries;    /* of spec.resourceClaims by name */
    json_t *ours;       /* the names of those that were looked up: are they ours? */
    json_t *notes;      /* find_device_claim()'s */
    const char *shared; /* claim of all containers that ask directly, or NULL */
    struct kube_ask shared_ask;
    unsigned n;       /* containers that get a card */
    unsigned n_gated; /* of those, whose claim the controller binds before */
};

/* ---------------------------------------------------------------- helpers -- */

static json_t *
member(json_t *object, const char *key, json_t *(*make)(void))
{
    json_t *value = json_object_get(object, key);

    if (!value || json_is_null(value)) {
        value = make();
        json_object_set_new(object, key, value);
    }
    return value;
}

static bool
named(const json_t *list, const char *name)
{
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)list, i,
                       item) if (strcmp(kube_str(item, "name"), name) == 0) return true;
    return false;
}

static const char *
annotation(const struct inject *in, const char *prefix, const char *container)
{
    CLEANUP_FREE char *key = gp_str_printf("%s%s", prefix, container);
    const char *text =
        key ? json_string_value(json_object_get(in->annotations, key)) : NULL;

    return text ? text : "";
}

static void
annotate(struct inject *in, const char *prefix, const char *container,
         const char *value)
{
    CLEANUP_FREE char *key = gp_str_printf("%s%s", prefix, container);

    if (key)
        json_object_set_new(in->annotations, key, json_string(value));
}

/* ------------------------------------------------------------- what it asks -- */

/* The claim that a container names, "" for none. */
static int
named_claim(const struct inject *in, const char *container, const char **ret,
            struct gp_err *err)
{
    const char *a = annotation(in, CLAIM, container);
    const char *b = annotation(in, CLAIM_OLD, container);

    if (*a && *b && strcmp(a, b) != 0)
        return gp_err_set(err, -EINVAL,
                          "container %s: the annotations " CLAIM "%s and " CLAIM_OLD
                          "%s name different claims, %s and %s",
                          container, container, container, a, b);
    *ret = *a ? a : b;
    if (strlen(*ret) > NAME_MAX_LEN || strspn(*ret, "abcdefghijklmnopqrstuvwxyz"
                                                    "0123456789-.") != strlen(*ret))
        return gp_err_set(err, -EINVAL,
                          "container %s: \"%s\" is not a name of an ElasticGPUClaim",
                          container, *ret);
    return 0;
}

/* The class of direct requests: the pod's own word, else its namespace's, else the
 * default. */
static int
need_class(struct inject *in, const char *of_namespace, struct gp_err *err)
{
    const char *name = kube_str_key(in->pod, "metadata.labels", CLASS_LABEL);
    int r;

    if (in->class)
        return 0;
    if (!*name)
        name = of_namespace;
    if (strcmp(name, "default") == 0 || strcmp(name, "enabled") == 0)
        name = "";
    r = in->config->find_class(in->config->arg, *name ? name : NULL, &in->class, err);
    if (r == -ENOENT)
        return *name ? gp_err_set(err, -EINVAL, "there is no ElasticGPUClass %s", name)
                     : gp_err_set(err, -EINVAL,
                                  "no class is named, and no ElasticGPUClass has the "
                                  "annotation elasticgpu.io/is-default-class");
    if (r < 0)
        return r;
    if (strcmp(kube_str(in->class, "provisioner"), KUBE_PROVISIONER) != 0)
        return gp_err_set(err, -EINVAL, "ElasticGPUClass %s is of another provisioner",
                          kube_name(in->class));
    return kube_class_read(in->class, &in->rules, err) < 0 ? -EINVAL : 0;
}

static char *
new_claim_name(const struct inject *in, const char *container)
{
    const char *pod = kube_name(in->pod);
    const char *prefix = *pod ? pod : kube_str(in->pod, "metadata.generateName");
    size_t n = strlen(prefix);

    while (n && (prefix[n - 1] == '-' || prefix[n - 1] == '.'))
        n--;
    return gp_str_printf("%.*s-%.60s-%.8s", (int)gp_min(n, (size_t)150), prefix,
                         container, in->unique);
}

/* A claim for what @container asks for directly. */
static int
generate(struct inject *in, const char *container, const struct kube_ask *ask)
{
    CLEANUP_FREE char *name = new_claim_name(in, container), *text = NULL;
    CLEANUP_JSON json_t *list = kube_ask_write(ask);
    CLEANUP_JSON json_t *spec =
        json_pack("{s:s, s:{s:O, s:O}}", "elasticGPUClassName", kube_name(in->class),
                  "resources", "requests", list, "limits", list);

    text = spec ? json_dumps(spec, JSON_COMPACT) : NULL;
    if (!name || !text)
        return -ENOMEM;
    annotate(in, GENERATE, container, text);
    annotate(in, CLAIM, container, name);
    return 0;
}

static bool
one_session(const struct inject *in)
{
    return strcmp(annotation(in, "elasticgpu.io/", "session"), "pod") == 0;
}

/* All containers of the pod on one claim: they must ask for the same. */
static int
share(struct inject *in, const char *container, const struct kube_ask *ask,
      struct gp_err *err)
{
    if (!in->shared) {
        int r = generate(in, container, ask);

        in->shared = annotation(in, CLAIM, container);
        in->shared_ask = *ask;
        return r;
    }
    if (memcmp(ask, &in->shared_ask, sizeof(*ask)) != 0)
        return gp_err_set(err, -EINVAL,
                          "container %s asks for something else than the others, but "
                          "elasticgpu.io/session: pod gives all of them one session",
                          container);
    annotate(in, CLAIM, container, in->shared);
    return 0;
}

/* ---------------------------------------------------------- ResourceClaims -- */

/* The name of the claim that stands for @entry of spec.resourceClaims.  A ResourceClaim
 * has its own; one that is made of a template gets a name here, since its own is chosen
 * later. */
static int
name_device_claim(struct inject *in, const json_t *entry, struct gp_err *err)
{
    const char *name = kube_str(entry, "name");
    const char *claim = kube_str(entry, "resourceClaimName");
    CLEANUP_FREE char *made = NULL, *own = NULL;

    if (*annotation(in, DEVICE, name))
        return 0;
    if (strlen(claim) + 4 > NAME_MAX_LEN)
        return gp_err_set(err, -EINVAL, "ResourceClaim %s: the name is too long",
                          claim);
    own = *claim ? NULL : new_claim_name(in, name);
    made = gp_str_printf("dra-%s", *claim ? claim : own ? own : "");
    if (!made)
        return -ENOMEM;
    annotate(in, DEVICE, name, made);
    return 0;
}

/* Once for each entry, however many containers use it. */
static int
is_our_entry(struct inject *in, const char *name, bool *ret, struct gp_err *err)
{
    const json_t *entry = json_object_get(in->entries, name);
    const json_t *known = json_object_get(in->ours, name);
    int r;

    *ret = json_is_true(known);
    if (!entry || known || !in->config->find_device_claim)
        return 0;
    r = in->config->find_device_claim(in->config->arg, in->ns, entry, in->notes, ret,
                                      err);
    if (!r)
        json_object_set_new(in->ours, name, json_boolean(*ret));
    return r;
}

/* 1: the container uses a ResourceClaim of ours. */
static int
read_devices(struct inject *in, const json_t *container, struct gp_err *err)
{
    const char *name = kube_str(container, "name"), *found = NULL;
    json_t *use;
    size_t i;

    json_array_foreach(kube_at(container, "resources.claims"), i, use)
    {
        const char *entry_name = kube_str(use, "name");
        bool ours = false;
        int r = is_our_entry(in, entry_name, &ours, err);

        if (!r && ours && found && strcmp(found, entry_name) != 0)
            r = gp_err_set(err, -EINVAL,
                           "it uses two ResourceClaims of remote cards, %s and %s; a "
                           "container has one session",
                           found, entry_name);
        if (!r && ours)
            r = name_device_claim(in, json_object_get(in->entries, entry_name), err);
        if (r < 0)
            return gp_err_wrap(err, r, "container %s", name);
        if (ours)
            found = entry_name;
    }
    if (!found)
        return 0;
    if (*annotation(in, CLAIM, name) &&
        strcmp(annotation(in, CLAIM, name), annotation(in, DEVICE, found)) != 0)
        return gp_err_set(
            err, -EINVAL,
            "container %s names claim %s and uses ResourceClaim %s; one of "
            "them is enough",
            name, annotation(in, CLAIM, name), found);
    annotate(in, CLAIM, name, annotation(in, DEVICE, found));
    return 1;
}

/* ---------------------------------------------------------------- container -- */

/* 1: the container gets a card; its claim is in the annotations. */
static int
read_container(struct inject *in, json_t *container, const char *of_namespace,
               struct gp_err *err)
{
    json_t *resources = json_object_get(container, "resources");
    const char *name = kube_str(container, "name"), *claim = "";
    struct kube_ask ask;
    int r = named_claim(in, name, &claim, err), asks, devices;
    const bool named = *claim; /* a device's claim takes its place */

    if (r < 0)
        return r;
    devices = read_devices(in, container, err);
    if (devices < 0)
        return devices;
    memset(&ask, 0, sizeof(ask)); /* compared as a whole */
    asks = kube_ask_read(resources, NULL, &ask, err);
    if (asks == -ENODATA) {
        in->n_gated += named && !devices;
        return named || devices;
    }
    if (asks < 0)
        return gp_err_wrap(err, asks, "container %s", name);
    if (devices)
        return gp_err_set(err, -EINVAL,
                          "container %s uses a ResourceClaim of a remote card and asks "
                          "for a GPU in its resources, too; one of them is enough",
                          name);
    in->n_gated++;
    if (*claim && !*annotation(in, GENERATE, name))
        return gp_err_set(err, -EINVAL,
                          "container %s names claim %s and asks for a GPU in its "
                          "resources, too; one of them is enough",
                          name, claim);
    r = need_class(in, of_namespace, err);
    if (!r)
        r = kube_ask_read(resources, &in->rules, &ask, err);
    if (r < 0)
        return gp_err_wrap(err, r, "container %s", name);
    kube_ask_strip(resources);
    r = one_session(in) ? share(in, name, &ask, err) : generate(in, name, &ask);
    return r < 0 ? r : 1;
}

/* ------------------------------------------------------------- the container -- */

static void
set_env(json_t *env, const char *name, const char *value)
{
    json_t *item;
    size_t i;

    json_array_foreach(env, i, item) if (strcmp(kube_str(item, "name"), name) == 0)
    {
        json_object_set_new(item, "value", json_string(value));
        json_object_del(item, "valueFrom");
        return;
    }
    json_array_append_new(env, json_pack("{s:s, s:s}", "name", name, "value", value));
}

/* Where CUDA images look for libraries of the driver. */
#define IMAGE_LIBS "/usr/local/nvidia/lib64"

/* Once: a pod that another webhook has changed since comes here again. */
static void
mount_libs(json_t *mounts, const char *path)
{
    json_t *item;
    size_t i;

    json_array_foreach(mounts, i, item)
    {
        if (strcmp(kube_str(item, "name"), VOLUME_LIBS) == 0 &&
            strcmp(kube_str(item, "mountPath"), path) == 0)
            return;
    }
    json_array_append_new(mounts, json_pack("{s:s, s:s, s:b}", "name", VOLUME_LIBS,
                                            "mountPath", path, "readOnly", 1));
}

/* The kubelet's variables hide those of the image, so a path that the image sets is
 * lost; with "image" the libraries go where CUDA images look, and no variable is set.
 */
static void
set_library_path(struct inject *in, json_t *container, json_t *env)
{
    const char *preference = annotation(in, "elasticgpu.io/", "library-path"),
               *old = "";
    CLEANUP_FREE char *path = NULL;
    json_t *item;
    size_t i;

    if (strcmp(preference, "image") == 0) {
        mount_libs(member(container, "volumeMounts", json_array), IMAGE_LIBS);
        return;
    }
    json_array_foreach(env, i,
                       item) if (strcmp(kube_str(item, "name"), "LD_LIBRARY_PATH") == 0)
        old = kube_str(item, "value");
    if (strncmp(old, KUBE_LIBS, sizeof(KUBE_LIBS) - 1) == 0)
        return;
    path = gp_str_printf(KUBE_LIBS "%s%s%s%s", *preference ? ":" : "", preference,
                         *old ? ":" : "", old);
    if (path)
        set_env(env, "LD_LIBRARY_PATH", path);
}

static void
equip(struct inject *in, json_t *container)
{
    json_t *mounts = member(container, "volumeMounts", json_array);
    json_t *env = member(container, "env", json_array);
    const char *name = kube_str(container, "name"),
               *claim = annotation(in, CLAIM, name);

    if (!*claim)
        claim = annotation(in, CLAIM_OLD, name);
    set_env(env, "GPUPOOL_SCHEDULER", in->config->scheduler);
    if (in->config->scheduler_key)
        set_env(env, "GPUPOOL_SCHEDULER_KEY", in->config->scheduler_key);
    set_env(env, "GPUPOOL_CLAIM", claim);
    set_env(env, "GPUPOOL_POD_TOKEN_FILE", KUBE_TOKEN_DIR "/token");
    set_env(env, "NVIDIA_VISIBLE_DEVICES", "void"); /* no card of the node, if any */
    set_library_path(in, container, env);
    if (named(mounts, VOLUME_TOKEN))
        return;
    mount_libs(mounts, KUBE_LIBS);
    json_array_append_new(mounts,
                          json_pack("{s:s, s:s, s:b}", "name", VOLUME_TOKEN,
                                    "mountPath", KUBE_TOKEN_DIR, "readOnly", 1));
}

/* ------------------------------------------------------------------ the pod -- */

static json_t *
init_container(const struct kube_inject *config)
{
    return json_pack(
        "{s:s, s:s, s:s, s:[s, s], s:[{s:s, s:s}], s:{s:{s:s, s:s}, s:{s:s, s:s}}, "
        "s:{s:b, s:b, s:b, s:i, s:{s:[s]}, s:{s:s}}}",
        "name", VOLUME_LIBS, "image", config->image, "imagePullPolicy",
        config->pull_policy, "command", "/gpupool-copy", "/target", "volumeMounts",
        "name", VOLUME_LIBS, "mountPath", "/target", "resources", "requests", "cpu",
        "10m", "memory", "16Mi", "limits", "cpu", "1", "memory", "64Mi",
        "securityContext", "allowPrivilegeEscalation", 0, "readOnlyRootFilesystem", 1,
        "runAsNonRoot", 1, "runAsUser", 65532, "capabilities", "drop", "ALL",
        "seccompProfile", "type", "RuntimeDefault");
}

static json_t *
libs_volume(const struct kube_inject *config)
{
    if (config->image_volume)
        return json_pack("{s:s, s:{s:s, s:s}}", "name", VOLUME_LIBS, "image",
                         "reference", config->image, "pullPolicy", config->pull_policy);
    return json_pack("{s:s, s:{s:s}}", "name", VOLUME_LIBS, "emptyDir", "sizeLimit",
                     "256Mi");
}

static void
equip_pod(struct inject *in)
{
    json_t *spec = json_object_get(in->pod, "spec");
    json_t *volumes = member(spec, "volumes", json_array);
    json_t *gates = in->n_gated ? member(spec, "schedulingGates", json_array) : NULL;
    json_t *labels =
        member(json_object_get(in->pod, "metadata"), "labels", json_object);

    json_object_set_new(labels, "elasticgpu.io/remote", json_string("true"));
    if (in->n_gated && !named(gates, GATE))
        json_array_append_new(gates, json_pack("{s:s}", "name", GATE));
    if (named(volumes, VOLUME_TOKEN))
        return;
    json_array_append_new(volumes, libs_volume(in->config));
    json_array_append_new(
        volumes, json_pack("{s:s, s:{s:i, s:[{s:{s:s, s:s, s:i}}]}}", "name",
                           VOLUME_TOKEN, "projected", "defaultMode", 0444, "sources",
                           "serviceAccountToken", "audience", in->config->audience,
                           "path", "token", "expirationSeconds", 3600));
    if (!in->config->image_volume)
        json_array_insert_new(member(spec, "initContainers", json_array), 0,
                              init_container(in->config));
}

/* The names of all containers, as a set.  -EINVAL: there are too many. */
static int
read_names(const json_t *pod, json_t *names, struct gp_err *err)
{
    static const char *const LISTS[] = {"spec.containers", "spec.initContainers"};
    size_t n = 0, i;
    json_t *container;

    for (size_t k = 0; k < ARRAY_SIZE(LISTS); k++) {
        n += json_array_size(kube_at(pod, LISTS[k]));
        if (n > KUBE_CONTAINERS_MAX)
            return gp_err_set(err, -EINVAL,
                              "the pod has more than %d containers, which is the limit "
                              "for pods with remote cards",
                              KUBE_CONTAINERS_MAX);
        json_array_foreach(kube_at(pod, LISTS[k]), i, container)
            json_object_set_new(names, kube_str(container, "name"), json_true());
    }
    return 0;
}

/* An annotation for a container that is not there is a mistake, and so is a word that
 * would be passed over. */
static int
check_annotations(const struct inject *in, struct gp_err *err)
{
    static const char *const PREFIXES[] = {CLAIM, CLAIM_OLD};
    const char *session = annotation(in, "elasticgpu.io/", "session");
    CLEANUP_JSON json_t *names = json_object();
    const char *key;
    json_t *value;
    int r = read_names(in->pod, names, err);

    if (r < 0)
        return r;
    if (*session && strcmp(session, "pod") != 0)
        return gp_err_set(err, -EINVAL,
                          "the annotation elasticgpu.io/session: \"%.40s\" is not "
                          "possible; it is pod, or left out for a session of each "
                          "container",
                          session);
    json_object_foreach(in->annotations, key, value) for (size_t i = 0;
                                                          i < ARRAY_SIZE(PREFIXES); i++)
    {
        size_t n = strlen(PREFIXES[i]);

        if (strncmp(key, PREFIXES[i], n) == 0 && !json_object_get(names, key + n))
            return gp_err_set(err, -EINVAL,
                              "the annotation %s names container %s, which the pod "
                              "does not have",
                              key, key + n);
    }
    return 0;
}

/* Of several with one name, which the API server refuses, the first. */
static void
read_entries(struct inject *in)
{
    json_t *entry;
    size_t i;

    in->entries = json_object();
    in->ours = json_object();
    in->notes = json_object();
    json_array_foreach(kube_at(in->pod, "spec.resourceClaims"), i, entry)
    {
        const char *name = kube_str(entry, "name");

        if (!json_object_get(in->entries, name))
            json_object_set(in->entries, name, entry);
    }
}

static int
inject_list(struct inject *in, const char *list, const char *of_namespace,
            struct gp_err *err)
{
    json_t *container;
    size_t i;

    json_array_foreach(json_object_get(kube_at(in->pod, "spec"), list), i, container)
    {
        int r = read_container(in, container, of_namespace, err);

        if (r < 0)
            return r;
        if (r)
            equip(in, container);
        in->n += (unsigned)r;
    }
    return 0;
}

int
kube_inject_pod(const struct kube_inject *config, const char *ns, const char *class,
                const char *unique, json_t *pod, struct gp_err *err)
{
    struct inject in = {.config = config, .ns = ns, .unique = unique, .pod = pod};
    int r;

    if (!json_is_object(kube_at(pod, "spec")) ||
        !json_is_object(kube_at(pod, "metadata")))
        return gp_err_set(err, -EINVAL, "this is not a pod");
    in.annotations =
        member(json_object_get(pod, "metadata"), "annotations", json_object);
    read_entries(&in);
    r = check_annotations(&in, err);
    if (!r)
        r = inject_list(&in, "initContainers", class, err);
    if (!r)
        r = inject_list(&in, "containers", class, err);
    if (!r && in.n) {
        equip_pod(&in);
        kube_pins_strip(pod, in.annotations);
        r = 1;
    }
    json_decref(in.class);
    json_decref(in.entries);
    json_decref(in.ours);
    json_decref(in.notes);
    return r;
}
