/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations in the scheduler as a process: cards belong to some owners for a time.
 */
#include "ut_sched.h"

#include "gp_err.h"
#include "gp_file.h"
#include "sched_rules.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Rules with one reservation of a card for ada, for an hour from @from seconds from
 * now.
 */
static void
write_rules(struct world *w, int from, const char *more)
{
    static char path[128];
    char text[512], moments[2][32];
    time_t times[2] = {time(NULL) + from, time(NULL) + from + 3600};
    struct tm tm;

    for (int i = 0; i < 2; i++) {
        gmtime_r(&times[i], &tm);
        strftime(moments[i], sizeof(moments[i]), "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    snprintf(text, sizeof(text),
             "[reservation exam]\nowners = ada@*\ncards = 1\nfrom = %s\nuntil = %s\n%s",
             moments[0], moments[1], more);
    snprintf(path, sizeof(path), "%s/rules", w->dir);
    assert_int_equal(gp_file_replace(path, text, strlen(text), 0600, NULL), 0);
    w->config.rules = path;
}

static void
start_with_rules(struct world *w, int from, const char *more)
{
    write_rules(w, from, more);
    ut_sched_end(w, SIGTERM);
    ut_sched_start(w);
}

static Gpupool__Ctl__CtlOpen
whole(const char *owner)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);

    open.owner = (char *)owner;
    return open;
}

/* Ask until the answer is a grant (@grant) or a refusal. */
static reply_t *
ask_until(int fd, Gpupool__Ctl__CtlOpen open, bool grant)
{
    uint64_t end = gp_now_ns() + PATIENCE;
    reply_t *reply = ut_sched_open(fd, &open);

    while (!reply->error != grant && gp_now_ns() < end) {
        ut_sched_drop(reply);
        reply = ut_sched_open(fd, &open);
    }
    assert_int_equal(!reply->error, grant);
    return reply;
}

/* The ticks have chosen a card: explain says so. */
static void
await_reserved(int fd)
{
    Gpupool__Ctl__CtlOpen open = whole("bob@host");
    uint64_t end = gp_now_ns() + PATIENCE;
    bool reserved = false;

    open.explain = true;
    open.cards = 2;
    open.core = 200;
    while (!reserved && gp_now_ns() < end) {
        reply_t *reply = ut_sched_open(fd, &open);

        reserved = reply->error && strstr(reply->error->words, "1 is reserved for");
        if (reserved)
            for (size_t i = 0, n = 0; i < reply->error->n_reasons; i++) {
                n += !!strstr(reply->error->reasons[i]->words, "reserved for exam, 2");
                if (i + 1 == reply->error->n_reasons)
                    assert_int_equal(n, 1);
            }
        ut_sched_drop(reply);
    }
    assert_true(reserved);
}

static void
reserved_cards_are_given_to_their_owners_only(void **state)
{
    struct world *w = *state;
    int server, a, b;

    start_with_rules(w, -10, "");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    await_reserved(b);
    ut_sched_drop(ut_sched_granted(b, whole("bob@host")));
    ut_sched_drop(ask_until(b, whole("bob@host"), false));
    ut_sched_drop(ut_sched_granted(a, whole("ada@host")));
    close(server);
    close(a);
    close(b);
}

static void
reservation_that_goes_from_the_rules_frees_its_cards(void **state)
{
    struct world *w = *state;
    int server, b;

    start_with_rules(w, -10, "");
    server = ut_sched_join(w, "node-a", 2);
    b = ut_sched_dial(w);
    await_reserved(b);
    ut_sched_drop(ut_sched_granted(b, whole("bob@host")));
    assert_int_equal(gp_file_replace(w->config.rules, "", 0, 0600, NULL), 0);
    kill(w->scheduler, SIGHUP);
    ut_sched_drop(ask_until(b, whole("bob@host"), true));
    close(server);
    close(b);
}

