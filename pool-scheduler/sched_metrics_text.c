/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_metrics_text.h"

#include "ctl_limits.h"
#include "gp_http.h"
#include "gp_metrics.h"
#include "gp_net.h"
#include "gp_time.h"
#include "sched_ending.h"
#include "sched_fed.h"
#include "sched_fed_link.h"
#include "sched_metrics_cards.h"
#include "sched_reads.h"
#include "sched_relay.h"
#include "sched_replica.h"
#include "sched_reserve.h"
#include "sched_wait.h"
#include "view.h"

#include <assert.h>
#include <errno.h>
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
    unsigned alive = sched_servers_alive(sched);
    const int64_t cert_until = view_cert_until(sched->view);

    gp_metrics_build_info(f, "gpupool_scheduler_build_info", CTL_MAJOR);
    put_one(f, "gpupool_scheduler_leads", "gauge",
            "Whether this scheduler decides, or follows another one of the pool.",
            sched_replica_leads(sched));
    if (cert_until)
        put_one(f, "gpupool_http_certificate_expiry_timestamp_seconds", "gauge",
                "When the certificate of --http-cert ends.", (uint64_t)cert_until);
    put_one(f, "gpupool_sessions", "gauge", "Sessions that hold slices.",
            sched->sessions.by_id.count);
    gp_metrics_head(f, "gpupool_servers", "gauge", "Servers that report, or do not.");
    fprintf(f,
            "gpupool_servers{state=\"alive\"} %u\ngpupool_servers{state=\"dead\"} %u\n",
            alive, sched->pool->n_servers - alive);
    put_one(f, "gpupool_cards_out_of_use", "gauge",
            "Cards that are not given because something is wrong with them.",
            sched->pool->sums.n_faulty);
    put_one(f, "gpupool_cards_cordoned", "gauge",
            "Cards that an administrator keeps from new sessions.",
            sched->pool->sums.n_cordoned);
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

/* How many questions went on to the scheduler that leads. */
static void
put_relayed(FILE *f, const struct sched_relay_stats *stats)
{
    gp_metrics_head(f, "gpupool_relayed_total", "counter",
                    "Questions to the scheduler that leads, by what became of them.");
    fprintf(f,
            "gpupool_relayed_total{answer=\"given\"} %" PRIu64 "\n"
            "gpupool_relayed_total{answer=\"none\"} %" PRIu64 "\n"
            "gpupool_relayed_total{answer=\"too many\"} %" PRIu64 "\n",
            stats->answered, stats->failed, stats->refused);
}

/* A follower has the number of those that wait from the leader, and no more. */
static void
put_copied_queue(FILE *f, const struct sched_copy *copy)
{
    if (copy->live_ns && gp_now_ns() - copy->live_ns < SCHED_COPY_LIVE_NS)
        put_one(f, "gpupool_queue_waiting", "gauge", "Requests that wait for room.",
                copy->live.waiting);
}

static void
put_queue(FILE *f, const struct sched *sched)
{
    const struct sched_counters *c = &sched->counters;

    if (sched_replica_follows(sched)) {
        put_copied_queue(f, &sched->copy);
        put_relayed(f, sched_relay_stats(sched->relay));
        return;
    }
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
            "gpupool_rate_limited_total{what=\"denials\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"reads\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"connections\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"tickets\"} %" PRIu64 "\n",
            rates->requests.refused, rates->opens.refused, rates->owners.refused,
            rates->denials.refused, rates->reads.refused, rates->connections.refused,
            rates->tickets.refused);
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
static const struct tenant_metric {
    const char *name, *type, *help;
    bool of_ns;    /* shown in seconds */
    bool reported; /* by servers, so that a scheduler that follows does not know it */
} tenant_metrics[] = {
    {"gpupool_tenant_sessions", "gauge", "Sessions of the tenant.", false, false},
    {"gpupool_tenant_core_given_percent", "gauge", "Core that it holds, of one card.",
     false, false},
    {"gpupool_tenant_memory_given_bytes", "gauge", "Memory that it holds.", false,
     false},
    {"gpupool_tenant_memory_used_bytes", "gauge", "Memory that it uses.", false, true},
    {"gpupool_tenant_gpu_seconds_total", "counter",
     "Time of cards that it was charged.", true, true},
    {"gpupool_tenant_wait_seconds_total", "counter",
     "Time that its ready work was held back to keep shares.", true, true},
    {"gpupool_tenant_launches_total", "counter", "Kernels and graphs.", false, true},
    {"gpupool_tenant_moved_bytes_total", "counter", "Copied to and from cards.", false,
     true},
};

/* A line of each metric: what they say of one tenant, or of those that are not shown
 * apart. */
