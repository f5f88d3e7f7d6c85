/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs in the scheduler as a process: all members at once or none, whatever else comes
 * and goes.
 */
#include "ut_gang.h"

#include "gp_file.h"
#include "gp_hash.h"
#include "sched_gang.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void
no_member_is_placed_before_all_can_be(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 2), a = ut_sched_dial(w),
        b = ut_sched_dial(w), c = ut_sched_dial(w);
    reply_t *first = ut_sched_granted(a, ut_sched_preference(100, 0)), *one, *two;

    ut_gang_waits(b, ut_gang_member("g", 2, 60),
                  "gang g: 1 of its 2 members have come");
    ut_gang_waits(c, ut_gang_member("g", 2, 60),
                  "gang g: no room for all of its 2 members at once");
    /* One of two cards is free, and is used by others meanwhile. */
    two = ut_sched_granted(a, ut_sched_preference(100, 0));
    ut_gang_finish(server, a, first->grant, two->grant->session_id);
    ut_sched_drop(ut_sched_hear(a));
    assert_int_equal(ut_gang_waiting(w, NULL, 0), 2);
    ut_gang_finish(server, a, two->grant, 0);
    ut_sched_drop(first);
    ut_sched_drop(two);
    one = ut_gang_granted(b);
    two = ut_gang_granted(c);
    assert_memory_not_equal(one->grant->slices[0]->card_uuid.data,
                            two->grant->slices[0]->card_uuid.data, 16);
    assert_int_equal(ut_gang_waiting(w, NULL, 0), 0);
    ut_sched_drop(one);
    ut_sched_drop(two);
    close(server);
    close(a);
    close(b);
    close(c);
}

static void
gang_that_fits_is_served_when_its_last_member_comes(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w), c = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen other = ut_gang_member("g", 2, 50);

    ut_gang_waits(a, ut_gang_member("g", 2, 50), "1 of its 2");
    /* Another owner's gang of the same name is another gang. */
    other.owner = (char *)"bob@host";
    ut_gang_waits(c, other, "1 of its 2");
    /* The last member is not told first that it waits. */
    ut_sched_drop(ut_sched_granted(b, ut_gang_member("g", 2, 50)));
    ut_sched_drop(ut_gang_granted(a));
    assert_int_equal(ut_gang_waiting(w, NULL, 0), 1);
    close(server);
    close(a);
    close(b);
    close(c);
}

static void
member_that_leaves_takes_nobody_with_it(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w), c = ut_sched_dial(w);
    char reason[128];

    ut_gang_waits(a, ut_gang_member("g", 3, 30), "1 of its 3");
    ut_gang_waits(b, ut_gang_member("g", 3, 30), "2 of its 3");
    close(a);
    ut_gang_await_waiting(w, 1);
    ut_gang_waiting(w, reason, sizeof(reason));
    assert_non_null(strstr(reason, "1 of its 3 members have come"));
    a = ut_sched_dial(w);
    ut_gang_waits(a, ut_gang_member("g", 3, 30), "2 of its 3");
    ut_gang_post(c, ut_gang_member("g", 3, 30));
    ut_sched_drop(ut_gang_granted(a));
    ut_sched_drop(ut_gang_granted(b));
    ut_sched_drop(ut_gang_granted(c));
    close(server);
    close(a);
    close(b);
    close(c);
}

static void
gangs_that_make_no_sense_are_refused(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), a = ut_sched_dial(w),
        b = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_gang_member("g", 2, 60);

    open.wait = false;
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "a member of a gang waits for the others (--wait)");
    open = ut_gang_member("g", 1, 60);
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "a gang has 2 to 64 members, not 1");
    ut_gang_waits(a, ut_gang_member("g", 3, 60), "1 of its 3");
    open = ut_gang_member("g", 2, 60);
    ut_sched_refused(ut_sched_open(b, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "gang g has 3 members, not 2");
    close(server);
    close(a);
    close(b);
}

