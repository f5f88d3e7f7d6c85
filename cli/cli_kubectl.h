/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubectl as the way to a cluster: it has the user's credentials in whatever form, so
 * the command line needs none of its own.  Blocking; one thread.
 */
#ifndef CLI_KUBECTL_H
#define CLI_KUBECTL_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;

#define CLI_KUBECTL_ARGS_MAX 24

/* Run kubectl with @args (a NULL at the end), @input on its standard input (NULL:
 * none). With @ret_output its output is the caller's, else it goes to ours.
 *
 * 0, or -EREMOTE with what it said on standard error; -ENOENT: there is no kubectl. */
int cli_kubectl(const char *const *args, const char *input, char **ret_output,
                struct gp_err *err);
/* The same, as JSON; "-o json" is added.  -ENODATA: with --ignore-not-found, there is
 * no such object. */
int cli_kubectl_json(const char *const *args, json_t **ret, struct gp_err *err);

#endif