struct tenant_row {
    const char *name;
    uint64_t values[ARRAY_SIZE(tenant_metrics)];
};

static void
tenant_add(struct tenant_row *row, const struct sched_tenant *tenant)
{
    const uint64_t values[] = {
        tenant->sessions,       tenant->used.core,         tenant->used.memory,
        tenant->used_bytes,     tenant->spent.gpu_ns,      tenant->spent.wait_ns,
        tenant->spent.launches, tenant->spent.moved_bytes,
    };

    static_assert(ARRAY_SIZE(values) == ARRAY_SIZE(tenant_metrics), "one for each");
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        row->values[i] += values[i];
}

static void
tenants_add(const struct gp_tree *by_name, struct tenant_row *rows, size_t *n,
            struct tenant_row *rest)
{
    for (struct gp_tree_node *node = gp_tree_first(by_name); node;
         node = gp_tree_next(by_name, node)) {
        const struct sched_tenant *tenant =
            container_of(node, struct sched_tenant, by_name);
        struct tenant_row *row = tenant->apart ? &rows[(*n)++] : rest;

        if (tenant->apart)
            row->name = tenant->name;
        tenant_add(row, tenant);
    }
}

static void
put_tenant_metric(FILE *f, const struct tenant_row *rows, size_t n, size_t metric)
{
    const struct tenant_metric *m = &tenant_metrics[metric];

    gp_metrics_head(f, m->name, m->type, m->help);
    for (size_t i = 0; i < n; i++) {
        uint64_t value = rows[i].values[metric];

        fprintf(f, "%s{", m->name);
        gp_metrics_label(f, "tenant", rows[i].name);
        if (m->of_ns)
            fprintf(f, "} %.15g\n", (double)value / 1e9);
        else
            fprintf(f, "} %" PRIu64 "\n", value);
    }
}

/* Tenants are looked at once, not for each metric: there may be far more than are
 * shown. */
static int
put_tenants(FILE *f, const struct sched_tenants *set, bool follows)
{
    size_t most = set->n_apart + set->gone.count;
    CLEANUP_FREE struct tenant_row *rows = calloc(most + 1, sizeof(*rows));
    const struct sched_tenant gone = {.spent = set->others_spent};
    bool others = set->by_name.count > set->n_apart || gone.spent.gpu_ns ||
                  gone.spent.launches || gone.spent.moved_bytes;
    struct tenant_row *rest;
    size_t n = 0;

    if (!rows)
        return -ENOMEM;
    rest = &rows[most];
    rest->name = SCHED_TENANTS_REST;
    tenants_add(&set->by_name, rows, &n, rest);
    tenants_add(&set->gone, rows, &n, rest);
    tenant_add(rest, &gone);
    for (size_t m = 0; m < ARRAY_SIZE(tenant_metrics); m++)
        if (!tenant_metrics[m].reported || !follows)
            put_tenant_metric(f, rows, n + others, m);
    return 0;
}

/* ------------------------------------------------------------ per session -- */

/* A field of what was reported of each slice, summed over a session. */
struct session_metric {
    const char *name, *type, *help;
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

    gp_metrics_head(f, name, "gauge",
                    "Time of cards that a session had lately, in percent of one card.");
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

    gp_metrics_head(f, name, "gauge", "Client processes that a session serves.");
    while ((s = next_shown(sched, s, &n)))
        put_session_line(f, name, s, sched_session_attachments(s));
}

