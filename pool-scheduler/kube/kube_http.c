/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_http.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_loop.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_config.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

struct kube_http {
    const struct kube_config *config;
    struct gp_loop *loop;
    struct gp_loop_timer timer;
    CURL *easy; /* of the calls that wait */
    CURLM *multi;
    CURL *both[2]; /* of two calls at a time, */
    CURLM *pair;   /* with connections of their own; NULL until needed */
};

/* A socket of libcurl's on the loop. */
struct http_socket {
    struct gp_loop_fd src;
    struct kube_http *http;
};

struct kube_stream_curl {
    struct kube_stream *stream; /* NULL: stopped while libcurl called us */
    struct kube_http *http;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    int failed; /* what on_data returned */
    char words[CURL_ERROR_SIZE];
};

void
kube_reply_fini(struct kube_reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}

/* ---------------------------------------------------------------- requests -- */

static struct curl_slist *
add_header(struct curl_slist *list, const char *name, const char *value)
{
    CLEANUP_FREE char *line = gp_str_printf("%s: %s", name, value);

    return line ? curl_slist_append(list, line) : list;
}

static struct curl_slist *
headers_of(const struct kube_http *http, const struct kube_request *req)
{
    struct curl_slist *list = add_header(NULL, "Accept", "application/json");
    CLEANUP_FREE char *token = NULL, *value = NULL;
    size_t len;

    if (req->body)
        list = add_header(list, "Content-Type",
                          req->content_type ? req->content_type : "application/json");
    list = add_header(list, "Expect", "");
    if (!http->config->token_file ||
        gp_file_read(http->config->token_file, KUBE_TOKEN_MAX, &token, &len, NULL) < 0)
        return list;
    token[strcspn(token, "\r\n")] = 0;
    value = gp_str_printf("Bearer %s", token);
    if (value)
        list = add_header(list, "Authorization", value);
    explicit_bzero(token, len);
    return list;
}

static int
set_request(const struct kube_http *http, CURL *easy, const struct kube_request *req,
            struct curl_slist *headers)
{
    const struct kube_config *config = http->config;
    CLEANUP_FREE char *url = gp_str_printf("%s%s", config->server, req->path);

    if (!url)
        return -ENOMEM;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, req->method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 3000L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "gpupool-kube/" GPUPOOL_VERSION);
    if (config->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, config->ca_file);
    if (config->cert_file)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, config->cert_file);
    if (config->key_file)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, config->key_file);
    if (req->body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)strlen(req->body));
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, req->body);
    }
    return 0;
}

static unsigned
retry_after(CURL *easy)
{
    curl_off_t seconds = 0;

    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
    return (unsigned)gp_min(seconds, (curl_off_t)60);
}

/* -------------------------------------------------------- calls that wait -- */

static size_t
collect(char *data, size_t size, size_t n, void *arg)
{
    struct kube_reply *reply = arg;
    char *more;

    if (reply->len + n > KUBE_BODY_MAX)
        return 0;
    more = realloc(reply->body, reply->len + n + 1);
    if (!more)
        return 0;
    memcpy(more + reply->len, data, n);
    reply->body = more;
    reply->len += n;
    more[reply->len] = '\0';
    return n;
}

/* One call that is waited for. */
struct waiting {
    CURL *easy;
    struct curl_slist *headers;
    struct kube_reply reply;
    char words[CURL_ERROR_SIZE];
    CURLcode code;
};

static bool
begin_call(struct kube_http *http, CURL *easy, const struct kube_request *req,
           struct waiting *call)
{
    memset(call, 0, sizeof(*call));
    call->easy = easy;
    call->code = CURLE_OUT_OF_MEMORY;
    call->headers = headers_of(http, req);
    if (!easy)
        return false;
    curl_easy_reset(easy); /* keeps the connection */
    if (set_request(http, easy, req, call->headers) < 0)
        return false;
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->words);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &call->reply);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)KUBE_CALL_TIMEOUT_MS);
    return true;
}

