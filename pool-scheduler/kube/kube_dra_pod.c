/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_dra_pod.h"

#include "gp_err.h"
#include "gp_str.h"
#include "kube_api.h"
#include "kube_dra.h"
#include "kube_object.h"

#include <errno.h>
#include <string.h>

/* What was read is noted as "KIND/NAME", with whether it is ours: so the notes are as
 * many as the reads. */
static int
read_once(struct kube_http *http, const struct kube_resource *res, const char *ns,
          const char *name, const json_t *notes, json_t **ret, struct gp_err *err)
{
    if (json_object_size(notes) >= KUBE_DRA_READS_MAX)
        return gp_err_set(err, -EINVAL,
                          "the ResourceClaims of the pod and the DeviceClasses that "
                          "they name are more than %d, the limit for one pod",
                          KUBE_DRA_READS_MAX);
    return kube_api_get(http, res, ns, name, ret, err);
}

static int
is_our_class(struct kube_http *http, const char *name, json_t *notes, bool *ret,
             struct gp_err *err)
{
    CLEANUP_FREE char *note = gp_str_printf("DeviceClass/%s", name);
    CLEANUP_JSON json_t *class = NULL;
    const json_t *known = note ? json_object_get(notes, note) : NULL;
    int r;

    if (*ret || !*name)
        return 0;
    if (known) {
        *ret = json_is_true(known);
        return 0;
    }
    if (!note)
        return -ENOMEM;
    r = read_once(http, &KUBE_DEVICE_CLASSES, NULL, name, notes, &class, err);
    if (r < 0 && r != -ENOENT)
        return r;
    *ret = class && kube_dra_is_ours(class);
    json_object_set_new(notes, note, json_boolean(*ret));
    return 0;
}

/* A request, or one of its alternatives; -E2BIG: it is ours and for several devices. */
static int
read_choice(struct kube_http *http, const json_t *choice, json_t *notes, bool *ret,
            struct gp_err *err)
{
    const json_t *count = json_object_get(choice, "count");
    bool ours = false;
    int r = is_our_class(http, kube_str(choice, "deviceClassName"), notes, &ours, err);

    *ret |= ours;
    if (!r && ours &&
        (json_integer_value(count) > 1 ||
         strcmp(kube_str(choice, "allocationMode"), "All") == 0))
        return -E2BIG;
    return r;
}

static int
is_our_request(struct kube_http *http, const json_t *request, json_t *notes, bool *ret,
               struct gp_err *err)
{
    json_t *alternative;
    size_t i;
    int r = read_choice(http, json_object_get(request, "exactly"), notes, ret, err);

    json_array_foreach(json_object_get(request, "firstAvailable"), i, alternative)
    {
        if (!r)
            r = read_choice(http, alternative, notes, ret, err);
    }
    return r;
}

/* How many of the requests at @path of @claim are for ours; or -errno. */
static int
count_ours(struct kube_http *http, const json_t *claim, const char *path, json_t *notes,
           struct gp_err *err)
{
    json_t *request;
    int ours = 0;
    size_t i;

    json_array_foreach(kube_at(claim, path), i, request)
    {
        bool is_ours = false;
        int r = is_our_request(http, request, notes, &is_ours, err);

        if (r == -E2BIG)
            return gp_err_set(
                err, -EINVAL,
                "%s %s asks for several remote cards; one claim stands for "
                "one session on one device: whole cards are asked for as "
                "nvidia.com/gpu: N or by an ElasticGPUClaim",
                kube_str(claim, "kind"), kube_name(claim));
        if (r < 0)
            return r;
        ours += is_ours;
    }
    if (ours > 1)
        return gp_err_set(err, -EINVAL,
                          "%s %s has %d requests of remote cards; one claim stands for "
                          "one session on one device",
                          kube_str(claim, "kind"), kube_name(claim), ours);
    return ours;
}

int
kube_dra_pod_ours(struct kube_http *http, const char *ns, const json_t *entry,
                  json_t *notes, bool *ret_ours, struct gp_err *err)
{
    const char *named = kube_str(entry, "resourceClaimName");
    const char *name = *named ? named : kube_str(entry, "resourceClaimTemplateName");
    const struct kube_resource *res =
        *named ? &KUBE_DEVICE_CLAIMS : &KUBE_DEVICE_TEMPLATES;
    CLEANUP_FREE char *note = gp_str_printf("%s/%s", res->kind, name);
    CLEANUP_JSON json_t *claim = NULL;
    const json_t *known = note ? json_object_get(notes, note) : NULL;
    int r;

    *ret_ours = json_is_true(known);
    if (!*name || known)
        return 0;
    if (!note)
        return -ENOMEM;
    r = read_once(http, res, ns, name, notes, &claim, err);
    if (r == -ENOENT)
        return gp_err_set(err, -EINVAL,
                          "there is no %s %s; in a namespace or pod that selects the "
                          "remote class it is made before its pod",
                          res->kind, name);
    if (r < 0)
        return r;
    json_object_set_new(notes, note, json_false());
    r = count_ours(http, claim,
                   *named ? "spec.devices.requests" : "spec.spec.devices.requests",
                   notes, err);
    if (r <= 0)
        return r;
    *ret_ours = true;
    json_object_set_new(notes, note, json_true());
    return 0;
}
