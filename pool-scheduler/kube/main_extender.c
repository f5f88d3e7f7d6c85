/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-kube extender: the scheduler extender for clusters that keep extended
 * resources and let kube-scheduler choose a node.
 *
 * kube-scheduler posts a pod and its candidate nodes (by name, nodeCacheCapable, or
 * whole) to /scheduler/filter, /scheduler/priorities and /scheduler/bind.  A remote
 * card can be used from every node, so filter asks the pool alone: is there room for
 * every container of the pod now?  Only where the pool's rules say that some servers
 * are reached from some nodes is each node asked for.  Nodes that hold the card that
 * would be chosen get the higher score, since their traffic stays on the machine.
 * Nothing is taken here: the claim is bound by the controller.
 */
#include "ctl_call.h"
#include "ctl_limits.h"
#include "ctrl_pool.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_api.h"
#include "kube_config.h"
#include "kube_http.h"
#include "kube_https.h"
#include "kube_inject.h"
#include "kube_main.h"
#include "kube_object.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SCORE_MAX 10 /* of kube-scheduler's extenders */
/* So long one filter asks for nodes when some have passed: kube-scheduler gives up
 * after five seconds. */
#define ASK_NS (2 * GP_NS_PER_S)

struct extender {
    struct kube_config kube;
    struct kube_http *http;
    struct ctrl_pool pool;
    struct kube_class class;
    const char *listen, *ready_file;
    bool bind; /* pods, for whoever asks */
};

/* Keys are capitalised as in k8s.io/kube-scheduler's JSON, or not, as older ones. */
static json_t *
field(const json_t *object, const char *upper, const char *lower)
{
    json_t *value = json_object_get(object, upper);

    return value ? value : json_object_get(object, lower);
}

/* The server where each container of @pod would go, on @node ("": on some node): 0 with
 * the last one's, -ENOSPC with words, -ENODATA when the pod asks for no card. */
static int
ask_pool(struct extender *x, const json_t *pod, const char *node, char server[64],
         bool *ret_by_node, struct gp_err *err)
{
    json_t *container;
    unsigned n = 0;
    size_t i;

    json_array_foreach(kube_at(pod, "spec.containers"), i, container)
    {
        struct kube_ask ask;
        int r = kube_ask_read(json_object_get(container, "resources"), &x->class, &ask,
                              err);

        if (r == -ENODATA)
            continue;
        if (++n > KUBE_CONTAINERS_MAX)
            return gp_err_set(err, -E2BIG,
                              "more than %u containers of the pod ask for cards",
                              KUBE_CONTAINERS_MAX);
        ask.node = node;
        if (!r)
            r = ctrl_pool_explain(&x->pool, &ask, &x->class, server, ret_by_node, err);
        if (r < 0)
            return r;
    }
    return n ? 0 : -ENODATA;
}

/* From which of the nodes are there servers with room to be reached? */
struct sieve {
    struct extender *x;
    const json_t *pod;
    uint64_t until_ns;
    json_t *names, *items, *failed; /* nodes that pass, by name or whole */
};

static bool
node_passes(struct sieve *sieve, const char *node)
{
    bool any = json_array_size(sieve->names) || json_array_size(sieve->items);
    struct gp_err err = {0};
    char server[64];
    bool by_node;
    int r;

    if (any && gp_now_ns() > sieve->until_ns) {
        json_object_set_new(sieve->failed, node,
                            json_string("not asked about, others have room"));
        return false;
    }
    r = ask_pool(sieve->x, sieve->pod, node, server, &by_node, &err);
    if (r < 0)
        json_object_set_new(sieve->failed, node, json_string(gp_err_msg(&err, r)));
    return r == 0;
}

static json_t *
filter_nodes(struct extender *x, const json_t *pod, const json_t *names,
             const json_t *nodes)
{
    struct sieve sieve = {.x = x,
                          .pod = pod,
                          .until_ns = gp_now_ns() + ASK_NS,
                          .names = json_array(),
                          .items = json_array(),
                          .failed = json_object()};
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)names, i, item)
    {
        if (json_is_string(item) && node_passes(&sieve, json_string_value(item)))
            json_array_append(sieve.names, item);
    }
    json_array_foreach(json_object_get(nodes, "items"), i,
                       item) if (node_passes(&sieve, kube_name(item)))
        json_array_append(sieve.items, item);
    return json_pack("{s:o, s:{s:o}, s:o, s:s}", "nodenames", sieve.names, "nodes",
                     "items", sieve.items, "failedNodes", sieve.failed, "error", "");
}

