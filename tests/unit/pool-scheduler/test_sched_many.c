/* SPDX-License-Identifier: Apache-2.0 */
/* Many sessions opened by one request: all of them or none. */
#include "ut_sched.h"

#include "ctl_limits.h"
#include "gp_file.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef Gpupool__Ctl__CtlOpen open_t;

/* Sessions to ask for, added one by one. */
struct many {
    Gpupool__Ctl__CtlOpenMany msg;
    open_t opens[CTL_OPEN_MANY_MAX + 1], *list[CTL_OPEN_MANY_MAX + 1];
};

static struct many *
many_new(void)
{
    struct many *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    gpupool__ctl__ctl_open_many__init(&m->msg);
    m->msg.opens = m->list;
    return m;
}

static open_t *
many_add(struct many *m, const char *owner, uint32_t core)
{
    open_t *open = &m->opens[m->msg.n_opens];

    *open = ut_sched_preference(core, GIB);
    open->owner = (char *)(uintptr_t)owner;
    open->once = true;
    m->list[m->msg.n_opens++] = open;
    return open;
}

static reply_t *
ask(int fd, const struct many *m)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN_MANY;
    req.open_many = (Gpupool__Ctl__CtlOpenMany *)(uintptr_t)&m->msg;
    return ut_sched_ask(fd, &req);
}

/* It opens @n. */
static void
opens(int fd, const struct many *m, unsigned n)
{
    reply_t *reply = ask(fd, m);

    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_OPENED_MANY);
    if (reply->opened_many->error)
        fail_msg("none: %s", reply->opened_many->error->words);
    assert_int_equal(reply->opened_many->opened, n);
    ut_sched_drop(reply);
}

/* It opens none, because of number @failed. */
static void
opens_none(int fd, const struct many *m, unsigned failed, Gpupool__Ctl__CtlCode code,
           const char *words)
{
    reply_t *reply = ask(fd, m);
    const Gpupool__Ctl__CtlError *error;

    assert_null(reply->error);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_OPENED_MANY);
    error = reply->opened_many->error;
    assert_non_null(error);
    assert_int_equal(error->code, code);
    if (!strstr(error->words, words))
        fail_msg("\"%s\" does not say \"%s\"", error->words, words);
    assert_int_equal(reply->opened_many->failed, failed);
    assert_int_equal(reply->opened_many->opened, 0);
    ut_sched_drop(reply);
}

/* So many sessions are open, and hold so much of all cards. */
static void
pool_has(int fd, size_t sessions, uint32_t core)
{
    reply_t *reply = ut_sched_status(fd);
    uint32_t given = 0;

    assert_int_equal(reply->status->n_sessions, sessions);
    for (size_t i = 0; i < reply->status->n_servers; i++)
        for (size_t k = 0; k < reply->status->servers[i]->n_cards; k++)
            given += reply->status->servers[i]->cards[k]->core_given;
    assert_int_equal(given, core);
    ut_sched_drop(reply);
}

static void
all_are_opened_and_found_again(void **state)
{
    const struct world *w = *state;
    int server = ut_sched_join(w, "a", 2), fd = ut_sched_dial(w);
    struct many *m = many_new();
    open_t *two = many_add(m, "two", 70);
    reply_t *grant;

    many_add(m, "one", 30);
    many_add(m, "three", 30);
    opens(fd, m, 3);
    pool_has(fd, 3, 130);
    grant = ut_sched_granted(fd, *two); /* of the session that is open */
    assert_int_equal(grant->grant->n_tickets, 1);
    ut_sched_drop(grant);
    pool_has(fd, 3, 130);
    opens(fd, m, 0); /* asked again */
    many_add(m, "four", 40);
    opens(fd, m, 1);
    pool_has(fd, 4, 170);
    free(m);
    close(fd);
    close(server);
}

/* The session of @grant, which is dropped, has ended. */
static void
end_session(int fd, int server, reply_t *grant)
{
    ut_sched_post_close(fd, grant->grant);
    ut_sched_await_notice(server, grant->grant->session_id);
    ut_sched_drop(ut_sched_report(server, 0));
    ut_sched_drop(ut_sched_hear(fd));
    ut_sched_drop(grant);
}

