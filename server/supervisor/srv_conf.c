/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_conf.h"
#include "xport.h"

#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_option.h"
#include "gp_size.h"
#include "gp_str.h"
#include "srv_rates.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT(flag, field, text, words_)                                                \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = gp_option_copy,            \
        .offset = offsetof(struct srv_conf, field),                                    \
        .size = sizeof(((struct srv_conf *)0)->field)                                  \
    }
/* .size and .check make an empty one stand for none. */
#define ADDRESS(flag, field, text, verify, port, words_)                               \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = gp_option_copy,            \
        .offset = offsetof(struct srv_conf, field),                                    \
        .size = sizeof(((struct srv_conf *)0)->field), .check = verify, .min = port    \
    }
#define NUMBER(flag, field, limit, words_)                                             \
    {                                                                                  \
        .name = flag, .value = "N", .help = words_, .set = gp_option_u32,              \
        .offset = offsetof(struct srv_conf, field), .min = 1, .max = limit             \
    }
/* What SIGHUP takes without a restart. */
#define LIVE_TEXT(flag, field, text, words_)                                           \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = gp_option_copy,            \
        .offset = offsetof(struct srv_conf, field),                                    \
        .size = sizeof(((struct srv_conf *)0)->field), .live = true                    \
    }
#define LIVE(flag, field, least, limit, words_)                                        \
    {                                                                                  \
        .name = flag, .value = "N", .help = words_, .set = gp_option_u32,              \
        .offset = offsetof(struct srv_conf, field), .min = least, .max = limit,        \
        .live = true                                                                   \
    }
#define LIVE_SWITCH(flag, field, words_)                                               \
    {                                                                                  \
        .name = flag, .help = words_, .set = gp_option_yes,                            \
        .offset = offsetof(struct srv_conf, field), .live = true                       \
    }
#define LIVE_TIME(flag, field, least, most, words_)                                    \
    {                                                                                  \
        .name = flag, .value = "TIME", .help = words_, .set = gp_option_seconds,       \
        .offset = offsetof(struct srv_conf, field), .min = least, .max = most,         \
        .live = true                                                                   \
    }
/* A text that is one of these; NULL: one that passes its own check. */
#define CHECKED(flag, field, text, check, list, words_)                                \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = check,                     \
        .offset = offsetof(struct srv_conf, field),                                    \
        .size = sizeof(((struct srv_conf *)0)->field), .words = list                   \
    }

/* One of the option's words, copied. */
static int
set_word(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct gp_option check = *option;
    const char *word;
    int r;

    check.offset = 0;
    r = gp_option_word(&word, &check, value, err);
    return r < 0 ? r : gp_option_copy(target, option, value, err);
}

/* A size with its unit, as it was written; "off" or "0" too where that is a word. */
static int
set_size(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct gp_option check = *option;
    uint64_t bytes;
    int r = 0;

    check.offset = 0;
    if (!option->words || (strcmp(value, "off") != 0 && strcmp(value, "0") != 0))
        r = gp_option_size(&bytes, &check, value, err);
    return r < 0 ? r : gp_option_copy(target, option, value, err);
}

/* What schedulers take: a server of another name would try to register for ever. */
static int
check_name(const struct gp_option *option, const char *value, struct gp_err *err)
{
    (void)option;
    if (!*value || strlen(value) >= CTL_NAME_MAX)
        return gp_err_set(err, -EINVAL, "a name of 1 to %d characters is wanted",
                          CTL_NAME_MAX - 1);
    for (const char *p = value; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '"' || *p == '\\')
            return gp_err_set(
                err, -EINVAL,
                "a name without blanks and quotes, of ASCII's characters, "
                "is wanted");
    return 0;
}

static const char *const CGROUP_WORDS[] = {"auto", "on", "off", NULL};
static const char *const SANDBOX_WORDS[] = {"on", "log", NULL};
static const char *const GPUDIRECT_WORDS[] = {"auto", "dmabuf", "peermem", "off", NULL};
static const char *const PAGEABLE_WORDS[] = {"refuse", "allow", NULL};
static const char *const TLS_WORDS[] = {"require", "prefer", "off", NULL};
static const char *const OFF_WORDS[] = {"off", NULL};

