/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the JSON API as a request of the control protocol, and the reply as
 * JSON.
 *
 * Pure: what a path and its parameters mean, and what the answer looks like.  No state,
 * any thread.
 */
#ifndef VIEW_REQUEST_H
#define VIEW_REQUEST_H

#include "control.pb-c.h"
#include "gp_http.h"

#include <jansson.h>

struct gp_err;

/* Values of parameters; the longest are names of owners. */
#define VIEW_VALUE_MAX 128

struct view_request {
    Gpupool__Ctl__CtlRequest req;
    Gpupool__Ctl__CtlList list;
    Gpupool__Ctl__CtlQueueQuery queue;
    const struct view_endpoint *endpoint;
    /* What the messages point to. */
    char next[VIEW_VALUE_MAX], server[VIEW_VALUE_MAX], owner[VIEW_VALUE_MAX];
    char state[VIEW_VALUE_MAX];
};

/* -ENOENT: there is no such path.  -EINVAL: words say what is wrong with a parameter.
 */
int view_request_read(const struct gp_http_request *http, struct view_request *ret,
                      struct gp_err *err);
/* NULL: out of memory. */
json_t *view_request_json(const struct view_request *request,
                          const Gpupool__Ctl__CtlReply *reply);

#endif
