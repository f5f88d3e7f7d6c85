/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_metrics_text.h"

#include "gp_http.h"
#include "gp_metrics.h"
#include "gp_time.h"
#include "sched_ending.h"
#include "sched_fed.h"
#include "sched_fed_link.h"
#include "sched_reserve.h"
#include "sched_wait.h"

#include <inttypes.h>
#include <string.h>

/* -------------------------------------------------------------- the pool's -- */

static void
put_one(FILE *f, const char *name, const char *type, const char *help, uint64_t value)
{
    gp_metrics_head(f, name, type, help);
    fprintf(f, "%s %" PRIu64 "\n", name, value);
}

static void
put_totals(FILE *f, const struct sched *sched)
{
    const struct sched_counters *c = &sched->counters;

    put_one(f, "gpupool_sessions", "gauge", "Sessions that hold slices.",
            sched->sessions.by_id.count);
    gp_metrics_head(f, "gpupool_servers", "gauge", "Servers that report, or do not.");
    fprintf(f,
            "gpupool_servers{state=\"alive\"} %u\ngpupool_servers{state=\"dead\"} %u\n",
            sched_servers_alive(sched),
            sched->pool->n_servers - sched_servers_alive(sched));
    put_one(f, "gpupool_cards_out_of_use", "gauge",
            "Cards that are not given because something is wrong with them.",
            sched->pool->n_faulty);
    put_one(f, "gpupool_cards_cordoned", "gauge",
            "Cards that an administrator keeps from new sessions.",
            sched->pool->n_cordoned);
    put_one(f, "gpupool_clients", "gauge", "Connections that are no server's.",
            sched->n_clients);
    put_one(f, "gpupool_sessions_opened_total", "counter", "Sessions granted.",
            c->opened);
    put_one(f, "gpupool_sessions_refused_total", "counter", "Sessions refused.",
            c->refused);
    put_one(f, "gpupool_sessions_ended_total", "counter", "Sessions ended.", c->closed);
    put_one(f, "gpupool_leases_expired_total", "counter",
            "Sessions ended because nobody renewed their lease.", c->expired);
    put_one(f, "gpupool_bad_requests_total", "counter",
            "Messages that could not be read.", c->bad_requests);
}

static void
put_queue(FILE *f, const struct sched *sched)
{
    const struct sched_counters *c = &sched->counters;

    put_one(f, "gpupool_queue_waiting", "gauge", "Requests that wait for room.",
            sched->waits->queue.n);
    put_one(f, "gpupool_queue_reservations", "gauge",
            "Requests that cards are kept for.", sched->waits->n_holds);
    put_one(f, "gpupool_cards_reserved", "gauge",
            "Cards that are kept for reservations.", sched_reserve_cards(sched->waits));
    put_one(f, "gpupool_queue_waited_total", "counter", "Requests that had to wait.",
            c->waited);
    put_one(f, "gpupool_queue_left_total", "counter",
            "Requests that left the queue unserved.", c->gave_up);
    put_one(f, "gpupool_sessions_preempted_total", "counter",
            "Sessions that ended to make room.", c->preempted);
}

static void
put_rates(FILE *f, const struct sched_rates *rates)
{
    gp_metrics_head(f, "gpupool_rate_limited_total", "counter",
                    "What was refused because an address or owner came too often.");
    fprintf(f,
            "gpupool_rate_limited_total{what=\"requests\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"opens\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"owners\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"denials\"} %" PRIu64 "\n",
            rates->requests.refused, rates->opens.refused, rates->owners.refused,
            rates->denials.refused);
}

