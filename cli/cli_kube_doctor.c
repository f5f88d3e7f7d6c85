/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_kube_doctor.h"

#include "cli.h"
#include "cli_kubectl.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PROVISIONER "elasticgpu.io/remote"
#define DEFAULT_CLASS "elasticgpu.io/is-default-class"
#define SCHEDULER "gpupool-scheduler"
#define WEBHOOK_SECRET "gpupool-webhook-tls"
#define GATE "elasticgpu.io/claims"
#define CLAIM_NOTE "elasticgpu.io/egpuc-"
#define CLAIM_NOTE_OLD "egpuc.elasticgpu.io/"

struct doctor {
    const char *ns;
    json_t *classes; /* a list; NULL: they could not be read */
    json_t *claims;  /* the same */
    unsigned problems;
};

static const char *
text_at(const json_t *object, const char *a, const char *b)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(object, a), b));

    return text ? text : "";
}

static json_int_t
number_at(const json_t *object, const char *a, const char *b)
{
    return json_integer_value(json_object_get(json_object_get(object, a), b));
}

static void
report(struct doctor *d, bool good, const char *what, const char *words)
{
    printf("%-7s %s%s%s\n", good ? "ok" : "PROBLEM", what, *words ? ": " : "", words);
    d->problems += !good;
}

/* ------------------------------------------------------------------- parts -- */

/* An object of the pool's namespace.  -ENODATA: there is none. */
static int
get_part(const struct doctor *d, const char *kind, const char *name, json_t **ret,
         struct gp_err *err)
{
    const char *const args[] = {"get", kind, name, "-n", d->ns, "--ignore-not-found",
                                NULL};

    return cli_kubectl_json(args, ret, err);
}

static void
check_replicas(struct doctor *d, const char *name, json_int_t ready, json_int_t wanted,
               const char *none_wanted)
{
    char words[80];

    snprintf(words, sizeof(words), "%lld of %lld are ready", (long long)ready,
             (long long)wanted);
    report(d, wanted > 0 && ready >= wanted, name,
           wanted <= 0      ? none_wanted
           : ready < wanted ? words
                            : "");
}

static void
check_deployed(struct doctor *d, const char *kind, const char *name)
{
    json_t *object = NULL;
    struct gp_err err = {0};
    int r = get_part(d, kind, name, &object, &err);

    if (r < 0)
        report(d, false, name,
               r == -ENODATA ? "it is not there; run gpupool kube install" : err.msg);
    else
        check_replicas(d, name, number_at(object, "status", "readyReplicas"),
                       number_at(object, "spec", "replicas"),
                       "it is scaled to no replicas");
    json_decref(object);
}

/* Where the controller looks for the scheduler, as its deployment says. */
static char *
scheduler_address(const struct doctor *d)
{
    json_t *object = NULL, *containers, *container, *arg;
    static const char flag[] = "--scheduler=";
    char *found = NULL;
    size_t i, k;

    if (get_part(d, "deployment", "gpupool-controller", &object, NULL) < 0)
        return NULL;
    containers = json_object_get(
        json_object_get(json_object_get(json_object_get(object, "spec"), "template"),
                        "spec"),
        "containers");
    json_array_foreach(containers, i, container)
    {
        json_array_foreach(json_object_get(container, "args"), k, arg)
        {
            const char *text = json_string_value(arg);

            if (!found && text && !strncmp(text, flag, sizeof(flag) - 1))
                found = strdup(text + sizeof(flag) - 1);
        }
    }
    json_decref(object);
    return found;
}

/* The chart's own, by whatever address pods reach it, unless the chart has none and was
 * told of another. */
static void
check_scheduler(struct doctor *d)
{
    CLEANUP_FREE char *address = scheduler_address(d);
    json_t *own = NULL;
    const bool absent = get_part(d, "statefulset", SCHEDULER, &own, NULL) == -ENODATA;
    char words[256];

    json_decref(own);
    if (!absent || !address || !strncmp(address, SCHEDULER ".", sizeof(SCHEDULER))) {
        check_deployed(d, "statefulset", SCHEDULER);
        return;
    }
    snprintf(words, sizeof(words),
             "it is not of the chart: the controller asks %.100s; claims without an "
             "answer say so",
             address);
    report(d, true, SCHEDULER, words);
}