static void
gang_that_waits_long_has_cards_kept_for_all_of_it(void **state)
{
    struct world *w = *state;
    int server, a, b, c;
    reply_t *grants[2];
    char path[128], reason[200] = "";
    uint64_t end = gp_now_ns() + PATIENCE;

    snprintf(path, sizeof(path), "%s/rules", w->dir);
    assert_int_equal(
        gp_file_replace(path, "[queue]\nreserve-after = 0s\n", 27, 0600, NULL), 0);
    w->config.rules = path;
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    grants[0] = ut_sched_granted(a, ut_sched_preference(50, GIB));
    ut_gang_waits(b, ut_gang_member("g", 2, 100), "1 of its 2");
    ut_gang_waits(c, ut_gang_member("g", 2, 100), "");
    while (!strstr(reason, "cards are kept for all of its 2 members") &&
           gp_now_ns() < end)
        ut_gang_waiting(w, reason, sizeof(reason));
    assert_non_null(strstr(reason, "cards are kept for all of its 2 members"));
    /* Neither the free card nor the half of the other is given to anybody else. */
    for (int i = 0; i < 2; i++) {
        Gpupool__Ctl__CtlOpen open = ut_sched_preference(i ? 100 : 20, i ? 0 : GIB);

        ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                         "kept free for a request that waits longer");
    }
    ut_gang_finish(server, a, grants[0]->grant, 0);
    ut_sched_drop(grants[0]);
    ut_sched_drop(ut_gang_granted(b));
    ut_sched_drop(ut_gang_granted(c));
    w->config.rules = NULL;
    close(server);
    close(a);
    close(b);
    close(c);
}

/* Four gangs of three on four cards that have room for one of them: members come in
 * random order, sessions end in random order, and never has a gang a part. */
static void
play_gangs(struct world *w, bool of_owners)
{
    enum { GANGS = 4, SIZE = 3 };
    static const char *const names[GANGS] = {"g0", "g1", "g2", "g3"};
    char owners[GANGS][SIZE][32];
    int server = ut_sched_join(w, "node-a", 4), fds[GANGS][SIZE];
    unsigned order[GANGS * SIZE], served = 0;
    uint64_t seed = 5;

    for (unsigned i = 0; i < GANGS * SIZE; i++) {
        unsigned k = (unsigned)(gp_hash_u64(++seed) % (i + 1));

        order[i] = order[k];
        order[k] = i;
    }
    for (unsigned i = 0; i < GANGS * SIZE; i++) {
        unsigned g = order[i] / SIZE, m = order[i] % SIZE;
        Gpupool__Ctl__CtlOpen open;

        fds[g][m] = ut_sched_dial(w);
        snprintf(owners[g][m], sizeof(owners[g][m]), "%s%u.%u", m == 1 ? "blue" : "red",
                 g, m);
        open = ut_gang_member(names[g], SIZE, 60 + 5 * m);
        if (of_owners) {
            open.owner = owners[g][m];
            open.once = true;
        }
        ut_gang_post(fds[g][m], open);
    }
    while (served < GANGS) {
        uint64_t end = gp_now_ns() + PATIENCE;
        reply_t *grants[SIZE];
        unsigned g = GANGS;

        ut_gang_await_waiting(w, SIZE * (GANGS - 1 - served));
        /* One gang has been granted, and all of it; it hears so after the commit. */
        for (unsigned i = 0; g == GANGS && gp_now_ns() < end; i = (i + 1) % GANGS) {
            struct pollfd p = {fds[i][0], POLLIN, 0};
            reply_t *reply;

            while (fds[i][0] >= 0 && g == GANGS && poll(&p, 1, 10) > 0) {
                reply = ut_sched_hear(fds[i][0]);
                if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT) {
                    g = i;
                    grants[0] = reply;
                } else {
                    ut_sched_drop(reply);
                }
            }
        }
        assert_true(g < GANGS);
        for (unsigned m = 1; m < SIZE; m++)
            grants[m] = ut_gang_granted(fds[g][m]);
        for (unsigned m = 0; m < SIZE; m++) {
            ut_sched_post_close(fds[g][m], grants[m]->grant);
            ut_sched_await_notice(server, grants[m]->grant->session_id);
        }
        ut_sched_drop(ut_sched_report(server, 0));
        for (unsigned m = 0; m < SIZE; m++) {
            ut_sched_drop(grants[m]);
            close(fds[g][m]);
        }
        fds[g][0] = -1;
        served++;
    }
    close(server);
}

