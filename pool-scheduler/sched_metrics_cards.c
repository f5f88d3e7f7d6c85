/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_metrics_cards.h"

#include "gp_http.h"
#include "gp_metrics.h"
#include "sched_pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------- lines -- */

/* A metric of servers or of cards. */
struct metric {
    const char *name, *help;
    bool reported; /* by servers, to the scheduler that leads */
};

static bool
is_known(const struct metric *m, bool follows)
{
    return !m->reported || !follows;
}

static char *
put_bytes(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *
put_text(char *at, const char *text)
{
    return put_bytes(at, text, strlen(text));
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

/* ----------------------------------------------------------------- servers -- */

static const struct metric server_metrics[] = {
    {"gpupool_server_cards", "Cards that the server has or had.", false},
    {"gpupool_server_cards_out_of_use", "Cards with something wrong.", false},
    {"gpupool_server_cards_cordoned", "Cards kept from new sessions.", false},
    {"gpupool_server_memory_bytes", "What sessions may have together.", false},
    {"gpupool_server_memory_given_bytes", "What sessions hold.", false},
    {"gpupool_server_memory_used_bytes", "What is in use.", true},
    {"gpupool_server_core_given_percent", "What sessions hold, in percent of a card.",
     false},
    {"gpupool_server_busy_percent", "How busy its cards are, in percent of a card.",
     true},
    {"gpupool_server_slices", "Slices that sessions hold.", false},
};
#define SERVER_METRICS ARRAY_SIZE(server_metrics)

#define HEAD_MAX 256  /* the two lines before a metric's */
#define NUMBER_MAX 21 /* a number and the end of its line */

/* What the lines of a server have in common, `{server="NAME"} `, and their numbers:
 * side by side, because each metric passes over all servers. */
struct server_row {
    char label[CTL_NAME_MAX + 16];
    size_t label_len;
    uint64_t values[SERVER_METRICS];
};

struct sched_metrics_page {
    struct server_row *rows;
    size_t rows_max;
    char *text;
    size_t text_max;
    bool kept; /* for the next answer */
    bool lent; /* to an answer that is being sent */
};

/* Names were checked at registration: no quotes, no backslashes. */
static void
fill_row(struct server_row *row, const struct sched_server *s)
{
    const uint64_t values[] = {
        s->n_cards,         s->sums.n_faulty,     s->sums.n_cordoned,
        s->sums.memory,     s->sums.memory_given, s->sums.memory_used,
        s->sums.core_given, s->sums.busy,         s->sums.slices,
    };
    char *at = put_text(put_text(put_text(row->label, "{server=\""), s->name), "\"} ");

    static_assert(sizeof(values) == sizeof(row->values), "one for each metric");
    row->label_len = (size_t)(at - row->label);
    memcpy(row->values, values, sizeof(values));
}

/* @size bytes or more at *@block, which has *@max; what was there is lost. */
static int
make_room(void *block, size_t *max, size_t size)
{
    void **at = block;

    if (size <= *max)
        return 0;
    free(*at);
    *max = 0;
    *at = malloc(size);
    if (!*at)
        return -ENOMEM;
    *max = size;
    return 0;
}

static char *
put_server_metric(char *at, const struct server_row *rows, size_t n, size_t metric)
{
    const struct metric *m = &server_metrics[metric];
    size_t name_len = strlen(m->name);

    at += snprintf(at, HEAD_MAX, "# HELP %s %s\n# TYPE %s gauge\n", m->name, m->help,
                   m->name);
    for (size_t i = 0; i < n; i++) {
        at = put_bytes(at, m->name, name_len);
        at = put_bytes(at, rows[i].label, rows[i].label_len);
        at = put_number(at, rows[i].values[metric]);
        *at++ = '\n';
    }
    return at;
}

/* All lines of all servers; the number of bytes, or -ENOMEM. */
static ssize_t
fill_page(struct sched_metrics_page *page, const struct sched_pool *pool, bool follows)
{
    size_t n = 0, labels = 0, size = 0;
    char *at;

    if (make_room(&page->rows, &page->rows_max,
                  (pool->n_servers + 1u) * sizeof(page->rows[0])) < 0)
        return -ENOMEM;
    for (const struct sched_server *s = pool->servers; s; s = s->next) {
        fill_row(&page->rows[n], s);
        labels += page->rows[n++].label_len;
    }
    for (size_t m = 0; m < SERVER_METRICS; m++)
        size += HEAD_MAX + labels + n * (strlen(server_metrics[m].name) + NUMBER_MAX);
    if (make_room(&page->text, &page->text_max, size) < 0)
        return -ENOMEM;
    at = page->text;
    for (size_t m = 0; m < SERVER_METRICS; m++)
        if (is_known(&server_metrics[m], follows))
            at = put_server_metric(at, page->rows, n, m);
    return at - page->text;
}

void
sched_metrics_page_free(struct sched_metrics_page *page)
{
    if (!page)
        return;
    free(page->rows);
    free(page->text);
    free(page);
}

static void
page_sent(void *arg)
{
    struct sched_metrics_page *page = arg;

    page->lent = false;
    if (!page->kept)
        sched_metrics_page_free(page);
}

int
sched_metrics_put_servers(struct sched_metrics_page **kept,
                          const struct sched_pool *pool, bool follows,
                          struct gp_http_answer *answer)
{
    struct sched_metrics_page *page = *kept;
    ssize_t size;

    if (!page || page->lent) {
        page = calloc(1, sizeof(*page));
        if (!page)
            return -ENOMEM;
        page->kept = !*kept;
        if (!*kept)
            *kept = page;
    }
    page->lent = true;
    size = fill_page(page, pool, follows);
    if (size < 0) {
        page_sent(page);
        return -ENOMEM;
    }
    answer->tail = page->text;
    answer->tail_size = (size_t)size;
    answer->state = page;
    answer->done = page_sent;
    return 0;
}

/* ------------------------------------------------------------------- cards -- */

static const struct metric card_metrics[] = {
    {"gpupool_card_memory_bytes", "What sessions may have together.", false},
    {"gpupool_card_memory_given_bytes", "What sessions hold.", false},
    {"gpupool_card_memory_used_bytes", "What is in use.", true},
    {"gpupool_card_core_given_percent", "What sessions hold.", false},
    {"gpupool_card_busy_percent", "How busy its server says it is.", true},
    {"gpupool_card_slices", "Slices that sessions hold.", false},
};
#define CARD_METRICS ARRAY_SIZE(card_metrics)

static uint64_t
card_value(const struct sched_card *card, size_t metric)
{
    switch (metric) {
    case 0:
        return card->facts.memory;
    case 1:
        return card->memory_given;
    case 2:
        return card->used_bytes;
    case 3:
        return card->core_given;
    case 4:
        return card->busy_percent;
    default:
        return card->slices;
    }
}

/* A line: the metric's name, a server's, a card's, and two numbers. */
#define CARD_LINE_MAX (64 + CTL_NAME_MAX + TICKET_UUID_TEXT + 64)

/* The lines of a server are made here: a call of stdio for each takes longer than its
 * text, which takes a tenth of the time of snprintf(). */
static void
put_server_cards(FILE *f, size_t metric, const struct sched_server *s)
{
    char text[CTL_SERVER_CARDS_MAX * CARD_LINE_MAX], *at = text;
    char begin[CARD_LINE_MAX], *end;

    for (unsigned i = 0; i < s->n_cards; i++)
        __builtin_prefetch(s->cards[i]); /* waits once for all of them */
    end = put_text(put_text(begin, card_metrics[metric].name), "{server=\"");
    end = put_text(put_text(end, s->name), "\",card=\"");
    for (unsigned i = 0; i < s->n_cards; i++) {
        at = put_bytes(at, begin, (size_t)(end - begin));
        at = put_text(put_number(at, s->cards[i]->facts.index), "\",uuid=\"");
        ticket_uuid_format(s->cards[i]->facts.uuid, at);
        at = put_text(at + TICKET_UUID_TEXT - 1, "\"} ");
        at = put_number(at, card_value(s->cards[i], metric));
        *at++ = '\n';
    }
    fwrite(text, 1, (size_t)(at - text), f);
}

/* Servers whose cards are one piece: some hundred KiB. */
#define PIECE_SERVERS 256

/* Where an answer goes on: a metric and a server. */
struct place {
    const struct sched_pool *pool;
    bool follows;
    size_t metric;
    uint64_t serial;
    /* That server, unless one has been removed meanwhile. */
    const struct sched_server *server;
    uint64_t removed;
};

static const struct sched_server *
place_server(const struct place *place)
{
    const struct sched_server *s = place->pool->servers;

    if (place->serial && place->removed == place->pool->servers_removed)
        return place->server;
    while (s && s->serial < place->serial)
        s = s->next;
    return s;
}

/* The serial is 0 behind the last server. */
static bool
next_cards(void *state, FILE *f)
{
    struct place *place = state;
    const struct metric *m = &card_metrics[place->metric];
    const struct sched_server *s = place_server(place);

    if (!is_known(m, place->follows))
        return ++place->metric < CARD_METRICS;
    if (!place->serial)
        gp_metrics_head(f, m->name, "gauge", m->help);
    for (unsigned n = 0; s && n < PIECE_SERVERS; s = s->next, n++)
        put_server_cards(f, place->metric, s);
    place->serial = s ? s->serial : 0;
    place->server = s;
    place->removed = place->pool->servers_removed;
    place->metric += !place->serial;
    return place->metric < CARD_METRICS;
}

static void
answer_server(FILE *f, const struct sched_server *s, bool follows)
{
    for (size_t m = 0; m < CARD_METRICS; m++) {
        if (!is_known(&card_metrics[m], follows))
            continue;
        gp_metrics_head(f, card_metrics[m].name, "gauge", card_metrics[m].help);
        put_server_cards(f, m, s);
    }
}

static bool
on_parameter(void *arg, const char *name, const char *value)
{
    if (strcmp(name, "server") != 0)
        return true;
    *(const char **)arg = value;
    return false;
}

void
sched_metrics_cards_answer(const struct sched_pool *pool, bool follows,
                           const struct gp_http_request *request,
                           struct gp_http_answer *answer)
{
    const struct sched_server *server;
    const char *name = NULL;
    struct place *place;

    gp_http_query(request, on_parameter, &name);
    if (name) {
        server = sched_pool_server_find(pool, name);
        if (server) {
            answer_server(answer->body, server, follows);
        } else {
            answer->status = 404;
            fputs("there is no server of that name\n", answer->body);
        }
        return;
    }
    place = calloc(1, sizeof(*place));
    if (!place) {
        answer->status = 503;
        return;
    }
    place->pool = pool;
    place->follows = follows;
    answer->state = place;
    answer->done = free;
    answer->next = next_cards;
}
