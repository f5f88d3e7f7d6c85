/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_fed.h"

#include "ctl_call.h"
#include "gp_audit.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_events.h"
#include "sched_fed_link.h"
#include "sched_handle.h"
#include "sched_rules.h"
#include "sched_wait.h"
#include "ticket_key.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* `gpupool run` waits five seconds for an answer. */
#define ASK_NS (4 * GP_NS_PER_S)
/* Of them for one pool. */
#define POOL_NS (2 * GP_NS_PER_S)
/* A pool that did not answer is not asked again for so long: each question would cost
 * its client up to POOL_NS. */
#define PAUSE_NS (5 * GP_NS_PER_S)
/* For each request that waits here the others are asked again so often, and for one
 * request at a time, so that a long queue is no storm for them. */
#define AGAIN_NS (10 * GP_NS_PER_S)

struct sched_fed {
    unsigned n;
    struct sched_fed_link *links[SCHED_POOLS_MAX];
};

/* A request on its way through the other pools; owned by itself, until the last answer.
 */
struct sched_fed_ask {
    struct sched_fed_job job;
    struct sched *sched;
    struct sched_conn *conn; /* NULL: it is gone */
    uint32_t id;
    Gpupool__Ctl__CtlOpen *open; /* as the client sent it */
    Gpupool__Ctl__CtlOpen sent;  /* as the others get it */
    Gpupool__Ctl__CtlClose close;
    Gpupool__Ctl__CtlReply *granted; /* while that session is given back */
    char owner[CTL_OWNER_MAX], *via[1];
    char key_id[TICKET_KEY_ID_MAX];
    unsigned n, at;
    struct sched_fed_link *links[SCHED_POOLS_MAX];
    uint64_t deadline_ns;
    struct sched_said said;
    bool waits;                         /* it waits here, with a place in the queue */
    bool out;                           /* a pool is being asked for it */
    uint64_t again_ns;                  /* else: when one will be */
    struct sched_fed_ask *next, **link; /* of sched->fed_waits, while it waits */
};

static void ask_next(struct sched_fed_ask *ask);

/* ------------------------------------------------------------------- loading -- */

static int
read_token(const char *path, char token[CTL_TOKEN_MAX], struct gp_err *err)
{
    char *text;
    size_t len;
    int r = gp_file_read(path, CTL_TOKEN_MAX, &text, &len, err);

    if (r < 0)
        return r;
    text[strcspn(text, "\r\n")] = '\0';
    if (!gp_str_copy(token, CTL_TOKEN_MAX, text) || !*token)
        r = gp_err_set(err, -EINVAL, "%s: no token of 1 to %d characters", path,
                       CTL_TOKEN_MAX - 1);
    explicit_bzero(text, len);
    free(text);
    return r;
}

static int
read_config(const struct sched_pool_rule *rule, struct sched_fed_config *config,
            struct gp_err *err)
{
    int r;

    gp_str_copy(config->name, sizeof(config->name), rule->name);
    gp_str_copy(config->scheduler, sizeof(config->scheduler), rule->scheduler);
    r = ctl_pins_read(rule->key_file, &config->pins, err);
    if (!r && !config->pins.n)
        r = gp_err_set(err, -EINVAL, "%s: no key", rule->key_file);
    return r ? r : read_token(rule->token_file, config->token, err);
}

static struct sched_fed_link *
find_same(const struct sched_fed *fed, const struct sched_fed_config *config)
{
    for (unsigned i = 0; fed && i < fed->n; i++)
        if (!memcmp(sched_fed_link_config(fed->links[i]), config, sizeof(*config)))
            return fed->links[i];
    return NULL;
}

int
sched_fed_new(struct gp_loop *loop, const struct sched_rules *rules,
              const struct sched_fed *old, struct sched_fed **ret, struct gp_err *err)
{
    CLEANUP(sched_fed_freep) struct sched_fed *fed = calloc(1, sizeof(*fed));

    if (!fed)
        return -ENOMEM;
    for (unsigned i = 0; i < rules->n_pools; i++) {
        struct sched_fed_config config;
        struct sched_fed_link *same;
        int r;

        memset(&config, 0, sizeof(config)); /* it is compared byte by byte */
        r = read_config(&rules->pools[i], &config, err);
        same = r ? NULL : find_same(old, &config);
        if (same)
            fed->links[fed->n] = sched_fed_link_ref(same);
        else if (!r)
            r = sched_fed_link_new(loop, &config, &fed->links[fed->n], err);
        explicit_bzero(&config, sizeof(config));
        if (r < 0)
            return gp_err_wrap(err, r, "[pool %s]", rules->pools[i].name);
        fed->n++;
    }
    *ret = TAKE_PTR(fed);
    return 0;
}

