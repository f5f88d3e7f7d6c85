/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_metrics.h"

#include "ctl_limits.h"
#include "gp_http.h"
#include "gp_metrics.h"
#include "srv.h"
#include "srv_images.h"
#include "srv_inventory.h"
#include "srv_register.h"
#include "srv_session.h"
#include "srv_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* ------------------------------------------------------------------- cards -- */

static const struct spent_metric {
    const char *name; /* behind "card_", "session_" or nothing */
    const char *help;
    double unit;
    bool of_card; /* otherwise of the whole session, on its first slice */
} spent_metrics[WRK_SPENT_KINDS] = {
    [WRK_SPENT_GPU_NS] = {"gpu_seconds_total", "Card time charged to sessions.", 1e9,
                          true},
    [WRK_SPENT_LAUNCHES] = {"launches_total", "Kernels and graphs launched.", 1, true},
    [WRK_SPENT_WAIT_NS] = {"wait_seconds_total",
                           "Time that launches waited for the governor.", 1e9, true},
    [WRK_SPENT_MOVED] = {"moved_bytes_total", "Bytes copied to and from clients.", 1,
                         true},
    [WRK_SPENT_PACKED] = {"compressed_bytes_total",
                          "Bytes of payloads that travelled compressed, before.", 1,
                          false},
    [WRK_SPENT_PACKED_WIRE] = {"compressed_wire_bytes_total",
                               "What was left of them on the wire.", 1, false},
};

/* What the sessions of a card have and had. */
struct card_sums {
    uint64_t sessions, used, given;
    uint64_t spent[WRK_SPENT_KINDS];
};

static void
sum_cards(const struct srv *srv, struct card_sums sums[SRV_CARDS_MAX])
{
    for (uint32_t i = 0; i < srv_inventory_count(srv->inventory); i++)
        memcpy(sums[i].spent, srv->state->spent[i], sizeof(sums[i].spent));
    for (const struct srv_session *s = srv->sessions; s; s = s->next)
        for (uint32_t i = 0; i < s->claims.n_slices; i++) {
            const struct srv_card *card =
                srv_inventory_find(srv->inventory, s->claims.slices[i].card_uuid);

            if (!card)
                continue;
            sums[card->at].sessions++;
            sums[card->at].used += srv_session_used(s, i);
            sums[card->at].given += s->claims.slices[i].memory;
            for (unsigned k = 0; k < WRK_SPENT_KINDS; k++)
                sums[card->at].spent[k] += srv_session_spent(s, (enum wrk_spent)k, i);
        }
}

static void
put_card(FILE *out, const struct srv *srv, uint32_t i, const char *name, double value)
{
    char uuid[TICKET_UUID_TEXT];

    ticket_uuid_format(srv_inventory_card(srv->inventory, i)->uuid, uuid);
    fprintf(out, "gpupool_server_card_%s{card=\"%s\"} %.9g\n", name, uuid, value);
}

static void
put_card_spent(FILE *out, const struct srv *srv,
               const struct card_sums sums[SRV_CARDS_MAX], unsigned kind)
{
    const struct spent_metric *m = &spent_metrics[kind];
    uint32_t n = srv_inventory_count(srv->inventory);
    char name[64];
    double all = 0;

    snprintf(name, sizeof(name), "%s%s", m->of_card ? "card_" : "", m->name);
    put_head(out, name, "counter", m->help);
    for (uint32_t i = 0; i < n; i++) {
        double value = (double)sums[i].spent[kind] / m->unit;

        all += value;
        if (m->of_card)
            put_card(out, srv, i, m->name, value);
    }
    if (!m->of_card)
        fprintf(out, "gpupool_server_%s %.9g\n", name, all);
}

static void
put_card_gauge(FILE *out, const struct srv *srv,
               const struct card_sums sums[SRV_CARDS_MAX], const char *name,
               const char *help, size_t offset)
{
    char full[64];

    snprintf(full, sizeof(full), "card_%s", name);
    put_head(out, full, "gauge", help);
    for (uint32_t i = 0; i < srv_inventory_count(srv->inventory); i++) {
        uint64_t value;

        memcpy(&value, (const char *)&sums[i] + offset, sizeof(value));
        put_card(out, srv, i, name, (double)value);
    }
}

