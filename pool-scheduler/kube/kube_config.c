/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_config.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"

#include <errno.h>
#include <string.h>

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

static char **
field_of(struct kube_config *config, int opt)
{
    switch (opt) {
    case KUBE_OPT_SERVER:
        return &config->server;
    case KUBE_OPT_CA:
        return &config->ca_file;
    case KUBE_OPT_TOKEN:
        return &config->token_file;
    case KUBE_OPT_CERT:
        return &config->cert_file;
    case KUBE_OPT_KEY:
        return &config->key_file;
    default:
        return NULL;
    }
}

int
kube_config_option(struct kube_config *config, int opt, const char *arg)
{
    char **field = field_of(config, opt);

    if (!field)
        return 0;
    free(*field);
    *field = strdup(arg);
    return *field ? 1 : -ENOMEM;
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