void
sched_fed_free(struct sched_fed *fed)
{
    if (!fed)
        return;
    for (unsigned i = 0; i < fed->n; i++)
        sched_fed_link_unref(fed->links[i]);
    free(fed);
}

void
sched_fed_cancel(struct sched_fed *fed)
{
    for (unsigned i = 0; fed && i < fed->n; i++)
        sched_fed_link_cancel(fed->links[i]);
}

unsigned
sched_fed_count(const struct sched_fed *fed)
{
    return fed ? fed->n : 0;
}

struct sched_fed_link *
sched_fed_at(const struct sched_fed *fed, unsigned i)
{
    return fed->links[i];
}

/* ------------------------------------------------------------- what is wanted -- */

bool
sched_fed_wanted(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg)
{
    if (!sched_fed_count(sched->fed) || !msg->elsewhere || msg->n_via || msg->once)
        return false;
    /* The members of a gang are served together, which two pools cannot agree on. */
    if (*msg->gang)
        return false;
    /* What is wanted of this pool alone, or has a place in its queue, stays. */
    return *msg->pool || (!*msg->server && !msg->card_uuid.len && !msg->place.len);
}

static const char *
name_at(const struct sched_fed *fed, unsigned i)
{
    return sched_fed_link_config(fed->links[i])->name;
}

int
sched_fed_check(const struct sched *sched, const Gpupool__Ctl__CtlOpen *msg,
                struct gp_err *err)
{
    const struct sched_fed *fed = sched->fed;
    char names[300] = "";
    size_t at = 0;

    if (!*msg->pool)
        return 0;
    if (msg->wait)
        return gp_err_set(err, -EINVAL,
                          "a request waits in the pool that it is made to: leave out "
                          "--wait or --pool, or ask pool %.60s itself (--context)",
                          msg->pool);
    for (unsigned i = 0; i < sched_fed_count(fed); i++) {
        if (!strcmp(name_at(fed, i), msg->pool))
            return 0;
        if (at < sizeof(names))
            at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
                                   at ? ", " : "", name_at(fed, i));
    }
    return gp_err_set(err, -ENOENT, "no pool %.60s; %s%s", msg->pool,
                      at ? "there are: " : "this scheduler knows no other pool", names);
}

/* -------------------------------------------------------------------- asking -- */

static void
drop_links(struct sched_fed_ask *ask)
{
    for (unsigned i = 0; i < ask->n; i++)
        sched_fed_link_unref(ask->links[i]);
    ask->n = ask->at = 0;
}

static void
take_links(struct sched_fed_ask *ask)
{
    const struct sched_fed *fed = ask->sched->fed;
    const char *wanted = ask->open->pool;

    drop_links(ask);
    ask->said.n = 0;
    ask->deadline_ns = gp_now_ns() + ASK_NS;
    for (unsigned i = 0; i < sched_fed_count(fed); i++)
        if (!*wanted || !strcmp(wanted, name_at(fed, i)))
            ask->links[ask->n++] = sched_fed_link_ref(fed->links[i]);
}

/* Its turn among those who wait is over. */
static void
leave_waits(struct sched_fed_ask *ask)
{
    if (!ask->link)
        return;
    *ask->link = ask->next;
    if (ask->next)
        ask->next->link = ask->link;
    else
        ask->sched->fed_waits_end = ask->link;
    ask->link = NULL;
}

static void
enter_waits(struct sched_fed_ask *ask)
{
    struct sched *sched = ask->sched;

    ask->waits = true;
    ask->out = false;
    ask->again_ns = gp_now_ns() + AGAIN_NS;
    ask->next = NULL;
    ask->link = sched->fed_waits_end;
    *ask->link = ask;
    sched->fed_waits_end = &ask->next;
}

static void
ask_free(struct sched_fed_ask *ask)
{
    if (ask->conn)
        ask->conn->fed = NULL;
    leave_waits(ask);
    drop_links(ask);
    ctl_reply_free(ask->job.reply);
    ctl_reply_free(ask->granted);
    gpupool__ctl__ctl_open__free_unpacked(ask->open, NULL);
    free(ask);
}

