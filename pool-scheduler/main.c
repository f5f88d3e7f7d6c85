/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-scheduler: knows every card and every session of a pool.
 *
 * One process, one thread, one event loop.  Servers and clients come over TCP; the
 * state is in --state-dir and survives a kill at any moment.  It is not on the path
 * of any CUDA call: while it is away, sessions run on, and nothing new starts.
 */
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_config.h"
#include "sched_auth.h"
#include "sched_daemon.h"
#include "sched_rates.h"
#include "sched_replica.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const char HELP[] =
    "Usage: gpupool-scheduler [OPTION...]\n"
    "Place sessions on the cards of a pool, lease them, sign their tickets.\n"
    "\n"
    "  --listen HOST:PORT        where servers and clients connect (127.0.0.1:7480)\n"
    "  --state-dir DIR           state and key (/var/lib/gpupool)\n"
    "  --key-file FILE           the key that signs tickets, kept by somebody else, as "
    "in\n"
    "                            a mounted Secret (STATE_DIR/ticket-key.pem)\n"
    "  --tls require|prefer|off  what TCP speaks: only TLS 1.3, both it and clear "
    "text\n"
    "                            (prefer), or only that\n"
    "  --local unix:PATH         socket for local orders (STATE_DIR/scheduler.sock): "
    "this\n"
    "                            process's user and root need no token there\n"
    "  --server-token-file FILE  secret that servers must know\n"
    "  --server-tokens-file FILE lines NAME:TOKEN: secrets of single servers, each for "
    "its\n"
    "                            own name only; beside or instead of the shared one\n"
    "  --client-token-file FILE  secret that clients must know\n"
    "  --admin-token-file FILE   secret for drain and for closing sessions of others\n"
    "  --allow-anonymous ROLE    no secret for ROLE (server, client or admin):\n"
    "                            everybody who can connect may; without it and "
    "without a\n"
    "                            token file, ROLE is for the local socket only\n"
    "  --placement POLICY        binpack (default) or spread\n"
    "  --rules FILE              tenants, quotas, priority classes, labels of servers; "
    "read\n"
    "                            again on SIGHUP (gpupool-scheduler(8) has its form)\n"
    "  --heartbeat-ms N          how often servers report (2000); dead after 3 missed\n"
    "  --lease-ms N              lease of a session when the client names none "
    "(30000)\n"
    "  --hold-grace-ms N         left to a session whose `gpupool run` was lost "
    "(6000)\n"
    "  --forget-hours N          a server that is away for so long is forgotten (168)\n"
    "  --owner-sessions N        most sessions of one owner (256)\n"
    "  --max-attachments N       most processes of one session (64)\n"
    "  --rate-requests N         requests a second of one address; 0: any number "
    "(500)\n"
    "  --rate-opens N            sessions a second that one address asks for (50)\n"
    "  --rate-denials N          wrong secrets a second of one address (20)\n"
    "  --metrics-listen H:P      Prometheus metrics on http://H:P/metrics\n"
    "  --audit-log FILE          one JSON line for each grant, denial and order\n"
    "  --ready-file FILE         written with HOST:PORT once it listens\n"
    "  --etcd URL,...            share the state with other schedulers, in etcd\n"
    "  --advertise HOST:PORT     where clients and servers reach this one (--listen)\n"
    "  --etcd-prefix PREFIX      of all keys (/gpupool/)\n"
    "  --etcd-ca FILE, --etcd-cert FILE, --etcd-key FILE\n"
    "                            for https: whom to trust, and who this is\n"
    "  --etcd-lease-s N          a leader that is gone is followed after N s (3)\n"
    "\n"
    "gpupool-scheduler migrate --help: move a pool from the state file to etcd\n"
    "  --kube                    serve pods: tokens are reviewed by the API server\n"
    "  --kube-audience NAME      that pods' tokens are made for "
    "(egpu)\n" KUBE_CONFIG_HELP "  --help, --version\n"
    "\n"
    "GPUPOOL_LOG=area:level,... sets the log level (areas: sched server session conn\n"
    "metrics; levels: error warn info debug).  See gpupool-scheduler(8).\n";