static void
sessions_that_end_before_it_begins_may_use_the_cards(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = whole("bob@host");
    int server, b;

    start_with_rules(w, 600, "");
    server = ut_sched_join(w, "node-a", 2);
    b = ut_sched_dial(w);
    await_reserved(b);
    ut_sched_drop(ut_sched_granted(b, open));
    open.run_ms = 700 * 1000;
    ut_sched_refused(ut_sched_open(b, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                     "reserved for others");
    open.run_ms = 500 * 1000;
    ut_sched_drop(ut_sched_granted(b, open));
    close(server);
    close(b);
}

static void
what_others_have_ends_when_it_begins(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = whole("bob@host");
    reply_t *grant, *reply;
    int server, a, b;

    server = ut_sched_join(w, "node-a", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    open.hold = true;
    grant = ut_sched_granted(b, open);
    close(server); /* the scheduler is started again with the reservation */
    start_with_rules(w, 3, "end = yes\n");
    server = ut_sched_dial(w);
    ut_sched_drop(ut_sched_enlist(
        server, &(struct play){"node-a", 1, 1, grant->grant->session_id, NULL}));
    close(b);
    b = ut_sched_dial(w);
    reply = ut_sched_renew(b, grant->grant, true);
    assert_null(reply->error);
    ut_sched_drop(reply);
    close(a);
    a = ut_sched_dial(w);
    open = whole("ada@host");
    open.wait = true;
    reply = ut_sched_open(a, &open);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED);
    ut_sched_drop(reply);
    ut_sched_await_notice(server, grant->grant->session_id); /* the server is told */
    ut_sched_drop(ut_sched_report(server, 0));
    do {
        reply = ut_sched_hear(a);
        assert_null(reply->error);
        if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
            break;
        ut_sched_drop(reply);
    } while (true);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(server);
    close(a);
    close(b);
}

/* Bob's session of the only card of node-a, which hears that it ends when the
 * reservation begins, 60 s from now. */
struct doomed {
    int server, b;
    reply_t *grant;
};

static Gpupool__Ctl__CtlSessionNotice
hear_notice(int fd, const char *words)
{
    reply_t *reply = ut_sched_hear(fd);
    Gpupool__Ctl__CtlSessionNotice notice;

    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_SESSION_NOTICE);
    notice = *reply->session_notice;
    if (!strstr(notice.words, words))
        fail_msg("\"%s\" does not say \"%s\"", notice.words, words);
    ut_sched_drop(reply);
    return notice;
}

static void
reload(struct world *w, int from, const char *more)
{
    write_rules(w, from, more);
    kill(w->scheduler, SIGHUP);
}

static struct doomed
doom(struct world *w)
{
    Gpupool__Ctl__CtlOpen open = whole("bob@host");
    struct doomed d;

    start_with_rules(w, 7200, "end = yes\n");
    d.server = ut_sched_join(w, "node-a", 1);
    d.b = ut_sched_dial(w);
    open.hold = true;
    d.grant = ut_sched_granted(d.b, open);
    reload(w, 60, "end = yes\n");
    assert_in_range(hear_notice(d.b, "reservation exam begins then").ends_in_ms, 1,
                    60000);
    return d;
}

/* Its lease, of 30 s at most before, is whole again. */
static void
doomed_end(struct doomed *d)
{
    reply_t *reply = ut_sched_renew(d->b, d->grant->grant, true);

    assert_null(reply->error);
    ut_sched_drop(reply);
    ut_sched_drop(d->grant);
    close(d->server);
    close(d->b);
}

static void
reservation_that_is_withdrawn_ends_nothing(void **state)
{
    struct world *w = *state;
    struct doomed d = doom(w);

    assert_int_equal(gp_file_replace(w->config.rules, "", 0, 0600, NULL), 0);
    kill(w->scheduler, SIGHUP);
    assert_int_equal(hear_notice(d.b, "not reserved any more").ends_in_ms, 0);
    doomed_end(&d);
}

static void
reservation_that_is_moved_ends_sessions_at_its_new_time(void **state)
{
    struct world *w = *state;
    struct doomed d = doom(w);

    reload(w, 1200, "end = yes\n");
    assert_in_range(hear_notice(d.b, "reservation exam begins then").ends_in_ms,
                    1000 * 1000, 1200 * 1000);
    reload(w, 7200, "end = yes\n");
    assert_int_equal(hear_notice(d.b, "not reserved any more").ends_in_ms, 0);
    doomed_end(&d);
}

