/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_http.h"

#include "gp_err.h"
#include "gp_str.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

/* ----------------------------------------------------------------- options -- */

static int
set_prefix(void *target, const struct gp_option *option, const char *value,
           struct gp_err *err)
{
    if (!*value || value[strlen(value) - 1] != '/')
        return gp_err_set(err, -EINVAL, "it ends with a slash");
    return gp_option_text(target, option, value, err);
}

#define FIELD(flag, text, field, setter, words_)                                       \
    {                                                                                  \
        .name = flag, .value = text, .help = words_, .set = setter,                    \
        .offset = offsetof(struct etcd_config, field)                                  \
    }

static const struct gp_option OPTIONS[] = {
    FIELD("etcd-prefix", "PREFIX", prefix, set_prefix, "of all keys (/gpupool/)"),
    FIELD("etcd-ca", "FILE", ca, gp_option_text, "for https: whom to trust"),
    FIELD("etcd-cert", "FILE", cert, gp_option_text, "and who this is"),
    FIELD("etcd-key", "FILE", key, gp_option_text, "with its key"),
};

struct gp_option_set_of
etcd_config_options(struct etcd_config *config)
{
    return (struct gp_option_set_of){OPTIONS, ARRAY_SIZE(OPTIONS), config};
}

#define STREAM_SILENCE_S 2L

struct etcd_http {
    const struct etcd_config *config;
    CURL *curl;
    char *urls; /* with NULs between */
    const char *members[ETCD_MEMBERS_MAX];
    unsigned n_members, at;
    char words[CURL_ERROR_SIZE];
};

/* What has arrived; of a stream, what is no whole line yet. */
struct answer {
    char *bytes;
    size_t len, cap;
    int (*line)(void *arg, json_t *message);
    bool (*stopped)(void *arg);
    void *arg;
};

int
etcd_http_new(const struct etcd_config *config, struct etcd_http **ret_http,
              struct gp_err *err)
{
    CLEANUP(etcd_http_freep) struct etcd_http *http = calloc(1, sizeof(*http));
    char *save = NULL;

    if (!http)
        return -ENOMEM;
    http->config = config;
    http->curl = curl_easy_init();
    http->urls = strdup(config->urls);
    if (!http->curl || !http->urls)
        return -ENOMEM;
    for (char *url = strtok_r(http->urls, ",", &save); url;
         url = strtok_r(NULL, ",", &save)) {
        if (http->n_members == ETCD_MEMBERS_MAX ||
            (strncmp(url, "http://", 7) && strncmp(url, "https://", 8)))
            return gp_err_set(err, -EINVAL,
                              "etcd: %s: at most %d addresses like http://HOST:2379 or "
                              "https://HOST:2379 are wanted, with commas between",
                              config->urls, ETCD_MEMBERS_MAX);
        http->members[http->n_members++] = url;
    }
    if (!http->n_members)
        return gp_err_set(err, -EINVAL, "etcd: no address");
    *ret_http = TAKE_PTR(http);
    return 0;
}

void
etcd_http_free(struct etcd_http *http)
{
    if (!http)
        return;
    curl_easy_cleanup(http->curl);
    free(http->urls);
    free(http);
}

void
etcd_http_other(struct etcd_http *http)
{
    http->at = (http->at + 1) % http->n_members;
}

static size_t
on_data(char *data, size_t one, size_t len, void *arg)
{
    struct answer *a = arg;
    char *end;

    if (a->len + len > ETCD_ANSWER_MAX)
        return 0;
    if (a->len + len + 1 > a->cap) {
        size_t cap = gp_max(2 * a->cap, a->len + len + 1);
        char *bytes = realloc(a->bytes, cap);

        if (!bytes)
            return 0;
        a->bytes = bytes;
        a->cap = cap;
    }
    memcpy(a->bytes + a->len, data, len);
    a->len += len;
    while (a->line && (end = memchr(a->bytes, '\n', a->len))) {
        size_t size = (size_t)(end - a->bytes) + 1;
        json_t *message = json_loadb(a->bytes, size, 0, NULL);
        int r = message ? a->line(a->arg, message) : -EPROTO;

        json_decref(message);
        if (r)
            return 0;
        memmove(a->bytes, a->bytes + size, a->len - size);
        a->len -= size;
    }
    return one * len;
}

static int
on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct answer *answer = arg;

    (void)a, (void)b, (void)c, (void)d;
    return answer->stopped && answer->stopped(answer->arg);
}

static int
post(struct etcd_http *http, const char *path, const char *body, unsigned timeout_ms,
     struct answer *answer, long *ret_status)
{
    const struct etcd_config *c = http->config;
    CLEANUP_FREE char *url = gp_str_printf("%s%s", http->members[http->at], path);
    CURL *curl = http->curl;
    CURLcode code;

    if (!url)
        return CURLE_OUT_OF_MEMORY;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 500L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, answer);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, answer->stopped ? 0L : 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, http->words);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    /* A stream from a member that stands still looks like one with nothing to report:
     * after a while it is begun again, from another member. */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, timeout_ms ? 0L : STREAM_SILENCE_S);
    if (c->ca)
        curl_easy_setopt(curl, CURLOPT_CAINFO, c->ca);
    if (c->cert)
        curl_easy_setopt(curl, CURLOPT_SSLCERT, c->cert);
    if (c->key)
        curl_easy_setopt(curl, CURLOPT_SSLKEY, c->key);
    http->words[0] = '\0';
    code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, ret_status);
    return (int)code;
}