/* Few, by the administrator's choice. */
static void
put_pools(FILE *f, const struct sched_fed *fed)
{
    if (!sched_fed_count(fed))
        return;
    gp_metrics_head(f, "gpupool_other_pool_requests_total", "counter",
                    "Requests that another pool was asked for, by its answer.");
    for (unsigned i = 0; i < sched_fed_count(fed); i++) {
        struct sched_fed_link *link = sched_fed_at(fed, i);
        const struct sched_fed_stats *stats = sched_fed_link_stats(link);
        const struct {
            const char *answer;
            uint64_t n;
        } counts[] = {{"granted", stats->granted},
                      {"refused", stats->refused},
                      {"none", stats->failed}};

        for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
            fputs("gpupool_other_pool_requests_total{", f);
            gp_metrics_label(f, "pool", sched_fed_link_config(link)->name);
            fprintf(f, ",answer=\"%s\"} %" PRIu64 "\n", counts[k].answer, counts[k].n);
        }
    }
}

/* ---------------------------------------------------------------- tenants -- */

/* A number of a tenant; all of them can be summed up over tenants. */
struct tenant_metric {
    const char *name, *type, *help;
    double (*value)(const struct sched_tenant *tenant);
};

static double
tenant_sessions(const struct sched_tenant *tenant)
{
    return (double)tenant->sessions;
}

static double
tenant_core(const struct sched_tenant *tenant)
{
    return (double)tenant->used.core;
}

static double
tenant_memory(const struct sched_tenant *tenant)
{
    return (double)tenant->used.memory;
}

static double
tenant_used(const struct sched_tenant *tenant)
{
    return (double)tenant->used_bytes;
}

static double
tenant_gpu(const struct sched_tenant *tenant)
{
    return (double)tenant->spent.gpu_ns / 1e9;
}

static double
tenant_wait(const struct sched_tenant *tenant)
{
    return (double)tenant->spent.wait_ns / 1e9;
}

static double
tenant_launches(const struct sched_tenant *tenant)
{
    return (double)tenant->spent.launches;
}

static double
tenant_moved(const struct sched_tenant *tenant)
{
    return (double)tenant->spent.moved_bytes;
}

static void
put_tenant_line(FILE *f, const char *metric, const char *tenant, double value)
{
    fprintf(f, "%s{", metric);
    gp_metrics_label(f, "tenant", tenant);
    fprintf(f, "} %.15g\n", value);
}

static void
put_tenant_metric(FILE *f, const struct sched_tenants *set,
                  const struct tenant_metric *m)
{
    double others = 0;

    gp_metrics_head(f, m->name, m->type, m->help);
    for (struct gp_tree_node *node = gp_tree_first(&set->by_name); node;
         node = gp_tree_next(&set->by_name, node)) {
        const struct sched_tenant *tenant =
            container_of(node, struct sched_tenant, by_name);

        if (tenant->apart)
            put_tenant_line(f, m->name, tenant->name, m->value(tenant));
        else
            others += m->value(tenant);
    }
    if (set->by_name.count > set->n_apart)
        put_tenant_line(f, m->name, "(others)", others);
}

static const struct tenant_metric tenant_metrics[] = {
    {"gpupool_tenant_sessions", "gauge", "Sessions of the tenant.", tenant_sessions},
    {"gpupool_tenant_core_given_percent", "gauge", "Core that it holds, of one card.",
     tenant_core},
    {"gpupool_tenant_memory_given_bytes", "gauge", "Memory that it holds.",
     tenant_memory},
    {"gpupool_tenant_memory_used_bytes", "gauge", "Memory that it uses.", tenant_used},
    {"gpupool_tenant_gpu_seconds_total", "counter",
     "Time of cards that it was charged.", tenant_gpu},
    {"gpupool_tenant_wait_seconds_total", "counter",
     "Time that its ready work was held back to keep shares.", tenant_wait},
    {"gpupool_tenant_launches_total", "counter", "Kernels and graphs.",
     tenant_launches},
    {"gpupool_tenant_moved_bytes_total", "counter", "Copied to and from cards.",
     tenant_moved},
};

/* ------------------------------------------------------------------- cards -- */

struct card_metric {
    const char *name, *help;
    uint64_t (*value)(const struct sched_card *card);
};

