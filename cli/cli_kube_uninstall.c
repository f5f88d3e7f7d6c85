/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_kube_uninstall.h"

#include "cli_kubectl.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FINALIZER "elasticgpu.io/session"
#define PROVISIONER "elasticgpu.io/remote"
/* What a controller is given to close sessions in; it may not answer at all. */
#define SESSIONS_WAIT_S 30u
#define NAMED_PODS 5u

#define KUBECTL(input, output, err, ...)                                               \
    cli_kubectl((const char *const[]){__VA_ARGS__, NULL}, input, output, err)

static const char *
text_at(const json_t *object, const char *a, const char *b)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(object, a), b));

    return text ? text : "";
}

/* What kubectl says of a kind that is not there: by what it knows of the cluster, or by
 * the API server's answer where it remembers a kind that has just been deleted. */
static bool
is_no_kind(const char *words)
{
    return strstr(words, "doesn't have a resource type") ||
           strstr(words, "the server could not find the requested resource");
}

/* The objects of a kind in all namespaces.  A kind that the cluster does not have, or
 * not any more, has none; every other fault is one, because what is not seen must not
 * be taken for nothing. */
static int
list(const char *kind, json_t **ret, struct gp_err *err)
{
    const char *const args[] = {"get", kind, "--all-namespaces", NULL};
    json_t *found = NULL, *items;
    int r = cli_kubectl_json(args, &found, err);

    if (r == -EREMOTE && is_no_kind(err->msg)) {
        *err = (struct gp_err){0};
        r = 0;
    }
    items = json_incref(json_object_get(found, "items"));
    json_decref(found);
    if (!r)
        *ret = items ? items : json_array();
    else
        json_decref(items);
    return r;
}

/* kubectl's @verb with @objects on its standard input; none: a no-op.  @option may be
 * NULL. */
static int
send_list(const char *verb, const char *option, const json_t *objects,
          struct gp_err *err)
{
    json_t *all = json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "List",
                            "items", objects);
    CLEANUP_FREE char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;

    json_decref(all);
    if (!text)
        return -ENOMEM;
    return json_array_size(objects) ? KUBECTL(text, NULL, err, verb, "-f", "-", option)
                                    : 0;
}

/* --------------------------------------------------------- who still uses it -- */

static bool
has_ended(const json_t *pod)
{
    const char *phase = text_at(pod, "status", "phase");

    return !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed");
}

static int
check_unused(struct gp_err *err)
{
    const char *const args[] = {
        "get", "pods", "--all-namespaces", "-l", "elasticgpu.io/remote=true", NULL};
    char names[320] = "";
    json_t *found = NULL, *pod;
    size_t n = 0, i;
    int r = cli_kubectl_json(args, &found, err);

    json_array_foreach(json_object_get(found, "items"), i, pod)
    {
        size_t len = strlen(names);

        if (!has_ended(pod) && n++ < NAMED_PODS)
            snprintf(names + len, sizeof(names) - len, "%s%s/%s", len ? ", " : "",
                     text_at(pod, "metadata", "namespace"),
                     text_at(pod, "metadata", "name"));
    }
    json_decref(found);
    if (r < 0 || !n)
        return r;
    return gp_err_set(err, -EBUSY,
                      "%zu pod%s of the cluster use%s the pool (%s%s); delete them, or "
                      "let their programs fail with --force",
                      n, n > 1 ? "s" : "", n > 1 ? "" : "s", names,
                      n > NAMED_PODS ? ", ..." : "");
}

/* ------------------------------------------------------------------ objects -- */

static bool
is_ours(const json_t *finalizer)
{
    const char *name = json_string_value(finalizer);

    return name && !strcmp(name, FINALIZER);
}

static bool
has_finalizer(const json_t *object)
{
    const json_t *names =
        json_object_get(json_object_get(object, "metadata"), "finalizers");
    json_t *name;
    size_t i;

    json_array_foreach((json_t *)names, i, name) if (is_ours(name)) return true;
    return false;
}

/* Those that the controller holds; kinds and namespaces may have others, too. */
static int
held(const char *kind, json_t **ret, struct gp_err *err)
{
    json_t *all = NULL, *object;
    size_t i;
    int r = list(kind, &all, err);

    if (r < 0)
        return r;
    *ret = json_array();
    json_array_foreach(all, i, object) if (has_finalizer(object))
        json_array_append(*ret, object);
    json_decref(all);
    return 0;
}

static int
classes(bool ours, json_t **ret, struct gp_err *err)
{
    json_t *all = NULL, *class;
    size_t i;
    int r = list("elasticgpuclasses", &all, err);

    if (r < 0)
        return r;
    *ret = json_array();
    json_array_foreach(all, i, class)
    {
        const char *by = json_string_value(json_object_get(class, "provisioner"));

        if ((by && !strcmp(by, PROVISIONER)) == ours)
            json_array_append(*ret, class);
    }
    json_decref(all);
    return 0;
}