void
sched_fed_end(struct sched_conn *conn)
{
    struct sched_fed_ask *ask = conn->fed;

    if (!ask)
        return;
    ask->conn = NULL;
    conn->fed = NULL;
    if (ask->waits && !ask->out)
        ask_free(ask);
}

bool
sched_fed_asks(const struct sched_conn *conn)
{
    return conn->fed && !conn->fed->waits;
}

static void
say(struct sched_fed_ask *ask, const char *words)
{
    struct sched_said *said = &ask->said;

    gp_str_copy(said->list[said->n].pool, sizeof(said->list[0].pool),
                sched_fed_link_config(ask->links[ask->at])->name);
    gp_utf8_copy(said->list[said->n].words, sizeof(said->list[0].words), words);
    said->n++;
}

/* All have been asked, or one has room for what is only explained. */
static void
decide_again(struct sched_fed_ask *ask)
{
    struct sched_conn *conn = ask->conn;

    if (!conn || (ask->waits && !conn->waiting)) {
        ask_free(ask);
        return;
    }
    if (!ask->waits) {
        ask->conn = NULL;
        conn->fed = NULL;
        sched_handle_open_again(conn, ask->id, ask->open, &ask->said);
        sched_conn_touch(conn);
        if (!conn->waiting) {
            ask_free(ask);
            return;
        }
        ask->conn = conn;
        conn->fed = ask;
    }
    enter_waits(ask);
}

void
sched_fed_tick(struct sched *sched, uint64_t now)
{
    struct sched_fed_ask *ask = sched->fed_waits;

    if (sched->fed_asking || !ask || ask->again_ns > now)
        return;
    if (!ask->conn->waiting) { /* it was served, or refused */
        ask_free(ask);
        return;
    }
    leave_waits(ask);
    take_links(ask);
    ask_next(ask);
}

static void
given_back(struct sched_fed_job *job)
{
    ask_free(container_of(job, struct sched_fed_ask, job));
}

/* Another pool gave a session that nobody takes: the client has gone, or was served
 * here meanwhile.  Its connection may then make another request, so it is no longer
 * this one's. */
static void
give_back(struct sched_fed_ask *ask)
{
    const Gpupool__Ctl__CtlGrant *grant = ask->job.reply->grant;

    if (ask->conn)
        ask->conn->fed = NULL;
    ask->conn = NULL;
    gpupool__ctl__ctl_close__init(&ask->close);
    ask->granted = TAKE_PTR(ask->job.reply);
    ask->close.session_id = grant->session_id;
    ask->close.lease_key = grant->lease_key;
    gpupool__ctl__ctl_request__init(&ask->job.req);
    ask->job.req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    ask->job.req.close = &ask->close;
    ask->job.deadline_ns = gp_now_ns() + POOL_NS;
    ask->job.done = given_back;
    if (sched_fed_link_add(ask->links[ask->at], &ask->job) < 0)
        ask_free(ask); /* its lease ends soon */
}

static void
hand_over(struct sched_fed_ask *ask)
{
    const struct sched_fed_config *config = sched_fed_link_config(ask->links[ask->at]);
    Gpupool__Ctl__CtlReply *reply = ask->job.reply;
    Gpupool__Ctl__CtlGrant *grant = reply->grant;
    char *pool = grant->pool, *scheduler = grant->scheduler;
    struct sched_conn *conn = ask->conn;
    char words[160];

    if (ask->waits)
        sched_wait_drop(conn->waiting);

    grant->pool = (char *)(uintptr_t)config->name;
    grant->scheduler = (char *)(uintptr_t)config->scheduler;
    reply->id = ask->id;
    sched_conn_reply(conn, reply);
    sched_conn_touch(conn);
    snprintf(words, sizeof(words), "session %.32s of pool %.63s", grant->session,
             config->name);
    gp_log_info("session", "%s: %s got %s", conn->peer, ask->owner, words);
    gp_audit("handed", "from", conn->peer, "who", ask->owner, "pool", config->name,
             "session", grant->session, NULL);
    sched_events_add(&ask->sched->events, "hand", NULL, NULL, ask->owner, words);
    grant->pool = pool; /* they are freed with the message */
    grant->scheduler = scheduler;
    ask_free(ask);
}

