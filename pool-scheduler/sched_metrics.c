/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_metrics.h"

#include "gp_err.h"
#include "gp_http_room.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_time.h"
#include "sched_metrics_text.h"
#include "sched_types.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* Scrapers are few; above half of this the oldest connection ends for each new one. */
#define METRICS_CONNECTIONS_MAX 32
#define METRICS_TIMEOUT_S 10

struct sched_metrics {
    struct sched *sched;
    struct MHD_Daemon *daemon;
    struct gp_http_room room;
    struct gp_loop_fd src;
    struct gp_loop_timer timer;
};

/* ---------------------------------------------------------------- response -- */

static struct MHD_Response *
metrics_response(const struct sched *sched)
{
    struct MHD_Response *response;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    sched_metrics_write(sched, f);
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (response)
        MHD_add_response_header(response, "Content-Type",
                                "text/plain; version=0.0.4; charset=utf-8");
    else
        free(text);
    return response;
}

/* -------------------------------------------------------------------- http -- */

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *url,
           const char *method, const char *version, const char *upload,
           size_t *upload_size, void **state)
{
    static const char not_found[] = "only GET /metrics is served here\n";
    const struct sched_metrics *metrics = arg;
    struct MHD_Response *response;
    unsigned status = MHD_HTTP_OK;
    enum MHD_Result result;

    if (!*state) { /* the first call of a request; the body, if any, follows */
        *state = connection;
        return MHD_YES;
    }
    if (*upload_size) { /* nobody is interested */
        *upload_size = 0;
        return MHD_YES;
    }
    if ((!strcmp(url, "/metrics") || !strcmp(url, "/metric")) &&
        !strcmp(method, MHD_HTTP_METHOD_GET)) {
        response = metrics_response(metrics->sched);
    } else {
        status = MHD_HTTP_NOT_FOUND;
        response = MHD_create_response_from_buffer(
            sizeof(not_found) - 1, (void *)not_found, MHD_RESPMEM_PERSISTENT);
    }
    if (!response)
        return MHD_NO;
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static void on_timer(struct gp_loop_timer *timer);

static void
drive(struct sched_metrics *metrics)
{
    MHD_UNSIGNED_LONG_LONG ms;

    gp_http_room_run(&metrics->room, metrics->daemon);
    if (MHD_get_timeout(metrics->daemon, &ms) == MHD_YES)
        gp_loop_timer_set(metrics->sched->loop, &metrics->timer,
                          gp_now_ns() + ms * GP_NS_PER_MS, on_timer);
    else
        gp_loop_timer_del(&metrics->timer);
}

static void
on_timer(struct gp_loop_timer *timer)
{
    drive(container_of(timer, struct sched_metrics, timer));
}

static void
on_ready(struct gp_loop_fd *src, uint32_t revents)
{
    drive(container_of(src, struct sched_metrics, src));
}

static int
start_daemon(struct sched_metrics *metrics, const char *listen, struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    int r = gp_net_listen(listen, 0, GP_HTTP_BACKLOG, &fd, err);

    if (r < 0)
        return gp_err_wrap(err, r, "metrics");
    metrics->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, metrics, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, METRICS_CONNECTIONS_MAX,
        MHD_OPTION_NOTIFY_CONNECTION, gp_http_room_notify, &metrics->room,
        MHD_OPTION_CONNECTION_TIMEOUT, METRICS_TIMEOUT_S, MHD_OPTION_END);
    if (!metrics->daemon)
        return gp_err_set(err, -EIO, "metrics: cannot start an HTTP server on %s",
                          listen);
    gp_log_info("metrics", "on port %u", gp_net_port(fd));
    fd = -1; /* the daemon's now */
    return 0;
}

int
sched_metrics_start(struct sched *sched, const char *listen,
                    struct sched_metrics **ret_metrics, struct gp_err *err)
{
    CLEANUP(sched_metrics_stopp)
    struct sched_metrics *metrics = calloc(1, sizeof(*metrics));
    const union MHD_DaemonInfo *info;
    int r;

    if (!metrics)
        return -ENOMEM;
    metrics->sched = sched;
    metrics->room.max = METRICS_CONNECTIONS_MAX / 2;
    r = start_daemon(metrics, listen, err);
    if (r < 0)
        return r;
    info = MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return gp_err_set(err, -EIO, "metrics: no epoll in this libmicrohttpd");
    r = gp_loop_fd_add(sched->loop, &metrics->src, info->epoll_fd, EPOLLIN, on_ready);
    if (r < 0)
        return gp_err_set(err, r, "metrics: %s", strerror(-r));
    *ret_metrics = TAKE_PTR(metrics);
    return 0;
}

void
sched_metrics_stop(struct sched_metrics *metrics)
{
    if (!metrics)
        return;
    gp_loop_timer_del(&metrics->timer);
    gp_loop_fd_del(&metrics->src);
    if (metrics->daemon)
        MHD_stop_daemon(metrics->daemon);
    free(metrics);
}
