/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random lives of a scheduler over its sockets: sessions are opened, renewed, closed
 * and closed again, the scheduler is killed and started; after each step the books are
 * those of a model that knows nothing of queues and disks.  And a stream of small
 * requests that does not starve a large one.
 */
#include "ut_sched.h"

#include "gp_file.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CARDS 4
#define SESSIONS 32
#define STEPS 600

struct life {
    struct world *w;
    int server, client, other; /* connections */
    unsigned seed, n, opened;
    struct {
        reply_t *grant;
        uint32_t core;
        unsigned card;
    } sessions[SESSIONS];
    reply_t *closed; /* the grant of a session that is gone, or NULL */
};

static unsigned
below(struct life *life, unsigned n)
{
    return (unsigned)rand_r(&life->seed) % n;
}

static void
connect_all(struct life *life)
{
    life->server = ut_sched_join(life->w, "node", CARDS);
    life->client = ut_sched_dial(life->w);
    life->other = ut_sched_dial(life->w);
}

static void
hang_up(struct life *life)
{
    close(life->server);
    close(life->client);
    close(life->other);
}

/* What every card gave, and how many sessions there are, by the model and by the
 * scheduler's own word. */
static void
books_are_right(struct life *life, const char *after)
{
    reply_t *reply = ut_sched_status(life->client);
    const Gpupool__Ctl__CtlServerStatus *server = reply->status->servers[0];
    uint32_t core[CARDS] = {0};
    unsigned slices[CARDS] = {0};

    for (unsigned i = 0; i < life->n; i++) {
        core[life->sessions[i].card] += life->sessions[i].core;
        slices[life->sessions[i].card]++;
    }
    if (reply->status->n_sessions != life->n)
        fail_msg("after %s: %zu sessions, not %u", after, reply->status->n_sessions,
                 life->n);
    assert_int_equal(server->n_cards, CARDS);
    for (size_t i = 0; i < server->n_cards; i++) {
        const Gpupool__Ctl__CtlCardStatus *card = server->cards[i];
        unsigned k = card->card->index;

        if (card->core_given != core[k] || card->slices != slices[k] ||
            card->memory_given != slices[k] * GIB)
            fail_msg("after %s: card %u gives %u %% in %u slices, not %u in %u", after,
                     k, card->core_given, card->slices, core[k], slices[k]);
    }
    ut_sched_drop(reply);
}

static void
step_open(struct life *life)
{
    uint32_t core = 1 + below(life, 60);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(core, GIB);
    char owner[32];
    reply_t *reply;
    unsigned at;

    snprintf(owner, sizeof(owner), "user%u@host", life->opened++);
    open.owner = owner;
    if (life->n == SESSIONS)
        return;
    reply = ut_sched_open(life->client, &open);
    if (reply->error) {
        assert_int_equal(reply->error->code, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT);
        ut_sched_drop(reply);
        return;
    }
    at = reply->grant->slices[0]->card_uuid.data[15]; /* as ut_sched_enlist() made it */
    life->sessions[life->n].grant = reply;
    life->sessions[life->n].core = core;
    life->sessions[life->n++].card = at;
}

/* From a connection of its own, since one that is only refused is cut in the end, or
 * from the first one. */
static void
close_again(struct life *life, bool first, const reply_t *grant)
{
    int fd = life->client;

    if (!first) {
        close(life->other);
        fd = life->other = ut_sched_dial(life->w);
    }
    ut_sched_post_close(fd, grant->grant);
    ut_sched_refused(ut_sched_hear(fd), GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND,
                     "session");
}

static void
step_close(struct life *life)
{
    unsigned i = life->n ? below(life, life->n) : 0;
    reply_t *grant, *reply;

    if (!life->n)
        return;
    grant = life->sessions[i].grant;
    ut_sched_post_close(life->client, grant->grant);
    ut_sched_await_notice(life->server, grant->grant->session_id);
    if (below(life, 2)) /* while its server may still have workers of it */
        close_again(life, false, grant);
    ut_sched_drop(ut_sched_report(life->server, 0));
    reply = ut_sched_hear(life->client);
    assert_non_null(reply);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    ut_sched_drop(reply);
    ut_sched_drop(life->closed);
    life->closed = grant;
    life->sessions[i] = life->sessions[--life->n];
}

static void
step_close_again(struct life *life)
{
    if (life->closed)
        close_again(life, below(life, 2), life->closed);
}

static void
step_renew(struct life *life)
{
    reply_t *reply;

    if (life->closed && below(life, 4) == 0) {
        ut_sched_refused(ut_sched_renew(life->client, life->closed->grant, false),
                         GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, "session");
        return;
    }
    if (!life->n)
        return;
    reply = ut_sched_renew(life->client,
                           life->sessions[below(life, life->n)].grant->grant, false);
    assert_null(reply->error);
    ut_sched_drop(reply);
}

static void
step_restart(struct life *life, int sig)
{
    ut_sched_end(life->w, sig);
    hang_up(life);
    ut_sched_start(life->w);
    connect_all(life);
}

