/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-scheduler: knows every card and every session of a pool.
 *
 * One process, one thread, one event loop.  Servers and clients come over TCP; the
 * state is in --state-dir and survives a kill at any moment.  It is not on the path
 * of any CUDA call: while it is away, sessions run on, and nothing new starts.
 */
#include "ctl_limits.h"
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_notify.h"
#include "gp_option.h"
#include "gp_private.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_config.h"
#include "sched_account_keep.h"
#include "sched_daemon.h"
#include "sched_rates.h"
#include "sched_reads.h"
#include "sched_replica.h"
#include "store_trouble.h"
#include "view.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct options {
    struct sched_config config;
    const char *audit_log;
    uint32_t forget_hours;
};

/* ----------------------------------------------------------------- options -- */

static int
set_anonymous(void *target, const struct gp_option *option, const char *value,
              struct gp_err *err)
{
    struct options *o = target;
    uint32_t role;
    struct gp_option check = *option;
    int r;

    check.offset = 0;
    r = gp_option_choice(&role, &check, value, err);
    if (r == 0)
        o->config.anonymous[role] = true;
    return r;
}

static const char *const ROLES[] = {[SCHED_ROLE_SERVER] = "server",
                                    [SCHED_ROLE_CLIENT] = "client",
                                    [SCHED_ROLE_ADMIN] = "admin",
                                    NULL};
static const char *const PLACEMENTS[] = {"binpack", "spread", "fgd", NULL};
static const char *const TLS_WORDS[] = {"require", "prefer", "off", NULL};

#define LEASE_MIN_MS 1000
#define LEASE_MAX_MS (24 * 3600 * 1000)
#define RATE_MAX 1000000

#define TEXT(flag, text, field, words_)                                                \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = gp_option_text,            \
        .offset = offsetof(struct options, field)                                      \
    }
#define ADDRESS(flag, field, port, words_)                                             \
    {                                                                                  \
        .name = flag, .value = "HOST:PORT", .help = words_, .set = gp_option_text,     \
        .offset = offsetof(struct options, field), .check = gp_option_check_address,   \
        .min = port                                                                    \
    }
/* What SIGHUP takes without a restart. */
#define LIVE_TEXT(flag, text, field_, words_)                                          \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = gp_option_text,            \
        .offset = offsetof(struct options, field_), .live = true                       \
    }
#define LIVE(flag, field, least, most, words_)                                         \
    {                                                                                  \
        .name = flag, .value = "N", .help = words_, .set = gp_option_u32,              \
        .offset = offsetof(struct options, field), .min = least, .max = most,          \
        .live = true                                                                   \
    }
#define NUMBER(flag, field, least, most, words_)                                       \
    {                                                                                  \
        .name = flag, .value = "N", .help = words_, .set = gp_option_u32,              \
        .offset = offsetof(struct options, field), .min = least, .max = most           \
    }
#define CHOICE(flag, text, field, setter, list, first, words_)                         \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = setter, .words = list,     \
        .offset = offsetof(struct options, field), .min = first                        \
    }

