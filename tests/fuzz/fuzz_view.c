/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the scheduler's JSON API, after libmicrohttpd has taken its head apart:
 * a path and parameters of any bytes, lines of the input.  Behind an empty line is a
 * reply of the control protocol, which the scheduler makes itself, written as JSON.
 */
#include "view_request.h"

#include "gp_err.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARAMETERS_MAX 8

static char *names[PARAMETERS_MAX], *values[PARAMETERS_MAX];
static unsigned n_parameters;

void
gp_http_query(const struct gp_http_request *request,
              bool (*fn)(void *arg, const char *name, const char *value), void *arg)
{
    (void)request;
    for (unsigned i = 0; i < n_parameters; i++)
        if (!fn(arg, names[i], values[i]))
            return;
}

const char *
gp_http_header(const struct gp_http_request *request, const char *name)
{
    (void)request, (void)name;
    return NULL;
}

/* The next line of *@at, without its end; "" at the end of the text. */
static char *
line(char **at)
{
    char *from = *at, *end = strchr(from, '\n');

    *at = end ? end + 1 : from + strlen(from);
    if (end)
        *end = 0;
    return from;
}

/* The scheduler answers what was asked: another kind of reply is an empty one here. */
static void
answer(const struct view_request *request, const uint8_t *data, size_t size)
{
    Gpupool__Ctl__CtlListReply list = GPUPOOL__CTL__CTL_LIST_REPLY__INIT;
    Gpupool__Ctl__CtlQueueReply queue = GPUPOOL__CTL__CTL_QUEUE_REPLY__INIT;
    Gpupool__Ctl__CtlReply *reply = gpupool__ctl__ctl_reply__unpack(NULL, size, data);
    Gpupool__Ctl__CtlReply full;

    if (!reply)
        return;
    full = *reply;
    if (request->req.body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE &&
        full.body_case != GPUPOOL__CTL__CTL_REPLY__BODY_QUEUE)
        full.queue = &queue;
    if (request->req.body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_LIST &&
        full.body_case != GPUPOOL__CTL__CTL_REPLY__BODY_LIST)
        full.list = &list;
    json_decref(view_request_json(request, &full));
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *empty = memmem(data, size, "\n\n", 2);
    size_t head = empty ? (size_t)(empty - data) : size;
    char *text = malloc(head + 1), *at = text;
    struct gp_http_request http = {.method = "GET", .fd = -1};
    struct view_request request;
    struct gp_err err = {0};

    memcpy(text, data, head);
    text[head] = 0;
    http.path = line(&at);
    for (n_parameters = 0; *at && n_parameters < PARAMETERS_MAX; n_parameters++) {
        char *name = line(&at), *equals = strchr(name, '=');

        if (equals)
            *equals = 0;
        names[n_parameters] = name;
        values[n_parameters] = equals ? equals + 1 : (char *)"";
    }
    if (view_request_read(&http, &request, &err) == 0)
        answer(&request, data + head + (empty ? 2 : 0), size - head - (empty ? 2 : 0));
    else if (!err.msg[0])
        __builtin_trap(); /* a refusal without words */
    free(text);
    return 0;
}
