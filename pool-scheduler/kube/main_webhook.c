/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-kube webhook: options, the certificate's life, and what it looks up.
 *
 * Two threads: libmicrohttpd's answers requests; main()'s runs an event loop that
 * watches the Secret and the webhook's configuration, so that a certificate that
 * another replica made, or a configuration that was installed anew, is seen at once and
 * nothing is polled. Each thread has an API connection of its own.
 */
#include "ctl_limits.h"
#include "ctl_link.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_api.h"
#include "kube_cert.h"
#include "kube_config.h"
#include "kube_dra_pod.h"
#include "kube_http.h"
#include "kube_https.h"
#include "kube_main.h"
#include "kube_object.h"
#include "kube_review.h"
#include "kube_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NAMES_MAX 8
/* How often files and the certificate's age are looked at, which asks nobody, and how
 * soon a look that failed is repeated. */
#define LOOK_NS (5 * GP_NS_PER_S)

struct webhook {
    struct kube_config kube;
    struct kube_inject inject;
    const char *scheduler_key;   /* text or file; NULL: pods are not given one */
    char pins[CTL_PINS_TEXT];    /* what was in it last */
    struct kube_http *http;      /* of the thread that answers */
    struct kube_http *cert_http; /* of main() */
    struct gp_loop *loop;        /* of main() */
    struct gp_loop_timer look;
    struct kube_watch secrets, configs; /* of one object each */
    bool dirty; /* something has changed, or the last look failed */
    struct kube_https *server;
    struct kube_cert cert;
    const char *listen, *cert_file, *key_file, *secret, *config, *ns, *ready_file;
    const char *names[NAMES_MAX + 1];
    unsigned n_names;
    uint64_t cert_hours;
};

/* ---------------------------------------------------------------- look-ups -- */

static int
default_class(struct webhook *hook, json_t **ret, struct gp_err *err)
{
    CLEANUP_JSON json_t *list = NULL;
    json_t *class;
    size_t i;
    int r = kube_api_get(hook->http, &KUBE_CLASSES, NULL, NULL, &list, err);

    if (r < 0)
        return r;
    json_array_foreach(json_object_get(list, "items"), i,
                       class) if (strcmp(kube_str_key(class, "metadata.annotations",
                                                      "elasticgpu.io/is-default-class"),
                                         "true") == 0)
    {
        *ret = json_incref(class);
        return 0;
    }
    return gp_err_set(err, -ENOENT,
                      "no ElasticGPUClass is the default: annotate one with "
                      "elasticgpu.io/is-default-class: \"true\", or name one in the "
                      "label elasticgpu.io/class");
}

static int
find_class(void *arg, const char *name, json_t **ret, struct gp_err *err)
{
    struct webhook *hook = arg;

    return name ? kube_api_get(hook->http, &KUBE_CLASSES, NULL, name, ret, err)
                : default_class(hook, ret, err);
}

static int
find_device_claim(void *arg, const char *ns, const json_t *entry, json_t *notes,
                  bool *ret_ours, struct gp_err *err)
{
    struct webhook *hook = arg;

    return kube_dra_pod_ours(hook->http, ns, entry, notes, ret_ours, err);
}

/* Only asked for on the path of the webhook that selects namespaces. */
static int
class_of_namespace(void *arg, const char *ns, char ret[254], struct gp_err *err)
{
    struct webhook *hook = arg;
    CLEANUP_JSON json_t *object = NULL;
    int r = kube_api_get(hook->http, &KUBE_NAMESPACES, NULL, ns, &object, err);

    if (r < 0)
        return r;
    gp_str_copy(ret, 254,
                kube_str_key(object, "metadata.labels", "elasticgpu.io/class"));
    return 0;
}

static int
no_class(void *arg, const char *ns, char ret[254], struct gp_err *err)
{
    ret[0] = '\0';
    return 0;
}