enum option_id {
    OPT_LISTEN = 256,
    OPT_STATE_DIR,
    OPT_KEY_FILE,
    OPT_SERVER_TOKEN,
    OPT_SERVER_TOKENS,
    OPT_CLIENT_TOKEN,
    OPT_ADMIN_TOKEN,
    OPT_LOCAL,
    OPT_TLS,
    OPT_ANONYMOUS,
    OPT_PLACEMENT,
    OPT_RULES,
    OPT_HEARTBEAT,
    OPT_LEASE,
    OPT_GRACE,
    OPT_FORGET,
    OPT_OWNER_SESSIONS,
    OPT_MAX_ATTACHMENTS,
    OPT_RATE_REQUESTS,
    OPT_RATE_OPENS,
    OPT_RATE_DENIALS,
    OPT_METRICS,
    OPT_AUDIT,
    OPT_READY,
    OPT_ETCD,
    OPT_ETCD_PREFIX,
    OPT_ETCD_CA,
    OPT_ETCD_CERT,
    OPT_ETCD_KEY,
    OPT_ETCD_LEASE,
    OPT_ADVERTISE,
    OPT_KUBE,
    OPT_KUBE_AUDIENCE,
    OPT_HELP,
    OPT_VERSION,
};

static const struct option OPTIONS[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"state-dir", required_argument, NULL, OPT_STATE_DIR},
    {"key-file", required_argument, NULL, OPT_KEY_FILE},
    {"server-token-file", required_argument, NULL, OPT_SERVER_TOKEN},
    {"server-tokens-file", required_argument, NULL, OPT_SERVER_TOKENS},
    {"client-token-file", required_argument, NULL, OPT_CLIENT_TOKEN},
    {"admin-token-file", required_argument, NULL, OPT_ADMIN_TOKEN},
    {"local", required_argument, NULL, OPT_LOCAL},
    {"tls", required_argument, NULL, OPT_TLS},
    {"allow-anonymous", required_argument, NULL, OPT_ANONYMOUS},
    {"placement", required_argument, NULL, OPT_PLACEMENT},
    {"rules", required_argument, NULL, OPT_RULES},
    {"heartbeat-ms", required_argument, NULL, OPT_HEARTBEAT},
    {"lease-ms", required_argument, NULL, OPT_LEASE},
    {"hold-grace-ms", required_argument, NULL, OPT_GRACE},
    {"forget-hours", required_argument, NULL, OPT_FORGET},
    {"owner-sessions", required_argument, NULL, OPT_OWNER_SESSIONS},
    {"max-attachments", required_argument, NULL, OPT_MAX_ATTACHMENTS},
    {"rate-requests", required_argument, NULL, OPT_RATE_REQUESTS},
    {"rate-opens", required_argument, NULL, OPT_RATE_OPENS},
    {"rate-denials", required_argument, NULL, OPT_RATE_DENIALS},
    {"metrics-listen", required_argument, NULL, OPT_METRICS},
    {"audit-log", required_argument, NULL, OPT_AUDIT},
    {"ready-file", required_argument, NULL, OPT_READY},
    {"etcd", required_argument, NULL, OPT_ETCD},
    {"etcd-prefix", required_argument, NULL, OPT_ETCD_PREFIX},
    {"etcd-ca", required_argument, NULL, OPT_ETCD_CA},
    {"etcd-cert", required_argument, NULL, OPT_ETCD_CERT},
    {"etcd-key", required_argument, NULL, OPT_ETCD_KEY},
    {"etcd-lease-s", required_argument, NULL, OPT_ETCD_LEASE},
    {"advertise", required_argument, NULL, OPT_ADVERTISE},
    {"kube", no_argument, NULL, OPT_KUBE},
    {"kube-audience", required_argument, NULL, OPT_KUBE_AUDIENCE},
    KUBE_CONFIG_OPTIONS,
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static int
parse_u32(const char *name, const char *text, uint64_t min, uint64_t max, uint32_t *ret,
          struct gp_err *err)
{
    uint64_t value;

    if (gp_str_u64(text, min, max, &value) < 0)
        return gp_err_set(err, -EINVAL, "--%s %s: a number from %llu to %llu is wanted",
                          name, text, (unsigned long long)min, (unsigned long long)max);
    *ret = (uint32_t)value;
    return 0;
}

/* A secret: the first line of a file. */
static int
read_token(const char *path, char **ret, struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    size_t len;
    int r = gp_file_read(path, CTL_TOKEN_MAX, &text, &len, err);

    if (r < 0)
        return r;
    text[strcspn(text, "\r\n")] = 0;
    if (!*text)
        return gp_err_set(err, -EINVAL, "%s: the first line is empty", path);
    free(*ret);
    *ret = TAKE_PTR(text);
    return 0;
}

