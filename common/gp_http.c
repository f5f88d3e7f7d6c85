/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_http.h"

#include "gp_err.h"
#include "gp_listener.h"
#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A burst of connections must not fill the kernel's queue between two turns. */
#define BACKLOG 1024

/* What the library asks for of a body that is made piece by piece. */
#define BLOCK ((size_t)64 * 1024)

/* So long a turn of the loop may be spent here while there is more to do, as with large
 * answers; then whoever else waits for the loop is served. */
#define TURN_NS (2 * GP_NS_PER_MS)

/* From here on one connection ends for each that comes.  The other half is for
 * connections that are ended and not yet forgotten by the library. */
#define OPEN_MAX (GP_HTTP_CONNECTIONS_MAX / 2)

/* A connection that is not ended. */
struct peer {
    struct MHD_Connection *connection;
    uint64_t from;        /* gp_net_peer_hash() of its address */
    uint64_t deadline_ns; /* of the request, or of the answer */
    bool answered;        /* an answer is on its way */
};

struct gp_http {
    struct gp_loop *loop;
    gp_http_handler *handler;
    void (*on_trouble)(void *arg, int error);
    void *arg;
    uint64_t request_ns, answer_ns;
    struct MHD_Daemon *daemon;
    struct gp_listener listener;
    struct gp_loop_fd src; /* the library's epoll descriptor */
    /* With the certificate of before, until its last connection ends; or NULL. */
    struct MHD_Daemon *old;
    struct gp_loop_fd old_src;
    struct gp_loop_timer timer;
    bool secure;
    unsigned n_open;
    struct peer oldest_first[OPEN_MAX];
};

/* ------------------------------------------------------------- connections -- */

static int
fd_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? info->connect_fd : -1;
}

/* It was made with the certificate of before: it ends after the answer that it gets. */
static bool
is_old(const struct gp_http *http, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON);

    return http->old && info && info->daemon == http->old;
}

static struct peer *
find_peer(struct gp_http *http, const struct MHD_Connection *connection)
{
    for (unsigned i = 0; i < http->n_open; i++)
        if (http->oldest_first[i].connection == connection)
            return &http->oldest_first[i];
    return NULL;
}

static void
forget(struct gp_http *http, struct peer *peer)
{
    http->n_open--;
    memmove(peer, peer + 1,
            (size_t)(&http->oldest_first[http->n_open] - peer) * sizeof(*peer));
}

/* Its socket reports the end, and the library then closes it. */
static void
end_peer(struct gp_http *http, struct peer *peer)
{
    int fd = fd_of(peer->connection);

    if (fd >= 0)
        shutdown(fd, SHUT_RDWR);
    forget(http, peer);
}

static unsigned
count_from(const struct gp_http *http, uint64_t from)
{
    unsigned n = 0;

    for (unsigned i = 0; i < http->n_open; i++)
        n += http->oldest_first[i].from == from;
    return n;
}

/* Whom the arrival of one from @from ends: of the address that then has most, the
 * oldest that waits for no answer, or the oldest. */
static struct peer *
most_crowded(struct gp_http *http, uint64_t from)
{
    struct peer *found = NULL;
    unsigned most = 0;

    for (unsigned i = 0; i < http->n_open; i++) {
        struct peer *peer = &http->oldest_first[i];
        unsigned n = count_from(http, peer->from) + (peer->from == from);

        if (n > most || (n == most && found->answered && !peer->answered)) {
            found = peer;
            most = n;
        }
    }
    return found;
}

static void
on_connection(void *arg, struct MHD_Connection *connection, void **context,
              enum MHD_ConnectionNotificationCode code)
{
    struct gp_http *http = arg;
    struct peer *peer;
    uint64_t from;

    (void)context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        from = gp_net_peer_hash(fd_of(connection));
        if (http->n_open >= OPEN_MAX)
            end_peer(http, most_crowded(http, from));
        http->oldest_first[http->n_open++] =
            (struct peer){.connection = connection,
                          .from = from,
                          .deadline_ns = gp_now_ns() + http->request_ns};
        return;
    }
    peer = find_peer(http, connection);
    if (peer)
        forget(http, peer);
}