static void
count(struct sched_fed_ask *ask)
{
    struct sched_fed_stats *stats = sched_fed_link_stats(ask->links[ask->at]);
    const struct sched_fed_job *job = &ask->job;
    const char *words = gp_err_msg(&job->err, job->r);

    if (job->r == -ECANCELED)
        return;
    stats->asked++;
    stats->answers = job->r == 0 || job->r == -EREMOTE;
    stats->last_ns = gp_now_ns();
    if (job->r == 0)
        words = ask->open->explain ? "has room" : "granted";
    if (job->r == 0 && !ask->open->explain)
        stats->granted++;
    else if (job->r == -EREMOTE)
        stats->refused++;
    else if (job->r < 0)
        stats->failed++;
    gp_utf8_copy(stats->words, sizeof(stats->words), words);
    if (!stats->answers)
        gp_log_warn("session", "pool %s does not answer: %s",
                    sched_fed_link_config(ask->links[ask->at])->name, words);
}

static void
on_answer(struct sched_fed_job *job)
{
    struct sched_fed_ask *ask = container_of(job, struct sched_fed_ask, job);
    bool granted;

    sched_commit_turn(ask->sched);
    ask->out = false;
    if (ask->waits)
        ask->sched->fed_asking = false;
    if (!job->r && job->reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
        job->r = gp_err_set(&job->err, -EPROTO, "it answered something else");
    granted = !job->r;
    count(ask);
    if (granted && ask->open->explain) {
        ask->said.fits = sched_fed_link_config(ask->links[ask->at])->name;
        ask->said.answer = job->reply->grant;
        decide_again(ask);
    } else if (granted && ask->conn && (!ask->waits || ask->conn->waiting)) {
        hand_over(ask);
    } else if (granted) {
        give_back(ask);
    } else {
        say(ask, gp_err_msg(&job->err, job->r));
        ctl_reply_free(TAKE_PTR(job->reply));
        ask->at++;
        ask_next(ask);
    }
}

/* Words, when it is not worth a question. */
static bool
is_down(struct sched_fed_link *link, char *words, size_t size)
{
    const struct sched_fed_stats *stats = sched_fed_link_stats(link);
    uint64_t now = gp_now_ns();

    if (!stats->last_ns || stats->answers || now - stats->last_ns > PAUSE_NS)
        return false;
    snprintf(words, size, "did not answer %u s ago: %.200s",
             (unsigned)((now - stats->last_ns) / GP_NS_PER_S), stats->words);
    return true;
}

static void
ask_next(struct sched_fed_ask *ask)
{
    for (; ask->conn && ask->at < ask->n; ask->at++) {
        uint64_t now = gp_now_ns();
        char words[256];

        ask->job.deadline_ns = gp_min(ask->deadline_ns, now + POOL_NS);
        if (is_down(ask->links[ask->at], words, sizeof(words)))
            say(ask, words);
        else if (now >= ask->deadline_ns)
            say(ask, "not asked: the pools before it took too long");
        else if (sched_fed_link_add(ask->links[ask->at], &ask->job) == 0) {
            ask->out = true;
            ask->sched->fed_asking |= ask->waits;
            return;
        } else
            say(ask, "not asked: too many requests wait for it");
    }
    decide_again(ask);
}

/* What the others need not know, or must not decide by, is left out: names of this
 * pool's servers and classes, and its queue. */
static void
make_sent(struct sched_fed_ask *ask)
{
    Gpupool__Ctl__CtlOpen *sent = &ask->sent;
    static char none[] = "";

    *sent = *ask->open;
    ask->via[0] = ask->key_id;
    sent->via = ask->via;
    sent->n_via = 1;
    sent->owner = ask->owner;
    sent->token = none;
    sent->pool = none;
    sent->priority = none;
    sent->elsewhere = sent->wait = sent->hold = false;
    gpupool__ctl__ctl_request__init(&ask->job.req);
    ask->job.req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    ask->job.req.open = sent;
}

int
sched_fed_ask(struct sched_conn *conn, uint32_t id, const Gpupool__Ctl__CtlOpen *msg,
              const char *owner)
{
    struct sched *sched = conn->sched;
    struct sched_fed_ask *ask = calloc(1, sizeof(*ask));

    if (ask)
        ask->open = ctl_message_copy(&msg->base);
    if (!ask || !ask->open) {
        free(ask);
        return -ENOMEM;
    }
    ask->sched = sched;
    ask->conn = conn;
    ask->id = id;
    ask->job.done = on_answer;
    gp_str_copy(ask->owner, sizeof(ask->owner), owner);
    gp_str_copy(ask->key_id, sizeof(ask->key_id), ticket_key_id(sched->key));
    make_sent(ask);
    take_links(ask);
    conn->fed = ask;
    ask_next(ask);
    return 0;
}
