/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs in the scheduler as a process: all members at once or none, whatever else comes
 * and goes.
 */
#include "ut_sched.h"

#include "gp_file.h"
#include "gp_hash.h"
#include "sched_gang.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static Gpupool__Ctl__CtlOpen
member(const char *gang, uint32_t size, uint32_t core)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(core, GIB);

    open.owner = (char *)"ada@host";
    open.wait = true;
    open.gang = (char *)gang;
    open.gang_size = size;
    return open;
}

/* It waits, for @reason. */
static void
waits(int fd, Gpupool__Ctl__CtlOpen open, const char *reason)
{
    reply_t *reply = ut_sched_open(fd, &open);

    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED);
    if (!strstr(reply->queued->reason, reason))
        fail_msg("\"%s\" does not say \"%s\"", reply->queued->reason, reason);
    ut_sched_drop(reply);
}

static void
post_open(int fd, Gpupool__Ctl__CtlOpen open)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.id = 77;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    open.major = CTL_MAJOR;
    req.open = &open;
    ut_sched_post(fd, &req);
}

/* The grant that comes after all news; the caller drops it. */
static reply_t *
granted(int fd)
{
    reply_t *reply = ut_sched_hear(fd);

    while (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED) {
        ut_sched_drop(reply);
        reply = ut_sched_hear(fd);
    }
    assert_non_null(reply);
    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    return reply;
}

static uint32_t
waiting(const struct world *w, char *reason, size_t size)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlQueueQuery query = GPUPOOL__CTL__CTL_QUEUE_QUERY__INIT;
    int fd = ut_sched_dial(w);
    reply_t *reply;
    uint32_t n;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE;
    req.queue = &query;
    reply = ut_sched_ask(fd, &req);
    n = reply->queue->waiting;
    if (reason)
        snprintf(reason, size, "%s", n ? reply->queue->waiters[0]->reason : "");
    ut_sched_drop(reply);
    close(fd);
    return n;
}

static void
await_waiting(const struct world *w, uint32_t n)
{
    uint64_t end = gp_now_ns() + PATIENCE;

    while (waiting(w, NULL, 0) != n && gp_now_ns() < end)
        ;
    assert_int_equal(waiting(w, NULL, 0), n);
}

/* A session ends, and its server reports the others. */
static void
finish(int server, int client, const Gpupool__Ctl__CtlGrant *grant, uint64_t other)
{
    ut_sched_post_close(client, grant);
    ut_sched_await_notice(server, grant->session_id);
    ut_sched_drop(ut_sched_report(server, other));
}

static void
no_member_is_placed_before_all_can_be(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 2), a = ut_sched_dial(w),
        b = ut_sched_dial(w), c = ut_sched_dial(w);
    reply_t *first = ut_sched_granted(a, ut_sched_preference(100, 0)), *one, *two;

    waits(b, member("g", 2, 60), "gang g: 1 of its 2 members have come");
    waits(c, member("g", 2, 60), "gang g: no room for all of its 2 members at once");
    /* One of two cards is free, and is used by others meanwhile. */
    two = ut_sched_granted(a, ut_sched_preference(100, 0));
    finish(server, a, first->grant, two->grant->session_id);
    ut_sched_drop(ut_sched_hear(a));
    assert_int_equal(waiting(w, NULL, 0), 2);
    finish(server, a, two->grant, 0);
    ut_sched_drop(first);
    ut_sched_drop(two);
    one = granted(b);
    two = granted(c);
    assert_memory_not_equal(one->grant->slices[0]->card_uuid.data,
                            two->grant->slices[0]->card_uuid.data, 16);
    assert_int_equal(waiting(w, NULL, 0), 0);
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
    Gpupool__Ctl__CtlOpen other = member("g", 2, 50);

    waits(a, member("g", 2, 50), "1 of its 2");
    /* Another owner's gang of the same name is another gang. */
    other.owner = (char *)"bob@host";
    waits(c, other, "1 of its 2");
    post_open(b, member("g", 2, 50));
    ut_sched_drop(granted(a));
    ut_sched_drop(granted(b));
    assert_int_equal(waiting(w, NULL, 0), 1);
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

    waits(a, member("g", 3, 30), "1 of its 3");
    waits(b, member("g", 3, 30), "2 of its 3");
    close(a);
    await_waiting(w, 1);
    waiting(w, reason, sizeof(reason));
    assert_non_null(strstr(reason, "1 of its 3 members have come"));
    a = ut_sched_dial(w);
    waits(a, member("g", 3, 30), "2 of its 3");
    post_open(c, member("g", 3, 30));
    ut_sched_drop(granted(a));
    ut_sched_drop(granted(b));
    ut_sched_drop(granted(c));
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
    Gpupool__Ctl__CtlOpen open = member("g", 2, 60);

    open.wait = false;
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "a member of a gang waits for the others (--wait)");
    open = member("g", 1, 60);
    ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "a gang has 2 to 64 members, not 1");
    waits(a, member("g", 3, 60), "1 of its 3");
    open = member("g", 2, 60);
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
    waits(b, member("g", 2, 100), "1 of its 2");
    waits(c, member("g", 2, 100), "");
    while (!strstr(reason, "cards are kept for all of its 2 members") &&
           gp_now_ns() < end)
        waiting(w, reason, sizeof(reason));
    assert_non_null(strstr(reason, "cards are kept for all of its 2 members"));
    /* Neither the free card nor the half of the other is given to anybody else. */
    for (int i = 0; i < 2; i++) {
        Gpupool__Ctl__CtlOpen open = ut_sched_preference(i ? 100 : 20, i ? 0 : GIB);

        ut_sched_refused(ut_sched_open(a, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                         "kept free for a request that waits longer");
    }
    finish(server, a, grants[0]->grant, 0);
    ut_sched_drop(grants[0]);
    ut_sched_drop(granted(b));
    ut_sched_drop(granted(c));
    w->config.rules = NULL;
    close(server);
    close(a);
    close(b);
    close(c);
}

/* Four gangs of three on four cards that have room for one of them: members come in
 * random order, sessions end in random order, and never has a gang a part. */
static void
gangs_neither_deadlock_nor_are_split(void **state)
{
    enum { GANGS = 4, SIZE = 3 };
    static const char *const names[GANGS] = {"g0", "g1", "g2", "g3"};
    struct world *w = *state;
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

        fds[g][m] = ut_sched_dial(w);
        post_open(fds[g][m], member(names[g], SIZE, 60 + 5 * m));
    }
    while (served < GANGS) {
        reply_t *grants[SIZE];
        unsigned g = GANGS;

        await_waiting(w, SIZE * (GANGS - 1 - served));
        /* One gang has been granted, and all of it. */
        for (unsigned i = 0; i < GANGS && g == GANGS; i++) {
            struct pollfd p = {fds[i][0], POLLIN, 0};
            reply_t *reply;

            while (fds[i][0] >= 0 && g == GANGS && poll(&p, 1, 50) > 0) {
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
            grants[m] = granted(fds[g][m]);
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

#define T(name) cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        T(no_member_is_placed_before_all_can_be),
        T(gang_that_fits_is_served_when_its_last_member_comes),
        T(member_that_leaves_takes_nobody_with_it),
        T(gangs_that_make_no_sense_are_refused),
        T(gang_that_waits_long_has_cards_kept_for_all_of_it),
        T(gangs_neither_deadlock_nor_are_split),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
