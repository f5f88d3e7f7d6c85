/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to etcd over its JSON gateway (/v3/...), with libcurl.
 *
 * A struct etcd_http is one connection with a memory of which member answered last;
 * each thread has its own.  Calls wait.  It knows the form of requests, not what is
 * kept.
 */
#ifndef ETCD_HTTP_H
#define ETCD_HTTP_H

#include "gp_base.h"
#include "gp_option.h"

#include <jansson.h>

struct gp_err;
struct etcd_http;

/* A cluster has 3, 5 or 7 members. */
#define ETCD_MEMBERS_MAX 16
/* An answer holds up to ETCD_PAGE records, or one transaction. */
#define ETCD_ANSWER_MAX (64u * 1024 * 1024)

struct etcd_config {
    const char *urls;            /* "http://a:2379,http://b:2379" */
    const char *ca, *cert, *key; /* files in PEM, or NULL */
    const char *prefix;          /* of all keys: "/gpupool/" */
    const char *advertise;       /* where clients and servers reach this scheduler */
    unsigned lease_s;            /* what a leader that is gone holds the others up */
};

/* The options that say whose etcd it is, and under which keys; not where it is. */
struct gp_option_set_of etcd_config_options(struct etcd_config *config);

/* @config outlives it. */
int etcd_http_new(const struct etcd_config *config, struct etcd_http **ret_http,
                  struct gp_err *err);
void etcd_http_free(struct etcd_http *http); /* NULL is a no-op */
DEFINE_CLEANUP(struct etcd_http, etcd_http_free)

/* POST @body to a member; the others are tried when one does not answer.  Takes the
 * reference to @body.  -ETIMEDOUT or -EIO: it is not known whether it was done.
 * -EREMOTE: etcd refused. */
int etcd_http_call(struct etcd_http *http, const char *path, json_t *body,
                   unsigned timeout_ms, json_t **ret_reply, struct gp_err *err);

/* A call whose answer does not end: @line is called with each message, returns non-zero
 * to end it.  @stopped is asked some times a second. */
int etcd_http_stream(struct etcd_http *http, const char *path, json_t *body,
                     int (*line)(void *arg, json_t *message),
                     bool (*stopped)(void *arg), void *arg, struct gp_err *err);
/* The next call goes to another member. */
void etcd_http_other(struct etcd_http *http);

/* Bytes as JSON strings: standard base64.  A key is config->prefix and @key. */
json_t *etcd_bytes(const void *data, size_t size);
json_t *etcd_key(const struct etcd_http *http, const char *key);
/* malloc'ed, terminated; NULL: not base64. */
uint8_t *etcd_bytes_read(const json_t *text, size_t *ret_size);
/* Numbers of 64 bits come as strings. */
int64_t etcd_number(const json_t *object, const char *name);

/* The key after all keys with the prefix. */
json_t *etcd_range_end(const char *prefix);
/* Parts of a transaction: a comparison of a revision of @key, whose reference it takes
 * (@target "CREATE" or "MOD", @field that revision's name), a put, a get. */
json_t *etcd_compare(json_t *key, const char *target, const char *field,
                     int64_t revision);
json_t *etcd_request_put(const struct etcd_http *http, const char *key,
                         const void *value, size_t size);
json_t *etcd_request_get(const struct etcd_http *http, const char *key);
/* The only record of the range at @i of a transaction's answer, or NULL. */
const json_t *etcd_range_record(const json_t *reply, size_t i);

#endif
