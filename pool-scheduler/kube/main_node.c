/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-kube node-plugin: tells a kubelet that ResourceClaims of the pool need
 * nothing on its node.
 *
 * A kubelet before Kubernetes 1.37 starts no pod with a ResourceClaim until a plug-in
 * of the claim's driver on its node says that the devices are prepared.  Devices of the
 * pool are elsewhere, so the answer is always that they are; the session is opened by
 * the controller, and the container waits for it when it first uses the card.  The
 * plug-in asks nobody, knows no secret and needs two folders of the kubelet.
 */
#include "gp_err.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_option.h"
#include "gp_str.h"
#include "kube_dra.h"
#include "kube_grpc.h"
#include "kube_main.h"
#include "kubelet.pb-c.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct plugin {
    struct gp_loop *loop;
    struct kube_grpc registration, dra;
    char *endpoint, *socket;
};

static bool
ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);

    return n >= m && strcmp(path + n - m, end) == 0;
}

/* ------------------------------------------------------------ registration -- */

static int
get_info(const struct plugin *plugin, uint8_t **ret_reply, size_t *ret_len)
{
    static char *VERSIONS[] = {(char *)"v1.DRAPlugin", (char *)"v1beta1.DRAPlugin"};
    Kubelet__PluginInfo info = KUBELET__PLUGIN_INFO__INIT;

    info.type = (char *)"DRAPlugin";
    info.name = (char *)KUBE_DRA_DRIVER;
    info.endpoint = plugin->endpoint;
    info.supported_versions = VERSIONS;
    info.n_supported_versions = ARRAY_SIZE(VERSIONS);
    *ret_len = kubelet__plugin_info__get_packed_size(&info);
    *ret_reply = malloc(*ret_len);
    if (*ret_reply)
        kubelet__plugin_info__pack(&info, *ret_reply);
    return KUBE_GRPC_OK;
}

static int
take_status(const uint8_t *msg, size_t len)
{
    Kubelet__RegistrationStatus *status =
        kubelet__registration_status__unpack(NULL, len, msg);

    if (!status)
        return KUBE_GRPC_INVALID;
    if (status->plugin_registered)
        gp_log_info("node", "the kubelet knows %s now", KUBE_DRA_DRIVER);
    else
        gp_log_warn("node", "the kubelet refuses %s: %s", KUBE_DRA_DRIVER,
                    status->error);
    kubelet__registration_status__free_unpacked(status, NULL);
    return KUBE_GRPC_OK;
}

static int
on_registration(void *arg, const char *path, const uint8_t *msg, size_t len,
                uint8_t **ret_reply, size_t *ret_len)
{
    if (ends_with(path, "/GetInfo"))
        return get_info(arg, ret_reply, ret_len);
    if (ends_with(path, "/NotifyRegistrationStatus"))
        return take_status(msg, len);
    return KUBE_GRPC_UNIMPLEMENTED;
}

/* ------------------------------------------------------------------ claims -- */

/* Each claim that was asked for, without an error and without devices. */
static void
pack_done(const Kubelet__ClaimsRequest *request, uint8_t **ret_reply, size_t *ret_len)
{
    Kubelet__ClaimsResponse response = KUBELET__CLAIMS_RESPONSE__INIT;
    Kubelet__ClaimResponse done = KUBELET__CLAIM_RESPONSE__INIT;
    size_t n = request->n_claims;
    CLEANUP_FREE Kubelet__ClaimEntry *entries = calloc(n + 1, sizeof(*entries));
    CLEANUP_FREE Kubelet__ClaimEntry **list = calloc(n + 1, sizeof(*list));

    if (!entries || !list)
        return;
    for (size_t i = 0; i < n; i++) {
        kubelet__claim_entry__init(&entries[i]);
        entries[i].key = request->claims[i]->uid;
        entries[i].value = &done;
        list[i] = &entries[i];
    }
    response.claims = list;
    response.n_claims = n;
    *ret_len = kubelet__claims_response__get_packed_size(&response);
    *ret_reply = malloc(*ret_len + 1);
    if (*ret_reply)
        kubelet__claims_response__pack(&response, *ret_reply);
}