static void
books_are_right_whatever_is_repeated(void **state)
{
    struct life life = {.w = *state, .seed = 18};
    unsigned closes = 0;

    connect_all(&life);
    for (unsigned i = 0; i < STEPS; i++) {
        static const char *const names[] = {"an open", "a close", "a close again",
                                            "a renewal", "a restart"};
        unsigned what = below(&life, 100);
        unsigned kind = what < 40   ? 0
                        : what < 65 ? 1
                        : what < 83 ? 2
                        : what < 97 ? 3
                                    : 4;

        if (kind == 0)
            step_open(&life);
        else if (kind == 1)
            step_close(&life);
        else if (kind == 2)
            step_close_again(&life);
        else if (kind == 3)
            step_renew(&life);
        else
            step_restart(&life, below(&life, 2) ? SIGKILL : SIGTERM);
        closes += kind == 2 && life.closed;
        books_are_right(&life, names[kind]);
    }
    assert_true(closes > STEPS / 10);
    while (life.n)
        step_close(&life);
    books_are_right(&life, "the last close");
    ut_sched_drop(life.closed);
    hang_up(&life);
}

/* ------------------------------------------------------------- no starvation -- */

#define SMALL 5
#define AFTER_MS 1000 /* reserve-after of the rules below */

static reply_t *
small_request(struct life *life)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100 / SMALL, GIB);
    char owner[32];
    reply_t *reply;

    snprintf(owner, sizeof(owner), "small%u@host", life->opened++);
    open.owner = owner;
    reply = ut_sched_open(life->client, &open);
    if (!reply->error)
        return reply;
    ut_sched_drop(reply); /* the card is kept for another */
    return NULL;
}

/* One of the small sessions ends and another one wants its place. */
static void
small_turn(struct life *life, reply_t *small[SMALL])
{
    unsigned i = below(life, SMALL);

    if (small[i]) {
        ut_sched_post_close(life->client, small[i]->grant);
        ut_sched_await_notice(life->server, small[i]->grant->session_id);
        ut_sched_drop(ut_sched_report(life->server, 0));
        ut_sched_drop(ut_sched_hear(life->client));
        ut_sched_drop(small[i]);
    }
    small[i] = small_request(life);
}

static bool
is_granted(int fd, int wait_ms)
{
    struct timeval patience = {.tv_usec = 1000 * wait_ms};
    fd_set set;

    FD_ZERO(&set);
    FD_SET(fd, &set);
    while (select(fd + 1, &set, NULL, NULL, &patience) > 0) {
        reply_t *reply = ut_sched_hear(fd);
        bool granted = reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT;

        assert_non_null(reply);
        assert_null(reply->error);
        ut_sched_drop(reply);
        if (granted)
            return true;
        patience = (struct timeval){.tv_usec = 1000 * wait_ms};
    }
    return false;
}

/* Turns of the stream, of those that came when the time of @rules was over, until the
 * large request was granted; @most: it was not. */
static unsigned
turns_until_granted(struct world *w, const char *rules, unsigned most)
{
    static char path[128];
    struct life life = {.w = w, .seed = 7};
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, GIB);
    reply_t *small[SMALL];
    uint64_t begun;
    unsigned late = 0;

    snprintf(path, sizeof(path), "%s/rules", w->dir);
    assert_int_equal(gp_file_replace(path, rules, strlen(rules), 0600, NULL), 0);
    w->config.rules = path;
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
    life.server = ut_sched_join(w, "node", 1);
    life.client = ut_sched_dial(w);
    life.other = ut_sched_dial(w);
    for (unsigned i = 0; i < SMALL; i++)
        assert_non_null(small[i] = small_request(&life));
    open.owner = (char *)"large@host";
    open.wait = true;
    ut_sched_drop(ut_sched_open(life.other, &open));
    begun = gp_now_ns();
    while (late < most && !is_granted(life.other, 20)) {
        /* Cards are kept from the first tick after the time is over. */
        late += gp_now_ns() - begun > (AFTER_MS + 500) * GP_NS_PER_MS;
        small_turn(&life, small);
    }
    for (unsigned i = 0; i < SMALL; i++)
        ut_sched_drop(small[i]);
    hang_up(&life);
    return late;
}

/* The bound: when cards are kept for it, a request is served as soon as the sessions
 * that were on them have ended, however many others come meanwhile. */
static void
stream_of_small_requests_does_not_starve_a_large_one(void **state)
{
    /* Each turn ends one of five at random; the same one may be drawn again. */
    assert_in_range(turns_until_granted(*state, "[queue]\nreserve-after = 1s\n", 60), 0,
                    40);
}

static void
stream_starves_it_where_nothing_is_kept(void **state)
{
    assert_int_equal(
        turns_until_granted(*state, "[queue]\nreserve-after = 3600s\n", 60), 60);
}

#define PROMISE(fn)                                                                    \
    cmocka_unit_test_setup_teardown(fn, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(books_are_right_whatever_is_repeated),
        PROMISE(stream_of_small_requests_does_not_starve_a_large_one),
        PROMISE(stream_starves_it_where_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