/* What to do about a refusal that no scheduler can mend; "" for others. */
static const char *
remedy(const char *words)
{
    return words && strstr(words, "database space exceeded")
               ? " (its quota is used up: compact and defragment it, or raise "
                 "--quota-backend-bytes; then etcdctl alarm disarm)"
               : "";
}

static int
read_answer(const struct answer *answer, long status, json_t **ret_reply,
            struct gp_err *err)
{
    json_t *reply =
        json_loadb(answer->bytes ? answer->bytes : "", answer->len, 0, NULL);
    const char *words = json_string_value(json_object_get(reply, "error"));
    int r = 0;

    if (!reply || !json_is_object(reply))
        r = gp_err_set(err, -EIO, "etcd: an answer that is no JSON (status %ld)",
                       status);
    else if (status != 200) /* 503: it has no leader; 504: it was too slow */
        r = gp_err_set(err, status >= 500 ? -EIO : -EREMOTE, "etcd: %.300s%s",
                       words ? words : "refused", remedy(words));
    if (r < 0)
        json_decref(reply);
    else
        *ret_reply = reply;
    return r;
}

int
etcd_http_call(struct etcd_http *http, const char *path, json_t *body,
               unsigned timeout_ms, json_t **ret_reply, struct gp_err *err)
{
    CLEANUP_FREE char *text = json_dumps(body, JSON_COMPACT);
    int r = -EIO;

    json_decref(body);
    if (!text)
        return -ENOMEM;
    for (unsigned i = 0; r == -EIO && i < http->n_members; i++) {
        struct answer answer = {0};
        long status = 0;

        if (post(http, path, text, timeout_ms, &answer, &status))
            r = gp_err_set(err, -EIO, "etcd %s: %s", http->members[http->at],
                           http->words);
        else
            r = read_answer(&answer, status, ret_reply, err);
        free(answer.bytes);
        if (r == -EIO)
            etcd_http_other(http);
    }
    return r;
}

int
etcd_http_stream(struct etcd_http *http, const char *path, json_t *body,
                 int (*line)(void *arg, json_t *message), bool (*stopped)(void *arg),
                 void *arg, struct gp_err *err)
{
    CLEANUP_FREE char *text = json_dumps(body, JSON_COMPACT);
    struct answer answer = {.line = line, .stopped = stopped, .arg = arg};
    long status = 0;

    json_decref(body);
    if (!text)
        return -ENOMEM;
    post(http, path, text, 0, &answer, &status);
    free(answer.bytes);
    return gp_err_set(err, -EIO, "etcd %s: %s", http->members[http->at],
                      http->words[0] ? http->words : "the stream ended");
}

/* -------------------------------------------------------------------- JSON -- */

json_t *
etcd_bytes(const void *data, size_t size)
{
    CLEANUP_FREE char *text = malloc(4 * ((size + 2) / 3) + 1);

    if (!text)
        return NULL;
    EVP_EncodeBlock((unsigned char *)text, data, (int)size);
    return json_string(text);
}

json_t *
etcd_key(const struct etcd_http *http, const char *key)
{
    CLEANUP_FREE char *whole = gp_str_printf("%s%s", http->config->prefix, key);

    return whole ? etcd_bytes(whole, strlen(whole)) : NULL;
}

uint8_t *
etcd_bytes_read(const json_t *text, size_t *ret_size)
{
    const char *chars = json_string_value(text);
    size_t len = chars ? strlen(chars) : 0;
    uint8_t *bytes = malloc(len / 4 * 3 + 1);
    int n;

    if (!bytes || len % 4) {
        free(bytes);
        return NULL;
    }
    n = len ? EVP_DecodeBlock(bytes, (const unsigned char *)chars, (int)len) : 0;
    if (n < 0) {
        free(bytes);
        return NULL;
    }
    while (len && chars[len - 1] == '=' && n) {
        len--;
        n--;
    }
    bytes[n] = '\0';
    *ret_size = (size_t)n;
    return bytes;
}

int64_t
etcd_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);

    return text ? strtoll(text, NULL, 10) : (int64_t)json_integer_value(value);
}

/* ---------------------------------------------------------------- requests -- */

json_t *
etcd_range_end(const char *prefix)
{
    CLEANUP_FREE char *end = gp_str_printf("%s", prefix);

    if (!end)
        return NULL;
    end[strlen(end) - 1]++;
    return etcd_bytes(end, strlen(end));
}

json_t *
etcd_compare(json_t *key, const char *target, const char *field, int64_t revision)
{
    return json_pack("{s:o,s:s,s:s,s:I}", "key", key, "target", target, "result",
                     "EQUAL", field, (json_int_t)revision);
}

json_t *
etcd_request_put(const struct etcd_http *http, const char *key, const void *value,
                 size_t size)
{
    return json_pack("{s:{s:o,s:o}}", "requestPut", "key", etcd_key(http, key), "value",
                     etcd_bytes(value, size));
}

json_t *
etcd_request_get(const struct etcd_http *http, const char *key)
{
    return json_pack("{s:{s:o}}", "requestRange", "key", etcd_key(http, key));
}

const json_t *
etcd_range_record(const json_t *reply, size_t i)
{
    const json_t *one = json_array_get(json_object_get(reply, "responses"), i);

    return json_array_get(
        json_object_get(json_object_get(one, "response_range"), "kvs"), 0);
}