/* Each would fit alone. */
static void
two_who_need_two_cards_never_hold_one_each(void **state)
{
    const struct world *w = *state;
    int server = ut_sched_join(w, "a", 2), fd = ut_sched_dial(w);
    struct many *first = many_new(), *second = many_new();
    open_t *one = many_add(first, "a1", 60), *other = many_add(first, "a2", 60);
    reply_t *grants[2];

    many_add(second, "b1", 60);
    many_add(second, "b2", 60);
    opens(fd, first, 2);
    opens_none(fd, second, 0, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
               "none of 2 cards fits");
    pool_has(fd, 2, 120);
    grants[0] = ut_sched_granted(fd, *one);
    grants[1] = ut_sched_granted(fd, *other);
    end_session(fd, server, grants[0]); /* one card is free again, and not enough */
    opens_none(fd, second, 1, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
               "no room for 2 sessions at once: beside 1, ");
    pool_has(fd, 1, 60);
    end_session(fd, server, grants[1]);
    opens(fd, second, 2);
    pool_has(fd, 2, 120);
    free(first);
    free(second);
    close(fd);
    close(server);
}

/* The largest first, as it is tried, leaves no room for the rest: 45 beside 45 and 33
 * thrice beside each other do, 45 beside 33 does not. */
static void
another_order_is_searched_for(void **state)
{
    const struct world *w = *state;
    int server = ut_sched_join(w, "a", 2), fd = ut_sched_dial(w);
    struct many *m = many_new();

    for (unsigned i = 0; i < 2; i++)
        many_add(m, i ? "x1" : "x0", 45)->placement =
            GPUPOOL__CTL__CTL_PLACEMENT__CTL_SPREAD;
    many_add(m, "y0", 33);
    many_add(m, "y1", 33);
    many_add(m, "y2", 33);
    opens(fd, m, 5);
    pool_has(fd, 5, 189);
    free(m);
    close(fd);
    close(server);
}

static void
what_is_no_such_request_opens_nothing(void **state)
{
    const struct world *w = *state;
    int server = ut_sched_join(w, "a", 2), fd = ut_sched_dial(w);
    static char names[CTL_OPEN_MANY_MAX + 1][8];
    struct many *m = many_new();
    open_t *open;

    ut_sched_refused(ask(fd, m), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "0 sessions to open; 1 to 24 may be named");
    many_add(m, "one", 10);
    open = many_add(m, "two", 10);
    open->wait = true;
    opens_none(fd, m, 1, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "once");
    open->wait = false;
    open->once = false;
    opens_none(fd, m, 1, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "once");
    open->once = true;
    open->hold = true;
    opens_none(fd, m, 1, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "once");
    open->hold = false;
    open->core = 150;
    opens_none(fd, m, 1, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "150");
    open->core = 10;
    open->owner = (char *)"one";
    opens_none(fd, m, 1, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "one owner");
    m->msg.n_opens = 0;
    for (unsigned i = 0; i < CTL_OPEN_MANY_MAX + 1; i++) {
        snprintf(names[i], sizeof(names[i]), "u%u", i);
        many_add(m, names[i], 1);
    }
    ut_sched_refused(ask(fd, m), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "25 sessions to open");
    pool_has(fd, 0, 0);
    m->msg.n_opens--;
    opens(fd, m, CTL_OPEN_MANY_MAX);
    free(m);
    close(fd);
    close(server);
}

/* Tenants whose quota they share: what one takes the next has not. */
static void
quotas_hold_for_all_together(void **state)
{
    struct world *w = *state;
    char rules[100];
    static const char TEXT[] = "[tenant team]\nowners = kube:*\ncards = 2\n";
    struct many *m = many_new();
    int server, fd;

    snprintf(rules, sizeof(rules), "%s/rules", w->dir);
    assert_int_equal(gp_file_replace(rules, TEXT, sizeof(TEXT) - 1, 0600, NULL), 0);
    ut_sched_end(w, SIGTERM);
    w->config.rules = rules;
    ut_sched_start(w);
    server = ut_sched_join(w, "a", 4);
    fd = ut_sched_dial(w);
    many_add(m, "kube:a", 60);
    many_add(m, "kube:b", 50);
    many_add(m, "kube:c", 40);
    opens_none(fd, m, 2, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT, "quota");
    pool_has(fd, 0, 0);
    m->msg.n_opens = 2;
    opens(fd, m, 2);
    pool_has(fd, 2, 110);
    free(m);
    close(fd);
    close(server);
}