/* Servers may run elsewhere: then there are cards without it. */
static void
check_servers(struct doctor *d)
{
    static const char name[] = "gpupool-server";
    json_t *object = NULL;
    struct gp_err err = {0};
    int r = get_part(d, "daemonset", name, &object, &err);

    if (r == -ENODATA)
        report(d, true, name, "the chart runs none; cards are those of other servers");
    else if (r < 0)
        report(d, false, name, err.msg);
    else
        check_replicas(d, name, number_at(object, "status", "numberReady"),
                       number_at(object, "status", "desiredNumberScheduled"),
                       "no node has the label gpupool.io/server=true");
    json_decref(object);
}

static void
check_webhook(struct doctor *d)
{
    json_t *config = NULL, *entry;
    struct gp_err err = {0};
    const char *const args[] = {"get", "mutatingwebhookconfigurations", "gpupool",
                                NULL};
    int r = cli_kubectl_json(args, &config, &err);
    const json_t *entries = json_object_get(config, "webhooks");
    bool known = json_array_size(entries) > 0;
    size_t i;

    json_array_foreach(entries, i, entry) known &=
        *text_at(entry, "clientConfig", "caBundle") != '\0';
    report(d, !r && known, "the API server knows the webhook's certificate",
           r < 0                       ? err.msg
           : known                     ? ""
           : !json_array_size(entries) ? "the configuration names no webhook; run "
                                         "gpupool kube install"
                                       : "the webhook has not run yet; its log says "
                                         "why");
    json_decref(config);
}

/* The webhook may change its Secret and not make it: without it no certificate comes.
 */
static void
check_secret(struct doctor *d)
{
    json_t *secret = NULL;

    if (get_part(d, "secret", WEBHOOK_SECRET, &secret, NULL) == -ENODATA)
        report(d, false, "the webhook's Secret " WEBHOOK_SECRET,
               "it is not there, and the webhook has no place for its certificate; run "
               "gpupool kube install, or make an empty one of that name");
    json_decref(secret);
}

static void
check_kinds(struct doctor *d)
{
    CLEANUP_FREE char *found = NULL;
    struct gp_err err = {0};
    const char *const args[] = {"get", "crd", "elasticgpuclaims.elasticgpu.io",
                                "--ignore-not-found", NULL};
    int r = cli_kubectl(args, NULL, &found, &err);

    report(d, !r && *found, "the kinds of elasticgpu.io",
           r < 0    ? err.msg
           : *found ? ""
                    : "run gpupool kube install");
}

/* ------------------------------------------------------- classes and cards -- */

static bool
is_remote(const json_t *class)
{
    const char *provisioner = json_string_value(json_object_get(class, "provisioner"));

    return provisioner && !strcmp(provisioner, PROVISIONER);
}

static void
check_class(struct doctor *d)
{
    json_t *class;
    struct gp_err err = {0};
    const char *const args[] = {"get", "elasticgpuclasses", NULL};
    const char *name = "";
    int r = cli_kubectl_json(args, &d->classes, &err);
    size_t i;

    json_array_foreach(json_object_get(d->classes, "items"), i,
                       class) if (is_remote(class)) name =
        text_at(class, "metadata", "name");
    report(d, !r && *name, "a class of remote cards",
           r < 0   ? err.msg
           : *name ? name
                   : "make an ElasticGPUClass with the provisioner " PROVISIONER);
}

static void
check_cards(struct doctor *d)
{
    json_t *list = NULL, *gpu;
    struct gp_err err = {0};
    const char *const args[] = {"get", "elasticgpus", "-l", "elasticgpu.io/kind=card",
                                NULL};
    int r = cli_kubectl_json(args, &list, &err);
    unsigned n = 0, alive = 0, draining = 0;
    char words[240];
    size_t i;

    json_array_foreach(json_object_get(list, "items"), i, gpu)
    {
        const char *phase = text_at(gpu, "status", "phase");
        bool lives = *phase && strcmp(phase, "Failed") != 0;

        n++;
        alive += lives;
        draining +=
            lives && !strcmp(text_at(gpu, "status", "reason"), "ServerDraining");
    }
    snprintf(words, sizeof(words), "%u cards, %u alive", n, alive);
    if (draining)
        snprintf(words + strlen(words), sizeof(words) - strlen(words),
                 ", %u of them on servers that are drained and take no new sessions",
                 draining);
    if (!n)
        gp_str_copy(words, sizeof(words),
                    "there are none; give nodes with cards the label "
                    "gpupool.io/server=true and look at the log of gpupool-server");
    report(d, !r && alive > draining, "cards of the pool", r < 0 ? err.msg : words);
    json_decref(list);
}

