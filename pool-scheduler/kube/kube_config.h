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
#include "gp_option.h"

struct gp_err;

/* What a projected service-account token is at most; the ones seen have 1.2 KiB. */
#define KUBE_TOKEN_MAX (16u * 1024u)

struct kube_config {
    char *server;  /* "https://host:port" */
    char *ca_file; /* NULL: the system's authorities */
    char *token_file;
    char *cert_file, *key_file; /* a client certificate, or NULL */
};

/* The options that fill @config. */
struct gp_option_set_of kube_config_options(struct kube_config *config);
/* After the last option: what is missing comes from the pod.  -ENOENT: neither. */
int kube_config_finish(struct kube_config *config, struct gp_err *err);
void kube_config_fini(struct kube_config *config);

/* The namespace that this process runs in, "default" outside a cluster.  malloc'ed. */
char *kube_config_namespace(void);

#endif