static uint64_t
card_memory(const struct sched_card *card)
{
    return card->facts.memory;
}

static uint64_t
card_memory_given(const struct sched_card *card)
{
    return card->memory_given;
}

static uint64_t
card_memory_used(const struct sched_card *card)
{
    return card->used_bytes;
}

static uint64_t
card_core_given(const struct sched_card *card)
{
    return card->core_given;
}

static uint64_t
card_busy(const struct sched_card *card)
{
    return card->busy_percent;
}

static uint64_t
card_slices(const struct sched_card *card)
{
    return card->slices;
}

static const struct card_metric card_metrics[] = {
    {"gpupool_card_memory_bytes", "What sessions may have together.", card_memory},
    {"gpupool_card_memory_given_bytes", "What sessions hold.", card_memory_given},
    {"gpupool_card_memory_used_bytes", "What is in use.", card_memory_used},
    {"gpupool_card_core_given_percent", "What sessions hold.", card_core_given},
    {"gpupool_card_busy_percent", "How busy its server says it is.", card_busy},
    {"gpupool_card_slices", "Slices that sessions hold.", card_slices},
};

/* As snprintf() writes them, but a tenth of its time: a pool of 80,000 cards has half a
 * million of these lines. */
static char *
put_text(char *at, const char *text)
{
    size_t len = strlen(text);

    memcpy(at, text, len);
    return at + len;
}

static char *
put_number(char *at, uint64_t value)
{
    char digits[20];
    unsigned n = 0;

    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *at++ = digits[--n];
    return at;
}

/* A line of a card: the metric's name, a server's, a card's and three numbers. */
#define CARD_LINE_MAX (64 + CTL_NAME_MAX + TICKET_UUID_TEXT + 64)

/* Names were checked at registration: no quotes, no backslashes. */
static void
put_server_cards(FILE *f, const struct card_metric *m, const struct sched_server *s)
{
    for (unsigned i = 0; i < s->n_cards; i++) {
        char line[CARD_LINE_MAX], uuid[TICKET_UUID_TEXT], *at = line;

        ticket_uuid_format(s->cards[i]->facts.uuid, uuid);
        at = put_text(put_text(at, m->name), "{server=\"");
        at = put_text(put_text(at, s->name), "\",card=\"");
        at = put_text(put_number(at, s->cards[i]->facts.index), "\",uuid=\"");
        at = put_text(put_text(at, uuid), "\"} ");
        at = put_number(at, m->value(s->cards[i]));
        *at++ = '\n';
        fwrite(line, 1, (size_t)(at - line), f);
    }
}

/* ------------------------------------------------------------ per session -- */

/* A field of what was reported of each slice, summed over a session. */
struct session_metric {
    const char *name, *type;
    size_t offset; /* in struct sched_use, of a 64-bit number */
    double unit;
};

/* The sessions that /metric shows, one after the other. */
static const struct sched_session *
next_shown(const struct sched *sched, const struct sched_session *after, unsigned *n)
{
    return (*n)++ < SCHED_METRICS_SESSIONS_MAX
               ? sched_sessions_next(&sched->sessions, after)
               : NULL;
}

static double
session_sum(const struct sched_session *session, const struct session_metric *m)
{
    double sum = 0;

    for (uint32_t i = 0; i < session->n_slices; i++) {
        uint64_t value;

        memcpy(&value, (const char *)&session->use[i] + m->offset, sizeof(value));
        sum += (double)value / m->unit;
    }
    return sum;
}

static void
put_session_line(FILE *f, const char *name, const struct sched_session *s, double value)
{
    fprintf(f, "%s{session=\"%s\",", name, s->name);
    gp_metrics_label(f, "owner", s->owner->name);
    fprintf(f, "} %.9g\n", value);
}