static void
answer_begins(struct gp_http *http, const struct MHD_Connection *connection)
{
    struct peer *peer = find_peer(http, connection);

    if (!peer)
        return;
    peer->answered = true;
    peer->deadline_ns = gp_now_ns() + http->answer_ns;
}

/* The next request of the connection, if any, may begin until the library ends it as
 * idle. */
static void
on_completed(void *arg, struct MHD_Connection *connection, void **state,
             enum MHD_RequestTerminationCode code)
{
    struct gp_http *http = arg;
    struct peer *peer = find_peer(http, connection);

    (void)state;
    (void)code;
    if (!peer)
        return;
    if (is_old(http, connection)) { /* what was sent is delivered all the same */
        end_peer(http, peer);
        return;
    }
    peer->answered = false;
    peer->deadline_ns = gp_now_ns() + GP_HTTP_IDLE_S * GP_NS_PER_S + http->request_ns;
}

/* End who is too slow; the next deadline, or UINT64_MAX. */
static uint64_t
end_overdue(struct gp_http *http, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (unsigned i = http->n_open; i-- > 0;) {
        struct peer *peer = &http->oldest_first[i];

        if (now >= peer->deadline_ns)
            end_peer(http, peer);
        else
            next = gp_min(next, peer->deadline_ns);
    }
    return next;
}

/* ---------------------------------------------------------------- requests -- */

const char *
gp_http_header(const struct gp_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct query {
    bool (*fn)(void *arg, const char *name, const char *value);
    void *arg;
};

static enum MHD_Result
on_argument(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    const struct query *query = arg;

    (void)kind;
    return query->fn(query->arg, name, value ? value : "") ? MHD_YES : MHD_NO;
}

void
gp_http_query(const struct gp_http_request *request,
              bool (*fn)(void *arg, const char *name, const char *value), void *arg)
{
    struct query query = {fn, arg};

    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_argument,
                              &query);
}

/* A body that is made piece by piece, in memory that is used again for each. */
struct pieces {
    struct gp_http_answer answer;
    char *text;
    size_t size, at, max;
    bool last;
};

static void
pieces_free(void *arg)
{
    struct pieces *pieces = arg;

    if (pieces->answer.done)
        pieces->answer.done(pieces->answer.state);
    free(pieces->text);
    free(pieces);
}

/* As of write(); 0: no memory. */
static ssize_t
append(void *arg, const char *bytes, size_t n)
{
    struct pieces *pieces = arg;

    if (n > pieces->max - pieces->size) {
        size_t max = gp_max(2 * pieces->max, pieces->size + n);
        char *text = realloc(pieces->text, max);

        if (!text)
            return 0;
        pieces->text = text;
        pieces->max = max;
    }
    memcpy(pieces->text + pieces->size, bytes, n);
    pieces->size += n;
    return (ssize_t)n;
}

/* False: there is no more, or no memory. */
static bool
next_piece(struct pieces *pieces)
{
    pieces->at = pieces->size = 0;
    while (!pieces->size && !pieces->last) {
        FILE *f = fopencookie(pieces, "w", (cookie_io_functions_t){.write = append});

        if (!f)
            return false;
        pieces->last = !pieces->answer.next(pieces->answer.state, f);
        if (fclose(f))
            return false;
    }
    return pieces->size;
}

static ssize_t
read_piece(void *arg, uint64_t pos, char *buf, size_t max)
{
    struct pieces *pieces = arg;
    size_t n;

    (void)pos;
    if (pieces->at == pieces->size && !next_piece(pieces))
        return pieces->last ? MHD_CONTENT_READER_END_OF_STREAM
                            : MHD_CONTENT_READER_END_WITH_ERROR;
    n = gp_min(pieces->size - pieces->at, max);
    memcpy(buf, pieces->text + pieces->at, n);
    pieces->at += n;
    return (ssize_t)n;
}