static void
gangs_neither_deadlock_nor_are_split(void **state)
{
    play_gangs(*state, false);
}

/* Each has members of two tenants, whose quotas have room for one gang, as the cards
 * do. Cards and quotas are kept at once. */
static void
gangs_of_two_tenants_neither_deadlock_nor_are_split(void **state)
{
    ut_gang_start_with(*state, "[queue]\nreserve-after = 0s\n"
                               "[tenant red]\nowners = red*\ncore = 150\n"
                               "[tenant blue]\nowners = blue*\ncore = 100\n");
    play_gangs(*state, true);
}

/* ----------------------------------------------------------- quota, preemption -- */

static const char RULES[] = "[queue]\nreserve-after = 1h\n"
                            "[class prod]\nvalue = 9\npreempts = yes\n"
                            "[class normal]\nvalue = 5\n"
                            "[class batch]\nvalue = 1\npreemptible = yes\ngrace = 0s\n"
                            "[tenant team]\nowners = ada@*\ncore = 300\n";

static void
gang_whose_quota_can_never_be_had_is_refused_whole(void **state)
{
    struct world *w = *state;
    int server, a, b;
    reply_t *reply;

    ut_gang_start_with(w, RULES);
    server = ut_sched_join(w, "node-a", 4);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    /* Each alone would be allowed. */
    ut_gang_waits(a, ut_gang_member("g", 2, 100), "1 of its 2");
    {
        Gpupool__Ctl__CtlOpen open = ut_gang_member("g", 2, 100);

        open.cards = 3;
        open.core = 300;
        ut_gang_post(b, open);
    }
    for (int i = 0; i < 2; i++) {
        while ((reply = ut_sched_hear(i ? b : a)) &&
               reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED)
            ut_sched_drop(reply);
        assert_non_null(reply);
        ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                         "gang g: quota: tenant team may hold 300 %");
    }
    assert_int_equal(ut_gang_waiting(w, NULL, 0), 0);
    close(server);
    close(a);
    close(b);
}

/* What a gang waits for of its quota is not given to the next who asks. */
static void
quota_is_kept_for_a_gang_that_waits_long(void **state)
{
    struct world *w = *state;
    int server, a, b, c;
    reply_t *grants[2];
    char reason[200] = "";
    uint64_t end = gp_now_ns() + PATIENCE;
    Gpupool__Ctl__CtlOpen other = ut_sched_preference(50, GIB);

    ut_gang_start_with(w, "[queue]\nreserve-after = 0s\n"
                          "[tenant team]\nowners = ada@*\ncore = 200\n");
    server = ut_sched_join(w, "node-a", 4);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    grants[0] = ut_sched_granted(a, ut_sched_preference(50, GIB));
    grants[1] = ut_sched_granted(a, ut_sched_preference(50, GIB));
    ut_gang_waits(b, ut_gang_member("g", 2, 75), "1 of its 2");
    ut_gang_waits(c, ut_gang_member("g", 2, 75), "quota: tenant team may hold 200 %");
    do {
        reply_t *reply = ut_sched_open(a, &other);

        if (reply->error) {
            snprintf(reason, sizeof(reason), "%s", reply->error->words);
        } else {
            ut_sched_post_close(a, reply->grant);
            ut_sched_await_notice(server, reply->grant->session_id);
            ut_sched_drop(ut_sched_report(server, 0));
            ut_sched_drop(ut_sched_hear(a));
        }
        ut_sched_drop(reply);
    } while (!*reason && gp_now_ns() < end);
    if (!strstr(reason, "is kept for an older request"))
        fail_msg("\"%s\"", reason);
    ut_sched_post_close(a, grants[0]->grant);
    ut_sched_await_notice(server, grants[0]->grant->session_id);
    ut_sched_drop(ut_sched_report(server, grants[1]->grant->session_id));
    ut_sched_drop(ut_gang_granted(b));
    ut_sched_drop(ut_gang_granted(c));
    ut_sched_drop(grants[0]);
    ut_sched_drop(grants[1]);
    close(server);
    close(a);
    close(b);
    close(c);
}

