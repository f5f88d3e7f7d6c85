/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_conf.h"
#include "xport.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_size.h"
#include "gp_str.h"
#include "srv_rates.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CONF_FILE_MAX (64u * 1024)

enum conf_type {
    CONF_TEXT,
    CONF_NUMBER,
    CONF_SWITCH, /* yes when its name is given alone */
};

struct conf_option {
    const char *name;
    enum conf_type type;
    size_t offset;
    size_t size; /* of the text */
    uint64_t max;
    const char *value; /* for --help */
    const char *help;
};

#define TEXT(name, field, value, help)                                                 \
    {                                                                                  \
        name, CONF_TEXT, offsetof(struct srv_conf, field),                             \
            sizeof(((struct srv_conf *)0)->field), 0, value, help                      \
    }
#define NUMBER(name, field, max, help)                                                 \
    {                                                                                  \
        name, CONF_NUMBER, offsetof(struct srv_conf, field), 0, max, "N", help         \
    }

#define SWITCH(name, field, help)                                                      \
    {                                                                                  \
        name, CONF_SWITCH, offsetof(struct srv_conf, field), 0, 1, "", help            \
    }

static const struct conf_option options[] = {
    TEXT("listen", listen, "HOST:PORT",
         "where clients attach, IPv4 or IPv6 (default [::]:7481; port 0 picks one)"),
    TEXT("local", local, "unix:/PATH",
         "where clients on this host attach, over shared memory (or --listen "
         "unix:/PATH)"),
    TEXT("advertise", advertise, "HOST[:PORT]",
         "the address told to clients (default: this host's name)"),
    TEXT("driver", driver, "NAME|PATH",
         "softgpu, null, cuda, or a driver library (default softgpu)"),
    TEXT("name", name, "NAME", "this server's name in the pool (default: host name)"),
    TEXT("scheduler", scheduler, "HOST:PORT", "register with this gpupool-scheduler"),
    TEXT("token-file", token_file, "FILE", "secret that the scheduler asks for"),
    TEXT("scheduler-key", key_file, "FILE",
         "public key of the scheduler (default: that of the first registration)"),
    TEXT("state-dir", state_dir, "DIR",
         "keep the scheduler's key here; without it a restart takes any key"),
    TEXT("worker", worker, "PATH", "the worker program (default: beside this one)"),
    TEXT("worker-user", worker_user, "USER", "workers become this user (needs root)"),
    TEXT("worker-uids", worker_uids, "auto|off|FIRST-LAST",
         "user ids for sessions, one for each (default auto: 61184-65519 as root,\n"
         "                               unless --worker-user names one for all)"),
    TEXT("worker-memory", worker_memory, "SIZE",
         "host memory of one worker, beside its slices' (default 4GiB; off)"),
    TEXT("worker-cgroup", worker_cgroup, "auto|on|off",
         "a control group for each session: memory, threads, processor time\n"
         "                               (default auto: version 2, where it is "
         "delegated)"),
    TEXT("worker-shared", worker_shared, "SIZE",
         "page-locked and shared memory of one worker, beside --worker-memory; needs\n"
         "                               control groups (default 4GiB)"),
    TEXT("worker-sandbox", worker_sandbox, "on|log",
         "log: system calls that workers are not allowed are logged by the kernel\n"
         "                               and not denied, to find what a driver needs"),
    TEXT("worker-read", worker_read, "PATH[:PATH...]",
         "files and folders that the driver reads, beside the usual ones"),
    TEXT(
        "rdma", rdma, "auto|off|ADDRESS[,...]",
        "RDMA ports to offer: all, none, or those with these addresses (default auto)"),
    TEXT("gpudirect", gpudirect, "auto|dmabuf|peermem|off",
         "how RDMA adapters reach the cards' memory themselves (default auto)"),
    TEXT("pageable-access", pageable, "refuse|allow",
         "cards that reach all memory of the worker's process, by HMM or ATS\n"
         "                               (default refuse)"),
    TEXT("metrics-listen", metrics_listen, "HOST:PORT", "serve Prometheus /metrics"),
    TEXT("audit-log", audit_log, "FILE", "one JSON line for each attach and denial"),
    TEXT("ready-file", ready_file, "FILE", "write the address here once listening"),
    NUMBER("cards", cards, 64, "software cards to have (drivers softgpu and null)"),
    TEXT("memory", memory, "SIZE", "memory of each software card, such as 4GiB"),
    TEXT("memory-scaling", memory_scaling, "X[,X...]",
         "part of each card's memory for sessions, such as 0.5, or one number per\n"
         "                               card; the rest is kept back (default 1)"),
    TEXT("image-cache", image_cache, "SIZE",
         "memory for code images that clients need not send again (default 1GiB; off)"),
    SWITCH("allow-unbound-tickets", allow_unbound,
           "take tickets that anybody can use who has read them, as clients of before\n"
           "                               bound tickets have, and log each"),
    NUMBER("max-attachments", max_attachments, 65536,
           "client processes at a time (default 1024)"),
    NUMBER("rate-connections", rate_connections, 1000000,
           "connections a second of one address (default 500)"),
    NUMBER("rate-attaches", rate_attaches, 1000000,
           "client processes a second of one address (default 100)"),
    NUMBER("rate-refusals", rate_refusals, 1000000,
           "wrong tickets and proofs a second of one address (default 20)"),
    NUMBER("max-sessions", max_sessions, 65536, "sessions at a time (default 1024)"),
    NUMBER(
        "link-timeout", link_timeout_s, XPORT_LINK_TIMEOUT_MAX_S,
        "seconds without an acknowledgement after which a client's TCP\n"
        "                               connection is broken (default 15, at least 3)"),
    NUMBER("work-limit", work_limit_s, 1000000,
           "seconds after which work that does not end, while another session waits\n"
           "                               for the card, is ended (default 60)"),
    NUMBER("work-limit-offline", work_limit_offline_s, 1000000,
           "the same for offline sessions (default 10)"),
};