static void
put_card_sums(FILE *out, const struct srv *srv)
{
    struct card_sums sums[SRV_CARDS_MAX] = {0};

    sum_cards(srv, sums);
    put_card_gauge(out, srv, sums, "sessions", "Sessions with a slice of a card.",
                   offsetof(struct card_sums, sessions));
    put_card_gauge(out, srv, sums, "memory_used_bytes",
                   "Memory of a card that sessions have allocated.",
                   offsetof(struct card_sums, used));
    put_card_gauge(out, srv, sums, "memory_given_bytes",
                   "Memory of a card that sessions may allocate.",
                   offsetof(struct card_sums, given));
    for (unsigned k = 0; k < WRK_SPENT_KINDS; k++)
        put_card_spent(out, srv, sums, k);
}

/* ---------------------------------------------------------------- sessions -- */

/* Of /metric, which nobody needs to scrape: so many are shown, and no more. */
#define SESSIONS_MAX 4096

static double
value_used(const struct srv_session *s, uint32_t i, unsigned kind)
{
    (void)kind;
    return (double)srv_session_used(s, i);
}

static double
value_high(const struct srv_session *s, uint32_t i, unsigned kind)
{
    (void)kind;
    return (double)srv_session_high(s, i);
}

static double
value_limit(const struct srv_session *s, uint32_t i, unsigned kind)
{
    (void)kind;
    return (double)s->claims.slices[i].memory;
}

static double
value_spent(const struct srv_session *s, uint32_t i, unsigned kind)
{
    return (double)srv_session_spent(s, (enum wrk_spent)kind, i) /
           spent_metrics[kind].unit;
}

static void
put_slices(FILE *out, const struct srv *srv, const char *type, const char *name,
           const char *help,
           double (*value)(const struct srv_session *s, uint32_t i, unsigned kind),
           unsigned kind)
{
    unsigned n = 0;
    char full[64];

    snprintf(full, sizeof(full), "session_%s", name);
    put_head(out, full, type, help);
    for (const struct srv_session *s = srv->sessions; s && n < SESSIONS_MAX;
         s = s->next, n++)
        for (uint32_t i = 0; i < s->claims.n_slices; i++) {
            char uuid[TICKET_UUID_TEXT];

            ticket_uuid_format(s->claims.slices[i].card_uuid, uuid);
            fprintf(out, "gpupool_server_%s{session=\"%s\",card=\"%s\"} %.9g\n", full,
                    s->claims.session, uuid, value(s, i, kind));
        }
}

static void
put_sessions(FILE *out, const struct srv *srv)
{
    put_slices(out, srv, "gauge", "memory_used_bytes",
               "Memory a session has allocated.", value_used, 0);
    put_slices(out, srv, "gauge", "memory_high_bytes",
               "Most memory a session ever had at a time.", value_high, 0);
    put_slices(out, srv, "gauge", "memory_limit_bytes",
               "Memory a session may allocate.", value_limit, 0);
    for (unsigned k = 0; k < WRK_SPENT_KINDS; k++)
        put_slices(out, srv, "counter", spent_metrics[k].name, spent_metrics[k].help,
                   value_spent, k);
}

/* ------------------------------------------------------------------ server -- */

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
put_server(FILE *out, const struct srv *srv)
{
    gp_metrics_build_info(out, "gpupool_server_build_info", CTL_MAJOR);
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
    put_card_sums(out, srv);
}

/* As at the scheduler: what grows with the sessions is on a page of its own. */
static void
answer(void *arg, const struct gp_http_request *request, struct gp_http_answer *reply)
{
    const struct srv *srv = arg;

    put_server(reply->body, srv);
    if (!strcmp(request->path, "/metric"))
        put_sessions(reply->body, srv);
}

int
srv_metrics_start(struct srv *srv, struct gp_err *err)
{
    if (!srv->conf.metrics_listen[0])
        return 0;
    return gp_metrics_start(
        srv->loop,
        &(struct gp_metrics_config){.listen = srv->conf.metrics_listen,
                                    .default_port = SRV_METRICS_PORT,
                                    .area = "server",
                                    .answer = answer,
                                    .arg = srv},
        &srv->metrics, err);
}