/* Cards, who is on them, and a gang that comes: what the property test decides by. */
enum { CARDS = 4, RESIDENTS = 10, LARGEST = 4 };
struct resident {
    uint64_t id;
    uint32_t core, card;
    bool batch;
    reply_t *grant;
};
struct play_ground {
    struct world *w;
    int server, fd;
    struct resident residents[RESIDENTS];
    unsigned n, ended; /* residents; that the scheduler ended */
    uint32_t team;     /* what ada holds */
};

/* The played server: a session that is to end is gone at once. */
static void
serve_notices(struct play_ground *g, int ms)
{
    struct pollfd p = {g->server, POLLIN, 0};

    while (poll(&p, 1, ms) > 0) {
        reply_t *reply = ut_sched_hear(g->server);

        assert_non_null(reply);
        if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_CLOSE_SESSION) {
            Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
            Gpupool__Ctl__CtlReport report = GPUPOOL__CTL__CTL_REPORT__INIT;

            g->ended++;
            req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT;
            req.report = &report;
            ut_sched_post(g->server, &req);
        }
        ut_sched_drop(reply);
        ms = 0;
    }
}

static size_t
sessions_now(const struct world *w)
{
    int fd = ut_sched_dial(w);
    reply_t *reply = ut_sched_status(fd);
    size_t n = reply->status->n_sessions;

    ut_sched_drop(reply);
    close(fd);
    return n;
}

static uint32_t
random_core(uint64_t *seed)
{
    return 25u << gp_hash_u64(++*seed) % 3;
}

static void
settle(struct play_ground *g, uint64_t *seed)
{
    unsigned most = (unsigned)(gp_hash_u64(++*seed) % (RESIDENTS + 1));

    for (unsigned i = 0; i < most; i++) {
        struct resident *r = &g->residents[g->n];
        Gpupool__Ctl__CtlOpen open = ut_sched_preference(random_core(seed), GIB);
        bool team = gp_hash_u64(++*seed) % 4 == 0;

        r->batch = gp_hash_u64(++*seed) % 3;
        open.owner = (char *)(team ? "ada@host" : "bea@host");
        open.priority = (char *)(r->batch ? "batch" : "normal");
        r->grant = ut_sched_open(g->fd, &open);
        if (r->grant->error) {
            ut_sched_drop(r->grant);
            continue;
        }
        r->id = r->grant->grant->session_id;
        r->core = open.core;
        r->card = r->grant->grant->slices[0]->card_uuid.data[15];
        g->team += team ? open.core : 0;
        g->n++;
    }
}

/* Does the gang fit if nobody, or all batch work, ends?  Its members' needs divide each
 * other, so that the largest first is as good as any way. */
static bool
fits(const struct play_ground *g, const uint32_t *cores, unsigned n, bool preempt)
{
    uint32_t left[CARDS], sum = g->team;

    for (unsigned i = 0; i < CARDS; i++)
        left[i] = 100;
    for (unsigned i = 0; i < g->n; i++)
        if (!preempt || !g->residents[i].batch)
            left[g->residents[i].card] -= g->residents[i].core;
    for (uint32_t core = 100; core >= 25; core /= 2)
        for (unsigned i = 0; i < n; i++) {
            unsigned c = 0;

            if (cores[i] != core)
                continue;
            while (c < CARDS && left[c] < core)
                c++;
            if (c == CARDS)
                return false;
            left[c] -= core;
            sum += core;
        }
    return sum <= 300;
}