static void
reservation_that_ends_others_no_more_lets_them_go_on(void **state)
{
    struct world *w = *state;
    struct doomed d = doom(w);

    reload(w, 60, "end = no\n");
    assert_int_equal(hear_notice(d.b, "does not end it any more").ends_in_ms, 0);
    reload(w, 60, "end = yes\n");
    assert_in_range(hear_notice(d.b, "reservation exam begins then").ends_in_ms, 1,
                    60000);
    doomed_end(&d);
}

static void
session_that_a_waiter_spares_still_ends_for_a_reservation(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = whole("bob@host");
    reply_t *grant;
    int server, a, b;

    start_with_rules(w, 7200, "");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    open.core = 200;
    open.cards = 2;
    open.hold = true;
    open.priority = (char *)"batch";
    grant = ut_sched_granted(b, open);
    reload(w, 600, "end = yes\n");
    hear_notice(b, "reservation exam begins then");
    open = whole("eve@host");
    open.priority = (char *)"high";
    open.wait = true;
    ut_sched_drop(ut_sched_open(a, &open));
    assert_in_range(hear_notice(b, "makes room").ends_in_ms, 1, 30000);
    close(a);
    assert_in_range(hear_notice(b, "reservation exam begins then").ends_in_ms, 30001,
                    600 * 1000);
    ut_sched_drop(grant);
    close(server);
    close(b);
}

static void
session_that_ends_before_by_itself_is_not_ended(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = whole("bob@host");
    int server, b;

    start_with_rules(w, 7200, "end = yes\n");
    server = ut_sched_join(w, "node-a", 1);
    b = ut_sched_dial(w);
    open.hold = true;
    open.run_ms = 300 * 1000;
    ut_sched_drop(ut_sched_granted(b, open));
    reload(w, 600, "end = yes\n");
    reload(w, 200, "end = yes\n"); /* this one does */
    assert_in_range(hear_notice(b, "reservation exam begins then").ends_in_ms, 1,
                    200 * 1000);
    close(server);
    close(b);
}

static void
mistakes_in_reservations_are_named(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"[reservation r]\nfrom = tomorrow\n", ":2: tomorrow: a time of UTC like"},
        {"[reservation r]\nfrom = 2026-02-31T08:00+01\n", "a time of UTC like"},
        {"[reservation r]\ncards = 0\n", ":2: 0: a number from 1 to 1024"},
        {"[reservation r]\nowners = a\ncards = 1\n",
         "reservation r: owners, cards, from"},
        {"[reservation r]\nowners = a\ncards = 1\nfrom = 2026-11-24T08:00Z\n"
         "until = 2026-11-24T07:00Z\n",
         "reservation r ends before it begins"},
        {"[reservation r]\n[reservation r]\n", ":2: reservation r is there twice"},
    };
    const char *path = "/tmp/ut-sched-reserve";
    struct sched_rules *rules;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct gp_err err = {0};

        gp_file_replace(path, cases[i].text, strlen(cases[i].text), 0600, NULL);
        assert_true(sched_rules_load(path, &rules, &err) < 0);
        if (!strstr(err.msg, cases[i].words))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].words);
    }
    unlink(path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        T(reserved_cards_are_given_to_their_owners_only),
        T(reservation_that_goes_from_the_rules_frees_its_cards),
        T(sessions_that_end_before_it_begins_may_use_the_cards),
        T(what_others_have_ends_when_it_begins),
        T(reservation_that_is_withdrawn_ends_nothing),
        T(reservation_that_is_moved_ends_sessions_at_its_new_time),
        T(reservation_that_ends_others_no_more_lets_them_go_on),
        T(session_that_a_waiter_spares_still_ends_for_a_reservation),
        T(session_that_ends_before_by_itself_is_not_ended),
        cmocka_unit_test(mistakes_in_reservations_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