/* ------------------------------------------------------------------ claims -- */

/* The name of its class, ""; it is the default one. */
static const char *
class_name(const json_t *claim)
{
    static const char *const keys[] = {"elasticGPUClassName", "egpuClassName",
                                       "storageClassName"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (*text_at(claim, "spec", keys[i]))
            return text_at(claim, "spec", keys[i]);
    return "";
}

/* Is it of a class that is there and is another provisioner's? */
static bool
is_of_others(const struct doctor *d, const json_t *claim)
{
    const char *name = class_name(claim);
    json_t *class;
    size_t i;

    json_array_foreach(json_object_get(d->classes, "items"), i, class)
    {
        const json_t *notes =
            json_object_get(json_object_get(class, "metadata"), "annotations");
        const char *def = json_string_value(json_object_get(notes, DEFAULT_CLASS));

        if (*name ? !strcmp(name, text_at(class, "metadata", "name"))
                  : def && !strcmp(def, "true"))
            return !is_remote(class);
    }
    return false;
}

/* Why the controller has not bound it. */
static const char *
reason_of(const json_t *claim)
{
    const json_t *conditions =
        json_object_get(json_object_get(claim, "status"), "conditions");
    json_t *condition;
    size_t i;

    json_array_foreach(conditions, i, condition)
    {
        const char *type = json_string_value(json_object_get(condition, "type"));
        const char *reason = json_string_value(json_object_get(condition, "reason"));

        if (type && reason && !strcmp(type, "Ready"))
            return reason;
    }
    return "";
}

static void
check_claim(struct doctor *d, const json_t *claim)
{
    CLEANUP_FREE char *name =
        gp_str_printf("claim %s/%s", text_at(claim, "metadata", "namespace"),
                      text_at(claim, "metadata", "name"));
    const char *message = text_at(claim, "status", "message");

    if (!name || !strcmp(text_at(claim, "status", "phase"), "Bound") ||
        *text_at(claim, "metadata", "deletionTimestamp") || is_of_others(d, claim))
        return;
    if (!strcmp(reason_of(claim), "WaitForFirstConsumer"))
        return; /* as its class says: no pod wants it yet */
    report(d, false, name,
           *message ? message
                    : "the controller has not looked at it; its log says why");
}

static void
check_claims(struct doctor *d)
{
    json_t *claim;
    struct gp_err err = {0};
    const char *const args[] = {"get", "elasticgpuclaims", "--all-namespaces", NULL};
    size_t i;

    if (cli_kubectl_json(args, &d->claims, &err) < 0) {
        report(d, false, "claims", err.msg);
        return;
    }
    json_array_foreach(json_object_get(d->claims, "items"), i, claim)
        check_claim(d, claim);
}

/* -------------------------------------------------------------------- pods -- */

static void
report_pod(struct doctor *d, const json_t *pod, const char *words)
{
    CLEANUP_FREE char *name =
        gp_str_printf("pod %s/%s", text_at(pod, "metadata", "namespace"),
                      text_at(pod, "metadata", "name"));

    if (name && words)
        report(d, false, name, words);
}

static bool
is_gated(const json_t *pod)
{
    json_t *gate;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(pod, "spec"), "schedulingGates"),
                       i, gate)
    {
        const char *name = json_string_value(json_object_get(gate, "name"));

        if (name && !strcmp(name, GATE))
            return true;
    }
    return false;
}

static const json_t *
find_claim(const struct doctor *d, const char *ns, const char *name)
{
    json_t *claim;
    size_t i;

    json_array_foreach(json_object_get(d->claims, "items"), i, claim)
    {
        if (!strcmp(text_at(claim, "metadata", "name"), name) &&
            !strcmp(text_at(claim, "metadata", "namespace"), ns))
            return claim;
    }
    return NULL;
}