/* All members ask; how many are granted before one is refused. */
static unsigned
ask_gang(struct play_ground *g, const char *name, const uint32_t *cores, unsigned n,
         int *fds)
{
    unsigned granted_n = 0;
    bool refused = false;
    uint64_t end = gp_now_ns() + PATIENCE;

    for (unsigned i = 0; i < n; i++) {
        Gpupool__Ctl__CtlOpen open = ut_gang_member(name, n, cores[i]);

        open.priority = (char *)"prod";
        open.wait_ms = 700; /* two ticks of the scheduler, and more */
        fds[i] = ut_sched_dial(g->w);
        ut_gang_post(fds[i], open);
    }
    while (!refused && granted_n < n && gp_now_ns() < end) {
        serve_notices(g, 5);
        for (unsigned i = 0; i < n; i++) {
            struct pollfd p = {fds[i], POLLIN, 0};
            reply_t *reply = poll(&p, 1, 0) > 0 ? ut_sched_hear(fds[i]) : NULL;

            if (!reply)
                continue;
            granted_n += reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT;
            refused |= reply->error != NULL;
            ut_sched_drop(reply);
        }
    }
    serve_notices(g, 0);
    return granted_n;
}

static void
round_of_gangs(struct world *w, uint64_t *seed, unsigned counts[3])
{
    struct play_ground g = {.w = w};
    uint32_t cores[LARGEST];
    unsigned n = 2 + (unsigned)(gp_hash_u64(++*seed) % (LARGEST - 1)), got;
    int fds[LARGEST];
    bool now, then;

    g.server = ut_sched_join(w, "node-a", CARDS);
    g.fd = ut_sched_dial(w);
    settle(&g, seed);
    for (unsigned i = 0; i < n; i++)
        cores[i] = random_core(seed);
    now = fits(&g, cores, n, false);
    then = fits(&g, cores, n, true);
    got = ask_gang(&g, "g", cores, n, fds);
    counts[now ? 0 : then ? 1 : 2]++;
    if (got != (then ? n : 0))
        fail_msg("%u of a gang of %u were granted, which %s", got, n,
                 then ? "fits" : "does not fit");
    if ((now || !then) && g.ended)
        fail_msg("%u sessions ended for a gang that %s", g.ended,
                 now ? "fits without that" : "does not fit all the same");
    assert_true(now || !then || g.ended);
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
    for (unsigned i = 0; i < g.n; i++)
        ut_sched_drop(g.residents[i].grant);
    close(g.fd);
    close(g.server);
}

static void
gang_preempts_if_and_only_if_all_of_it_then_fits(void **state)
{
    struct world *w = *state;
    unsigned counts[3] = {0};
    uint64_t seed = 18;

    ut_gang_start_with(w, RULES);
    for (int i = 0; i < 30; i++) {
        char path[128];

        round_of_gangs(w, &seed, counts);
        /* The next round has an empty pool. */
        ut_sched_end(w, SIGKILL);
        snprintf(path, sizeof(path), "%s/scheduler.db", w->dir);
        unlink(path);
        snprintf(path, sizeof(path), "%s/scheduler.db-wal", w->dir);
        unlink(path);
        ut_sched_start(w);
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(counts[i], 3, 30); /* at once, with preemption, not at all */
}

static void
gang_that_gives_up_spares_what_was_to_end_for_it(void **state)
{
    struct world *w = *state;
    struct play_ground g = {.w = w};
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, GIB);
    reply_t *grants[2], *reply;
    int a, b;

    ut_gang_start_with(w, "[class prod]\nvalue = 9\npreempts = yes\n"
                          "[class normal]\nvalue = 5\n"
                          "[class batch]\nvalue = 1\npreemptible = yes\ngrace = 60s\n");
    g.server = ut_sched_join(w, "node-a", 2);
    open.priority = (char *)"batch";
    open.hold = true;
    g.fd = ut_sched_dial(w);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    for (int i = 0; i < 2; i++)
        grants[i] = ut_sched_granted(g.fd, open);
    open = ut_gang_member("g", 2, 60);
    open.priority = (char *)"prod";
    ut_gang_waits(a, open, "1 of its 2");
    ut_gang_waits(b, open, "");
    for (int i = 0; i < 2; i++) {
        reply = ut_sched_hear(g.fd);
        assert_int_equal(reply->body_case,
                         GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE);
        assert_int_equal(reply->session_notice->ends_in_ms, 60000);
        ut_sched_drop(reply);
    }
    close(b);
    for (int i = 0; i < 2; i++) {
        reply = ut_sched_hear(g.fd);
        assert_int_equal(reply->body_case,
                         GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE);
        assert_int_equal(reply->session_notice->ends_in_ms, 0);
        ut_sched_drop(reply);
    }
    ut_gang_await_waiting(w, 1);
    for (int i = 0; i < 2; i++) {
        reply = ut_sched_renew(g.fd, grants[i]->grant, true);
        assert_null(reply->error);
        ut_sched_drop(reply);
        ut_sched_drop(grants[i]);
    }
    close(g.server);
    close(g.fd);
    close(a);
}