static int
allow_anonymous(const char *text, struct sched_config *c, struct gp_err *err)
{
    for (int role = 0; role < SCHED_ROLES; role++)
        if (!strcmp(text, sched_role_name(role))) {
            c->anonymous[role] = true;
            return 0;
        }
    return gp_err_set(err, -EINVAL,
                      "--allow-anonymous %s: server, client or admin is wanted", text);
}

static int
parse_placement(const char *text, enum sched_placement *ret, struct gp_err *err)
{
    if (!strcmp(text, "binpack"))
        *ret = SCHED_BINPACK;
    else if (!strcmp(text, "spread"))
        *ret = SCHED_SPREAD;
    else
        return gp_err_set(err, -EINVAL, "--placement %s: binpack or spread is wanted",
                          text);
    return 0;
}

static int
parse_hours(const char *name, uint64_t *ret_ms, struct gp_err *err)
{
    uint32_t hours = 0;
    int r = parse_u32(name, optarg, 1, 24 * 3660, &hours, err);

    if (!r)
        *ret_ms = (uint64_t)hours * 3600 * 1000;
    return r;
}

static int
parse_number(int opt, const char *name, struct sched_config *c, struct gp_err *err)
{
    switch (opt) {
    case OPT_HEARTBEAT:
        return parse_u32(name, optarg, 10, 60000, &c->heartbeat_ms, err);
    case OPT_LEASE:
        return parse_u32(name, optarg, c->lease_min_ms, c->lease_max_ms, &c->lease_ms,
                         err);
    case OPT_GRACE:
        return parse_u32(name, optarg, 0, c->lease_max_ms, &c->hold_grace_ms, err);
    case OPT_FORGET:
        return parse_hours(name, &c->forget_ms, err);
    case OPT_OWNER_SESSIONS:
        return parse_u32(name, optarg, 1, 1000000, &c->owner_sessions, err);
    case OPT_RATE_REQUESTS:
        return parse_u32(name, optarg, 0, 1000000, &c->rate_requests, err);
    case OPT_RATE_OPENS:
        return parse_u32(name, optarg, 0, 1000000, &c->rate_opens, err);
    case OPT_RATE_DENIALS:
        return parse_u32(name, optarg, 0, 1000000, &c->rate_denials, err);
    default:
        return parse_u32(name, optarg, 1, 65536, &c->max_attachments, err);
    }
}

static int
parse_etcd(int opt, const char *name, struct etcd_config *etcd, struct gp_err *err)
{
    switch (opt) {
    case OPT_ETCD:
        etcd->urls = optarg;
        return 0;
    case OPT_ETCD_PREFIX:
        etcd->prefix = optarg;
        return *optarg && optarg[strlen(optarg) - 1] == '/'
                   ? 0
                   : gp_err_set(err, -EINVAL, "--%s %s: it ends with a slash", name,
                                optarg);
    case OPT_ETCD_CA:
        etcd->ca = optarg;
        return 0;
    case OPT_ETCD_CERT:
        etcd->cert = optarg;
        return 0;
    case OPT_ETCD_KEY:
        etcd->key = optarg;
        return 0;
    case OPT_ADVERTISE:
        etcd->advertise = optarg;
        return 0;
    default: /* etcd gives no lease under two seconds */
        return parse_u32(name, optarg, 2, 60, &etcd->lease_s, err);
    }
}

static int
parse_option(int opt, const char *name, struct sched_config *c, struct gp_err *err)
{
    int r;

    switch (opt) {
    case OPT_LISTEN:
        c->listen = optarg;
        return 0;
    case OPT_STATE_DIR:
        c->state_dir = optarg;
        return 0;
    case OPT_KEY_FILE:
        c->key_file = optarg;
        return 0;
    case OPT_METRICS:
        c->metrics_listen = optarg;
        return 0;
    case OPT_RULES:
        c->rules = optarg;
        return 0;
    case OPT_READY:
        c->ready_file = optarg;
        return 0;
    case OPT_SERVER_TOKEN:
        return read_token(optarg, &c->tokens[SCHED_ROLE_SERVER], err);
    case OPT_CLIENT_TOKEN:
        return read_token(optarg, &c->tokens[SCHED_ROLE_CLIENT], err);
    case OPT_ADMIN_TOKEN:
        return read_token(optarg, &c->tokens[SCHED_ROLE_ADMIN], err);
    case OPT_SERVER_TOKENS:
        return sched_auth_load_server_tokens(c, optarg, err);
    case OPT_AUDIT:
        return gp_audit_open(optarg, err);
    case OPT_TLS:
        c->tls = optarg;
        return 0;
    case OPT_LOCAL:
        c->local = optarg;
        return 0;
    case OPT_ETCD ... OPT_ADVERTISE:
        return parse_etcd(opt, name, &c->etcd, err);
    case OPT_ANONYMOUS:
        return allow_anonymous(optarg, c, err);
    case OPT_PLACEMENT:
        return parse_placement(optarg, &c->placement, err);
    case OPT_KUBE:
        c->kube_pods = true;
        return 0;
    case OPT_KUBE_AUDIENCE:
        c->kube_audience = optarg;
        return 0;
    default:
        r = kube_config_option(c->kube, opt, optarg);
        if (r)
            return r < 0 ? r : 0;
        return parse_number(opt, name, c, err);
    }
}

