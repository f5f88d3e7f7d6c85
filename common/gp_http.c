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

/* From here on the oldest connection ends for each that comes.  The other half is for
 * connections that are ended and not yet forgotten by the library. */
#define OPEN_MAX (GP_HTTP_CONNECTIONS_MAX / 2)

struct gp_http {
    struct gp_loop *loop;
    gp_http_handler *handler;
    void (*on_trouble)(void *arg, int error);
    void *arg;
    struct MHD_Daemon *daemon;
    struct gp_listener listener;
    struct gp_loop_fd src; /* the library's epoll descriptor */
    struct gp_loop_timer timer;
    unsigned n_open;
    struct MHD_Connection *oldest_first[OPEN_MAX];
};

/* ------------------------------------------------------------- connections -- */

static void
forget(struct gp_http *http, unsigned at)
{
    http->n_open--;
    memmove(&http->oldest_first[at], &http->oldest_first[at + 1],
            (http->n_open - at) * sizeof(http->oldest_first[0]));
}

/* Its socket reports the end, and the library then closes it. */
static void
end_oldest(struct gp_http *http)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        http->oldest_first[0], MHD_CONNECTION_INFO_CONNECTION_FD);

    if (info)
        shutdown(info->connect_fd, SHUT_RDWR);
    forget(http, 0);
}

static void
on_connection(void *arg, struct MHD_Connection *connection, void **context,
              enum MHD_ConnectionNotificationCode code)
{
    struct gp_http *http = arg;

    (void)context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (http->n_open >= OPEN_MAX)
            end_oldest(http);
        http->oldest_first[http->n_open++] = connection;
        return;
    }
    for (unsigned i = 0; i < http->n_open; i++)
        if (http->oldest_first[i] == connection) {
            forget(http, i);
            return;
        }
}

/* ---------------------------------------------------------------- requests -- */

/* The answer's text, made by the handler; @text is the caller's to free. */
static int
make_answer(struct gp_http *http, const char *method, const char *path,
            struct gp_http_answer *answer, char **text, size_t *size)
{
    answer->body = open_memstream(text, size);
    if (!answer->body)
        return -ENOMEM;
    http->handler(http->arg, method, path, answer);
    return fclose(answer->body) ? -ENOMEM : 0;
}

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *path,
           const char *method, const char *version, const char *upload,
           size_t *upload_size, void **state)
{
    struct gp_http_answer answer = {.status = MHD_HTTP_OK, .type = "text/plain"};
    CLEANUP_FREE char *text = NULL;
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
    if (make_answer(arg, method, path, &answer, &text, &size) < 0)
        return MHD_NO;
    response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        return MHD_NO;
    text = NULL; /* the response's now */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type);
    result = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return result;
}

/* -------------------------------------------------------------- the loop's -- */

static void on_timer(struct gp_loop_timer *timer);

static void
drive(struct gp_http *http)
{
    MHD_UNSIGNED_LONG_LONG ms;

    MHD_run(http->daemon);
    if (MHD_get_timeout(http->daemon, &ms) == MHD_YES)
        gp_loop_timer_set(http->loop, &http->timer, gp_now_ns() + ms * GP_NS_PER_MS,
                          on_timer);
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

static int
start_daemon(struct gp_http *http, struct gp_err *err)
{
    const union MHD_DaemonInfo *info;
    int r;

    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, http,
        MHD_OPTION_CONNECTION_LIMIT, GP_HTTP_CONNECTIONS_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_CONNECTION_TIMEOUT, GP_HTTP_IDLE_S, MHD_OPTION_END);
    if (!http->daemon)
        return gp_err_set(err, -EIO, "cannot start an HTTP server");
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return gp_err_set(err, -ENOTSUP, "this libmicrohttpd has no epoll mode");
    r = gp_loop_fd_add(http->loop, &http->src, info->epoll_fd, EPOLLIN, on_ready);
    return r < 0 ? gp_err_set(err, r, "HTTP server: %s", strerror(-r)) : 0;
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
gp_http_start(struct gp_loop *loop, const char *listen, unsigned default_port,
              gp_http_handler *handler, void (*on_trouble)(void *arg, int error),
              void *arg, struct gp_http **ret, struct gp_err *err)
{
    CLEANUP(gp_http_stopp) struct gp_http *http = calloc(1, sizeof(*http));
    int r;

    if (!http)
        return gp_err_set(err, -ENOMEM, "out of memory");
    http->loop = loop;
    http->handler = handler;
    http->on_trouble = on_trouble;
    http->arg = arg;
    r = start_daemon(http, err);
    if (!r)
        r = start_listening(http, listen, default_port, err);
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
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    free(http);
}

unsigned
gp_http_port(const struct gp_http *http)
{
    return gp_net_port(http->listener.src.fd);
}