/* Read anew for each pod, because the scheduler's key may change. */
static int
read_pins(struct webhook *hook, struct gp_err *err)
{
    struct ctl_pins pins;
    int r;

    if (!hook->scheduler_key)
        return 0;
    r = ctl_pins_read(hook->scheduler_key, &pins, err);
    if (!r)
        r = ctl_pins_text(&pins, hook->pins);
    hook->inject.scheduler_key = r < 0 ? NULL : hook->pins;
    return r < 0 ? gp_err_wrap(err, r, "--scheduler-key") : 0;
}

static unsigned
answer(void *arg, const char *method, const char *path, const char *body, size_t len,
       char **ret_body)
{
    struct webhook *hook = arg;
    struct gp_err err = {0};

    if (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0)
        return 200;
    if (strcmp(method, "POST") != 0)
        return 405;
    /* A pod without the key would show its token to whoever answers. */
    if (read_pins(hook, &err) < 0) {
        gp_log_error("webhook", "%s", err.msg);
        return 500;
    }
    if (strcmp(path, "/mutate/namespace") == 0)
        return kube_review(&hook->inject, class_of_namespace, body, len, ret_body);
    if (strcmp(path, "/mutate") == 0)
        return kube_review(&hook->inject, no_class, body, len, ret_body);
    return 404;
}

/* --------------------------------------------------------- the certificate -- */

/* Tell the API server whom to believe: the new certificate and the one before. */
static int
publish(struct webhook *hook, struct gp_err *err)
{
    CLEANUP_FREE char *bundle =
        gp_str_printf("%s%s", hook->cert.cert, hook->cert.old ? hook->cert.old : "");
    CLEANUP_FREE char *base64 = bundle ? kube_base64(bundle, strlen(bundle)) : NULL;
    CLEANUP_JSON json_t *config = NULL;
    json_t *entry;
    bool changed = false;
    size_t i;
    int r;

    if (!hook->config)
        return 0;
    r = kube_api_get(hook->cert_http, &KUBE_WEBHOOKS, NULL, hook->config, &config, err);
    if (r < 0 || !base64)
        return r < 0 ? r : -ENOMEM;
    json_array_foreach(json_object_get(config, "webhooks"), i, entry)
    {
        json_t *client = json_object_get(entry, "clientConfig");

        if (strcmp(kube_str(client, "caBundle"), base64) == 0)
            continue;
        json_object_set_new(client, "caBundle", json_string(base64));
        changed = true;
    }
    if (!changed)
        return 0;
    gp_log_info("webhook", "%s: believes the certificate now", hook->config);
    return kube_api_update(hook->cert_http, &KUBE_WEBHOOKS, NULL, hook->config, NULL,
                           config, NULL, err);
}

/* A certificate of the Secret, or a new one put there; of two replicas that try, one
 * gets -ESTALE and takes the other's. */
static int
from_secret(struct webhook *hook, struct kube_cert *ret, struct gp_err *err)
{
    CLEANUP_JSON json_t *secret = NULL;
    struct kube_cert cert = {0}, made;
    int r = kube_api_get(hook->cert_http, &KUBE_SECRETS, hook->ns, hook->secret,
                         &secret, err);

    if (r == -ENOENT) /* its rights are to change one, not to make it */
        return gp_err_set(
            err, r,
            "there is no Secret %s in namespace %s to keep the certificate "
            "in; make an empty one: kubectl create secret generic %s -n %s",
            hook->secret, hook->ns, hook->secret, hook->ns);
    if (r < 0)
        return r;
    if (kube_cert_from_secret(secret, &cert, NULL) == 0 && !kube_cert_due(&cert) &&
        kube_cert_covers(&cert, hook->names)) {
        *ret = cert;
        return 0;
    }
    r = kube_cert_make(hook->names, hook->cert_hours * 3600, &made, err);
    if (r < 0) {
        kube_cert_fini(&cert);
        return r;
    }
    /* Callers meet the one that is served until the new one is. */
    made.old = cert.cert         ? TAKE_PTR(cert.cert)
               : hook->cert.cert ? strdup(hook->cert.cert)
                                 : NULL;
    kube_cert_fini(&cert);
    json_object_set_new(secret, "data", kube_cert_to_data(&made));
    r = kube_api_update(hook->cert_http, &KUBE_SECRETS, hook->ns, hook->secret, NULL,
                        secret, NULL, err);
    if (r < 0) {
        kube_cert_fini(&made);
        return r;
    }
    gp_log_info("webhook", "a certificate for %" PRIu64 " hours was made",
                hook->cert_hours);
    *ret = made;
    return 0;
}