/* The scheduler is killed at some moment while a gang is served: afterwards there are
 * sessions of all of its members or of none. */
static void
killed_scheduler_leaves_whole_gangs(void **state)
{
    enum { SIZE = 6 };
    struct world *w = *state;
    unsigned counts[2] = {0}; /* nobody, all */

    ut_gang_start_with(w, "");
    for (unsigned i = 0; i < 20; i++) {
        int server = ut_sched_join(w, "node-a", 8), fds[SIZE];
        size_t before = sessions_now(w), after;

        for (unsigned m = 0; m < SIZE; m++) {
            fds[m] = ut_sched_dial(w);
            if (m + 1 < SIZE)
                ut_gang_waits(fds[m], ut_gang_member("g", SIZE, 1),
                              "of its 6 members have come");
        }
        ut_gang_post(fds[SIZE - 1], ut_gang_member("g", SIZE, 1));
        if (i % 4 == 3)
            ut_sched_drop(ut_gang_granted(fds[0]));
        else
            usleep(i * 100); /* anywhere in what the scheduler does meanwhile */
        ut_sched_end(w, SIGKILL);
        for (unsigned m = 0; m < SIZE; m++)
            close(fds[m]);
        close(server);
        ut_sched_start(w);
        after = sessions_now(w);
        if (after != before && after != before + SIZE)
            fail_msg("%zu of %u members of a gang are left", after - before, SIZE);
        counts[after != before]++;
    }
    assert_in_range(counts[1], 5, 20); /* who was answered was written */
}

static void
gang_is_refused_that_is_more_than_an_owner_may_have(void **state)
{
    struct world *w = *state;
    int server, fds[3];

    w->config.owner_sessions = 2;
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
    server = ut_sched_join(w, "node-a", 1);
    for (int i = 0; i < 3; i++) {
        fds[i] = ut_sched_dial(w);
        ut_gang_post(fds[i], ut_gang_member("three", 3, 10));
    }
    for (int i = 0; i < 3; i++) {
        reply_t *reply = ut_sched_hear(fds[i]);

        while (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED) {
            ut_sched_drop(reply);
            reply = ut_sched_hear(fds[i]);
        }
        ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                         "gang three: an owner has 2 sessions at most, 3 wanted");
        close(fds[i]);
    }
    ut_gang_await_waiting(w, 0);
    close(server);
}

#define T(name) cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        T(gang_is_refused_that_is_more_than_an_owner_may_have),
        T(no_member_is_placed_before_all_can_be),
        T(gang_that_fits_is_served_when_its_last_member_comes),
        T(member_that_leaves_takes_nobody_with_it),
        T(gangs_that_make_no_sense_are_refused),
        T(gang_that_waits_long_has_cards_kept_for_all_of_it),
        T(gangs_neither_deadlock_nor_are_split),
        T(gangs_of_two_tenants_neither_deadlock_nor_are_split),
        T(gang_whose_quota_can_never_be_had_is_refused_whole),
        T(quota_is_kept_for_a_gang_that_waits_long),
        T(gang_preempts_if_and_only_if_all_of_it_then_fits),
        T(gang_that_gives_up_spares_what_was_to_end_for_it),
        T(killed_scheduler_leaves_whole_gangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