static const struct gp_option OPTIONS[] = {
    ADDRESS("listen", config.listen, CTL_DEFAULT_PORT,
            "where servers and clients connect (127.0.0.1:7480)"),
    TEXT("state-dir", "DIR", config.state_dir, "state and key (/var/lib/gpupool)"),
    TEXT("key-file", "FILE", config.key_file,
         "the key that signs tickets, kept by somebody else, as in a mounted Secret "
         "(STATE_DIR/ticket-key.pem)"),
    CHOICE("tls", "require|prefer|off", config.tls, gp_option_word, TLS_WORDS, 0,
           "what TCP speaks: only TLS 1.3 (require), TLS 1.3 and clear text (prefer, "
           "the default), or only clear text (off)"),
    TEXT("local", "unix:PATH", config.local,
         "socket for local orders (STATE_DIR/scheduler.sock): this process's user and "
         "root need no token there"),
    LIVE_TEXT("server-token-file", "FILE", config.token_files[SCHED_ROLE_SERVER],
              "secret that servers must know"),
    LIVE_TEXT(
        "server-tokens-file", "FILE", config.server_tokens_file,
        "lines NAME:TOKEN: secrets of single servers, each for its own name only; "
        "beside or instead of the shared one"),
    LIVE_TEXT("client-token-file", "FILE", config.token_files[SCHED_ROLE_CLIENT],
              "secret that clients must know"),
    LIVE_TEXT("admin-token-file", "FILE", config.token_files[SCHED_ROLE_ADMIN],
              "secret for drain and for closing sessions of others"),
    LIVE_TEXT(
        "users-file", "FILE", config.users_file,
        "lines NAME:RIGHT,...:TOKEN: users with tokens of their own; rights are open, "
        "read, end, drain and forward"),
    {.name = "allow-anonymous",
     .value = "server|client|admin",
     .help =
         "no secret for this role: everybody who can connect may; without it and "
         "without a token file, the role is for the local socket only; may be given "
         "several times",
     .set = set_anonymous,
     .several = true,
     .words = ROLES,
     .offset = offsetof(struct options, config.anonymous),
     .size = sizeof((struct sched_config){0}.anonymous)},
    {.name = "placement",
     .value = "binpack|spread|fgd",
     .help = "binpack (default), spread or fgd: by fragmentation",
     .set = gp_option_choice,
     .words = PLACEMENTS,
     .min = SCHED_BINPACK,
     .offset = offsetof(struct options, config.placement),
     .live = true},
    LIVE_TEXT(
        "rules", "FILE", config.rules,
        "tenants, quotas, priority classes, labels of servers (gpupool-scheduler(8) "
        "has its form)"),
    LIVE("heartbeat-ms", config.heartbeat_ms, 10, 60000,
         "how often servers report (2000); dead after 3 missed"),
    LIVE("lease-ms", config.lease_ms, LEASE_MIN_MS, LEASE_MAX_MS,
         "lease of a session when the client names none (30000)"),
    LIVE("hold-grace-ms", config.hold_grace_ms, 0, LEASE_MAX_MS,
         "left to a session whose `gpupool run` was lost (6000)"),
    LIVE(
        "server-return-ms", config.server_return_ms, 0, 60000,
        "how long after a server was lost, or after a start, requests that fit nowhere "
        "are tried again; 4 s more after a change of leaders (4000)"),
    LIVE("forget-hours", forget_hours, 1, 24 * 3660,
         "a server that is away for so long is forgotten (168)"),
    LIVE("owner-sessions", config.owner_sessions, 1, 1000000,
         "most sessions of one owner (256)"),
    LIVE("max-attachments", config.max_attachments, 1, 65536,
         "most processes of one session (64)"),
    LIVE("attachments-limit", config.attachments_limit, 1, 65536,
         "most processes of one session, whatever its client asks for (256)"),
    LIVE("account-days", config.account_days, 1, 3660,
         "days for which it is kept who used how much (92)"),
    LIVE("account-write-ms", config.account_write_ms, 1000, 3600000,
         "how long that may wait to be written (60000)"),
    LIVE("rate-requests", config.rate_requests, 0, RATE_MAX,
         "requests, and connections, a second of one address; 0: any number (500)"),
    LIVE("rate-opens", config.rate_opens, 0, RATE_MAX,
         "sessions a second that one address asks for (50)"),
    LIVE("rate-denials", config.rate_denials, 0, RATE_MAX,
         "wrong secrets a second of one address (20)"),
    LIVE("rate-reads", config.rate_reads, 0, 1000,
         "ms a second spent on the status requests of one address (250)"),
    ADDRESS("metrics-listen", config.metrics_listen, 0,
            "Prometheus metrics on http://HOST:PORT/metrics"),
    ADDRESS("http", config.http, VIEW_DEFAULT_PORT,
            "a page that shows the pool, and a JSON API that reads it (port 7482); or "
            "unix:PATH"),
    TEXT("http-cert", "FILE", config.http_cert,
         "PEM: the page and the API over TLS, with --http-key"),
    TEXT("http-key", "FILE", config.http_key, "PEM: the certificate's key"),
    {.name = "http-public",
     .help = "the page and the API need no token: everybody who can connect may look",
     .set = gp_option_yes,
     .offset = offsetof(struct options, config.http_public)},
    LIVE_TEXT("log", "AREA:LEVEL,...", config.log,
              "what is logged; decides over GPUPOOL_LOG, whose form it has"),
    TEXT("audit-log", "FILE", audit_log,
         "one JSON line for each grant, end, denial and order"),
    TEXT("ready-file", "FILE", config.ready_file,
         "written with HOST:PORT once it listens"),
    TEXT("etcd", "URL,...", config.etcd.urls,
         "share the state with other schedulers, in etcd"),
    ADDRESS("advertise", config.etcd.advertise, CTL_DEFAULT_PORT,
            "where clients and servers reach this one (--listen)"),
    NUMBER("etcd-lease-s", config.etcd.lease_s, 2, 60, /* etcd gives none under 2 s */
           "a leader that is gone is followed after N s (3)"),
    {.name = "kube",
     .help = "serve pods: tokens are reviewed by the API server",
     .set = gp_option_yes,
     .offset = offsetof(struct options, config.kube_pods)},
    TEXT("kube-audience", "NAME", config.kube_audience,
         "that pods' tokens are made for (egpu)"),
};