static int
get_cert(struct webhook *hook, struct kube_cert *ret, struct gp_err *err)
{
    if (hook->cert_file)
        return kube_cert_files(hook->cert_file, hook->key_file, ret, err);
    if (hook->secret)
        return from_secret(hook, ret, err);
    if (hook->cert.cert && !kube_cert_due(&hook->cert))
        return -EALREADY;
    return kube_cert_make(hook->names, hook->cert_hours * 3600, ret, err);
}

/* The API server is told first, so that it never meets a certificate that it does not
 * believe. */
static int
refresh(struct webhook *hook, struct gp_err *err)
{
    struct kube_cert next = {0};
    int r = get_cert(hook, &next, err);
    bool same;

    if (r == -EALREADY)
        return publish(hook, err);
    if (r < 0)
        return r;
    same = hook->cert.cert && strcmp(hook->cert.cert, next.cert) == 0;
    kube_cert_fini(&hook->cert);
    hook->cert = next;
    r = publish(hook, err);
    if (r < 0 || !hook->server || same)
        return r;
    gp_log_info("webhook", "serves with another certificate now");
    return kube_https_renew(hook->server, &hook->cert, err);
}

/* ----------------------------------------------------------------- options -- */

static int
set_dra(void *target, const struct gp_option *option, const char *value,
        struct gp_err *err)
{
    struct webhook *hook = target;
    struct gp_option check = *option;
    bool dra;
    int r;

    check.offset = 0;
    r = gp_option_yes(&dra, &check, value, err);
    if (!r)
        hook->inject.find_device_claim = dra ? find_device_claim : NULL;
    return r;
}

static int
set_name(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    struct webhook *hook = target;

    (void)option;
    if (hook->n_names == NAMES_MAX)
        return gp_err_set(err, -EINVAL, "more than %d of them", NAMES_MAX);
    hook->names[hook->n_names++] = value;
    return 0;
}

#define TEXT(flag, text, field, words_)                                                \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = gp_option_text,            \
        .offset = offsetof(struct webhook, field)                                      \
    }

static const struct gp_option OPTIONS[] = {
    {.name = "listen",
     .value = "HOST:PORT",
     .help = "where the API server asks (:8443)",
     .set = gp_option_text,
     .check = gp_option_check_address,
     .offset = offsetof(struct webhook, listen)},
    {.name = "scheduler",
     .value = "HOST:PORT",
     .help = "the pool's scheduler as pods reach it (GPUPOOL_SCHEDULER)",
     .set = gp_option_text,
     .env = "GPUPOOL_SCHEDULER",
     .check = gp_option_check_addresses,
     .min = CTL_DEFAULT_PORT,
     .offset = offsetof(struct webhook, inject.scheduler)},
    {.name = "scheduler-key",
     .value = "KEY|FILE",
     .help =
         "its public key, for pods (GPUPOOL_SCHEDULER_KEY); a file is read for each "
         "pod",
     .set = gp_option_text,
     .env = CTL_PIN_ENV,
     .offset = offsetof(struct webhook, scheduler_key)},
    TEXT("image", "IMAGE", inject.image, "the image with the client libraries"),
    TEXT("pull-policy", "P", inject.pull_policy, "of that image (IfNotPresent)"),
    {.name = "image-volume",
     .help =
         "mount the image itself (Kubernetes 1.35, or the gate ImageVolume); else an "
         "init container copies",
     .set = gp_option_yes,
     .offset = offsetof(struct webhook, inject.image_volume)},
    {.name = "dra", .help = "serve pods with ResourceClaims", .set = set_dra},
    TEXT("audience", "NAME", inject.audience, "of the pods' tokens (egpu)"),
    TEXT("tls-cert-file", "FILE", cert_file,
         "the certificate, read again when it changes; without it one is made and "
         "renewed"),
    TEXT("tls-key-file", "FILE", key_file, "its key, read again when it changes"),
    TEXT("tls-secret", "NAME", secret,
         "the Secret in which replicas share the certificate that was made"),
    TEXT("webhook-config", "NAME", config,
         "the MutatingWebhookConfiguration that must believe it"),
    {.name = "dns-name",
     .value = "NAME",
     .help = "that it speaks for; may be given several times",
     .several = true,
     .set = set_name},
    {.name = "cert-hours",
     .value = "N",
     .help = "how long it lasts (2160)",
     .set = gp_option_u64,
     .min = 1,
     .max = 24 * 3650,
     .offset = offsetof(struct webhook, cert_hours)},
    TEXT("namespace", "NS", ns, "of the Secret (the pod's own)"),
    TEXT("ready-file", "FILE", ready_file, "written with the port once it listens"),
};