static json_t *
filter(struct extender *x, const json_t *args)
{
    json_t *nodes = field(args, "Nodes", "nodes");
    json_t *names = field(args, "NodeNames", "nodenames");
    const json_t *pod = field(args, "Pod", "pod");
    char server[64] = "";
    bool by_node = false;
    struct gp_err err = {0};
    int r = ask_pool(x, pod, "", server, &by_node, &err);
    json_t *failed, *item;
    size_t i;

    if (r == 0 && by_node)
        return filter_nodes(x, pod, names, nodes);
    failed = json_object();
    if (r == 0 || r == -ENODATA)
        return json_pack("{s:O*, s:O*, s:o, s:s}", "nodes", nodes, "nodenames", names,
                         "failedNodes", failed, "error", "");
    if (r == -EHOSTUNREACH || r == -ETIMEDOUT)
        return json_pack("{s:o, s:s}", "failedNodes", failed, "error",
                         gp_err_msg(&err, r));
    json_array_foreach(names, i, item)
    {
        if (json_is_string(item))
            json_object_set_new(failed, json_string_value(item),
                                json_string(gp_err_msg(&err, r)));
    }
    json_array_foreach(json_object_get(nodes, "items"), i, item)
        json_object_set_new(failed, kube_name(item), json_string(gp_err_msg(&err, r)));
    return json_pack("{s:[], s:o, s:s}", "nodenames", "failedNodes", failed, "error",
                     "");
}

static void
score(json_t *list, const char *node, const char *server)
{
    json_array_append_new(list, json_pack("{s:s, s:i}", "host", node, "score",
                                          strcmp(node, server) == 0 ? SCORE_MAX : 0));
}

static json_t *
prioritize(struct extender *x, const json_t *args)
{
    json_t *list = json_array(), *item;
    bool by_node;
    char server[64] = "";
    size_t i;

    ask_pool(x, field(args, "Pod", "pod"), "", server, &by_node, NULL);
    json_array_foreach(field(args, "NodeNames", "nodenames"), i, item)
    {
        if (json_is_string(item))
            score(list, json_string_value(item), server);
    }
    json_array_foreach(json_object_get(field(args, "Nodes", "nodes"), "items"), i, item)
        score(list, kube_name(item), server);
    return list;
}

/* Nothing tells who asks, so this is done only where the administrator wants it:
 * anybody who reaches the port could have pods of others bound to any node. */
static json_t *
bind_pod(struct extender *x, const json_t *args)
{
    const char *ns = json_string_value(field(args, "PodNamespace", "podNamespace"));
    const char *name = json_string_value(field(args, "PodName", "podName"));
    const char *uid = json_string_value(field(args, "PodUID", "podUID"));
    const char *node = json_string_value(field(args, "Node", "node"));
    CLEANUP_JSON json_t *binding = NULL;
    struct gp_err err = {0};
    int r;

    if (!x->bind)
        return json_pack(
            "{s:s}", "error",
            "this extender binds no pods (--bind, or extender.bind of the "
            "chart): leave bindVerb out of kube-scheduler's configuration, "
            "which then binds them itself");
    if (!ns || !name || !node)
        return json_pack("{s:s}", "error", "no pod or no node is named");
    binding = json_pack("{s:s, s:s, s:{s:s, s:s, s:s*}, s:{s:s, s:s, s:s}}",
                        "apiVersion", "v1", "kind", "Binding", "metadata", "name", name,
                        "namespace", ns, "uid", uid, "target", "apiVersion", "v1",
                        "kind", "Node", "name", node);
    r = kube_api_create_sub(x->http, &KUBE_PODS, ns, name, "binding", binding, NULL,
                            &err);
    return json_pack("{s:s}", "error", r < 0 ? gp_err_msg(&err, r) : "");
}

static unsigned
answer(void *arg, const char *method, const char *path, const char *body, size_t len,
       char **ret_body)
{
    static const struct {
        const char *path;
        json_t *(*fn)(struct extender *x, const json_t *args);
    } VERBS[] = {{"/scheduler/filter", filter},
                 {"/scheduler/predicates", filter},
                 {"/scheduler/priorities", prioritize},
                 {"/scheduler/bind", bind_pod}};
    CLEANUP_JSON json_t *args = NULL, *result = NULL;

    if (strcmp(path, "/healthz") == 0)
        return 200;
    if (strcmp(method, "POST") != 0)
        return 405;
    args = json_loadb(body, len, 0, NULL);
    for (size_t i = 0; args && i < ARRAY_SIZE(VERBS); i++)
        if (strcmp(path, VERBS[i].path) == 0) {
            result = VERBS[i].fn(arg, args);
            *ret_body = result ? json_dumps(result, JSON_COMPACT) : NULL;
            return *ret_body ? 200 : 500;
        }
    return args ? 404 : 400;
}

