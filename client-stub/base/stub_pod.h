/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of a container in Kubernetes: asked for at the scheduler with the pod's
 * own token, each time a process attaches.
 *
 *   GPUPOOL_POD_TOKEN_FILE=path   the projected service-account token
 *   GPUPOOL_CLAIM=name            the ElasticGPUClaim, in the token's namespace
 *   GPUPOOL_SCHEDULER=host:port   or several, with commas between
 *
 * No state; any thread.
 */
#ifndef STUB_POD_H
#define STUB_POD_H

#include <stdbool.h>

struct gp_err;

bool stub_pod_named(void);
/* The text of a session file (gpupool-session(5)), malloc'ed.  It waits up to 20 s for
 * a claim that is being bound. */
int stub_pod_session(char **ret_text, struct gp_err *err);

#endif
