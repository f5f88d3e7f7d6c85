/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_metrics.h"

#include "gp_err.h"
#include "gp_http_room.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_images.h"
#include "srv_inventory.h"
#include "srv_register.h"
#include "srv_session.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define METRICS_PORT 9481
/* Scrapers come one at a time; more are somebody else. */
#define METRICS_CONNECTIONS 16
#define METRICS_TIMEOUT_S 10

struct srv_metrics {
    struct srv *srv;
    struct MHD_Daemon *daemon;
    struct gp_http_room room;
    struct gp_loop_fd src;
    struct gp_loop_timer timer;
};

static void
put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP gpupool_server_%s %s\n# TYPE gpupool_server_%s %s\n", name,
            help, name, type);
}

static void
put_cards(FILE *out, const struct srv *srv)
{
    put_head(out, "card_memory_bytes", "gauge", "Memory of a card for sessions.");
    for (uint32_t i = 0; i < srv_inventory_count(srv->inventory); i++) {
        const struct srv_card *card = srv_inventory_card(srv->inventory, i);
        char uuid[TICKET_UUID_TEXT];

        ticket_uuid_format(card->uuid, uuid);
        fprintf(out, "gpupool_server_card_memory_bytes{card=\"%s\"} %" PRIu64 "\n",
                uuid, card->memory);
    }
}

static void
put_reserved(FILE *out, const struct srv *srv)
{
    put_head(out, "card_memory_reserved_bytes", "gauge",
             "Memory of a card kept back from sessions.");
    for (uint32_t i = 0; i < srv_inventory_count(srv->inventory); i++) {
        const struct srv_card *card = srv_inventory_card(srv->inventory, i);
        char uuid[TICKET_UUID_TEXT];

        ticket_uuid_format(card->uuid, uuid);
        fprintf(out,
                "gpupool_server_card_memory_reserved_bytes{card=\"%s\"} %" PRIu64 "\n",
                uuid, card->reserved);
    }
}

static void
put_slice(FILE *out, const struct srv_session *s, uint32_t i, const char *name,
          double value)
{
    char uuid[TICKET_UUID_TEXT];

    ticket_uuid_format(s->claims.slices[i].card_uuid, uuid);
    fprintf(out, "gpupool_server_%s{session=\"%s\",card=\"%s\"} %.9g\n", name,
            s->claims.session, uuid, value);
}

static void
put_spent(FILE *out, const struct srv *srv)
{
    static const struct {
        const char *name;
        const char *help;
        double unit;
    } kinds[WRK_SPENT_KINDS] = {
        [WRK_SPENT_GPU_NS] = {"session_gpu_seconds_total",
                              "Card time charged to a session.", 1e9},
        [WRK_SPENT_LAUNCHES] = {"session_launches_total",
                                "Kernels and graphs launched.", 1},
        [WRK_SPENT_WAIT_NS] = {"session_wait_seconds_total",
                               "Time that launches waited for the governor.", 1e9},
        [WRK_SPENT_MOVED] = {"session_moved_bytes_total",
                             "Bytes copied to and from clients.", 1},
        [WRK_SPENT_PACKED] = {"session_compressed_bytes_total",
                              "Bytes of payloads that travelled compressed, before.",
                              1},
        [WRK_SPENT_PACKED_WIRE] = {"session_compressed_wire_bytes_total",
                                   "What was left of them on the wire.", 1},
    };

    for (unsigned k = 0; k < WRK_SPENT_KINDS; k++) {
        put_head(out, kinds[k].name, "counter", kinds[k].help);
        for (const struct srv_session *s = srv->sessions; s; s = s->next) {
            for (uint32_t i = 0; i < s->claims.n_slices; i++)
                put_slice(out, s, i, kinds[k].name,
                          (double)srv_session_spent(s, (enum wrk_spent)k, i) /
                              kinds[k].unit);
        }
    }
}