static int
on_claims(void *arg, const char *path, const uint8_t *msg, size_t len,
          uint8_t **ret_reply, size_t *ret_len)
{
    Kubelet__ClaimsRequest *request;
    bool prepare = ends_with(path, "/NodePrepareResources");

    if (!prepare && !ends_with(path, "/NodeUnprepareResources"))
        return KUBE_GRPC_UNIMPLEMENTED;
    request = kubelet__claims_request__unpack(NULL, len, msg);
    if (!request)
        return KUBE_GRPC_INVALID;
    pack_done(request, ret_reply, ret_len);
    for (size_t i = 0; i < request->n_claims; i++)
        gp_log_info("node", "ResourceClaim %s/%s: %s", request->claims[i]->namespace_,
                    request->claims[i]->name, prepare ? "prepared" : "done with");
    kubelet__claims_request__free_unpacked(request, NULL);
    return KUBE_GRPC_OK;
}

/* ------------------------------------------------------------- start, stop -- */

static void
on_signal(struct gp_loop *loop, int signo, void *arg)
{
    gp_loop_stop(loop, 0);
}

/* The registration comes last: the kubelet connects as soon as it sees the socket. */
static int
start(struct plugin *plugin, const char *dir, struct gp_err *err)
{
    CLEANUP_FREE char *folder = gp_str_printf("%s/plugins/" KUBE_DRA_DRIVER, dir);
    int r;

    plugin->endpoint = folder ? gp_str_printf("%s/dra.sock", folder) : NULL;
    plugin->socket =
        gp_str_printf("%s/plugins_registry/" KUBE_DRA_DRIVER "-reg.sock", dir);
    if (!plugin->endpoint || !plugin->socket)
        return -ENOMEM;
    if (mkdir(folder, 0750) < 0 && errno != EEXIST)
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    plugin->dra.answer = on_claims;
    plugin->registration.answer = on_registration;
    plugin->registration.arg = plugin;
    r = kube_grpc_start(&plugin->dra, plugin->loop, plugin->endpoint, err);
    return r < 0 ? r
                 : kube_grpc_start(&plugin->registration, plugin->loop, plugin->socket,
                                   err);
}

static int
serve(const char *dir, struct gp_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, 0};
    struct plugin plugin = {0};
    int r = gp_loop_new(&plugin.loop, err);

    if (!r)
        r = gp_loop_signals(plugin.loop, signals, on_signal, NULL, err);
    if (!r)
        r = start(&plugin, dir, err);
    if (!r)
        r = gp_loop_run(plugin.loop);
    kube_grpc_stop(&plugin.registration);
    kube_grpc_stop(&plugin.dra);
    if (plugin.socket)
        unlink(plugin.socket); /* the kubelet forgets the plug-in */
    free(plugin.endpoint);
    free(plugin.socket);
    gp_loop_free(plugin.loop);
    return r;
}

int
kube_main_node(int argc, char **argv)
{
    static const struct gp_option own = {
        .name = "kubelet-dir",
        .value = "DIR",
        .help = "the kubelet's own folder (/var/lib/kubelet)",
        .set = gp_option_text};
    const char *dir = "/var/lib/kubelet";
    const struct gp_option_set_of set = {&own, 1, &dir};
    const struct gp_options options = {
        .program = "gpupool-kube node-plugin",
        .about = "Tell the kubelet of this node that ResourceClaims of the pool are "
                 "prepared.",
        .env = KUBE_MAIN_ENV,
        .sets = &set,
        .n_sets = 1,
    };
    struct gp_err err = {0};
    int first, status = KUBE_MAIN_USAGE;
    int r = gp_options_parse(&options, argc, argv, &first, &err);

    if (!r) {
        status = KUBE_MAIN_FAILED;
        r = serve(dir, &err);
    }
    if (r < 0)
        fprintf(stderr, "gpupool-kube node-plugin: %s\n", gp_err_msg(&err, r));
    return r < 0 ? status : 0;
}
