/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_https.h"

#include "gp_err.h"
#include "gp_net.h"
#include "gp_time.h"
#include "kube_cert.h"
#include "kube_crowd.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <string.h>

/* A caller that says nothing for so long is disconnected. */
#define IDLE_S 30
/* The other half is for connections that are ended and not yet forgotten by the
 * library. */
#define CONNECTIONS (2 * KUBE_CROWD_MAX)
/* An answer to the API server is of no use after the webhook's timeoutSeconds. */
#define ANSWER_NS (10 * GP_NS_PER_S)

/* One certificate's. */
struct https_daemon {
    struct kube_https *server;
    struct MHD_Daemon *mhd; /* NULL: it does not run */
    /* Connections that have asked nothing yet, and requests that are not answered. */
    _Atomic unsigned pending;
    struct upload *uploads; /* of its thread, as are their bytes together */
    size_t buffered;
};

struct kube_https {
    struct https_daemon daemons[2], *now; /* the other one is on its way out, or free */
    pthread_mutex_t lock;                 /* of answers: each of the two has a thread */
    kube_https_answer *answer;
    void *arg;
    struct kube_https_limits limits;
    struct kube_crowd crowd;
    int fd; /* listening; handed from one daemon to the next */
    struct kube_cert cert;
};

struct upload {
    struct upload *next;
    char *body;
    size_t len, cap;
    unsigned refused; /* status; 0: it is taken */
};

/* Of a connection; freed with it. */
struct caller {
    bool asked;
};

static int
fd_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

static void
on_connection(void *arg, struct MHD_Connection *connection, void **context,
              enum MHD_ConnectionNotificationCode code)
{
    struct https_daemon *daemon = arg;
    struct caller *caller = *context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        kube_crowd_add(&daemon->server->crowd, connection, fd_of(connection));
    else
        kube_crowd_remove(&daemon->server->crowd, connection);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = calloc(1, sizeof(*caller));
        daemon->pending += *context != NULL;
        return;
    }
    if (caller && !caller->asked)
        daemon->pending--;
    free(caller);
    *context = NULL;
}

/* A request begins. */
static void
note_request(struct https_daemon *daemon, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct caller *caller = info ? info->socket_context : NULL;

    if (caller && !caller->asked)
        caller->asked = true; /* its connection is counted already */
    else
        daemon->pending++;
}

static enum MHD_Result
send_answer(struct MHD_Connection *connection, unsigned status, char *body)
{
    struct MHD_Response *response;
    enum MHD_Result r;

    if (body)
        response =
            MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_FREE);
    else
        response = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "",
                                                   MHD_RESPMEM_PERSISTENT);
    if (!response) {
        free(body);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "application/json");
    r = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return r;
}

static void
refuse(struct https_daemon *daemon, struct upload *upload, unsigned status)
{
    daemon->buffered -= upload->len;
    free(upload->body);
    upload->body = NULL;
    upload->len = upload->cap = 0;
    upload->refused = status;
}

static struct upload *
largest(const struct https_daemon *daemon)
{
    struct upload *found = daemon->uploads;

    for (struct upload *upload = found; upload; upload = upload->next)
        if (upload->len > found->len)
            found = upload;
    return found;
}

static bool
make_room(struct upload *upload, size_t need)
{
    size_t cap = gp_max(need, 2 * upload->cap);
    char *more;

    if (need <= upload->cap)
        return true;
    more = realloc(upload->body, cap);
    if (!more)
        return false;
    upload->body = more;
    upload->cap = cap;
    return true;
}

/* When the bodies together are too much, the largest goes: ordinary questions are
 * small, so whoever fills the memory loses his own. */
static enum MHD_Result
take(struct https_daemon *daemon, struct upload *upload, const char *data, size_t *len)
{
    const struct kube_https_limits *limits = &daemon->server->limits;
    size_t n = *len;

    *len = 0;
    if (!upload->refused && n > limits->body - upload->len)
        refuse(daemon, upload, 413);
    while (!upload->refused && n > KUBE_HTTPS_BUFFERED_MAX - daemon->buffered)
        refuse(daemon, largest(daemon), 503);
    if (upload->refused)
        return MHD_YES;
    if (!make_room(upload, upload->len + n + 1))
        return MHD_NO;
    memcpy(upload->body + upload->len, data, n);
    upload->len += n;
    daemon->buffered += n;
    upload->body[upload->len] = '\0';
    return MHD_YES;
}

/* How many values a JSON text may hold at most: each but the first has one of these
 * in front of it.  A parser takes about 140 bytes for the smallest, of three bytes. */