static void
put_sessions(FILE *out, const struct srv *srv)
{
    const struct srv_session *s;

    put_head(out, "session_memory_used_bytes", "gauge",
             "Memory a session has allocated.");
    for (s = srv->sessions; s; s = s->next) {
        for (uint32_t i = 0; i < s->claims.n_slices; i++)
            put_slice(out, s, i, "session_memory_used_bytes",
                      (double)srv_session_used(s, i));
    }
    put_head(out, "session_memory_high_bytes", "gauge",
             "Most memory a session ever had at a time.");
    for (s = srv->sessions; s; s = s->next) {
        for (uint32_t i = 0; i < s->claims.n_slices; i++)
            put_slice(out, s, i, "session_memory_high_bytes",
                      (double)srv_session_high(s, i));
    }
    put_head(out, "session_memory_limit_bytes", "gauge",
             "Memory a session may allocate.");
    for (s = srv->sessions; s; s = s->next) {
        for (uint32_t i = 0; i < s->claims.n_slices; i++)
            put_slice(out, s, i, "session_memory_limit_bytes",
                      (double)s->claims.slices[i].memory);
    }
    put_spent(out, srv);
}

static void
put_image_value(FILE *out, const char *name, const char *type, const char *help,
                uint64_t value)
{
    put_head(out, name, type, help);
    fprintf(out, "gpupool_server_%s %" PRIu64 "\n", name, value);
}

static void
put_images(FILE *out, const struct srv *srv)
{
    const struct srv_images_stats *s = srv_images_stats(srv->images);

    put_image_value(out, "image_cache_hits_total", "counter",
                    "Code images that were here and not sent.", s->hits);
    put_image_value(out, "image_cache_misses_total", "counter",
                    "Code images that were not here.", s->misses);
    put_image_value(out, "image_cache_refused_total", "counter",
                    "Wrong proofs of possession, and files that may not be kept.",
                    s->refused);
    put_image_value(out, "image_cache_evicted_total", "counter",
                    "Code images that went for younger ones.", s->evicted);
    put_image_value(out, "image_cache_saved_bytes_total", "counter",
                    "Bytes that clients did not send.", s->saved);
    put_image_value(out, "image_cache_bytes", "gauge", "Bytes held.", s->bytes);
    put_image_value(out, "image_cache_images", "gauge", "Code images held.", s->count);
}

static void
put_links(FILE *out, const struct srv *srv)
{
    put_head(out, "links", "gauge",
             "Attachments by transport, and how RDMA reaches the cards' memory.");
    for (uint32_t t = 1; t < WRK_TRANSPORTS; t++)
        for (uint32_t gdr_mode = 0; gdr_mode < WRK_GDR_MODES; gdr_mode++) {
            unsigned n = 0;

            for (const struct srv_session *s = srv->sessions; s; s = s->next)
                n += srv_session_links_of(s, t, gdr_mode);
            if (n || gdr_mode == WRK_GDR_NONE)
                fprintf(out,
                        "gpupool_server_links{transport=\"%s\",gpudirect=\"%s\"} %u\n",
                        wrk_transport_name(t), wrk_gdr_mode_name(gdr_mode), n);
        }
}

static void
put_all(FILE *out, const struct srv *srv)
{
    put_head(out, "sessions", "gauge", "Sessions known here.");
    fprintf(out, "gpupool_server_sessions %u\n", srv->n_sessions);
    put_head(out, "attachments", "gauge", "Client processes being served.");
    fprintf(out, "gpupool_server_attachments %u\n", srv->n_workers);
    put_links(out, srv);
    put_head(out, "attached_total", "counter", "Client processes served so far.");
    fprintf(out, "gpupool_server_attached_total %" PRIu64 "\n", srv->attached_total);
    put_head(out, "refused_total", "counter", "Connections refused so far.");
    fprintf(out, "gpupool_server_refused_total %" PRIu64 "\n", srv->refused_total);
    put_head(out, "registered", "gauge", "1 while the scheduler knows this server.");
    fprintf(out, "gpupool_server_registered %d\n", srv_register_connected(srv->reg));
    put_images(out, srv);
    put_cards(out, srv);
    put_reserved(out, srv);
    put_sessions(out, srv);
}