/* As whoever opens a session once: it may be one that another has opened. */
static void
it_needs_the_right_to_end_sessions(void **state)
{
    struct world *w = *state;
    struct many *m = many_new();
    int server, fd;

    ut_sched_end(w, SIGTERM);
    w->config.anonymous[SCHED_ROLE_ADMIN] = false;
    ut_sched_start(w);
    server = ut_sched_join(w, "a", 2);
    fd = ut_sched_dial(w);
    many_add(m, "one", 10);
    many_add(m, "two", 10);
    ut_sched_refused(ask(fd, m), GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "no admin token");
    pool_has(fd, 0, 0);
    free(m);
    close(fd);
    close(server);
}

/* Whoever asked is gone before the answer: all are there, or none is, and who asks
 * again finds them. */
static void
a_client_that_goes_leaves_all_or_none(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 4), fd = ut_sched_dial(w);
    char names[30][2][12];

    for (unsigned i = 0; i < 30; i++) {
        struct many *m = many_new();
        Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
        int gone = ut_sched_dial(w);

        for (unsigned k = 0; k < 2; k++) {
            snprintf(names[i][k], sizeof(names[i][k]), "u%u-%u", i, k);
            many_add(m, names[i][k], 4);
        }
        req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN_MANY;
        req.open_many = &m->msg;
        ut_sched_post(gone, &req);
        usleep(i * 50);
        close(gone);
        free(m);
    }
    for (unsigned i = 0; i < 30; i++) {
        struct many *m = many_new();
        reply_t *reply;

        for (unsigned k = 0; k < 2; k++)
            many_add(m, names[i][k], 4);
        reply = ask(fd, m);
        assert_non_null(reply->opened_many);
        assert_null(reply->opened_many->error);
        assert_true(reply->opened_many->opened == 0 || reply->opened_many->opened == 2);
        ut_sched_drop(reply);
        free(m);
    }
    pool_has(fd, 60, 240);
    close(fd);
    close(server);
}

/* Killed at any moment: what its successor knows are whole groups. */
static void
a_kill_leaves_whole_groups(void **state)
{
    struct world *w = *state;

    for (unsigned round = 0; round < 12; round++) {
        struct many *m = many_new();
        Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
        char names[3][16];
        int server = ut_sched_join(w, "a", 4), fd = ut_sched_dial(w);
        reply_t *status;

        for (unsigned k = 0; k < 3; k++) {
            snprintf(names[k], sizeof(names[k]), "r%u-%u", round, k);
            many_add(m, names[k], 3);
        }
        req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN_MANY;
        req.open_many = &m->msg;
        ut_sched_post(fd, &req);
        usleep(round * 200);
        ut_sched_end(w, SIGKILL);
        close(fd);
        close(server);
        ut_sched_start(w);
        fd = ut_sched_dial(w);
        status = ut_sched_status(fd);
        assert_int_equal(status->status->n_sessions % 3, 0);
        ut_sched_drop(status);
        close(fd);
        free(m);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_are_opened_and_found_again, ut_sched_setup,
                                        ut_sched_teardown),
        cmocka_unit_test_setup_teardown(two_who_need_two_cards_never_hold_one_each,
                                        ut_sched_setup, ut_sched_teardown),
        cmocka_unit_test_setup_teardown(another_order_is_searched_for, ut_sched_setup,
                                        ut_sched_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_such_request_opens_nothing,
                                        ut_sched_setup, ut_sched_teardown),
        cmocka_unit_test_setup_teardown(quotas_hold_for_all_together, ut_sched_setup,
                                        ut_sched_teardown),
        cmocka_unit_test_setup_teardown(it_needs_the_right_to_end_sessions,
                                        ut_sched_setup, ut_sched_teardown),
        cmocka_unit_test_setup_teardown(a_client_that_goes_leaves_all_or_none,
                                        ut_sched_setup, ut_sched_teardown),
        cmocka_unit_test_setup_teardown(a_kill_leaves_whole_groups, ut_sched_setup,
                                        ut_sched_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