/* 0: go on; 1: help or version was shown. */
static int
parse_options(int argc, char **argv, struct sched_config *c, struct gp_err *err)
{
    int opt, at, r;

    while ((opt = getopt_long(argc, argv, "", OPTIONS, &at)) != -1) {
        if (opt == OPT_HELP || opt == OPT_VERSION) {
            fputs(opt == OPT_HELP ? HELP : "gpupool-scheduler " GPUPOOL_VERSION "\n",
                  stdout);
            return 1;
        }
        if (opt == '?')
            return gp_err_set(err, -EINVAL, "see gpupool-scheduler --help");
        r = parse_option(opt, OPTIONS[at].name, c, err);
        if (r < 0)
            return r;
    }
    if (optind < argc)
        return gp_err_set(err, -EINVAL, "%s: unexpected argument", argv[optind]);
    c->dead_after_ms = 3 * c->heartbeat_ms;
    if (!c->etcd.advertise)
        c->etcd.advertise = c->listen;
    return c->kube_pods ? kube_config_finish(c->kube, err) : 0;
}

/* One descriptor per server and per client. */
static void
raise_fd_limit(void)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Pause; true: a signal wants the end.  The event loop's signals stay blocked. */
static bool
stopped_while_away(void)
{
    const struct timespec pause = {.tv_nsec = 500 * 1000 * 1000};
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return sigtimedwait(&signals, NULL, &pause) > 0;
}

static int
serve(const struct sched_config *config, struct gp_err *err)
{
    struct sched sched;
    bool again = false;
    int r;

    do {
        r = sched_init(&sched, config, err);
        if (!r)
            r = sched_run(&sched);
        sched_fini(&sched);
        again |= r == SCHED_START_AGAIN;
        /* A leader that was cut off cannot load the state before it is back. */
        if (r < 0 && again && !stopped_while_away())
            r = SCHED_START_AGAIN;
    } while (r == SCHED_START_AGAIN);
    return r;
}

int
main(int argc, char **argv)
{
    struct kube_config kube = {0};
    struct sched_config config = {
        .listen = "127.0.0.1:7480",
        .state_dir = "/var/lib/gpupool",
        .heartbeat_ms = 2000,
        .forget_ms = UINT64_C(7) * 24 * 3600 * 1000,
        .lease_ms = 30000,
        .lease_min_ms = 1000,
        .lease_max_ms = 24 * 3600 * 1000,
        .hold_grace_ms = 6000,
        .placement = SCHED_BINPACK,
        .owner_sessions = 256,
        .max_attachments = 64,
        .rate_requests = SCHED_RATE_REQUESTS,
        .rate_opens = SCHED_RATE_OPENS,
        .rate_denials = SCHED_RATE_DENIALS,
        .kube = &kube,
        .kube_audience = "egpu",
        .etcd = {.prefix = "/gpupool/", .lease_s = 3},
    };
    struct gp_err err = {0};
    int r;

    signal(SIGPIPE, SIG_IGN); /* libraries write(2) to peers that may be gone */
    if (argc > 1 && !strcmp(argv[1], "migrate"))
        return sched_migrate(argc - 1, argv + 1);
    gp_log_init("scheduler", GP_LOG_INFO);
    r = parse_options(argc, argv, &config, &err);
    if (!r) {
        raise_fd_limit();
        r = serve(&config, &err);
    }
    if (r < 0)
        fprintf(stderr, "gpupool-scheduler: %s\n", gp_err_msg(&err, r));
    for (int role = 0; role < SCHED_ROLES; role++)
        free(config.tokens[role]);
    sched_auth_free_server_tokens(&config);
    kube_config_fini(&kube);
    return r < 0;
}
