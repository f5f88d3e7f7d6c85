/* SPDX-License-Identifier: Apache-2.0 */
#include "view_request.h"

#include "ctl_json.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum parameter {
    LIMIT = 1,
    CONTINUE = 2,
    SERVER = 4,
    OWNER = 8,
    STATE = 16,
    SLICES = 32,
    SPAN = 64,
    DAYS = 128,
};

struct view_endpoint {
    const char *path;
    unsigned parameters;
    Gpupool__Ctl__CtlListKind kind; /* unless it is the queue */
    json_t *(*json)(const struct view_request *request,
                    const Gpupool__Ctl__CtlReply *reply);
};

/* -------------------------------------------------------------------- JSON -- */

/* A page: its rows, and where the next one begins. */
static json_t *
page_json(json_t *rows, const Gpupool__Ctl__CtlListReply *list)
{
    return json_pack("{s:o, s:s}", "items", rows, "continue", list->next);
}

static json_t *
status_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    return reply->list->pool ? ctl_json_pool(reply->list->pool) : NULL;
}

static json_t *
servers_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < reply->list->n_servers; i++)
        json_array_append_new(rows, ctl_json_server(reply->list->servers[i]));
    return page_json(rows, reply->list);
}

static json_t *
cards_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    const Gpupool__Ctl__CtlListReply *list = reply->list;
    json_t *rows = json_array();

    for (size_t i = 0; i < list->n_servers; i++)
        for (size_t k = 0; k < list->servers[i]->n_cards; k++)
            json_array_append_new(
                rows, ctl_json_card(list->servers[i], list->servers[i]->cards[k],
                                    request->list.with_sessions ? list : NULL));
    return page_json(rows, list);
}

static json_t *
sessions_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < reply->list->n_sessions; i++)
        json_array_append_new(rows, ctl_json_session(reply->list->sessions[i]));
    return page_json(rows, reply->list);
}

static json_t *
events_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < reply->list->n_events; i++)
        json_array_append_new(rows, ctl_json_event(reply->list->events[i]));
    return page_json(rows, reply->list);
}

static json_t *
usage_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < reply->list->n_tenants; i++)
        json_array_append_new(rows, ctl_json_tenant(reply->list->tenants[i]));
    return page_json(rows, reply->list);
}

static json_t *
history_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < reply->list->n_samples; i++)
        json_array_append_new(rows, ctl_json_sample(reply->list->samples[i]));
    return page_json(rows, reply->list);
}

static json_t *
account_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < reply->list->n_accounts; i++)
        json_array_append_new(rows, ctl_json_account(reply->list->accounts[i]));
    return page_json(rows, reply->list);
}

static json_t *
pools_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < reply->list->n_pools; i++)
        json_array_append_new(rows, ctl_json_other_pool(reply->list->pools[i]));
    return page_json(rows, reply->list);
}

static json_t *
queue_json(const struct view_request *request, const Gpupool__Ctl__CtlReply *reply)
{
    json_t *rows = json_array(), *reserved = json_array();

    for (size_t i = 0; i < reply->queue->n_waiters; i++)
        json_array_append_new(rows, ctl_json_waiter(reply->queue->waiters[i]));
    for (size_t i = 0; i < reply->queue->n_reservations; i++)
        json_array_append_new(reserved,
                              ctl_json_reservation(reply->queue->reservations[i],
                                                   gp_wall_ns() / GP_NS_PER_S));
    return json_pack("{s:o, s:I, s:o}", "items", rows, "waiting",
                     (json_int_t)reply->queue->waiting, "reservations", reserved);
}

static const char *
source_name(Gpupool__Ctl__CtlSource source)
{
    switch (source) {
    case GPUPOOL__CTL__CTL_SOURCE__CTL_SOURCE_LEADER:
        return "leader";
    case GPUPOOL__CTL__CTL_SOURCE__CTL_SOURCE_COPY:
        return "copy";
    default:
        return "own";
    }
}

/* --------------------------------------------------------------- endpoints -- */

#define KIND(name) GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_##name

static const struct view_endpoint endpoints[] = {
    {"status", 0, KIND(POOL), status_json},
    {"servers", LIMIT | CONTINUE | SERVER | STATE, KIND(SERVERS), servers_json},
    {"cards", LIMIT | CONTINUE | SERVER | STATE | SLICES, KIND(CARDS), cards_json},
    {"sessions", LIMIT | CONTINUE | SERVER | OWNER | STATE, KIND(SESSIONS),
     sessions_json},
    {"events", LIMIT | CONTINUE | SERVER | OWNER, KIND(EVENTS), events_json},
    {"usage", LIMIT | CONTINUE, KIND(TENANTS), usage_json},
    {"history", SPAN, KIND(HISTORY), history_json},
    {"account", LIMIT | CONTINUE | OWNER | DAYS, KIND(ACCOUNT), account_json},
    {"pools", 0, KIND(POOLS), pools_json},
    {"queue", LIMIT, KIND(POOL), queue_json},
};