/* Of a body whose length is known, the first is sent along with the second. */
static struct MHD_Response *
in_two_parts(struct pieces *pieces)
{
    const struct MHD_IoVec parts[] = {
        {pieces->text, pieces->size},
        {pieces->answer.tail, pieces->answer.tail_size},
    };

    return MHD_create_response_from_iovec(parts, ARRAY_SIZE(parts), pieces_free,
                                          pieces);
}

/* The handler has written the first piece, @text, which is taken. */
static struct MHD_Response *
piecewise(const struct gp_http_answer *answer, char *text, size_t size)
{
    struct pieces *pieces = calloc(1, sizeof(*pieces));
    struct MHD_Response *response;

    if (!pieces) {
        if (answer->done)
            answer->done(answer->state);
        free(text);
        return NULL;
    }
    *pieces =
        (struct pieces){.answer = *answer, .text = text, .size = size, .max = size};
    response = answer->next
                   ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK,
                                                       read_piece, pieces, pieces_free)
                   : in_two_parts(pieces);
    if (!response)
        pieces_free(pieces);
    return response;
}

static struct MHD_Response *
make_response(const struct gp_http_answer *answer, char *text, size_t size)
{
    bool several = answer->next || answer->tail;
    struct MHD_Response *response =
        several ? piecewise(answer, text, size)
                : MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);

    if (!response) {
        if (!several)
            free(text);
        return NULL;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    if (answer->retry_after[0])
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER,
                                answer->retry_after);
    for (const char *const *more = answer->more; more && *more; more += 2)
        MHD_add_response_header(response, more[0], more[1]);
    return response;
}

/* The answer's text, made by the handler; @text is the caller's to free. */
static int
make_answer(struct gp_http *http, const struct gp_http_request *request,
            struct gp_http_answer *answer, char **text, size_t *size)
{
    answer->body = open_memstream(text, size);
    if (!answer->body)
        return -ENOMEM;
    http->handler(http->arg, request, answer);
    if (!fclose(answer->body))
        return 0;
    if (answer->done)
        answer->done(answer->state);
    free(*text);
    return -ENOMEM;
}

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *path,
           const char *method, const char *version, const char *upload,
           size_t *upload_size, void **state)
{
    struct gp_http *http = arg;
    const struct gp_http_request request = {.method = method,
                                            .path = path,
                                            .fd = fd_of(connection),
                                            .secure = http->secure,
                                            .connection = connection};
    struct gp_http_answer answer = {.status = MHD_HTTP_OK, .type = "text/plain"};
    char *text = NULL;
    struct MHD_Response *response;
    size_t size = 0;
    enum MHD_Result result;

    (void)version;
    (void)upload;
    if (!*state) { /* the first call of a request; the body, if any, follows */
        *state = connection;
        return MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (make_answer(http, &request, &answer, &text, &size) < 0)
        return MHD_NO;
    response = make_response(&answer, text, size);
    if (!response)
        return MHD_NO;
    if (is_old(http, connection))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    answer_begins(http, connection);
    result = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return result;
}

/* -------------------------------------------------------------- the loop's -- */

static void on_timer(struct gp_loop_timer *timer);

static void
stop_old(struct gp_http *http)
{
    struct MHD_Daemon *old = http->old;

    if (!old)
        return;
    gp_loop_fd_del(&http->old_src);
    MHD_stop_daemon(old);
    http->old = NULL;
}

static bool
has_connections(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

    return info && info->num_connections;
}

/* One step of @daemon's connections; *@ret_ms: until the next one is due. */
static bool
run_daemon(struct MHD_Daemon *daemon, uint64_t *ret_ms)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    bool due;

    MHD_run(daemon);
    due = MHD_get_timeout(daemon, &ms) == MHD_YES;
    *ret_ms = ms;
    return due;
}

