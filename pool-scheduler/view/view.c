/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include "gp_audit.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_http.h"
#include "gp_listener.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_list.h"
#include "sched_reads.h"
#include "sched_relay.h"
#include "sched_replica.h"
#include "sched_wait.h"
#include "tls_pem.h"
#include "view_call.h"
#include "view_files.h"
#include "view_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

/* A chain of certificates is a few KiB. */
#define PEM_MAX ((size_t)64 * 1024)

/* Of a certificate and its key; NULL: clear text. */
struct pems {
    char *cert, *key;
};

struct view {
    struct sched *sched;
    struct pems pems; /* that the thread shows or will show; the scheduler's loop */
    struct view_calls calls; /* from the thread to the scheduler's loop */
    bool local;              /* listens on loopback in clear text */
    struct gp_log_limit accept_log;
    struct gp_loop *loop; /* the thread's */
    struct gp_http *http;
    struct gp_loop_fd wake; /* an eventfd: there is news for the thread */
    int wake_fd;
    pthread_mutex_t lock;      /* of the news */
    bool stop;                 /* the thread ends */
    struct gp_http_cert *cert; /* that it is to use; NULL: the one in use */
    pthread_t thread;
    bool running;
};

/* ------------------------------------------------- on the scheduler's loop -- */

/* One question of the thread's, and what the scheduler's loop makes of it. */
struct question {
    struct view *view;
    const struct view_request *request;
    int fd;
    const char *token; /* shown; "": none */
    unsigned status;   /* 200, or why not, with words */
    uint32_t retry_ms; /* 429 */
    char words[sizeof(((struct gp_err *)NULL)->msg)];
    uint8_t *packed; /* a CtlReply */
    size_t size;
    struct view_call *call; /* while the leader is asked */
};

static void
refuse(struct question *q, unsigned status, const char *words)
{
    q->status = status;
    snprintf(q->words, sizeof(q->words), "%s", words);
}

static bool
too_often(struct question *q, uint64_t wait, const char *words)
{
    if (!wait)
        return false;
    q->retry_ms = gp_rate_ms(wait);
    refuse(q, 429, words);
    return true;
}

/* The same limits and the same roles as for peers of the control protocol. */
static bool
may_look(struct question *q, struct sched_conn *who)
{
    struct sched *sched = q->view->sched;
    uint64_t now = gp_now_ns();

    who->own_user = sched_auth_peer(q->fd, who->peer, sizeof(who->peer));
    if (who->own_user)
        return true;
    if (too_often(q, gp_rate_take(&sched->rates.requests, who->from, now),
                  "too many requests from this address"))
        return false;
    if (sched->config.http_public)
        return true;
    if (*q->token && too_often(q, gp_rate_wait(&sched->rates.denials, who->from, now),
                               "too many wrong tokens from this address"))
        return false;
    if (sched_auth_allowed(who, SCHED_MAY_READ, q->token))
        return true;
    if (*q->token) {
        gp_rate_take(&sched->rates.denials, who->from, now);
        gp_audit_deny("denied", "from", who->peer, "words", "wrong token over HTTP",
                      NULL);
    }
    refuse(q, 401,
           *q->token ? "wrong token: one that may read is wanted"
                     : "show the pool's client token as \"Authorization: Bearer "
                       "TOKEN\"");
    return false;
}

static void
pack(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    struct question *q = arg;

    reply->id = 1;
    q->size = gpupool__ctl__ctl_reply__get_packed_size(reply);
    q->packed = malloc(q->size);
    if (q->packed)
        gpupool__ctl__ctl_reply__pack(reply, q->packed);
}

static void
answer_here(struct question *q)
{
    const struct sched *sched = q->view->sched;
    const Gpupool__Ctl__CtlRequest *req = &q->request->req;
    struct gp_err err = {0};
    const char *leader;
    int r;

    if (!sched_replica_knows(sched, req, &leader, &err)) {
        refuse(q, 503, err.msg);
        return;
    }
    if (req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE)
        r = sched_queue_list(sched, req->queue, pack, q);
    else
        r = sched_list(sched, req->list, pack, q, &err);
    if (r == -EINVAL)
        refuse(q, 400, gp_err_msg(&err, r));
    else if (r < 0 || !q->packed)
        refuse(q, 503, "the scheduler is out of memory");
}