#define FIELD(field) .offset = offsetof(struct extender, field)

static const char *const PLACEMENTS[] = {"binpack", "spread", NULL};

static const struct gp_option OPTIONS[] = {
    {.name = "listen",
     .value = "HOST:PORT",
     .set = gp_option_text,
     .check = gp_option_check_address,
     FIELD(listen),
     .help = "where kube-scheduler asks (127.0.0.1:39999)"},
    {.name = "scheduler",
     .value = "HOST:PORT",
     .set = gp_option_text,
     .check = gp_option_check_addresses,
     .min = CTL_DEFAULT_PORT,
     FIELD(pool.route.list),
     .env = "GPUPOOL_SCHEDULER",
     .help = "the pool's scheduler (GPUPOOL_SCHEDULER)"},
    {.name = "token-file",
     .value = "FILE",
     .set = gp_option_text,
     FIELD(pool.token_file),
     .help = "with a token that lets its holder read (of a user of the pool, of its "
             "clients)"},
    {.name = "placement",
     .value = "binpack|spread",
     .set = gp_option_choice,
     FIELD(class.placement),
     .words = PLACEMENTS,
     .min = 1,
     .help = "which card is looked for"},
    {.name = "bind",
     .set = gp_option_yes,
     FIELD(bind),
     .help = "bind pods for whoever asks (bindVerb); kube-scheduler does it itself"},
    {.name = "ready-file",
     .value = "FILE",
     .set = gp_option_text,
     FIELD(ready_file),
     .help = "written with the port once it listens"},
};

/* 0: go on; 1: help was shown. */
static int
parse(struct extender *x, int argc, char **argv, struct gp_err *err)
{
    const struct gp_option_set_of sets[] = {{OPTIONS, ARRAY_SIZE(OPTIONS), x},
                                            kube_config_options(&x->kube)};
    const struct gp_options options = {
        .program = "gpupool-kube extender",
        .about = "A scheduler extender that knows whether the pool has room.",
        .env = KUBE_MAIN_ENV,
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };
    int first, r = gp_options_parse(&options, argc, argv, &first, err);

    if (r)
        return r;
    if (!x->pool.route.list)
        return gp_err_set(err, -EINVAL,
                          "--scheduler HOST:PORT or GPUPOOL_SCHEDULER is needed");
    return kube_config_finish(&x->kube, err);
}

/* All nodes: 5,000, the most that Kubernetes supports, by name, or 1,500 of them whole,
 * of 10 KiB and 250 values each.  Parsed they take 56 MiB at most; the chart gives the
 * extender 128. */
#define EXTENDER_MAX ((size_t)16 * 1024 * 1024)
#define EXTENDER_VALUES_MAX ((size_t)400 * 1000)
static const struct kube_https_limits LIMITS = {EXTENDER_MAX, EXTENDER_VALUES_MAX};

static int
serve(struct extender *x, struct gp_err *err)
{
    struct kube_https *server = NULL;
    sigset_t signals;
    char line[16];
    int signo, n, r = kube_http_new(&x->kube, NULL, &x->http, err);

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (!r)
        r = kube_https_start(x->listen, NULL, &LIMITS, answer, x, &server, err);
    if (!r && x->ready_file) {
        n = snprintf(line, sizeof(line), "%u\n", kube_https_port(server));
        r = gp_file_replace(x->ready_file, line, (size_t)n, 0644, err);
    }
    if (!r)
        sigwait(&signals, &signo);
    kube_https_stop(server);
    kube_http_free(x->http);
    return r;
}

int
kube_main_extender(int argc, char **argv)
{
    struct extender x = {
        .listen = "127.0.0.1:39999",
        .pool = {.link.fd = -1, .only_asks = true},
        .class = {.core_min = 1, .core_step = 1},
    };
    struct gp_err err = {0};
    int r = parse(&x, argc, argv, &err), status = KUBE_MAIN_USAGE;

    if (!r) {
        status = KUBE_MAIN_FAILED;
        r = serve(&x, &err);
    }
    if (r < 0)
        fprintf(stderr, "gpupool-kube extender: %s\n", gp_err_msg(&err, r));
    ctrl_pool_fini(&x.pool);
    kube_config_fini(&x.kube);
    return r < 0 ? status : 0;
}