static const struct options DEFAULTS = {
    .forget_hours = 7 * 24,
    .config =
        {
            .listen = "127.0.0.1:7480",
            .state_dir = "/var/lib/gpupool",
            .heartbeat_ms = 2000,
            .lease_ms = 30000,
            .lease_min_ms = LEASE_MIN_MS,
            .lease_max_ms = LEASE_MAX_MS,
            .hold_grace_ms = 6000,
            .server_return_ms = 4000,
            .placement = SCHED_BINPACK,
            .owner_sessions = 256,
            .max_attachments = 64,
            .attachments_limit = 256,
            .account_days = SCHED_ACCOUNT_DAYS,
            .account_write_ms = SCHED_ACCOUNT_WRITE_MS,
            .rate_requests = SCHED_RATE_REQUESTS,
            .rate_opens = SCHED_RATE_OPENS,
            .rate_denials = SCHED_RATE_DENIALS,
            .rate_reads = SCHED_RATE_READS,
            .kube_audience = "egpu",
            .etcd = {.prefix = "/gpupool/", .lease_s = 3},
        },
};

#define SETS 3

static void
sets_of(struct options *o, struct gp_option_set_of ret[SETS])
{
    ret[0] = (struct gp_option_set_of){OPTIONS, ARRAY_SIZE(OPTIONS), o};
    ret[1] = etcd_config_options(&o->config.etcd);
    ret[2] = kube_config_options(o->config.kube);
}

/* What follows from options. */
static void
derive(struct options *o)
{
    struct sched_config *c = &o->config;

    c->dead_after_ms = 3 * c->heartbeat_ms;
    c->forget_ms = (uint64_t)o->forget_hours * 3600 * 1000;
    if (!c->etcd.advertise)
        c->etcd.advertise = c->listen;
}

/* A certificate without a page would serve nobody, unnoticed. */
static int
check_http(const struct sched_config *config, struct gp_err *err)
{
    const char *given = config->http_cert     ? "cert"
                        : config->http_key    ? "key"
                        : config->http_public ? "public"
                                              : NULL;

    if (config->http || !given)
        return 0;
    return gp_err_set(err, -EINVAL,
                      "--http-%s says how the page is served, and --http HOST:PORT, "
                      "which serves it, is not given",
                      given);
}

/* 0: go on; 1: help or version was shown. */
static int
read_options(struct options *o, int argc, char **argv, struct gp_err *err)
{
    struct gp_option_set_of sets[SETS];
    const struct gp_options options = {
        .program = "gpupool-scheduler",
        .about =
            "Place sessions on the cards of a pool, lease them, sign their tickets.",
        .after = "gpupool-scheduler migrate --help: move a pool from the state file to "
                 "etcd\n\n"
                 "GPUPOOL_LOG=area:level,... sets the log level (areas: sched server "
                 "session\n"
                 "conn queue store view metrics; levels: none error warn info debug).  "
                 "SIGHUP reads\nthe options again; see gpupool-scheduler(8).\n",
        .env = "GPUPOOL_SCHEDULER_",
        .config = true,
        .sets = sets,
        .n_sets = SETS,
    };
    int first, r;

    sets_of(o, sets);
    r = gp_options_parse(&options, argc, argv, &first, err);
    if (!r && o->config.log && !gp_log_filter_ok(o->config.log))
        r = gp_err_set(err, -EINVAL,
                       "--log %s: AREA:LEVEL,... is wanted, with the levels none, "
                       "error, warn, info and debug",
                       o->config.log);
    if (!r)
        r = check_http(&o->config, err);
    if (!r)
        derive(o);
    return r;
}