static void
refuse_as_leader(struct question *q, const Gpupool__Ctl__CtlError *error)
{
    q->retry_ms = error->retry_after_ms;
    refuse(q,
           error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST ? 400
           : error->code == GPUPOOL__CTL__CTL_CODE__CTL_DENIED    ? 401
           : error->retry_after_ms                                ? 429
                                                                  : 503,
           error->words);
}

static void
on_leader_answer(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    struct question *q = arg;

    if (!reply)
        answer_here(q);
    else if (reply->error)
        refuse_as_leader(q, reply->error);
    else
        pack(q, reply);
    if (reply && !reply->error && !q->packed)
        refuse(q, 503, "the scheduler is out of memory");
    view_calls_end(&q->view->calls, q->call);
}

/* The view's thread waits, and the loop does not. */
static bool
ask_leader(struct question *q, const struct sched_conn *who)
{
    const Gpupool__Ctl__CtlRequest *req = &q->request->req;
    struct sched_relay_ask *ask;
    int r;

    if (!sched_relay_can(who->sched, req))
        return false;
    r = sched_relay_ask(who, q->fd, req, on_leader_answer, q, &ask);
    if (r == -EBUSY)
        too_often(q, 100 * GP_NS_PER_MS,
                  "too many questions wait for the scheduler that leads");
    else if (!r)
        q->call = view_calls_defer(&q->view->calls);
    return !r || r == -EBUSY;
}

static void
answer_question(void *arg)
{
    struct question *q = arg;
    struct sched *sched = q->view->sched;
    struct sched_conn who = {.sched = sched, .from = gp_net_peer_hash(q->fd)};
    uint64_t begin;

    if (!may_look(q, &who) ||
        (!who.own_user && too_often(q, sched_reads_wait(sched, sched_reads_who(&who)),
                                    "too many or too large requests")) ||
        ask_leader(q, &who))
        return;
    begin = sched_reads_begin();
    answer_here(q);
    sched_reads_charge(sched, sched_reads_who(&who), begin);
}

static void
do_nothing(void *arg)
{
    (void)arg;
}

/* ----------------------------------------------------------- on the thread -- */

/* Nothing of the page comes from elsewhere, nothing of it is kept, and no other page
 * holds it in a frame. */
static const char *const HEADERS[] = {
    "Content-Security-Policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options",
    "nosniff",
    "Referrer-Policy",
    "no-referrer",
    "Cache-Control",
    "no-store",
    NULL,
};
static const char *const HEADERS_401[] = {
    "WWW-Authenticate",
    "Bearer realm=\"gpupool\"",
    "X-Content-Type-Options",
    "nosniff",
    "Cache-Control",
    "no-store",
    NULL,
};

static void
put_json(struct gp_http_answer *answer, json_t *json)
{
    answer->type = "application/json";
    if (!json) {
        answer->status = 503;
        fputs("{\"error\": {\"status\": 503, \"message\": \"out of memory\"}}\n",
              answer->body);
        return;
    }
    json_dumpf(json, answer->body, JSON_COMPACT);
    fputc('\n', answer->body);
    json_decref(json);
}

static void
put_error(struct gp_http_answer *answer, unsigned status, const char *words)
{
    answer->status = status;
    if (status == 401)
        answer->more = HEADERS_401;
    put_json(answer, json_pack("{s:{s:i, s:s}}", "error", "status", (int)status,
                               "message", words));
}

static void
put_reply(struct gp_http_answer *answer, const struct question *q)
{
    Gpupool__Ctl__CtlReply *reply =
        gpupool__ctl__ctl_reply__unpack(NULL, q->size, q->packed);

    put_json(answer, reply ? view_request_json(q->request, reply) : NULL);
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}