static enum MHD_Result
answer(struct MHD_Connection *conn, unsigned status, char *text, size_t len)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result r;

    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4");
    r = MHD_queue_response(conn, status, response);
    MHD_destroy_response(response);
    return r;
}

static enum MHD_Result
on_request(void *arg, struct MHD_Connection *conn, const char *url, const char *method,
           const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct srv_metrics *m = arg;
    char *text = NULL;
    size_t len = 0;
    FILE *out;

    (void)version;
    (void)upload;
    (void)upload_size;
    (void)state;
    out = open_memstream(&text, &len);
    if (!out)
        return MHD_NO;
    if (strcmp(method, "GET") != 0 || strcmp(url, "/metrics") != 0) {
        fputs("there is only GET /metrics\n", out);
        fclose(out);
        return answer(conn, MHD_HTTP_NOT_FOUND, text, len);
    }
    put_all(out, m->srv);
    fclose(out);
    return answer(conn, MHD_HTTP_OK, text, len);
}

static void on_timer(struct gp_loop_timer *timer);

static void
run(struct srv_metrics *m)
{
    MHD_UNSIGNED_LONG_LONG ms;

    gp_http_room_run(&m->room, m->daemon);
    gp_loop_timer_del(&m->timer);
    if (MHD_get_timeout(m->daemon, &ms) == MHD_YES)
        gp_loop_timer_set(m->srv->loop, &m->timer, gp_now_ns() + ms * GP_NS_PER_MS,
                          on_timer);
}

static void
on_timer(struct gp_loop_timer *timer)
{
    run(container_of(timer, struct srv_metrics, timer));
}

static void
on_ready(struct gp_loop_fd *src, uint32_t revents)
{
    (void)revents;
    run(container_of(src, struct srv_metrics, src));
}

static int
start(struct srv_metrics *m, struct gp_err *err)
{
    const union MHD_DaemonInfo *info;
    int fd;
    int r;

    m->room.max = METRICS_CONNECTIONS / 2;
    r = gp_net_listen(m->srv->conf.metrics_listen, METRICS_PORT, GP_HTTP_BACKLOG, &fd,
                      err);
    if (r < 0)
        return r;
    m->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, m,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, METRICS_CONNECTIONS,
        MHD_OPTION_NOTIFY_CONNECTION, gp_http_room_notify, &m->room,
        MHD_OPTION_CONNECTION_TIMEOUT, METRICS_TIMEOUT_S, MHD_OPTION_END);
    if (!m->daemon) {
        close(fd);
        return gp_err_set(err, -EIO, "cannot serve metrics on %s",
                          m->srv->conf.metrics_listen);
    }
    info = MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return gp_err_set(err, -ENOTSUP, "this libmicrohttpd has no epoll mode");
    gp_log_info("server", "metrics on port %u", gp_net_port(fd));
    return gp_loop_fd_add(m->srv->loop, &m->src, info->epoll_fd, EPOLLIN, on_ready);
}

int
srv_metrics_start(struct srv *srv, struct srv_metrics **ret, struct gp_err *err)
{
    struct srv_metrics *m;
    int r;

    *ret = NULL;
    if (!srv->conf.metrics_listen[0])
        return 0;
    m = calloc(1, sizeof(*m));
    if (!m)
        return gp_err_set(err, -ENOMEM, "out of memory");
    m->srv = srv;
    r = start(m, err);
    if (r < 0) {
        srv_metrics_free(m);
        return r;
    }
    *ret = m;
    return 0;
}

void
srv_metrics_free(struct srv_metrics *m)
{
    if (!m)
        return;
    gp_loop_timer_del(&m->timer);
    gp_loop_fd_del(&m->src);
    if (m->daemon)
        MHD_stop_daemon(m->daemon);
    free(m);
}
