/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool-kube controller: options. */
#include "ctl_limits.h"
#include "ctrl.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_config.h"
#include "kube_main.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct options {
    struct ctrl_config config;
    struct kube_config kube;
    const char *scheduler, *token_file;
    uint32_t session_lease_s, grace_s;
};

#define FIELD(field) .offset = offsetof(struct options, field)

static const struct gp_option OPTIONS[] = {
    {.name = "scheduler",
     .value = "HOST:PORT",
     .set = gp_option_text,
     .check = gp_option_check_addresses,
     .min = CTL_DEFAULT_PORT,
     FIELD(scheduler),
     .env = "GPUPOOL_SCHEDULER",
     .help = "the pool's scheduler (GPUPOOL_SCHEDULER)"},
    {.name = "token-file",
     .value = "FILE",
     .set = gp_option_text,
     FIELD(token_file),
     .help = "its admin token; without one, only a scheduler's Unix socket will do "
             "(--scheduler unix:PATH)"},
    {.name = "session-lease-s",
     .value = "N",
     .set = gp_option_u32,
     FIELD(session_lease_s),
     .min = 10,
     .max = 24 * 3600,
     .help = "how long sessions live without a controller (3600)"},
    {.name = "lease",
     .value = "NAME",
     .set = gp_option_text,
     FIELD(config.lease),
     .help = "the Lease that one controller holds (gpupool-controller)"},
    {.name = "namespace",
     .value = "NS",
     .set = gp_option_text,
     FIELD(config.ns),
     .help = "where that is (the pod's own)"},
    {.name = "lease-s",
     .value = "N",
     .set = gp_option_u32,
     FIELD(config.lease_s),
     .min = 3,
     .max = 3600,
     .help = "its term (15)"},
    {.name = "server-grace-s",
     .value = "N",
     .set = gp_option_u32,
     FIELD(grace_s),
     .min = 1,
     .max = 86400,
     .help = "how long a server may be silent before its sessions are given up and "
             "opened elsewhere (30)"},
    {.name = "dra",
     .set = gp_option_yes,
     FIELD(config.dra),
     .help = "publish ResourceSlices and honour ResourceClaims"},
    {.name = "dra-parts",
     .value = "N",
     .set = gp_option_u32,
     FIELD(config.dra_parts),
     .min = 1,
     .max = 8,
     .help = "devices a card, where one device is one claim's (1)"},
    {.name = "legacy-gpus",
     .set = gp_option_yes,
     FIELD(config.legacy_gpus),
     .help = "publish GPU objects (gpus.elasticgpu.io) as well"},
    {.name = "ready-file",
     .value = "FILE",
     .set = gp_option_text,
     FIELD(config.ready_file),
     .help = "written when the controller watches"},
};

/* 0: go on; 1: help was shown. */
static int
parse(struct options *o, int argc, char **argv, struct gp_err *err)
{
    const struct gp_option_set_of sets[] = {{OPTIONS, ARRAY_SIZE(OPTIONS), o},
                                            kube_config_options(&o->kube)};
    const struct gp_options options = {
        .program = "gpupool-kube controller",
        .about = "Bind ElasticGPUClaims to slices of the pool and publish its cards.",
        .after =
            "GPUPOOL_LOG=area:level,... sets the log level (areas: kube work lease "
            "pool session\npod gpu event dra).\n",
        .env = KUBE_MAIN_ENV,
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };
    int first, r = gp_options_parse(&options, argc, argv, &first, err);

    if (r)
        return r;
    o->config.renew_s = o->config.lease_s / 3;
    o->config.server_grace_ns = o->grace_s * GP_NS_PER_S;
    if (!o->scheduler)
        return gp_err_set(err, -EINVAL,
                          "--scheduler HOST:PORT or GPUPOOL_SCHEDULER is needed");
    return kube_config_finish(&o->kube, err);
}

static int
serve(struct options *o, struct gp_err *err)
{
    CLEANUP_FREE char *ns = kube_config_namespace(), *identity = NULL;
    char host[128] = "";
    struct ctrl ctrl;
    int r;

    gethostname(host, sizeof(host) - 1);
    identity = gp_str_printf("%s_%d_%" PRIx64, host, (int)getpid(), gp_wall_ns());
    if (!ns || !identity)
        return -ENOMEM;
    o->config.identity = identity;
    if (!o->config.ns)
        o->config.ns = ns;
    r = ctrl_init(&ctrl, &o->config, &o->kube, o->scheduler, o->token_file,
                  o->session_lease_s * 1000, err);
    if (!r)
        r = ctrl_run(&ctrl);
    ctrl_fini(&ctrl);
    return r;
}

int
kube_main_controller(int argc, char **argv)
{
    struct options o = {
        .config = {.lease = "gpupool-controller", .lease_s = 15, .dra_parts = 1},
        .session_lease_s = 3600,
        .grace_s = 30,
    };
    struct gp_err err = {0};
    int r = parse(&o, argc, argv, &err), status = KUBE_MAIN_USAGE;

    if (!r) {
        status = KUBE_MAIN_FAILED;
        r = serve(&o, &err);
    }
    if (r < 0)
        fprintf(stderr, "gpupool-kube controller: %s\n", gp_err_msg(&err, r));
    kube_config_fini(&o.kube);
    return r < 0 ? status : 0;
}