/* Why it waits for a claim, unless the claim itself has said so. */
static void
check_claim_of(struct doctor *d, const json_t *pod, const char *name)
{
    const json_t *claim = find_claim(d, text_at(pod, "metadata", "namespace"), name);
    json_t *user,
        *users = json_object_get(json_object_get(claim, "status"), "consumers");
    CLEANUP_FREE char *words = NULL;
    const char *holder = NULL;
    size_t i;

    json_array_foreach(users, i, user)
    {
        const char *uid = json_string_value(json_object_get(user, "uid"));

        if (uid && !strcmp(uid, text_at(pod, "metadata", "uid")))
            return;
        holder = json_string_value(json_object_get(user, "name"));
    }
    if (!claim)
        words = gp_str_printf("it waits for claim %s, which does not exist; make it in "
                              "the pod's namespace",
                              name);
    else if (holder)
        words =
            gp_str_printf("it waits for claim %s, which pod %s uses; it is next when "
                          "that has ended",
                          name, holder);
    if (words)
        report_pod(d, pod, words);
}

/* One that asks by a name that no node has, and that the webhook has not seen. */
static void
check_label_of(struct doctor *d, const json_t *pod)
{
    static const char *const NAMES[] = {
        "tke.cloud.tencent.com/qgpu-", "tencent.com/vcuda-",
        "nvidia.com/vcuda-",           "elasticgpu.io/gpu-",
        "elasticgpu.com/gpu-",         "gpushare.provisioner.elasticgpu.io/gpu-"};
    json_t *condition;
    size_t i, k;

    json_array_foreach(json_object_get(json_object_get(pod, "status"), "conditions"), i,
                       condition)
    {
        const char *said = json_string_value(json_object_get(condition, "message"));

        for (k = 0; said && k < ARRAY_SIZE(NAMES); k++) {
            CLEANUP_FREE char *lacks = gp_str_printf(" Insufficient %s", NAMES[k]);

            if (!lacks || !strstr(said, lacks))
                continue;
            report_pod(
                d, pod,
                "it asks for a card by name and selects no class, so the webhook "
                "has left it alone; give it or its namespace the label "
                "elasticgpu.io/class: default (or a class), and make it anew");
            return;
        }
    }
}

static void
check_pod(struct doctor *d, const json_t *pod)
{
    const json_t *notes =
        json_object_get(json_object_get(pod, "metadata"), "annotations");
    const char *key;
    json_t *value;

    if (*text_at(pod, "metadata", "deletionTimestamp"))
        return;
    if (!is_gated(pod)) {
        check_label_of(d, pod);
        return;
    }
    json_object_foreach((json_t *)notes, key, value)
    {
        if ((!strncmp(key, CLAIM_NOTE, sizeof(CLAIM_NOTE) - 1) ||
             !strncmp(key, CLAIM_NOTE_OLD, sizeof(CLAIM_NOTE_OLD) - 1)) &&
            json_is_string(value) && d->claims)
            check_claim_of(d, pod, json_string_value(value));
    }
}

static void
check_pods(struct doctor *d)
{
    json_t *list = NULL, *pod;
    struct gp_err err = {0};
    const char *const args[] = {"get", "pods", "--all-namespaces",
                                "--field-selector=status.phase=Pending", NULL};
    size_t i;

    if (cli_kubectl_json(args, &list, &err) < 0) {
        report(d, false, "pods", err.msg);
        return;
    }
    json_array_foreach(json_object_get(list, "items"), i, pod) check_pod(d, pod);
    json_decref(list);
}

int
cli_kube_doctor(const char *ns)
{
    struct doctor d = {.ns = ns};
    CLEANUP_FREE char *version = NULL;
    struct gp_err err = {0};
    const char *const args[] = {"get", "--raw", "/version", NULL};

    if (cli_kubectl(args, NULL, &version, &err) < 0) {
        report(&d, false, "a cluster", err.msg);
        return CLI_FAILED;
    }
    report(&d, true, "a cluster", "");
    check_kinds(&d);
    check_scheduler(&d);
    check_deployed(&d, "deployment", "gpupool-controller");
    check_deployed(&d, "deployment", "gpupool-webhook");
    check_servers(&d);
    check_webhook(&d);
    check_secret(&d);
    check_class(&d);
    check_cards(&d);
    check_claims(&d);
    check_pods(&d);
    json_decref(d.classes);
    json_decref(d.claims);
    return d.problems ? CLI_FAILED : CLI_OK;
}