/* 0: go on; 1: help was shown. */
static int
parse(struct webhook *hook, int argc, char **argv, struct gp_err *err)
{
    const struct gp_option_set_of sets[] = {{OPTIONS, ARRAY_SIZE(OPTIONS), hook},
                                            kube_config_options(&hook->kube)};
    const struct gp_options options = {
        .program = "gpupool-kube webhook",
        .about = "Give pods that ask for the remote class what they need to use a card "
                 "of the pool.",
        .env = KUBE_MAIN_ENV,
        .sets = sets,
        .n_sets = ARRAY_SIZE(sets),
    };
    int first, r = gp_options_parse(&options, argc, argv, &first, err);

    if (r)
        return r;
    if (!hook->inject.scheduler || !hook->inject.image)
        return gp_err_set(
            err, -EINVAL,
            "--scheduler HOST:PORT (or GPUPOOL_SCHEDULER) and --image are "
            "needed");
    if (hook->scheduler_key && !*hook->scheduler_key)
        hook->scheduler_key = NULL;
    if (read_pins(hook, err) < 0)
        return -EINVAL;
    if (!hook->cert_file != !hook->key_file)
        return gp_err_set(err, -EINVAL,
                          "--tls-cert-file and --tls-key-file go together");
    if (!hook->cert_file && !hook->n_names)
        return gp_err_set(err, -EINVAL, "which --dns-name does the certificate have?");
    return kube_config_finish(&hook->kube, err);
}

/* ------------------------------------------------------------------ watches -- */

static void
on_look(struct gp_loop_timer *timer)
{
    struct webhook *hook = container_of(timer, struct webhook, look);
    struct gp_err err = {0};

    gp_loop_timer_set(hook->loop, timer, gp_now_ns() + LOOK_NS, on_look);
    if (!hook->dirty && !hook->cert_file && !kube_cert_due(&hook->cert))
        return;
    hook->dirty = refresh(hook, &err) < 0;
    if (hook->dirty)
        gp_log_warn("webhook", "certificate: %s", err.msg);
}

/* Changes that come together are one. */
static void
on_change(struct kube_watch *watch, const char *key, const json_t *object)
{
    struct webhook *hook = watch->owner;

    hook->dirty = true;
    gp_loop_timer_set(hook->loop, &hook->look, gp_now_ns(), on_look);
}

/* What is in it is read when it is needed: a Secret is not kept. */
static void
forget_content(json_t *object)
{
    json_object_del(object, "data");
    json_object_del(object, "webhooks");
}

static int
watch_one(struct webhook *hook, struct kube_watch *watch,
          const struct kube_resource *res, const char *ns, const char *name,
          struct gp_err *err)
{
    if (!name)
        return 0;
    watch->res = res;
    watch->ns = ns;
    watch->query = gp_str_printf("fieldSelector=metadata.name%%3D%s", name);
    watch->trim = forget_content;
    watch->on_change = on_change;
    watch->owner = hook;
    return watch->query ? kube_watch_start(watch, hook->cert_http, hook->loop, err)
                        : -ENOMEM;
}