/* Claims and slices, by the controller while there is one: it closes their sessions. */
static int
end_held(const struct cli_kube_uninstall *o, const char *kind, struct gp_err *err)
{
    CLEANUP_FREE char *running = NULL;
    CLEANUP_FREE char *wait = gp_str_printf("--timeout=%us", SESSIONS_WAIT_S);
    json_t *objects = NULL;
    bool controller;
    int r = wait ? held(kind, &objects, err) : -ENOMEM;

    if (r < 0)
        return r;
    controller =
        KUBECTL(NULL, &running, NULL, "get", "deployment", "gpupool-controller", "-n",
                o->ns, "--ignore-not-found", "-o", "name") == 0 &&
        *running;
    /* Whoever uses a claim keeps it from its end, and is not waited for. */
    (void)send_list("delete", controller && !o->force ? wait : "--wait=false", objects,
                    NULL);
    json_decref(objects);
    return 0;
}

/* What no controller will end any more. */
static int
release_held(const char *kind, struct gp_err *err)
{
    json_t *objects = NULL, *object;
    size_t i, k;
    int r = held(kind, &objects, err);

    if (r < 0)
        return r;
    json_array_foreach(objects, i, object)
    {
        json_t *names =
            json_object_get(json_object_get(object, "metadata"), "finalizers");

        for (k = json_array_size(names); k-- > 0;) {
            if (is_ours(json_array_get(names, k)))
                json_array_remove(names, k);
        }
    }
    r = send_list("replace", NULL, objects, err);
    json_decref(objects);
    return r;
}

/* ------------------------------------------------------------- the manifest -- */

/* Kinds that may be gone while the manifest still has objects of them, at which kubectl
 * would stop; they are deleted by name. */
static bool
is_of_kinds(const char *document, size_t len)
{
    static const char *const LINES[] = {"\nkind: CustomResourceDefinition\n",
                                        "\nkind: ElasticGPUClass\n"};

    for (size_t i = 0; i < ARRAY_SIZE(LINES); i++)
        if (memmem(document, len, LINES[i], strlen(LINES[i])))
            return true;
    return false;
}

static char *
without_kinds(const char *manifest)
{
    static const char mark[] = "\n---\n";
    char *text = calloc(1, strlen(manifest) + 1);
    size_t n = 0;

    for (const char *at = manifest; text && *at;) {
        const char *end = strstr(at, mark);
        size_t len = end ? (size_t)(end - at) + sizeof(mark) - 1 : strlen(at);

        if (!is_of_kinds(at, len)) {
            memcpy(text + n, at, len);
            n += len;
        }
        at += len;
    }
    return text;
}

/* The kinds stay where another provisioner's classes do. */
static int
delete_kinds(const char *timeout, struct gp_err *err)
{
    json_t *others = NULL;
    int r = classes(false, &others, err);
    const size_t n = json_array_size(others);

    if (r < 0)
        return r;
    if (n)
        printf("The kinds of elasticgpu.io stay: ElasticGPUClass %s is of another "
               "provisioner.\n",
               text_at(json_array_get(others, 0), "metadata", "name"));
    json_decref(others);
    return n ? 0
             : KUBECTL(NULL, NULL, err, "delete", "crd",
                       "elasticgpuclaims.elasticgpu.io",
                       "elasticgpuclasses.elasticgpu.io", "elasticgpus.elasticgpu.io",
                       "gpus.elasticgpu.io", "--ignore-not-found", timeout);
}

static int
delete_cards(struct gp_err *err)
{
    CLEANUP_FREE char *ignored = NULL;

    /* A cluster may not know resource.k8s.io/v1: then there are none. */
    (void)KUBECTL(NULL, &ignored, NULL, "delete", "resourceslices", "-l",
                  "elasticgpu.io/dra=true", "--ignore-not-found");
    free(ignored);
    ignored = NULL;
    (void)KUBECTL(NULL, &ignored, NULL, "delete", "elasticgpus", "-l",
                  "elasticgpu.io/kind=card", "--ignore-not-found", "--wait=false");
    return release_held("elasticgpus", err);
}

int
cli_kube_uninstall(const struct cli_kube_uninstall *o, struct gp_err *err)
{
    CLEANUP_FREE char *manifest = without_kinds(o->manifest);
    CLEANUP_FREE char *timeout =
        gp_str_printf("--timeout=%llus", (unsigned long long)o->wait_s);
    json_t *ours = NULL;
    int r = manifest && timeout ? 0 : -ENOMEM;

    if (!r && !o->force)
        r = check_unused(err);
    if (!r) /* from here on no pod is given a claim */
        r = KUBECTL(NULL, NULL, err, "delete", "mutatingwebhookconfiguration",
                    "gpupool", "--ignore-not-found");
    if (r < 0)
        return r;
    r = end_held(o, "elasticgpuclaims", err);
    if (!r)
        r = end_held(o, "elasticgpus", err);
    if (!r)
        r = KUBECTL(NULL, NULL, err, "delete", "deployment", "gpupool-controller", "-n",
                    o->ns, "--ignore-not-found", "--cascade=foreground", timeout);
    if (!r)
        r = release_held("elasticgpuclaims", err);
    if (!r)
        r = delete_cards(err);
    if (!r)
        r = classes(true, &ours, err);
    if (!r)
        r = send_list("delete", "--ignore-not-found", ours, err);
    json_decref(ours);
    if (!r)
        r = KUBECTL(manifest, NULL, err, "delete", "--ignore-not-found", "-f", "-",
                    timeout);
    return r < 0 ? r : delete_kinds(timeout, err);
}