static int
end_call(struct kube_http *http, struct waiting *call, struct kube_reply *ret_reply,
         struct gp_err *err)
{
    curl_slist_free_all(call->headers);
    if (call->code != CURLE_OK) {
        kube_reply_fini(&call->reply);
        return gp_err_set(err,
                          call->code == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EHOSTUNREACH,
                          "API server %s: %s", http->config->server,
                          *call->words ? call->words : curl_easy_strerror(call->code));
    }
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->reply.status);
    call->reply.retry_after_s = retry_after(call->easy);
    if (!call->reply.body)
        call->reply.body = strdup("");
    *ret_reply = call->reply;
    return call->reply.body ? 0 : -ENOMEM;
}

int
kube_http_call(struct kube_http *http, const struct kube_request *req,
               struct kube_reply *ret_reply, struct gp_err *err)
{
    struct waiting call;

    if (begin_call(http, http->easy, req, &call))
        call.code = curl_easy_perform(http->easy);
    return end_call(http, &call, ret_reply, err);
}

/* Until each call is over; its own time limit ends one that is not answered. */
static void
perform_both(struct kube_http *http, struct waiting calls[2])
{
    CURLMsg *msg;
    int running = 1, left;

    while (running) {
        if (curl_multi_perform(http->pair, &running) != CURLM_OK ||
            (running && curl_multi_poll(http->pair, NULL, 0, 1000, NULL) != CURLM_OK))
            break;
    }
    while ((msg = curl_multi_info_read(http->pair, &left)))
        for (int i = 0; i < 2; i++)
            if (msg->msg == CURLMSG_DONE && msg->easy_handle == calls[i].easy)
                calls[i].code = msg->data.result;
}

void
kube_http_call_both(struct kube_http *http, const struct kube_request reqs[2],
                    struct kube_reply replies[2], int ret_results[2],
                    struct gp_err *errs)
{
    struct waiting calls[2];

    if (!http->pair)
        http->pair = curl_multi_init();
    for (int i = 0; i < 2; i++) {
        if (!http->both[i])
            http->both[i] = curl_easy_init();
        if (begin_call(http, http->both[i], &reqs[i], &calls[i]))
            curl_multi_add_handle(http->pair, calls[i].easy);
    }
    if (http->pair)
        perform_both(http, calls);
    for (int i = 0; i < 2; i++) {
        curl_multi_remove_handle(http->pair, calls[i].easy);
        ret_results[i] = end_call(http, &calls[i], &replies[i], &errs[i]);
    }
}

/* ---------------------------------------------------- libcurl on the loop -- */

static void
stream_free(struct kube_stream_curl *run)
{
    curl_multi_remove_handle(run->http->multi, run->easy);
    curl_easy_cleanup(run->easy);
    curl_slist_free_all(run->headers);
    free(run->body);
    free(run);
}

static void
stream_over(struct kube_stream_curl *run, CURLcode code)
{
    struct kube_stream *stream = run->stream;
    char words[CURL_ERROR_SIZE + 64];
    int r = code == CURLE_OK ? 0 : run->failed ? run->failed : -EHOSTUNREACH;

    snprintf(words, sizeof(words), "API server %s: %s", run->http->config->server,
             *run->words ? run->words : curl_easy_strerror(code));
    if (stream) {
        curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &stream->status);
        stream->retry_after_s = retry_after(run->easy);
        stream->running = NULL;
    }
    stream_free(run);
    if (stream)
        stream->on_end(stream, r, words);
}

static void
take_finished(struct kube_http *http)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(http->multi, &left))) {
        struct kube_stream_curl *run = NULL;

        if (msg->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&run);
        stream_over(run, msg->data.result);
    }
}

static void
on_socket(struct gp_loop_fd *src, uint32_t revents)
{
    struct kube_http *http = container_of(src, struct http_socket, src)->http;
    int action = 0, running;

    if (revents & (EPOLLIN | EPOLLHUP))
        action |= CURL_CSELECT_IN;
    if (revents & EPOLLOUT)
        action |= CURL_CSELECT_OUT;
    if (revents & EPOLLERR)
        action |= CURL_CSELECT_ERR;
    curl_multi_socket_action(http->multi, src->fd, action, &running);
    take_finished(http);
}

static void
on_timer(struct gp_loop_timer *timer)
{
    struct kube_http *http = container_of(timer, struct kube_http, timer);
    int running;

    curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_finished(http);
}