/* Each run brings a connection one step further: it reads the request, makes the
 * answer, or sends a block.  One step in each turn of a busy loop would make a page
 * wait as long for its first byte as for a hundred others' requests. */
static void
drive(struct gp_http *http)
{
    uint64_t end = gp_now_ns() + TURN_NS, now, next, ms = 0, old_ms = 0;
    bool due, old_due;

    end_overdue(http, gp_now_ns());
    do {
        due = run_daemon(http->daemon, &ms);
        old_due = http->old && run_daemon(http->old, &old_ms);
        now = gp_now_ns();
    } while (((due && !ms) || (old_due && !old_ms)) && now < end);
    next = end_overdue(http, now);
    if (due)
        next = gp_min(next, now + ms * GP_NS_PER_MS);
    if (old_due)
        next = gp_min(next, now + old_ms * GP_NS_PER_MS);
    if (http->old && !has_connections(http->old))
        stop_old(http);
    if (next != UINT64_MAX)
        gp_loop_timer_set(http->loop, &http->timer, next, on_timer);
    else
        gp_loop_timer_del(&http->timer);
}

static void
on_timer(struct gp_loop_timer *timer)
{
    drive(container_of(timer, struct gp_http, timer));
}

static void
on_ready(struct gp_loop_fd *src, uint32_t revents)
{
    (void)revents;
    drive(container_of(src, struct gp_http, src));
}

static void
on_old_ready(struct gp_loop_fd *src, uint32_t revents)
{
    (void)revents;
    drive(container_of(src, struct gp_http, old_src));
}

/* The library closes @fd when it cannot take the connection. */
static void
on_accept(struct gp_listener *listener, int fd)
{
    struct gp_http *http = container_of(listener, struct gp_http, listener);
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);

    if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0) {
        close(fd); /* gone again */
        return;
    }
    MHD_add_connection(http->daemon, fd, (struct sockaddr *)&peer, len);
    drive(http);
}

static void
on_listener_trouble(struct gp_listener *listener, int error)
{
    struct gp_http *http = container_of(listener, struct gp_http, listener);

    http->on_trouble(http->arg, error);
}

/* ----------------------------------------------------------- start and stop -- */

/* The library reads the certificate and the key here and needs the texts no more. */
static int
new_daemon(struct gp_http *http, const char *cert, const char *key,
           struct MHD_Daemon **ret, struct gp_err *err)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key},
        {MHD_OPTION_END, 0, NULL},
    };

    if (cert)
        flags |= MHD_USE_TLS;
    else
        tls[0].option = MHD_OPTION_END;
    *ret = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_CONNECTION_LIMIT,
        GP_HTTP_CONNECTIONS_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_CONNECTION_TIMEOUT,
        GP_HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, GP_HTTP_HEAD_MAX,
        MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (*ret)
        return 0;
    return gp_err_set(err, -EIO, "cannot start an HTTP server%s",
                      cert ? " (are certificate and key PEM files that belong "
                             "together?)"
                           : "");
}

static int
watch_daemon(struct gp_http *http, struct MHD_Daemon *daemon, struct gp_loop_fd *src,
             void (*fn)(struct gp_loop_fd *src, uint32_t revents), struct gp_err *err)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    int r;

    if (!info)
        return gp_err_set(err, -ENOTSUP, "this libmicrohttpd has no epoll mode");
    r = gp_loop_fd_add(http->loop, src, info->epoll_fd, EPOLLIN, fn);
    return r < 0 ? gp_err_set(err, r, "HTTP server: %s", strerror(-r)) : 0;
}

/* Drive @daemon, which is @http's from then on, and the one of before until its last
 * connection ends. */
