/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_metrics.h"

#include "gp_metrics.h"
#include "srv.h"
#include "srv_images.h"
#include "srv_inventory.h"
#include "srv_register.h"
#include "srv_session.h"
#include "srv_state.h"

#include <inttypes.h>
#include <stdio.h>

#define METRICS_PORT 9481

static void
put_head(FILE *out, const char *name, const char *type, const char *help)
{
    char full[96];

    snprintf(full, sizeof(full), "gpupool_server_%s", name);
    gp_metrics_head(out, full, type, help);
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
put_rates(FILE *out, const struct srv_rates *rates)
{
    put_head(out, "rate_limited_total", "counter",
             "Refused because an address or an owner came too often.");
    fprintf(out,
            "gpupool_server_rate_limited_total{what=\"connections\"} %" PRIu64 "\n"
            "gpupool_server_rate_limited_total{what=\"attaches\"} %" PRIu64 "\n"
            "gpupool_server_rate_limited_total{what=\"owners\"} %" PRIu64 "\n"
            "gpupool_server_rate_limited_total{what=\"refusals\"} %" PRIu64 "\n",
            rates->connections.refused, rates->attaches.refused, rates->owners.refused,
            rates->refusals.refused);
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
put_all(const void *arg, FILE *out)
{
    const struct srv *srv = arg;

    put_head(out, "sessions", "gauge", "Sessions known here.");
    fprintf(out, "gpupool_server_sessions %u\n", srv->n_sessions);
    put_head(out, "attachments", "gauge", "Client processes being served.");
    fprintf(out, "gpupool_server_attachments %u\n", srv->n_workers);
    put_links(out, srv);
    put_head(out, "attached_total", "counter", "Client processes served so far.");
    fprintf(out, "gpupool_server_attached_total %" PRIu64 "\n",
            srv->state->attached_total);
    put_head(out, "refused_total", "counter", "Connections refused so far.");
    fprintf(out, "gpupool_server_refused_total %" PRIu64 "\n", srv->refused_total);
    put_rates(out, &srv->rates);
    put_head(out, "registered", "gauge", "1 while the scheduler knows this server.");
    fprintf(out, "gpupool_server_registered %d\n", srv_register_connected(srv->reg));
    put_images(out, srv);
    put_cards(out, srv);
    put_reserved(out, srv);
    put_sessions(out, srv);
}

int
srv_metrics_start(struct srv *srv, struct gp_err *err)
{
    if (!srv->conf.metrics_listen[0])
        return 0;
    return gp_metrics_start(
        srv->loop,
        &(struct gp_metrics_config){.listen = srv->conf.metrics_listen,
                                    .default_port = METRICS_PORT,
                                    .area = "server",
                                    .write = put_all,
                                    .arg = srv},
        &srv->metrics, err);
}