static int
parse_options(struct options *o, int argc, char **argv, struct gp_err *err)
{
    int r = read_options(o, argc, argv, err);

    if (r)
        return r;
    if (o->config.log)
        gp_log_set_filter(o->config.log);
    return o->config.kube_pods ? kube_config_finish(o->config.kube, err) : 0;
}

/* ------------------------------------------------------------------ reload -- */

/* What the process was started with. */
static struct {
    int argc;
    char **argv;
    struct options options;
} started;

static int
reread(const struct sched_config *now, struct sched_reread *ret, struct gp_err *err)
{
    struct kube_config kube = {0};
    struct options old = started.options, new = DEFAULTS;
    struct gp_option_set_of was[SETS], is[SETS];
    int r;

    old.config = *now;
    old.forget_hours = (uint32_t)(now->forget_ms / 3600 / 1000);
    new.config.kube = &kube;
    r = read_options(&new, started.argc, started.argv, err);
    sets_of(&old, was);
    sets_of(&new, is);
    if (!r)
        gp_option_take_live(was, is, SETS, &ret->changes);
    derive(&old);
    ret->config = old.config;
    kube_config_fini(&kube);
    return r > 0 ? gp_err_set(err, -EINVAL, "help is no option of a daemon") : r;
}

/* ------------------------------------------------------------------- serve -- */

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

/* The service manager sees a process that waits, not one that hangs. */
static bool
tries_again(const struct gp_err *err, int r)
{
    static struct store_trouble trouble = STORE_TROUBLE_INIT;

    store_trouble_set(&trouble, gp_err_msg(err, r));
    gp_notify_alive(gp_now_ns());
    return true;
}

/* A scheduler that starts while etcd elects its leader, or before it, need not fail:
 * with all hosts of a pool started at once, it often does. */
#define ETCD_PATIENCE_NS (60 * GP_NS_PER_S)

static bool
waits_for_etcd(const struct sched_config *config, int r, uint64_t since_ns,
               const struct gp_err *err)
{
    if (r != -EIO || !config->etcd.urls || gp_now_ns() - since_ns > ETCD_PATIENCE_NS)
        return false;
    return tries_again(err, r);
}

static int
serve(struct sched_config *config, struct gp_err *err)
{
    struct sched sched;
    uint64_t since = gp_now_ns();
    bool again = false;
    int r;

    do {
        r = sched_init(&sched, config, err);
        if (!r)
            r = sched_run(&sched);
        *config = sched.config; /* as it was changed meanwhile */
        sched_fini(&sched);
        again |= r == SCHED_START_AGAIN;
        /* A leader that was cut off cannot load the state before it is back. */
        if (r < 0 &&
            (again ? tries_again(err, r) : waits_for_etcd(config, r, since, err)) &&
            !stopped_while_away())
            r = SCHED_START_AGAIN;
    } while (r == SCHED_START_AGAIN);
    return r;
}

int
main(int argc, char **argv)
{
    struct kube_config kube = {0};
    struct options options = DEFAULTS;
    struct gp_err err = {0};
    int r, status = 2; /* of options that are wrong */

    gp_private_begin(NULL);
    signal(SIGPIPE, SIG_IGN); /* libraries write(2) to peers that may be gone */
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error, not a death */
    if (argc > 1 && !strcmp(argv[1], "migrate"))
        return sched_migrate(argc - 1, argv + 1);
    gp_log_init("scheduler", GP_LOG_INFO);
    gp_log_warn_environment("sched");
    options.config.kube = &kube;
    options.config.reread = reread;
    r = parse_options(&options, argc, argv, &err);
    if (!r) {
        status = 1;
        started.argc = argc;
        started.argv = argv;
        started.options = options;
        raise_fd_limit();
        /* Its disk may be full, or not there yet: the service manager tries again. */
        if (options.audit_log)
            r = gp_audit_open(options.audit_log, &err);
    }
    if (!r)
        r = serve(&options.config, &err);
    if (r < 0)
        fprintf(stderr, "gpupool-scheduler: %s\n", gp_err_msg(&err, r));
    kube_config_fini(&kube);
    return r < 0 ? status : 0;
}