static void
put_sessions(FILE *f, const struct sched *sched)
{
#define USE(field) offsetof(struct sched_use, field)
    static const struct session_metric metrics[] = {
        {"gpupool_session_gpu_seconds_total", "counter",
         "Time of cards that a session was charged.", USE(gpu_ns), 1e9},
        {"gpupool_session_wait_seconds_total", "counter",
         "Time that its ready work was held back to keep shares.", USE(wait_ns), 1e9},
        {"gpupool_session_launches_total", "counter", "Kernels and graphs.",
         USE(launches), 1},
        {"gpupool_session_moved_bytes_total", "counter", "Copied to and from cards.",
         USE(moved_bytes), 1},
        {"gpupool_session_memory_used_bytes", "gauge", "Memory that a session uses.",
         USE(used_bytes), 1},
        {"gpupool_session_memory_high_bytes", "gauge",
         "Most memory that a session ever used at a time.", USE(high_bytes), 1},
    };
#undef USE

    for (size_t m = 0; m < ARRAY_SIZE(metrics); m++) {
        const struct sched_session *s = NULL;
        unsigned n = 0;

        gp_metrics_head(f, metrics[m].name, metrics[m].type, metrics[m].help);
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
put_container_use(FILE *f, const char *metric, const char *help, const char *label,
                  const struct sched *sched,
                  double (*value)(const struct sched_use *use))
{
    const struct sched_session *s = NULL;
    unsigned n = 0;

    gp_metrics_head(f, metric, "gauge", help);
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
put_container_request(FILE *f, const char *metric, const char *help, const char *label,
                      const struct sched *sched,
                      double (*value)(const struct sched_slice *slice))
{
    const struct sched_session *s = NULL;
    unsigned n = 0;

    gp_metrics_head(f, metric, "gauge", help);
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

/* Where /metric goes on. */
struct place {
    const struct sched *sched;
    unsigned part;
};

static bool
next_sessions(void *state, FILE *f)
{
    struct place *place = state;
    const struct sched *sched = place->sched;

    if (sched_replica_follows(sched) && place->part < 3) /* what servers report */
        place->part = 3;
    switch (place->part++) {
    case 0:
        put_sessions(f, sched);
        return true;
    case 1:
        put_container_use(f, "container_gpu_memory_total",
                          "Memory that a session uses, in MiB.", "gpu_memory", sched,
                          use_mib);
        return true;
    case 2:
        put_container_use(
            f, "container_gpu_utilization",
            "Time of cards that a session had lately, in percent of one card.", "gpu",
            sched, use_percent);
        return true;
    case 3:
        put_container_request(f, "container_request_gpu_memory",
                              "Memory that a session may use, in MiB.",
                              "req_of_gpu_memory", sched, slice_mib);
        return true;
    default:
        put_container_request(f, "container_request_gpu_utilization",
                              "Part of cards that a session holds, in cards.",
                              "req_of_gpu", sched, slice_cards);
        return false;
    }
}

static void
answer_sessions(const struct sched *sched, struct gp_http_answer *answer)
{
    struct place *place = calloc(1, sizeof(*place));

    if (!place) {
        answer->status = 503;
        return;
    }
    place->sched = sched;
    answer->state = place;
    answer->done = free;
    answer->next = next_sessions;
}

static void
make_answer(struct sched *sched, const struct gp_http_request *request,
            struct gp_http_answer *answer)
{
    bool follows = sched_replica_follows(sched);

    if (!strcmp(request->path, SCHED_METRICS_CARDS_PATH)) {
        sched_metrics_cards_answer(sched->pool, follows, request, answer);
        return;
    }
    put_totals(answer->body, sched);
    put_queue(answer->body, sched);
    put_rates(answer->body, &sched->rates);
    put_pools(answer->body, sched->fed);
    if (!strcmp(request->path, "/metric"))
        answer_sessions(sched, answer);
    else if (put_tenants(answer->body, &sched->sessions.tenants, follows) < 0 ||
             sched_metrics_put_servers(&sched->metrics_page, sched->pool, follows,
                                       answer) < 0)
        answer->status = 503; /* out of memory: a part would look like all of it */
}

/* An answer in pieces, whose cost is charged to who asked. */
struct charged {
    struct sched *sched;
    uint64_t from;
    bool (*next)(void *state, FILE *body);
    void (*done)(void *state);
    void *state;
};

static bool
next_charged(void *state, FILE *body)
{
    struct charged *c = state;
    uint64_t begin = sched_reads_begin();
    bool more = c->next(c->state, body);

    sched_reads_charge(c->sched, c->from, begin);
    return more;
}

static void
charged_done(void *state)
{
    struct charged *c = state;

    c->done(c->state);
    free(c);
}

static void
charge_pieces(struct sched *sched, uint64_t from, struct gp_http_answer *answer)
{
    struct charged *c = calloc(1, sizeof(*c));

    if (!c) {
        answer->done(answer->state);
        answer->next = NULL;
        answer->status = 503;
        return;
    }
    *c = (struct charged){sched, from, answer->next, answer->done, answer->state};
    answer->next = next_charged;
    answer->done = charged_done;
    answer->state = c;
}

/* Nobody shows a token here, so addresses pay. */
void
sched_metrics_answer(void *arg, const struct gp_http_request *request,
                     struct gp_http_answer *answer)
{
    struct sched *sched = arg;
    uint64_t from = gp_net_peer_hash(request->fd), begin;
    uint64_t wait = sched_reads_wait(sched, from);

    if (wait) {
        answer->status = 429;
        snprintf(answer->retry_after, sizeof(answer->retry_after), "%" PRIu64,
                 wait / GP_NS_PER_S + 1);
        fputs("too many or too large requests from this address (--rate-reads)\n",
              answer->body);
        return;
    }
    begin = sched_reads_begin();
    make_answer(sched, request, answer);
    sched_reads_charge(sched, from, begin);
    if (answer->next)
        charge_pieces(sched, from, answer);
}