static const struct view_endpoint *
find_endpoint(const char *path)
{
    static const char prefix[] = "/api/v1/";

    if (strncmp(path, prefix, sizeof(prefix) - 1) != 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++)
        if (!strcmp(endpoints[i].path, path + sizeof(prefix) - 1))
            return &endpoints[i];
    return NULL;
}

/* -------------------------------------------------------------- parameters -- */

struct reading {
    struct view_request *request;
    struct gp_err *err;
    int r;
};

static const struct {
    const char *name;
    enum parameter parameter;
    size_t offset; /* of its text in struct view_request; 0: it is no text */
} parameters[] = {
    {"limit", LIMIT, 0},
    {"continue", CONTINUE, offsetof(struct view_request, next)},
    {"server", SERVER, offsetof(struct view_request, server)},
    {"owner", OWNER, offsetof(struct view_request, owner)},
    {"state", STATE, offsetof(struct view_request, state)},
    {"slices", SLICES, 0},
    {"span", SPAN, 0},
    {"since", DAYS, offsetof(struct view_request, list.from_day)},
    {"until", DAYS, offsetof(struct view_request, list.to_day)},
};

/* "2026-11-23" */
static int
read_day(const char *value, uint32_t *ret)
{
    unsigned year, month, day;
    int end = 0;

    if (sscanf(value, "%4u-%2u-%2u%n", &year, &month, &day, &end) != 3 || value[end] ||
        !year || !month || month > 12 || !day || day > 31)
        return -EINVAL;
    *ret = year * 10000 + month * 100 + day;
    return 0;
}

static int
read_value(struct reading *reading, size_t i, const char *value)
{
    struct view_request *request = reading->request;
    uint64_t limit;

    switch (parameters[i].parameter) {
    case LIMIT:
        if (gp_str_u64(value, 1, CTL_LIST_MAX, &limit) < 0)
            return gp_err_set(reading->err, -EINVAL,
                              "limit: a number from 1 to %d is wanted", CTL_LIST_MAX);
        request->list.most = request->queue.most = (uint32_t)limit;
        return 0;
    case SLICES:
        request->list.with_sessions = !strcmp(value, "true");
        return request->list.with_sessions || !strcmp(value, "false")
                   ? 0
                   : gp_err_set(reading->err, -EINVAL, "slices: true or false");
    case DAYS:
        return read_day(value, (uint32_t *)(void *)((char *)request +
                                                    parameters[i].offset)) < 0
                   ? gp_err_set(reading->err, -EINVAL,
                                "%s: a day like 2026-11-23 is wanted",
                                parameters[i].name)
                   : 0;
    case SPAN:
        request->list.week = !strcmp(value, "week");
        return request->list.week || !strcmp(value, "hour")
                   ? 0
                   : gp_err_set(reading->err, -EINVAL, "span: hour or week");
    default:
        if (gp_str_copy((char *)request + parameters[i].offset, VIEW_VALUE_MAX, value))
            return 0;
        return gp_err_set(reading->err, -EINVAL, "%s: at most %d characters",
                          parameters[i].name, VIEW_VALUE_MAX - 1);
    }
}

static bool
on_parameter(void *arg, const char *name, const char *value)
{
    struct reading *reading = arg;
    const struct view_endpoint *endpoint = reading->request->endpoint;

    for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
        if (!strcmp(parameters[i].name, name) &&
            (endpoint->parameters & parameters[i].parameter)) {
            reading->r = read_value(reading, i, value);
            return reading->r == 0;
        }
    reading->r = gp_err_set(reading->err, -EINVAL,
                            "%s has no such parameter; see /api/v1/openapi.json",
                            endpoint->path);
    return false;
}

int
view_request_read(const struct gp_http_request *http, struct view_request *ret,
                  struct gp_err *err)
{
    struct reading reading = {.request = ret, .err = err};

    memset(ret, 0, sizeof(*ret));
    ret->endpoint = find_endpoint(http->path);
    if (!ret->endpoint)
        return gp_err_set(err, -ENOENT, "no such path; see /api/v1/openapi.json");
    gpupool__ctl__ctl_request__init(&ret->req);
    gpupool__ctl__ctl_list__init(&ret->list);
    gpupool__ctl__ctl_queue_query__init(&ret->queue);
    ret->queue.most = CTL_LIST_DEFAULT;
    ret->list.kind = ret->endpoint->kind;
    ret->list.next = ret->next;
    ret->list.server = ret->server;
    ret->list.owner = ret->owner;
    ret->list.state = ret->state;
    gp_http_query(http, on_parameter, &reading);
    if (ret->endpoint->json == queue_json) {
        ret->req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE;
        ret->req.queue = &ret->queue;
    } else {
        ret->req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_LIST;
        ret->req.list = &ret->list;
    }
    return reading.r;
}

json_t *
view_request_json(const struct view_request *request,
                  const Gpupool__Ctl__CtlReply *reply)
{
    json_t *json = request->endpoint->json(request, reply);

    json_object_set_new(json, "source", json_string(source_name(reply->source)));
    json_object_set_new(json, "age_ms", json_integer((json_int_t)reply->age_ms));
    return json;
}