static const struct gp_option options[] = {
    ADDRESS("listen", listen, "HOST:PORT", gp_option_check_address, SRV_DEFAULT_PORT,
            "where clients attach, IPv4 or IPv6 (default [::]:7481; port 0 picks one)"),
    TEXT("local", local, "unix:/PATH",
         "where clients on this host attach, over shared memory (or --listen "
         "unix:/PATH)"),
    ADDRESS("advertise", advertise, "HOST[:PORT]", gp_option_check_address,
            SRV_DEFAULT_PORT,
            "the address told to clients (default: this host's name)"),
    TEXT("driver", driver, "NAME|PATH",
         "softgpu, null, cuda, or a driver library (default softgpu)"),
    {.name = "name",
     .value = "NAME",
     .help = "this server's name in the pool (default: host name)",
     .set = gp_option_copy,
     .offset = offsetof(struct srv_conf, name),
     .size = sizeof(((struct srv_conf *)0)->name),
     .check = check_name},
    ADDRESS("scheduler", scheduler, "HOST:PORT", gp_option_check_addresses,
            CTL_DEFAULT_PORT, "register with this gpupool-scheduler"),
    LIVE_TEXT("token-file", token_file, "FILE", "secret that the scheduler asks for"),
    LIVE_TEXT("scheduler-key", key_file, "FILE",
              "public keys of the scheduler, a line each (default: that of the first "
              "registration)"),
    TEXT("state-dir", state_dir, "DIR",
         "keep the scheduler's key and this server's own here; without it a restart "
         "takes any key, and clients must get the new one"),
    TEXT("worker", worker, "PATH", "the worker program (default: beside this one)"),
    TEXT("worker-user", worker_user, "USER", "workers become this user (needs root)"),
    TEXT("worker-uids", worker_uids, "auto|off|FIRST-LAST",
         "user ids for sessions, one for each (default auto: 61184-65519 as root, "
         "unless --worker-user names one for all)"),
    CHECKED("worker-memory", worker_memory, "SIZE", set_size, OFF_WORDS,
            "host memory of one worker, beside its slices' (default 4GiB; off)"),
    CHECKED(
        "worker-cgroup", worker_cgroup, "auto|on|off", set_word, CGROUP_WORDS,
        "a control group for each session: memory, threads, processor time (default "
        "auto: version 2, where it is delegated)"),
    CHECKED(
        "worker-shared", worker_shared, "SIZE", set_size, NULL,
        "page-locked and shared memory of one worker, beside --worker-memory; needs "
        "control groups (default 4GiB)"),
    CHECKED("worker-sandbox", worker_sandbox, "on|log", set_word, SANDBOX_WORDS,
            "log: system calls that workers are not allowed are logged by the kernel "
            "and not denied, to find what a driver needs"),
    TEXT("worker-read", worker_read, "PATH[:PATH...]",
         "files and folders that the driver reads, beside the usual ones"),
    TEXT(
        "rdma", rdma, "auto|off|ADDRESS[,...]",
        "RDMA ports to offer: all, none, or those with these addresses (default auto)"),
    CHECKED("gpudirect", gpudirect, "auto|dmabuf|peermem|off", set_word,
            GPUDIRECT_WORDS,
            "how RDMA adapters reach the cards' memory themselves (default auto)"),
    CHECKED("pageable-access", pageable, "refuse|allow", set_word, PAGEABLE_WORDS,
            "cards that reach all memory of the worker's process, by HMM or ATS "
            "(default refuse)"),
    CHECKED("tls", tls, "require|prefer|off", set_word, TLS_WORDS,
            "what TCP speaks: only TLS 1.3 (require), with clients clear text as well "
            "(prefer, the default), or only clear text (off)"),
    ADDRESS("metrics-listen", metrics_listen, "HOST:PORT", gp_option_check_address,
            SRV_METRICS_PORT, "serve Prometheus /metrics"),
    TEXT("audit-log", audit_log, "FILE",
         "one JSON line for each attach, detach, denial and order"),
    TEXT("ready-file", ready_file, "FILE", "write the address here once listening"),
    NUMBER("cards", cards, 64, "software cards to have (drivers softgpu and null)"),
    CHECKED("memory", memory, "SIZE", set_size, NULL,
            "memory of each software card, such as 4GiB"),
    TEXT("memory-scaling", memory_scaling, "X[,X...]",
         "part of each card's memory for sessions, such as 0.5, or one number per "
         "card; the rest is kept back (default 1)"),
    CHECKED(
        "image-cache", image_cache, "SIZE", set_size, OFF_WORDS,
        "memory for code images that clients need not send again (default 1GiB; off)"),
    LIVE_SWITCH(
        "allow-unbound-tickets", allow_unbound,
        "take tickets that anybody can use who has read them, as clients of before "
        "bound tickets have, and log each"),
    LIVE("max-attachments", max_attachments, 1, 65536,
         "client processes at a time (default 1024)"),
    LIVE("owner-attachments", owner_attachments, 1, 65536,
         "client processes of one owner at a time (default half of --max-attachments, "
         "512 "
         "at least)"),
    LIVE("address-attachments", address_attachments, 1, 65536,
         "client processes from one address at a time (default the same)"),
    LIVE("rate-connections", rate_connections, 1, 1000000,
         "connections a second of one address (default 500)"),
    LIVE("rate-attaches", rate_attaches, 1, 1000000,
         "client processes a second of one address (default 100)"),
    LIVE("rate-refusals", rate_refusals, 1, 1000000,
         "wrong tickets and proofs a second of one address (default 20)"),
    LIVE("max-sessions", max_sessions, 1, 65536, "sessions at a time (default 1024)"),
    LIVE_TIME("link-timeout", link_timeout_s, 1, XPORT_LINK_TIMEOUT_MAX_S,
              "without an acknowledgement for so long, a client's TCP connection is "
              "broken (default 15s, at least 3s; a plain number is seconds)"),
    LIVE_TIME(
        "resume", resume_s, 0, XPORT_RESUME_MAX_S,
        "how long the worker of a client whose connection over TCP or RDMA broke waits "
        "for another one (default 60s, 0: not at all)"),
    {.name = "adopt-window",
     .value = "TIME",
     .help = "how long workers outlive the server and wait for another one with the "
             "same --state-dir (default 60s, 0: they end with it)",
     .set = gp_option_seconds,
     .offset = offsetof(struct srv_conf, adopt_window_s),
     .max = 86400},
    LIVE_TIME(
        "check-seconds", check_seconds, 1, 86400,
        "between checks of a card that does not work, until it works again (default "
        "30s)"),
    LIVE_TIME(
        "work-limit", work_limit_s, 1, 1000000,
        "work that does not end after so long, while another session waits for the "
        "card, is ended (default 60s)"),
    LIVE_TIME("work-limit-offline", work_limit_offline_s, 1, 1000000,
              "the same for offline sessions (default 10s)"),
};