static const char *
bearer(const struct gp_http_request *request)
{
    const char *header = gp_http_header(request, "Authorization");

    return header && !strncasecmp(header, "Bearer ", 7) ? header + 7 : "";
}

static void
serve_api(struct view *view, const struct gp_http_request *http,
          struct gp_http_answer *answer)
{
    struct view_request request;
    struct question q = {.view = view,
                         .request = &request,
                         .fd = http->fd,
                         .token = bearer(http),
                         .status = 200};
    struct gp_err err = {0};
    int r = view_request_read(http, &request, &err);

    if (r < 0) {
        put_error(answer, r == -ENOENT ? 404 : 400, gp_err_msg(&err, r));
        return;
    }
    if (!view_calls_do(&view->calls, answer_question, &q))
        refuse(&q, 503, "the scheduler is stopping");
    if (q.retry_ms)
        snprintf(answer->retry_after, sizeof(answer->retry_after), "%u",
                 (q.retry_ms + 999) / 1000);
    if (q.status == 200)
        put_reply(answer, &q);
    else
        put_error(answer, q.status, q.words);
    free(q.packed);
}

/*
 * A page of another site could have its name resolve to 127.0.0.1 and read, by the
 * user's browser, what is served there (DNS rebinding).  It cannot make the browser
 * name another host, so on loopback only names of loopback are answered.
 */
static bool
host_is_ours(const struct view *view, const struct gp_http_request *request)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host = gp_http_header(request, "Host");

    if (!view->local || !host)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t len = strlen(names[i]);

        if (!strncasecmp(host, names[i], len) && (!host[len] || host[len] == ':'))
            return true;
    }
    return false;
}

static void
on_request(void *arg, const struct gp_http_request *request,
           struct gp_http_answer *answer)
{
    struct view *view = arg;
    const struct view_file *file = view_file_find(request->path);

    answer->more = HEADERS;
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
        put_error(answer, 405, "only GET is served here: nothing can be changed");
    else if (!host_is_ours(view, request))
        put_error(answer, 421, "this address is served under its own name only");
    else if (file) {
        answer->type = file->type;
        fwrite(file->data, 1, (size_t)(file->end - file->data), answer->body);
    } else if (!strcmp(request->path, "/healthz")) {
        if (view_calls_do(&view->calls, do_nothing, NULL))
            fputs("ok\n", answer->body);
        else
            put_error(answer, 503, "the scheduler is stopping");
    } else
        serve_api(view, request, answer);
}

static void
on_trouble(void *arg, int error)
{
    struct view *view = arg;

    gp_listener_log_trouble(&view->accept_log, "view", error);
}

static void
on_wake(struct gp_loop_fd *src, uint32_t revents)
{
    struct view *view = container_of(src, struct view, wake);
    struct gp_http_cert *cert;
    struct gp_err err = {0};
    uint64_t times;
    bool stop;
    int r;

    (void)revents;
    if (read(view->wake_fd, &times, sizeof(times)) < 0)
        return;
    pthread_mutex_lock(&view->lock);
    cert = TAKE_PTR(view->cert);
    stop = view->stop;
    pthread_mutex_unlock(&view->lock);
    r = cert ? gp_http_cert_use(view->http, cert, &err) : 0;
    if (r < 0)
        gp_log_error("view", "--http-cert: %s", gp_err_msg(&err, r));
    else if (cert)
        gp_log_info("view", "another certificate is shown from now on");
    if (stop)
        gp_loop_stop(view->loop, 0);
}

/* Have the thread look at its news. */
static void
wake(struct view *view)
{
    const uint64_t one = 1;

    if (write(view->wake_fd, &one, sizeof(one)) < 0)
        gp_log_error("view", "an event is lost: %s", strerror(errno));
}

static void *
run(void *arg)
{
    struct view *view = arg;

    gp_loop_run(view->loop);
    return NULL;
}