static void
conf_help(void)
{
    puts("Usage: gpupool-server [OPTION]...\n\n"
         "Serve the cards of this host to the sessions of a gpupool.  One worker\n"
         "process per client process; SIGTERM ends all of them and the server.\n");
    for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
        char flag[64];

        snprintf(flag, sizeof(flag), "--%s%s%s", options[i].name,
                 *options[i].value ? " " : "", options[i].value);
        printf("  %-28s %s\n", flag, options[i].help);
    }
    puts("  --config FILE                lines of `option = value`, # for comments\n"
         "  --help, --version\n\n"
         "Environment: GPUPOOL_LOG=area:level,... GPUPOOL_LOG_FILE=/path");
}

static int
conf_set(struct srv_conf *conf, const char *name, const char *value, struct gp_err *err)
{
    /* As other systems' configuration calls it. */
    if (strcmp(name, "deviceMemoryScaling") == 0)
        name = "memory-scaling";
    /* A second address, beside the one on the network. */
    if (strcmp(name, "listen") == 0 && strncmp(value, "unix:/", 6) == 0)
        name = "local";
    for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
        const struct conf_option *o = &options[i];
        char *field = (char *)conf + o->offset;
        uint64_t n;

        if (strcmp(name, o->name) != 0)
            continue;
        if (o->type == CONF_TEXT) {
            if (gp_str_copy(field, o->size, value))
                return 0;
            return gp_err_set(err, -EINVAL, "--%s: longer than %zu bytes", name,
                              o->size - 1);
        }
        if (o->type == CONF_SWITCH) {
            if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
                return gp_err_set(err, -EINVAL, "--%s %s: yes or no", name, value);
            memcpy(field, &(uint32_t){strcmp(value, "yes") == 0}, sizeof(uint32_t));
            return 0;
        }
        if (gp_str_u64(value, 1, o->max, &n) < 0)
            return gp_err_set(err, -EINVAL,
                              "--%s %s: a number from 1 to %llu is expected", name,
                              value, (unsigned long long)o->max);
        memcpy(field, &(uint32_t){(uint32_t)n}, sizeof(uint32_t));
        return 0;
    }
    return gp_err_set(err, -EINVAL, "unknown option --%s (see --help)", name);
}

static char *
trim(char *s)
{
    char *end = s + strlen(s);

    while (isspace((unsigned char)*s))
        s++;
    while (end > s && isspace((unsigned char)end[-1]))
        *--end = 0;
    return s;
}