/* What a session has of its cards lately, in percent of one. */
static void
put_shares(FILE *f, const struct sched *sched)
{
    static const char name[] = "gpupool_session_share_percent";
    const struct sched_session *s = NULL;
    unsigned n = 0;

    fprintf(f, "# TYPE %s gauge\n", name);
    while ((s = next_shown(sched, s, &n))) {
        double sum = 0;

        for (uint32_t i = 0; i < s->n_slices; i++)
            sum += s->use[i].share_permille / 10.0;
        put_session_line(f, name, s, sum);
    }
}

static void
put_attachments(FILE *f, const struct sched *sched)
{
    static const char name[] = "gpupool_session_attachments";
    const struct sched_session *s = NULL;
    unsigned n = 0;

    fprintf(f, "# TYPE %s gauge\n", name);
    while ((s = next_shown(sched, s, &n)))
        put_session_line(f, name, s, sched_session_attachments(s));
}

static void
put_sessions(FILE *f, const struct sched *sched)
{
#define USE(field) offsetof(struct sched_use, field)
    static const struct session_metric metrics[] = {
        {"gpupool_session_gpu_seconds_total", "counter", USE(gpu_ns), 1e9},
        {"gpupool_session_wait_seconds_total", "counter", USE(wait_ns), 1e9},
        {"gpupool_session_launches_total", "counter", USE(launches), 1},
        {"gpupool_session_moved_bytes_total", "counter", USE(moved_bytes), 1},
        {"gpupool_session_memory_used_bytes", "gauge", USE(used_bytes), 1},
        {"gpupool_session_memory_high_bytes", "gauge", USE(high_bytes), 1},
    };
#undef USE

    for (size_t m = 0; m < ARRAY_SIZE(metrics); m++) {
        const struct sched_session *s = NULL;
        unsigned n = 0;

        fprintf(f, "# TYPE %s %s\n", metrics[m].name, metrics[m].type);
        while ((s = next_shown(sched, s, &n)))
            put_session_line(f, metrics[m].name, s, session_sum(s, &metrics[m]));
    }
    put_shares(f, sched);
    put_attachments(f, sched);
}

/* -------------------------------------------------- names of old dashboards -- */

/*
 * Four metrics that dashboards of an earlier GPU manager read.  Their node is the node
 * of the client, which for us is the host part of the owner; a session that no
 * Kubernetes pod stands behind is its own pod.  Memory in MiB.
 */
static void
put_container_labels(FILE *f, const struct sched_session *s)
{
    const char *at = strchr(s->owner->name, '@');

    gp_metrics_label(f, "container_name", s->program);
    fputs(",namespace=\"gpupool\",", f);
    gp_metrics_label(f, "node", at ? at + 1 : s->owner->name);
    fputc(',', f);
    gp_metrics_label(f, "pod_name", s->name);
}

static void
put_container_line(FILE *f, const char *metric, const struct sched_session *s,
                   const char *label, const char *value, double number)
{
    fprintf(f, "%s{", metric);
    put_container_labels(f, s);
    fprintf(f, ",%s=\"%s\"} %.6g\n", label, value, number);
}

static void
put_container_use(FILE *f, const char *metric, const char *label,
                  const struct sched *sched,
                  double (*value)(const struct sched_use *use))
{
    const struct sched_session *s = NULL;
    unsigned n = 0;

    fprintf(f, "# TYPE %s gauge\n", metric);
    while ((s = next_shown(sched, s, &n))) {
        double total = 0;

        for (uint32_t i = 0; i < s->n_slices; i++) {
            char gpu[16];

            snprintf(gpu, sizeof(gpu), "gpu%u", s->slices[i].card->facts.index);
            put_container_line(f, metric, s, label, gpu, value(&s->use[i]));
            total += value(&s->use[i]);
        }
        put_container_line(f, metric, s, label, "total", total);
    }
}