/* ----------------------------------------------------------- start and stop -- */

static bool
is_loopback(const char *listen)
{
    struct gp_net_addr addr;

    return gp_net_parse(listen, VIEW_DEFAULT_PORT, &addr, NULL) == 0 &&
           (!strncmp(addr.host, "127.", 4) || !strcmp(addr.host, "::1") ||
            !strcmp(addr.host, "localhost"));
}

static int
check_config(const struct sched_config *config, struct gp_err *err)
{
    if (!config->http_cert != !config->http_key)
        return gp_err_set(err, -EINVAL, "--http-cert and --http-key go together");
    if (config->http_cert || config->http_public ||
        config->anonymous[SCHED_ROLE_CLIENT] || !strncmp(config->http, "unix:", 5) ||
        is_loopback(config->http))
        return 0;
    return gp_err_set(err, -EINVAL,
                      "--http %s: tokens would go over the network in clear text; give "
                      "--http-cert and --http-key, or --http-public if everybody may "
                      "look, or a loopback address",
                      config->http);
}

static int
read_pem(const char *path, char **ret, struct gp_err *err)
{
    size_t len;

    return path ? gp_file_read(path, PEM_MAX, ret, &len, err) : 0;
}

static void
pems_fini(struct pems *pems)
{
    if (pems->key)
        explicit_bzero(pems->key, strlen(pems->key));
    free(pems->key);
    free(pems->cert);
}

static int
pems_read(const struct sched_config *config, struct pems *ret, struct gp_err *err)
{
    int r = read_pem(config->http_cert, &ret->cert, err);

    return r < 0 ? r : read_pem(config->http_key, &ret->key, err);
}

int64_t
view_cert_until(const struct view *view)
{
    int64_t from, until;

    return view && view->pems.cert &&
                   tls_pem_validity(view->pems.cert, &from, &until) == 0
               ? until
               : 0;
}

/* A certificate is renewed before the last tenth of its time. */
static void
say_validity(const struct view *view)
{
    const char *path = view->sched->config.http_cert;
    const int64_t now = time(NULL);
    int64_t from, until;

    if (!path || tls_pem_validity(view->pems.cert, &from, &until) < 0)
        return;
    if (now < from)
        gp_log_warn("view",
                    "--http-cert %s holds in %" PRId64 " minutes only: is the clock of "
                    "this host right?",
                    path, (from - now + 59) / 60);
    else if (until <= now)
        gp_log_warn("view",
                    "--http-cert %s ended %" PRId64 " hours ago: who looks refuses it; "
                    "renew it and send SIGHUP",
                    path, (now - until) / 3600);
    else if (until - now < (until - from) / 10)
        gp_log_warn("view",
                    "--http-cert %s ends in %" PRId64 " hours: renew it and send "
                    "SIGHUP",
                    path, (until - now) / 3600);
}

static int
start_http(struct view *view, struct gp_err *err)
{
    const struct gp_http_config config = {
        .listen = view->sched->config.http,
        .default_port = VIEW_DEFAULT_PORT,
        .cert = view->pems.cert,
        .key = view->pems.key,
        .handler = on_request,
        .on_trouble = on_trouble,
        .arg = view,
    };
    int r = gp_loop_new(&view->loop, err);

    if (r < 0)
        return r;
    view->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = view->wake_fd < 0
            ? -errno
            : gp_loop_fd_add(view->loop, &view->wake, view->wake_fd, EPOLLIN, on_wake);
    if (r < 0)
        return gp_err_set(err, r, "event loop: %s", strerror(-r));
    r = gp_http_start(view->loop, &config, &view->http, err);
    return r < 0 ? gp_err_wrap(err, r, "--http") : 0;
}

