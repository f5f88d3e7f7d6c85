/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the API server is, and who we are to it.
 *
 * Filled from options or, inside a pod, from the environment and the service account's
 * files.  The owner frees it with kube_config_fini().  No thread of its own.
 *
 * The token is a file, read again for every connection that needs it, because the
 * kubelet renews it.  This is not a kubeconfig: YAML is not read.
 */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H

#include "gp_base.h"

struct gp_err;

/* What a projected service-account token is at most; the ones seen have 1.2 KiB. */
#define KUBE_TOKEN_MAX (16u * 1024u)

struct kube_config {
    char *server;  /* "https://host:port" */
    char *ca_file; /* NULL: the system's authorities */
    char *token_file;
    char *cert_file, *key_file; /* a client certificate, or NULL */
};

/* Values of getopt_long for the options below; other commands start elsewhere. */
enum {
    KUBE_OPT_SERVER = 900,
    KUBE_OPT_CA,
    KUBE_OPT_TOKEN,
    KUBE_OPT_CERT,
    KUBE_OPT_KEY,
};

#define KUBE_CONFIG_OPTIONS                                                            \
    {"kube-server", required_argument, NULL, KUBE_OPT_SERVER},                         \
        {"kube-ca-file", required_argument, NULL, KUBE_OPT_CA},                        \
        {"kube-token-file", required_argument, NULL, KUBE_OPT_TOKEN},                  \
        {"kube-cert-file", required_argument, NULL, KUBE_OPT_CERT},                    \
    {                                                                                  \
        "kube-key-file", required_argument, NULL, KUBE_OPT_KEY                         \
    }

#define KUBE_CONFIG_HELP                                                               \
    "  --kube-server URL         the API server; without it, the service account of\n" \
    "                            the pod that this runs in\n"                          \
    "  --kube-ca-file FILE       the authority that signed its certificate\n"          \
    "  --kube-token-file FILE    bearer token\n"                                       \
    "  --kube-cert-file FILE, --kube-key-file FILE   or a client certificate\n"

/* One option with its argument.  1: it was one of ours; 0: it was not; -ENOMEM. */
int kube_config_option(struct kube_config *config, int opt, const char *arg);
/* After the last option: what is missing comes from the pod.  -ENOENT: neither. */
int kube_config_finish(struct kube_config *config, struct gp_err *err);
void kube_config_fini(struct kube_config *config);

/* The namespace that this process runs in, "default" outside a cluster.  malloc'ed. */
char *kube_config_namespace(void);

#endif