size_t
kube_https_values(const char *text, size_t len)
{
    bool inside = false; /* a string */
    size_t n = 1;

    for (size_t i = 0; i < len; i++) {
        if (inside && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            inside = !inside;
        else if (!inside)
            n += text[i] == '[' || text[i] == '{' || text[i] == ',' || text[i] == ':';
    }
    return n;
}

static enum MHD_Result
answer(struct https_daemon *daemon, struct MHD_Connection *connection, const char *path,
       const char *method, const struct upload *upload)
{
    struct kube_https *server = daemon->server;
    const char *text = upload->body ? upload->body : "";
    char *body = NULL;
    unsigned status;

    if (upload->refused)
        return send_answer(connection, upload->refused, NULL);
    if (kube_https_values(text, upload->len) > server->limits.values)
        return send_answer(connection, 413, NULL);
    kube_crowd_answering(&server->crowd, connection);
    pthread_mutex_lock(&server->lock);
    status = server->answer(server->arg, method, path, text, upload->len, &body);
    pthread_mutex_unlock(&server->lock);
    kube_crowd_answered(&server->crowd, connection);
    return send_answer(connection, status, body);
}

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *path,
           const char *method, const char *version, const char *data, size_t *len,
           void **state)
{
    struct https_daemon *daemon = arg;
    struct upload *upload = *state;

    if (!upload) {
        *state = upload = calloc(1, sizeof(*upload));
        if (!upload)
            return MHD_NO;
        upload->next = daemon->uploads;
        daemon->uploads = upload;
        note_request(daemon, connection);
        return MHD_YES;
    }
    return *len ? take(daemon, upload, data, len)
                : answer(daemon, connection, path, method, upload);
}

static void
on_done(void *arg, struct MHD_Connection *connection, void **state,
        enum MHD_RequestTerminationCode code)
{
    struct https_daemon *daemon = arg;
    struct upload *upload = *state, **at = &daemon->uploads;

    if (!upload)
        return;
    kube_crowd_answered(&daemon->server->crowd, connection);
    while (*at != upload)
        at = &(*at)->next;
    *at = upload->next;
    daemon->buffered -= upload->len;
    free(upload->body);
    free(upload);
    *state = NULL;
    daemon->pending--;
}

/* False: it cannot use the certificate. */
static bool
start(struct kube_https *server, struct https_daemon *daemon)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, server->cert.cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, server->cert.key},
        {MHD_OPTION_END, 0, NULL},
    };

    if (!server->cert.cert)
        tls[0].option = MHD_OPTION_END;
    else
        flags |= MHD_USE_TLS;
    daemon->server = server;
    daemon->mhd = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, daemon, MHD_OPTION_LISTEN_SOCKET, server->fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_done, daemon, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, daemon, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
        MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    return daemon->mhd;
}

/* It accepts no more; the listening socket stays open. */
static void
quiesce(struct https_daemon *daemon)
{
    MHD_quiesce_daemon(daemon->mhd);
}

/* End a quiesced daemon when it has answered what it was asked: its end cuts
 * connections off, and the API server refuses a pod whose webhook does not answer. */
static void
retire(struct https_daemon *daemon)
{
    uint64_t end = gp_now_ns() + ANSWER_NS;

    while (daemon->pending && gp_now_ns() < end)
        gp_sleep_ns(10 * GP_NS_PER_MS);
    MHD_stop_daemon(daemon->mhd);
    daemon->mhd = NULL;
}

static int
copy_cert(const struct kube_cert *cert, struct kube_cert *ret)
{
    struct kube_cert copy = {0};

    if (cert) {
        copy.cert = strdup(cert->cert);
        copy.key = strdup(cert->key);
        if (!copy.cert || !copy.key) {
            kube_cert_fini(&copy);
            return -ENOMEM;
        }
    }
    *ret = copy;
    return 0;
}

int
kube_https_start(const char *listen, const struct kube_cert *cert,
                 const struct kube_https_limits *limits, kube_https_answer *fn,
                 void *arg, struct kube_https **ret, struct gp_err *err)
{
    struct kube_https *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return -ENOMEM;
    server->fd = -1;
    pthread_mutex_init(&server->lock, NULL);
    server->answer = fn;
    server->arg = arg;
    server->limits = *limits;
    r = kube_crowd_init(&server->crowd);
    if (!r)
        r = copy_cert(cert, &server->cert);
    if (!r)
        r = gp_net_listen(listen, 0, 128, &server->fd, err);
    if (!r) {
        server->now = &server->daemons[0];
        if (!start(server, server->now))
            r = gp_err_set(err, -EINVAL,
                           "%s: cannot serve (is the certificate's key its own?)",
                           listen);
    }
    if (r < 0) {
        kube_https_stop(server);
        return r;
    }
    *ret = server;
    return 0;
}

/* The listening socket stays, so no caller is refused between the two. */
int
kube_https_renew(struct kube_https *server, const struct kube_cert *cert,
                 struct gp_err *err)
{
    struct kube_cert copy, before = server->cert;
    struct https_daemon *old = server->now;
    struct https_daemon *next = &server->daemons[old == &server->daemons[0]];
    int r = copy_cert(cert, &copy);

    if (r < 0)
        return r;
    quiesce(old);
    server->cert = copy;
    if (!start(server, next)) {
        kube_cert_fini(&server->cert);
        server->cert = before;
        start(server, next);
        server->now = next;
        retire(old);
        return gp_err_set(err, -EINVAL, "the new certificate cannot be used");
    }
    server->now = next;
    retire(old);
    kube_cert_fini(&before);
    return 0;
}

unsigned
kube_https_port(const struct kube_https *server)
{
    return gp_net_port(server->fd);
}

void
kube_https_stop(struct kube_https *server)
{
    if (!server)
        return;
    if (server->now && server->now->mhd) {
        quiesce(server->now);
        retire(server->now);
    }
    kube_crowd_fini(&server->crowd);
    if (server->fd >= 0)
        close(server->fd);
    kube_cert_fini(&server->cert);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
