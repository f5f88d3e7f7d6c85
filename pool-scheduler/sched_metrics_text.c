/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_metrics_text.h"

#include "gp_metrics.h"
#include "gp_time.h"
#include "sched_ending.h"
#include "sched_wait.h"

#include <inttypes.h>
#include <string.h>

/* -------------------------------------------------------------- the pool's -- */

static void
put_totals(FILE *f, const struct sched *sched)
{
    const struct sched_counters *c = &sched->counters;

    fprintf(f, "# TYPE gpupool_sessions gauge\ngpupool_sessions %zu\n",
            sched->sessions.by_id.count);
    fprintf(f,
            "# TYPE gpupool_servers gauge\n"
            "gpupool_servers{state=\"alive\"} %u\ngpupool_servers{state=\"dead\"} %u\n",
            sched_servers_alive(sched),
            sched->pool->n_servers - sched_servers_alive(sched));
    fprintf(f, "# TYPE gpupool_clients gauge\ngpupool_clients %u\n", sched->n_clients);
    fprintf(f,
            "# TYPE gpupool_sessions_opened_total counter\n"
            "gpupool_sessions_opened_total %" PRIu64 "\n",
            c->opened);
    fprintf(f,
            "# TYPE gpupool_sessions_refused_total counter\n"
            "gpupool_sessions_refused_total %" PRIu64 "\n",
            c->refused);
    fprintf(f,
            "# TYPE gpupool_sessions_ended_total counter\n"
            "gpupool_sessions_ended_total %" PRIu64 "\n",
            c->closed);
    fprintf(f,
            "# TYPE gpupool_leases_expired_total counter\n"
            "gpupool_leases_expired_total %" PRIu64 "\n",
            c->expired);
    fprintf(f,
            "# TYPE gpupool_bad_requests_total counter\n"
            "gpupool_bad_requests_total %" PRIu64 "\n",
            c->bad_requests);
}

static void
put_queue(FILE *f, const struct sched *sched)
{
    const struct sched_counters *c = &sched->counters;

    fprintf(f,
            "# TYPE gpupool_queue_waiting gauge\ngpupool_queue_waiting %u\n"
            "# TYPE gpupool_queue_reservations gauge\ngpupool_queue_reservations %u\n",
            sched->waits->queue.n, sched->waits->n_holds);
    fprintf(f,
            "# TYPE gpupool_queue_waited_total counter\n"
            "gpupool_queue_waited_total %" PRIu64 "\n"
            "# TYPE gpupool_queue_left_total counter\n"
            "gpupool_queue_left_total %" PRIu64 "\n"
            "# TYPE gpupool_sessions_preempted_total counter\n"
            "gpupool_sessions_preempted_total %" PRIu64 "\n",
            c->waited, c->gave_up, c->preempted);
}

static void
put_rates(FILE *f, const struct sched_rates *rates)
{
    fprintf(f,
            "# TYPE gpupool_rate_limited_total counter\n"
            "gpupool_rate_limited_total{what=\"requests\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"opens\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"owners\"} %" PRIu64 "\n"
            "gpupool_rate_limited_total{what=\"denials\"} %" PRIu64 "\n",
            rates->requests.refused, rates->opens.refused, rates->owners.refused,
            rates->denials.refused);
}

struct card_metric {
    const char *name;
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

/* Names were checked at registration: no quotes, no backslashes. */
static void
put_cards(FILE *f, const struct sched *sched)
{
    static const struct card_metric metrics[] = {
        {"gpupool_card_memory_bytes", card_memory},
        {"gpupool_card_memory_given_bytes", card_memory_given},
        {"gpupool_card_memory_used_bytes", card_memory_used},
        {"gpupool_card_core_given_percent", card_core_given},
        {"gpupool_card_busy_percent", card_busy},
        {"gpupool_card_slices", card_slices},
    };

    for (size_t m = 0; m < ARRAY_SIZE(metrics); m++) {
        fprintf(f, "# TYPE %s gauge\n", metrics[m].name);
        for (const struct sched_server *s = sched->pool->servers; s; s = s->next)
            for (unsigned i = 0; i < s->n_cards; i++) {
                char uuid[TICKET_UUID_TEXT];

                ticket_uuid_format(s->cards[i]->facts.uuid, uuid);
                fprintf(f, "%s{server=\"%s\",card=\"%u\",uuid=\"%s\"} %" PRIu64 "\n",
                        metrics[m].name, s->name, s->cards[i]->facts.index, uuid,
                        metrics[m].value(s->cards[i]));
            }
    }
}

/* ------------------------------------------------------------ per session -- */

/* A field of what was reported of each slice, summed over a session. */
struct session_metric {
    const char *name, *type;
    size_t offset; /* in struct sched_use, of a 64-bit number */
    double unit;
};

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

    fprintf(f, "# TYPE %s gauge\n", name);
    while ((s = sched_sessions_next(&sched->sessions, s))) {
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

    fprintf(f, "# TYPE %s gauge\n", name);
    while ((s = sched_sessions_next(&sched->sessions, s)))
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

        fprintf(f, "# TYPE %s %s\n", metrics[m].name, metrics[m].type);
        while ((s = sched_sessions_next(&sched->sessions, s)))
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

    fprintf(f, "# TYPE %s gauge\n", metric);
    while ((s = sched_sessions_next(&sched->sessions, s))) {
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

    fprintf(f, "# TYPE %s gauge\n", metric);
    while ((s = sched_sessions_next(&sched->sessions, s))) {
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

void
sched_metrics_write(const void *arg, FILE *f)
{
    const struct sched *sched = arg;

    put_totals(f, sched);
    put_queue(f, sched);
    put_rates(f, &sched->rates);
    put_cards(f, sched);
    put_sessions(f, sched);
    put_container_use(f, "container_gpu_memory_total", "gpu_memory", sched, use_mib);
    put_container_use(f, "container_gpu_utilization", "gpu", sched, use_percent);
    put_container_request(f, "container_request_gpu_memory", "req_of_gpu_memory", sched,
                          slice_mib);
    put_container_request(f, "container_request_gpu_utilization", "req_of_gpu", sched,
                          slice_cards);
}
