/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_config.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"

#include <errno.h>
#include <string.h>

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

static int
set_copy(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    char **field = (char **)((char *)target + option->offset);

    free(*field);
    *field = strdup(value);
    return *field ? 0 : gp_err_set(err, -ENOMEM, "out of memory");
}

#define FIELD(flag, text, field, words_)                                               \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = set_copy,                  \
        .offset = offsetof(struct kube_config, field)                                  \
    }

static const struct gp_option OPTIONS[] = {
    FIELD(
        "kube-server", "URL", server,
        "the API server; without it, the service account of the pod that this runs in"),
    FIELD("kube-ca-file", "FILE", ca_file, "the authority that signed its certificate"),
    FIELD("kube-token-file", "FILE", token_file, "bearer token"),
    FIELD("kube-cert-file", "FILE", cert_file, "or a client certificate"),
    FIELD("kube-key-file", "FILE", key_file, "and its key"),
};

struct gp_option_set_of
kube_config_options(struct kube_config *config)
{
    return (struct gp_option_set_of){OPTIONS, ARRAY_SIZE(OPTIONS), config};
}

/* An IPv6 address needs brackets in a URL. */
static char *
pod_server(void)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");

    if (!host || !*host)
        return NULL;
    return gp_str_printf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host,
                         port && *port ? port : "443");
}

int
kube_config_finish(struct kube_config *config, struct gp_err *err)
{
    bool given = config->server;

    if (!given)
        config->server = pod_server();
    if (!config->server)
        return gp_err_set(err, -ENOENT,
                          "no API server: this is not a pod, and --kube-server is not "
                          "given");
    if (!given && !config->ca_file)
        config->ca_file = strdup(ACCOUNT "/ca.crt");
    if (!given && !config->token_file && !config->cert_file)
        config->token_file = strdup(ACCOUNT "/token");
    return 0;
}

void
kube_config_fini(struct kube_config *config)
{
    free(config->server);
    free(config->ca_file);
    free(config->token_file);
    free(config->cert_file);
    free(config->key_file);
    memset(config, 0, sizeof(*config));
}

char *
kube_config_namespace(void)
{
    const char *env = getenv("POD_NAMESPACE");
    CLEANUP_FREE char *text = NULL;
    size_t len;

    if (env && *env)
        return strdup(env);
    if (gp_file_read(ACCOUNT "/namespace", 256, &text, &len, NULL) < 0 || !len)
        return strdup("default");
    text[strcspn(text, "\r\n")] = 0;
    return TAKE_PTR(text);
}