static void
watch_end(struct kube_watch *watch)
{
    if (watch->loop)
        kube_watch_stop(watch);
    free((char *)watch->query);
}

/* -------------------------------------------------------------------- serve -- */

static int
announce(const struct webhook *hook, struct gp_err *err)
{
    char line[32];
    int n = snprintf(line, sizeof(line), "%u\n", kube_https_port(hook->server));

    gp_log_info("webhook", "listening on port %u", kube_https_port(hook->server));
    return hook->ready_file
               ? gp_file_replace(hook->ready_file, line, (size_t)n, 0644, err)
               : 0;
}

static void
on_signal(struct gp_loop *loop, int signo, void *arg)
{
    gp_loop_stop(loop, 0);
}

static int
start(struct webhook *hook, struct gp_err *err)
{
    static const int SIGNALS[] = {SIGTERM, SIGINT, 0};
    int r = gp_loop_new(&hook->loop, err);

    if (!r)
        r = gp_loop_signals(hook->loop, SIGNALS, on_signal, hook, err);
    if (!r)
        r = kube_http_new(&hook->kube, NULL, &hook->http, err);
    return r < 0 ? r : kube_http_new(&hook->kube, hook->loop, &hook->cert_http, err);
}

/* The API server may not be up yet.  1: told to stop meanwhile. */
static int
first_refresh(struct webhook *hook, struct gp_err *err)
{
    const struct timespec pause = {LOOK_NS / GP_NS_PER_S, 0};
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    while (refresh(hook, err) < 0) {
        gp_log_warn("webhook", "%s", err->msg);
        if (sigtimedwait(&signals, NULL, &pause) > 0)
            return 1;
    }
    return 0;
}

static const struct kube_https_limits LIMITS = {KUBE_REVIEW_MAX,
                                                KUBE_REVIEW_VALUES_MAX};

static int
serve(struct webhook *hook, struct gp_err *err)
{
    int r = start(hook, err);

    if (!r)
        r = first_refresh(hook, err);
    if (r)
        return r < 0 ? r : 0;
    r = kube_https_start(hook->listen, &hook->cert, &LIMITS, answer, hook,
                         &hook->server, err);
    if (!r)
        r = announce(hook, err);
    if (!r)
        r = watch_one(hook, &hook->secrets, &KUBE_SECRETS, hook->ns, hook->secret, err);
    if (!r)
        r = watch_one(hook, &hook->configs, &KUBE_WEBHOOKS, NULL, hook->config, err);
    if (r < 0)
        return r;
    gp_loop_timer_set(hook->loop, &hook->look, gp_now_ns() + LOOK_NS, on_look);
    return gp_loop_run(hook->loop);
}

int
kube_main_webhook(int argc, char **argv)
{
    CLEANUP_FREE char *ns = kube_config_namespace();
    struct webhook hook = {
        .listen = ":8443",
        .cert_hours = 2160,
        .ns = ns,
        .inject = {.pull_policy = "IfNotPresent",
                   .audience = "egpu",
                   .find_class = find_class},
    };
    struct gp_err err = {0};
    int r, status = KUBE_MAIN_USAGE;

    hook.inject.arg = &hook;
    r = parse(&hook, argc, argv, &err);
    if (!r) {
        status = KUBE_MAIN_FAILED;
        r = serve(&hook, &err);
    }
    if (r < 0)
        fprintf(stderr, "gpupool-kube webhook: %s\n", gp_err_msg(&err, r));
    kube_https_stop(hook.server);
    watch_end(&hook.secrets);
    watch_end(&hook.configs);
    kube_http_free(hook.http);
    kube_http_free(hook.cert_http);
    gp_loop_free(hook.loop);
    kube_cert_fini(&hook.cert);
    kube_config_fini(&hook.kube);
    return r < 0 ? status : 0;
}