static int
conf_line(struct srv_conf *conf, char *line, struct gp_err *err)
{
    char *eq;

    line[strcspn(line, "#\r")] = 0;
    line = trim(line);
    if (!*line)
        return 0;
    eq = strchr(line, '=');
    if (!eq)
        return gp_err_set(err, -EINVAL, "`%s`: option = value is expected", line);
    *eq = 0;
    return conf_set(conf, trim(line), trim(eq + 1), err);
}

static int
conf_file(struct srv_conf *conf, const char *path, struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    unsigned number = 0;
    char *rest, *line;
    size_t len;
    int r;

    r = gp_file_read(path, CONF_FILE_MAX, &text, &len, err);
    if (r < 0)
        return r;
    rest = text;
    while ((line = strsep(&rest, "\n"))) {
        number++;
        r = conf_line(conf, line, err);
        if (r < 0)
            return gp_err_wrap(err, r, "%s:%u", path, number);
    }
    return 0;
}

static bool
conf_is_switch(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        if (strcmp(name, options[i].name) == 0)
            return options[i].type == CONF_SWITCH;
    return false;
}

static int
conf_argument(struct srv_conf *conf, int argc, char **argv, int *i, struct gp_err *err)
{
    const char *arg = argv[*i];
    const char *eq = strchr(arg, '=');
    char name[64];
    const char *value;

    if (strncmp(arg, "--", 2) != 0)
        return gp_err_set(err, -EINVAL, "%s: options start with -- (see --help)", arg);
    snprintf(name, sizeof(name), "%.*s", eq ? (int)(eq - arg - 2) : 60, arg + 2);
    if (eq) {
        value = eq + 1;
    } else if (conf_is_switch(name)) {
        value = "yes";
    } else {
        if (*i + 1 >= argc)
            return gp_err_set(err, -EINVAL, "--%s needs a value (see --help)", name);
        value = argv[++*i];
    }
    if (strcmp(name, "config") == 0)
        return conf_file(conf, value, err);
    return conf_set(conf, name, value, err);
}

/* The next number of the list at *text; false: there is none above 0 and up to 1. */
static bool
scaling_next(const char **text, double *ret)
{
    char *end;

    *ret = strtod(*text, &end);
    if (end == *text || !(*ret > 0 && *ret <= 1) || (*end && *end != ','))
        return false;
    *text = *end ? end + 1 : end;
    return true;
}

static int
gpudirect_check(const struct srv_conf *conf, struct gp_err *err)
{
    static const char *const words[] = {"auto", "dmabuf", "peermem", "off"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(conf->gpudirect, words[i]) == 0)
            return 0;
    return gp_err_set(err, -EINVAL, "--gpudirect %s: auto, dmabuf, peermem or off",
                      conf->gpudirect);
}

static int
worker_check(struct srv_conf *conf, struct gp_err *err)
{
    if (strcmp(conf->worker_sandbox, "on") != 0 &&
        strcmp(conf->worker_sandbox, "log") != 0)
        return gp_err_set(err, -EINVAL, "--worker-sandbox %s: on or log",
                          conf->worker_sandbox);
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
pageable_check(const struct srv_conf *conf, struct gp_err *err)
{
    if (strcmp(conf->pageable, "refuse") == 0 || strcmp(conf->pageable, "allow") == 0)
        return 0;
    return gp_err_set(err, -EINVAL, "--pageable-access %s: refuse or allow",
                      conf->pageable);
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
    int r;

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
                              .work_limit_s = 60,
                              .work_limit_offline_s = 10};
    if (gethostname(conf->name, sizeof(conf->name) - 1) < 0)
        gp_str_copy(conf->name, sizeof(conf->name), "server");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            conf_help();
            return 1;
        }
        if (strcmp(argv[i], "--version") == 0) {
            puts("gpupool-server " GPUPOOL_VERSION);
            return 1;
        }
        r = conf_argument(conf, argc, argv, &i, err);
        if (r < 0)
            return r;
    }
    r = worker_check(conf, err);
    if (r == 0)
        r = gpudirect_check(conf, err);
    if (r == 0)
        r = pageable_check(conf, err);
    return r < 0 ? r : scaling_check(conf, err);
}