/* A flag's other name, and the second address beside the one on the network. */
static const char *
conf_alias(const char *name, const char *value)
{
    if (strcmp(name, "deviceMemoryScaling") == 0) /* as other systems call it */
        return "memory-scaling";
    if (strcmp(name, "listen") == 0 && strncmp(value, "unix:/", 6) == 0)
        return "local";
    return name;
}

/* The next number of the list at *text; false: there is none above 0 and up to 1, or a
 * comma and nothing behind it. */
static bool
scaling_next(const char **text, double *ret)
{
    char *end;

    *ret = strtod(*text, &end);
    if (end == *text || !(*ret > 0 && *ret <= 1) || (*end && *end != ',') ||
        strcmp(end, ",") == 0)
        return false;
    *text = *end ? end + 1 : end;
    return true;
}

static int
worker_check(struct srv_conf *conf, struct gp_err *err)
{
    if (gp_size_parse(conf->worker_shared, &conf->shared_bytes) < 0)
        return gp_err_set(err, -EINVAL, "--worker-shared %s: a size",
                          conf->worker_shared);
    if (strcmp(conf->worker_memory, "off") == 0)
        return 0;
    if (gp_size_parse(conf->worker_memory, &conf->worker_bytes) < 0 ||
        conf->worker_bytes < SRV_WORKER_MEMORY_MIN)
        return gp_err_set(err, -EINVAL,
                          "--worker-memory %s: off, or a size from 256MiB on",
                          conf->worker_memory);
    return 0;
}