static void
put_container_request(FILE *f, const char *metric, const char *label,
                      const struct sched *sched,
                      double (*value)(const struct sched_slice *slice))
{
    const struct sched_session *s = NULL;
    unsigned n = 0;

    fprintf(f, "# TYPE %s gauge\n", metric);
    while ((s = next_shown(sched, s, &n))) {
        double total = 0;

        for (uint32_t i = 0; i < s->n_slices; i++)
            total += value(&s->slices[i]);
        put_container_line(f, metric, s, label, "total", total);
    }
}

static double
use_mib(const struct sched_use *use)
{
    return (double)use->used_bytes / (1024.0 * 1024);
}

static double
use_percent(const struct sched_use *use)
{
    return use->share_permille / 10.0;
}

static double
slice_mib(const struct sched_slice *slice)
{
    return (double)slice->memory / (1024.0 * 1024);
}

static double
slice_cards(const struct sched_slice *slice)
{
    return slice->core / 100.0;
}

/* ------------------------------------------------------------------ pieces -- */

/* Servers whose cards are one piece: some hundred KiB. */
#define PIECE_SERVERS 128

/* Where an answer goes on: a metric, and of the cards', a server. */
struct place {
    const struct sched *sched;
    size_t metric;
    uint64_t serial;
    /* That server, unless one has been removed meanwhile. */
    const struct sched_server *server;
    uint64_t removed;
};

static const struct sched_server *
place_server(const struct place *place)
{
    const struct sched_server *s = place->sched->pool->servers;

    if (place->serial && place->removed == place->sched->pool->servers_removed)
        return place->server;
    while (s && s->serial < place->serial)
        s = s->next;
    return s;
}

/* One piece of a metric of all cards; the serial is 0 behind the last server. */
static void
put_card_piece(FILE *f, struct place *place, const struct card_metric *m)
{
    const struct sched_server *s = place_server(place);
    unsigned n = 0;

    if (!place->serial)
        gp_metrics_head(f, m->name, "gauge", m->help);
    for (; s && n < PIECE_SERVERS; s = s->next, n++)
        put_server_cards(f, m, s);
    place->serial = s ? s->serial : 0;
    place->server = s;
    place->removed = place->sched->pool->servers_removed;
}

static bool
next_metrics(void *state, FILE *f)
{
    struct place *place = state;

    if (place->metric < ARRAY_SIZE(card_metrics)) {
        put_card_piece(f, place, &card_metrics[place->metric]);
        place->metric += !place->serial;
        return true;
    }
    put_tenant_metric(f, &place->sched->sessions.tenants,
                      &tenant_metrics[place->metric - ARRAY_SIZE(card_metrics)]);
    return ++place->metric < ARRAY_SIZE(card_metrics) + ARRAY_SIZE(tenant_metrics);
}

static bool
next_sessions(void *state, FILE *f)
{
    struct place *place = state;
    const struct sched *sched = place->sched;

    switch (place->metric++) {
    case 0:
        put_sessions(f, sched);
        return true;
    case 1:
        put_container_use(f, "container_gpu_memory_total", "gpu_memory", sched,
                          use_mib);
        return true;
    case 2:
        put_container_use(f, "container_gpu_utilization", "gpu", sched, use_percent);
        return true;
    case 3:
        put_container_request(f, "container_request_gpu_memory", "req_of_gpu_memory",
                              sched, slice_mib);
        return true;
    default:
        put_container_request(f, "container_request_gpu_utilization", "req_of_gpu",
                              sched, slice_cards);
        return false;
    }
}

void
sched_metrics_answer(const void *arg, const char *path, struct gp_http_answer *answer)
{
    const struct sched *sched = arg;
    struct place *place = calloc(1, sizeof(*place));

    if (!place) {
        answer->status = 503;
        return;
    }
    place->sched = sched;
    put_totals(answer->body, sched);
    put_queue(answer->body, sched);
    put_rates(answer->body, &sched->rates);
    put_pools(answer->body, sched->fed);
    answer->state = place;
    answer->done = free;
    answer->next = !strcmp(path, "/metric") ? next_sessions : next_metrics;
}