static int
use_daemon(struct gp_http *http, struct MHD_Daemon *daemon, struct gp_err *err)
{
    int r = 0;

    stop_old(http); /* of before the one of before */
    gp_loop_fd_del(&http->src);
    if (http->daemon)
        r = watch_daemon(http, http->daemon, &http->old_src, on_old_ready, err);
    if (!r)
        r = watch_daemon(http, daemon, &http->src, on_ready, err);
    if (r < 0) { /* as it was; that descriptor could be watched before */
        gp_loop_fd_del(&http->old_src);
        if (http->daemon)
            watch_daemon(http, http->daemon, &http->src, on_ready, NULL);
        return r;
    }
    http->old = http->daemon;
    http->daemon = daemon;
    return 0;
}

static int
start_daemon(struct gp_http *http, const struct gp_http_config *config,
             struct gp_err *err)
{
    struct MHD_Daemon *daemon;
    int r = new_daemon(http, config->cert, config->key, &daemon, err);

    if (r < 0)
        return r;
    http->secure = config->cert;
    r = use_daemon(http, daemon, err);
    if (r < 0)
        MHD_stop_daemon(daemon);
    return r;
}

static int
start_listening(struct gp_http *http, const char *listen, unsigned default_port,
                struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    int r = gp_net_listen(listen, default_port, BACKLOG, &fd, err);

    if (r < 0)
        return r;
    r = gp_listener_init(&http->listener, http->loop, fd, on_accept,
                         on_listener_trouble);
    if (r < 0)
        return gp_err_set(err, r, "%s: %s", listen, strerror(-r));
    fd = -1; /* the listener's now */
    return 0;
}

int
gp_http_start(struct gp_loop *loop, const struct gp_http_config *config,
              struct gp_http **ret, struct gp_err *err)
{
    CLEANUP(gp_http_stopp) struct gp_http *http = calloc(1, sizeof(*http));
    int r;

    if (!http)
        return gp_err_set(err, -ENOMEM, "out of memory");
    http->loop = loop;
    http->handler = config->handler;
    http->on_trouble = config->on_trouble;
    http->arg = config->arg;
    http->request_ns =
        GP_NS_PER_MS * (config->request_ms ? config->request_ms : GP_HTTP_REQUEST_MS);
    http->answer_ns =
        GP_NS_PER_MS * (config->answer_ms ? config->answer_ms : GP_HTTP_ANSWER_MS);
    r = start_daemon(http, config, err);
    if (!r)
        r = start_listening(http, config->listen, config->default_port, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(http);
    return 0;
}

void
gp_http_stop(struct gp_http *http)
{
    if (!http)
        return;
    gp_listener_fini(&http->listener);
    gp_loop_timer_del(&http->timer);
    gp_loop_fd_del(&http->src);
    stop_old(http);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    free(http);
}

/* -------------------------------------------------------- another certificate -- */

struct gp_http_cert {
    struct MHD_Daemon *daemon; /* which has it, and no connections yet */
};

int
gp_http_cert_new(struct gp_http *http, const char *cert, const char *key,
                 struct gp_http_cert **ret, struct gp_err *err)
{
    CLEANUP(gp_http_cert_freep) struct gp_http_cert *made = calloc(1, sizeof(*made));
    int r = made ? new_daemon(http, cert, key, &made->daemon, err) : -ENOMEM;

    if (!r)
        *ret = TAKE_PTR(made);
    return r;
}

void
gp_http_cert_free(struct gp_http_cert *cert)
{
    if (cert && cert->daemon)
        MHD_stop_daemon(cert->daemon);
    free(cert);
}

int
gp_http_cert_use(struct gp_http *http, struct gp_http_cert *cert, struct gp_err *err)
{
    int r = use_daemon(http, cert->daemon, err);

    if (!r)
        cert->daemon = NULL;
    gp_http_cert_free(cert);
    drive(http); /* who watches the connections of before has changed */
    return r;
}

unsigned
gp_http_port(const struct gp_http *http)
{
    return gp_net_port(http->listener.src.fd);
}

const char *
gp_http_name(const struct gp_http *http, char *buf, size_t size)
{
    return gp_net_own_name(http->listener.src.fd, buf, size);
}