static int
set_timer(CURLM *multi, long ms, void *arg)
{
    struct kube_http *http = arg;

    if (ms < 0)
        gp_loop_timer_del(&http->timer);
    else
        gp_loop_timer_set(http->loop, &http->timer,
                          gp_now_ns() + (uint64_t)ms * GP_NS_PER_MS, on_timer);
    return 0;
}

static int
set_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct kube_http *http = arg;
    struct http_socket *socket = socket_arg;
    uint32_t events = 0;

    if (what == CURL_POLL_REMOVE) {
        if (socket)
            gp_loop_fd_del(&socket->src);
        free(socket);
        curl_multi_assign(http->multi, fd, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN)
        events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        events |= EPOLLOUT;
    if (socket)
        return gp_loop_fd_set(&socket->src, events) < 0 ? -1 : 0;
    socket = calloc(1, sizeof(*socket));
    if (!socket)
        return -1;
    socket->http = http;
    if (gp_loop_fd_add(http->loop, &socket->src, fd, events, on_socket) < 0) {
        free(socket);
        return -1;
    }
    curl_multi_assign(http->multi, fd, socket);
    return 0;
}

/* ----------------------------------------------------------------- streams -- */

static size_t
deliver(char *data, size_t size, size_t n, void *arg)
{
    struct kube_stream_curl *run = arg;

    if (!run->stream)
        return 0;
    if (!run->stream->status)
        curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &run->stream->status);
    run->failed = run->stream->on_data(run->stream, data, n);
    return run->failed ? 0 : n;
}

int
kube_stream_start(struct kube_http *http, struct kube_stream *stream,
                  const struct kube_request *given, unsigned idle_s, struct gp_err *err)
{
    struct kube_request req = *given;
    struct kube_stream_curl *run = calloc(1, sizeof(*run));

    if (!run)
        return -ENOMEM;
    run->stream = stream;
    run->http = http;
    run->easy = curl_easy_init();
    run->headers = headers_of(http, &req);
    run->body = req.body ? strdup(req.body) : NULL;
    req.body = run->body;
    if (!run->easy || set_request(http, run->easy, &req, run->headers) < 0) {
        curl_easy_cleanup(run->easy);
        curl_slist_free_all(run->headers);
        free(run->body);
        free(run);
        return gp_err_set(err, -ENOMEM, "no memory for a request");
    }
    curl_easy_setopt(run->easy, CURLOPT_ERRORBUFFER, run->words);
    curl_easy_setopt(run->easy, CURLOPT_WRITEFUNCTION, deliver);
    curl_easy_setopt(run->easy, CURLOPT_WRITEDATA, run);
    curl_easy_setopt(run->easy, CURLOPT_PRIVATE, run);
    if (idle_s) {
        curl_easy_setopt(run->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(run->easy, CURLOPT_LOW_SPEED_TIME, (long)idle_s);
    }
    stream->status = 0;
    stream->retry_after_s = 0;
    stream->running = run;
    curl_multi_add_handle(http->multi, run->easy);
    return 0;
}

void
kube_stream_stop(struct kube_stream *stream)
{
    struct kube_stream_curl *run = stream->running;

    if (!run)
        return;
    run->stream = NULL;
    stream->running = NULL;
    stream_free(run);
}

/* ------------------------------------------------------------ new and free -- */

int
kube_http_new(const struct kube_config *config, struct gp_loop *loop,
              struct kube_http **ret_http, struct gp_err *err)
{
    struct kube_http *http = calloc(1, sizeof(*http));

    if (!http)
        return -ENOMEM;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    http->config = config;
    http->loop = loop;
    http->easy = curl_easy_init();
    http->multi = curl_multi_init();
    if (!http->easy || !http->multi) {
        kube_http_free(http);
        return gp_err_set(err, -ENOMEM, "libcurl does not start");
    }
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    *ret_http = http;
    return 0;
}

/* Every stream has been stopped. */
void
kube_http_free(struct kube_http *http)
{
    if (!http)
        return;
    gp_loop_timer_del(&http->timer);
    if (http->easy)
        curl_easy_cleanup(http->easy);
    for (size_t i = 0; i < ARRAY_SIZE(http->both); i++)
        if (http->both[i])
            curl_easy_cleanup(http->both[i]);
    if (http->pair)
        curl_multi_cleanup(http->pair);
    if (http->multi)
        curl_multi_cleanup(http->multi);
    free(http);
}
