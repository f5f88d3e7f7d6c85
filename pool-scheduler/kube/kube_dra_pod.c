/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_dra_pod.h"

#include "gp_err.h"
#include "kube_api.h"
#include "kube_dra.h"
#include "kube_object.h"

#include <errno.h>

static int
is_our_class(struct kube_http *http, const char *name, bool *ret, struct gp_err *err)
{
    CLEANUP_JSON json_t *class = NULL;
    int r;

    if (!*name)
        return 0;
    r = kube_api_get(http, &KUBE_DEVICE_CLASSES, NULL, name, &class, err);
    if (r < 0 && r != -ENOENT)
        return r;
    *ret |= class && kube_dra_is_ours(class);
    return 0;
}

static int
is_our_request(struct kube_http *http, const json_t *request, bool *ret,
               struct gp_err *err)
{
    json_t *alternative;
    size_t i;
    int r = is_our_class(http, kube_str(request, "exactly.deviceClassName"), ret, err);

    json_array_foreach(json_object_get(request, "firstAvailable"), i, alternative)
    {
        if (!r)
            r = is_our_class(http, kube_str(alternative, "deviceClassName"), ret, err);
    }
    return r;
}

static int
read_entry(struct kube_http *http, const char *ns, const json_t *entry,
           json_t **ret_claim, const char **ret_requests, struct gp_err *err)
{
    const char *claim = kube_str(entry, "resourceClaimName");
    const char *template = kube_str(entry, "resourceClaimTemplateName");
    int r;

    *ret_requests = *claim ? "spec.devices.requests" : "spec.spec.devices.requests";
    if (!*claim && !*template)
        return -ENOENT;
    r = *claim
            ? kube_api_get(http, &KUBE_DEVICE_CLAIMS, ns, claim, ret_claim, err)
            : kube_api_get(http, &KUBE_DEVICE_TEMPLATES, ns, template, ret_claim, err);
    if (r == -ENOENT)
        return gp_err_set(err, -EINVAL,
                          "there is no %s %s; in a namespace or pod that selects the "
                          "remote class it is made before its pod",
                          *claim ? "ResourceClaim" : "ResourceClaimTemplate",
                          *claim ? claim : template);
    return r;
}

int
kube_dra_pod_ours(struct kube_http *http, const char *ns, const json_t *entry,
                  bool *ret_ours, struct gp_err *err)
{
    CLEANUP_JSON json_t *claim = NULL;
    const char *requests;
    unsigned ours = 0;
    json_t *request;
    size_t i;
    int r = read_entry(http, ns, entry, &claim, &requests, err);

    *ret_ours = false;
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    json_array_foreach(kube_at(claim, requests), i, request)
    {
        bool is_ours = false;

        r = is_our_request(http, request, &is_ours, err);
        if (r < 0)
            return r;
        ours += is_ours;
    }
    if (ours > 1)
        return gp_err_set(err, -EINVAL,
                          "%s %s has %u requests of remote cards; one claim stands for "
                          "one session on one device",
                          kube_str(claim, "kind"), kube_name(claim), ours);
    *ret_ours = ours;
    return 0;
}
