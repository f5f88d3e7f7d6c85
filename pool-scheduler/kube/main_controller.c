/* SPDX-License-Identifier: Apache-2.0 */
/* gpupool-kube controller: options. */
#include "ctrl.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_config.h"
#include "kube_main.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char HELP[] =
    "Usage: gpupool-kube controller [OPTION...]\n"
    "Bind ElasticGPUClaims to slices of the pool and publish its cards.\n"
    "\n"
    "  --scheduler HOST:PORT     the pool's scheduler (GPUPOOL_SCHEDULER)\n"
    "  --token-file FILE         its admin token; without it, it must be on this host\n"
    "  --session-lease-s N       how long sessions live without a controller (3600)\n"
    "  --lease NAME              the Lease that one controller holds "
    "(gpupool-controller)\n"
    "  --namespace NS            where that is (the pod's own)\n"
    "  --lease-s N               its term (15)\n"
    "  --server-grace-s N        how long a server may be silent before its sessions "
    "are\n"
    "                            given up and opened elsewhere (30)\n"
    "  --dra                     publish ResourceSlices and honour ResourceClaims\n"
    "  --dra-parts N             devices a card, where one device is one claim's (1)\n"
    "  --legacy-gpus             publish GPU objects (gpus.elasticgpu.io) as well\n"
    "  --ready-file FILE         written when the controller watches\n" KUBE_CONFIG_HELP
    "  --help\n"
    "\n"
    "GPUPOOL_LOG=area:level,... sets the log level (areas: kube work lease pool "
    "session\n"
    "pod gpu event).\n";

enum {
    OPT_SCHEDULER = 256,
    OPT_TOKEN,
    OPT_SESSION_LEASE,
    OPT_LEASE,
    OPT_NAMESPACE,
    OPT_LEASE_S,
    OPT_READY,
    OPT_GRACE,
    OPT_DRA,
    OPT_DRA_PARTS,
    OPT_LEGACY,
    OPT_HELP,
};

static const struct option OPTIONS[] = {
    {"scheduler", required_argument, NULL, OPT_SCHEDULER},
    {"token-file", required_argument, NULL, OPT_TOKEN},
    {"session-lease-s", required_argument, NULL, OPT_SESSION_LEASE},
    {"lease", required_argument, NULL, OPT_LEASE},
    {"namespace", required_argument, NULL, OPT_NAMESPACE},
    {"lease-s", required_argument, NULL, OPT_LEASE_S},
    {"ready-file", required_argument, NULL, OPT_READY},
    {"server-grace-s", required_argument, NULL, OPT_GRACE},
    {"dra", no_argument, NULL, OPT_DRA},
    {"dra-parts", required_argument, NULL, OPT_DRA_PARTS},
    {"legacy-gpus", no_argument, NULL, OPT_LEGACY},
    KUBE_CONFIG_OPTIONS,
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct options {
    struct ctrl_config config;
    struct kube_config kube;
    const char *scheduler, *token_file;
    uint64_t session_lease_s;
};

static int
number(const char *name, uint64_t min, uint64_t max, uint64_t *ret, struct gp_err *err)
{
    if (gp_str_u64(optarg, min, max, ret) < 0)
        return gp_err_set(err, -EINVAL, "--%s %s: a number from %llu to %llu is wanted",
                          name, optarg, (unsigned long long)min,
                          (unsigned long long)max);
    return 0;
}

static int
parse_option(struct options *o, int opt, struct gp_err *err)
{
    uint64_t n = 0;
    int r;

    switch (opt) {
    case OPT_SCHEDULER:
        o->scheduler = optarg;
        return 0;
    case OPT_TOKEN:
        o->token_file = optarg;
        return 0;
    case OPT_LEASE:
        o->config.lease = optarg;
        return 0;
    case OPT_NAMESPACE:
        o->config.ns = optarg;
        return 0;
    case OPT_READY:
        o->config.ready_file = optarg;
        return 0;
    case OPT_GRACE:
        r = number("server-grace-s", 1, 86400, &n, err);
        o->config.server_grace_ns = n * GP_NS_PER_S;
        return r;
    case OPT_DRA:
        o->config.dra = true;
        return 0;
    case OPT_DRA_PARTS:
        r = number("dra-parts", 1, 8, &n, err);
        o->config.dra_parts = (unsigned)n;
        return r;
    case OPT_LEGACY:
        o->config.legacy_gpus = true;
        return 0;
    case OPT_SESSION_LEASE:
        return number("session-lease-s", 10, 24 * 3600, &o->session_lease_s, err);
    case OPT_LEASE_S:
        r = number("lease-s", 3, 3600, &n, err);
        o->config.lease_s = (unsigned)n;
        o->config.renew_s = (unsigned)n / 3;
        return r;
    default:
        r = kube_config_option(&o->kube, opt, optarg);
        return r < 0 ? r : r ? 0 : gp_err_set(err, -EINVAL, "see --help");
    }
}

/* 0: go on; 1: help was shown. */
static int
parse(struct options *o, int argc, char **argv, struct gp_err *err)
{
    int opt, r;

    while ((opt = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (opt == OPT_HELP) {
            fputs(HELP, stdout);
            return 1;
        }
        r = parse_option(o, opt, err);
        if (r < 0)
            return r;
    }
    if (optind < argc)
        return gp_err_set(err, -EINVAL, "%s: unexpected argument", argv[optind]);
    if (!o->scheduler)
        o->scheduler = getenv("GPUPOOL_SCHEDULER");
    if (!o->scheduler || !*o->scheduler)
        return gp_err_set(err, -EINVAL, "which scheduler? --scheduler HOST:PORT");
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
                  (uint32_t)o->session_lease_s * 1000, err);
    if (!r)
        r = ctrl_run(&ctrl);
    ctrl_fini(&ctrl);
    return r;
}

int
kube_main_controller(int argc, char **argv)
{
    struct options o = {
        .config = {.lease = "gpupool-controller",
                   .lease_s = 15,
                   .renew_s = 5,
                   .server_grace_ns = 30 * GP_NS_PER_S,
                   .dra_parts = 1},
        .session_lease_s = 3600,
    };
    struct gp_err err = {0};
    int r = parse(&o, argc, argv, &err);

    if (!r)
        r = serve(&o, &err);
    if (r < 0)
        fprintf(stderr, "gpupool-kube controller: %s\n", gp_err_msg(&err, r));
    kube_config_fini(&o.kube);
    return r < 0;
}