static int
scaling_check(const struct srv_conf *conf, struct gp_err *err)
{
    const char *text = conf->memory_scaling;
    double scaling;

    if (!*text)
        return 0;
    do {
        if (!scaling_next(&text, &scaling))
            return gp_err_set(err, -EINVAL,
                              "--memory-scaling %s: numbers above 0 and up to 1 are "
                              "expected, with commas between",
                              conf->memory_scaling);
    } while (*text);
    return 0;
}

uint32_t
srv_conf_n_scalings(const struct srv_conf *conf)
{
    const char *text = conf->memory_scaling;
    uint32_t n = 0;
    double scaling;

    while (*text && scaling_next(&text, &scaling))
        n++;
    return n;
}

uint64_t
srv_conf_scaled(const struct srv_conf *conf, uint32_t index, uint64_t memory)
{
    const char *text = conf->memory_scaling;
    double scaling = 1;

    for (uint32_t i = 0; i <= index && *text; i++)
        if (!scaling_next(&text, &scaling))
            break;
    return scaling < 1 ? (uint64_t)((double)memory * scaling) : memory;
}

int
srv_conf_parse(struct srv_conf *conf, int argc, char **argv, struct gp_err *err)
{
    const struct gp_option_set_of set = {options, ARRAY_SIZE(options), conf};
    const struct gp_options program = {
        .program = "gpupool-server",
        .about =
            "Serve the cards of this host to the sessions of a gpupool.  One worker\n"
            "process per client process; SIGTERM ends all of them and the server.\n"
            "With --state-dir, SIGUSR2 ends the server alone, for another one that "
            "takes\n"
            "the workers over, and SIGUSR1 has it start its program anew.  SIGHUP "
            "reads\nthe options again.",
        .after = "GPUPOOL_LOG=area:level,... and GPUPOOL_LOG_FILE=/path say what is "
                 "logged.\n",
        .env = "GPUPOOL_SERVER_",
        .config = true,
        .sets = &set,
        .n_sets = 1,
        .alias = conf_alias,
    };
    int first, r;

    *conf = (struct srv_conf){.listen = "[::]:7481",
                              .driver = "softgpu",
                              .rdma = "auto",
                              .gpudirect = "auto",
                              .worker_uids = "auto",
                              .worker_memory = "4GiB",
                              .worker_sandbox = "on",
                              .worker_cgroup = "auto",
                              .worker_shared = "4GiB",
                              .pageable = "refuse",
                              .max_attachments = 1024,
                              .max_sessions = 1024,
                              .rate_connections = SRV_RATE_CONNECTIONS,
                              .rate_attaches = SRV_RATE_ATTACHES,
                              .rate_refusals = SRV_RATE_REFUSALS,
                              .link_timeout_s = XPORT_LINK_TIMEOUT_S,
                              .resume_s = XPORT_RESUME_S,
                              .adopt_window_s = SRV_ADOPT_WINDOW_S,
                              .check_seconds = 30,
                              .work_limit_s = 60,
                              .work_limit_offline_s = 10};
    if (gethostname(conf->name, sizeof(conf->name) - 1) < 0)
        gp_str_copy(conf->name, sizeof(conf->name), "server");
    r = gp_options_parse(&program, argc, argv, &first, err);
    if (r)
        return r;
    r = worker_check(conf, err);
    return r < 0 ? r : scaling_check(conf, err);
}

int
srv_conf_check_key(const struct srv_conf *conf, struct gp_err *err)
{
    return conf->key_file[0] || conf->state_dir[0] || conf->scheduler[0]
               ? 0
               : gp_err_set(err, -EINVAL,
                            "--scheduler HOST:PORT or --scheduler-key FILE is needed: "
                            "nobody's tickets can be checked without");
}

int
srv_conf_reread(struct srv_conf *conf, int argc, char **argv,
                struct gp_option_changes *ret, struct gp_err *err)
{
    struct srv_conf now;
    const struct gp_option_set_of was = {options, ARRAY_SIZE(options), conf};
    const struct gp_option_set_of is = {options, ARRAY_SIZE(options), &now};
    int r = srv_conf_parse(&now, argc, argv, err);

    if (r > 0)
        return gp_err_set(err, -EINVAL, "help is no option of a daemon");
    if (r == 0)
        gp_option_take_live(&was, &is, 1, ret);
    return r;
}