static int
start(struct view *view, struct gp_err *err)
{
    const struct sched_config *config = &view->sched->config;
    char name[GP_NET_NAME_MAX];
    int r = check_config(config, err);

    view->local = !config->http_cert && is_loopback(config->http);
    if (!r)
        r = pems_read(config, &view->pems, err);
    if (!r)
        r = start_http(view, err);
    if (r < 0)
        return r;
    r = -pthread_create(&view->thread, NULL, run, view);
    if (r < 0)
        return gp_err_set(err, r, "a thread for --http: %s", strerror(-r));
    view->running = true;
    if (!strncmp(config->http, "unix:", 5))
        gp_log_info("view", "the pool is shown at %s", config->http);
    else
        gp_log_info("view", "the pool is shown at http%s://%s/",
                    config->http_cert ? "s" : "",
                    gp_http_name(view->http, name, sizeof(name)));
    say_validity(view);
    if (config->http_public)
        gp_log_warn("view", "--http-public: everybody who can connect may look");
    return 0;
}

int
view_start(struct sched *sched, struct view **ret, struct gp_err *err)
{
    struct view *view = calloc(1, sizeof(*view));
    int r;

    if (!view)
        return -ENOMEM;
    view->sched = sched;
    view->wake_fd = -1;
    pthread_mutex_init(&view->lock, NULL);
    r = view_calls_init(&view->calls, sched->loop);
    if (r < 0) {
        pthread_mutex_destroy(&view->lock);
        free(view);
        return gp_err_set(err, r, "event loop: %s", strerror(-r));
    }
    r = start(view, err);
    if (r < 0) {
        view_stop(view);
        return r;
    }
    *ret = view;
    return 0;
}

void
view_stop(struct view *view)
{
    if (!view)
        return;
    view_calls_close(&view->calls);
    if (view->running) {
        pthread_mutex_lock(&view->lock);
        view->stop = true;
        pthread_mutex_unlock(&view->lock);
        wake(view);
        pthread_join(view->thread, NULL);
    }
    gp_http_cert_free(view->cert);
    gp_http_stop(view->http);
    gp_loop_fd_del(&view->wake);
    if (view->wake_fd >= 0)
        close(view->wake_fd);
    gp_loop_free(view->loop);
    view_calls_fini(&view->calls);
    pthread_mutex_destroy(&view->lock);
    pems_fini(&view->pems);
    free(view);
}

/* -------------------------------------------------------- another certificate -- */

struct view_cert {
    struct pems pems;
    struct gp_http_cert *cert;
};

static bool
same_pems(const struct pems *a, const struct pems *b)
{
    return !strcmp(a->cert, b->cert) && !strcmp(a->key, b->key);
}

int
view_cert_read(struct view *view, struct view_cert **ret, struct gp_err *err)
{
    CLEANUP(view_cert_freep) struct view_cert *cert = NULL;
    int r;

    *ret = NULL;
    if (!view || !view->pems.cert)
        return 0;
    cert = calloc(1, sizeof(*cert));
    if (!cert)
        return -ENOMEM;
    r = pems_read(&view->sched->config, &cert->pems, err);
    if (r < 0 || same_pems(&cert->pems, &view->pems))
        return r;
    r = gp_http_cert_new(view->http, cert->pems.cert, cert->pems.key, &cert->cert, err);
    if (r < 0)
        return gp_err_wrap(err, r, "--http-cert %s", view->sched->config.http_cert);
    *ret = TAKE_PTR(cert);
    return 0;
}

void
view_cert_free(struct view_cert *cert)
{
    if (!cert)
        return;
    pems_fini(&cert->pems);
    gp_http_cert_free(cert->cert);
    free(cert);
}

void
view_cert_use(struct view *view, struct view_cert *cert)
{
    struct gp_http_cert *unused;

    if (!cert)
        return;
    pems_fini(&view->pems);
    view->pems = cert->pems;
    cert->pems = (struct pems){NULL};
    say_validity(view);
    pthread_mutex_lock(&view->lock);
    unused = view->cert;
    view->cert = TAKE_PTR(cert->cert);
    pthread_mutex_unlock(&view->lock);
    wake(view);
    gp_http_cert_free(unused);
    view_cert_free(cert);
}
