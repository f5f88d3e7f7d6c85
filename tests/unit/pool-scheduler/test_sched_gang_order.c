/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs beside each other: which of them has cards kept, who makes way for whom, and
 * that all are served in the end; and gangs that fit in an unusual order only.
 */
#include "ut_gang.h"

#include "gp_hash.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The reason that the members of @gang are told; "": it does not wait. */
static void
reason_of(const struct world *w, const char *gang, char *reason, size_t size)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlQueueQuery query = GPUPOOL__CTL__CTL_QUEUE_QUERY__INIT;
    int fd = ut_sched_dial(w);
    char head[64];
    reply_t *reply;

    snprintf(head, sizeof(head), "gang %s: ", gang);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE;
    req.queue = &query;
    reply = ut_sched_ask(fd, &req);
    *reason = 0;
    for (size_t i = 0; i < reply->queue->n_waiters; i++)
        if (!strncmp(reply->queue->waiters[i]->reason, head, strlen(head)))
            snprintf(reason, size, "%s", reply->queue->waiters[i]->reason);
    ut_sched_drop(reply);
    close(fd);
}

static void
await_reason(const struct world *w, const char *gang, const char *words)
{
    uint64_t end = gp_now_ns() + PATIENCE;
    char reason[256];

    do
        reason_of(w, gang, reason, sizeof(reason));
    while (!strstr(reason, words) && gp_now_ns() < end);
    if (!strstr(reason, words))
        fail_msg("gang %s: \"%s\" does not say \"%s\"", gang, reason, words);
}

static void
drain(const struct world *w, const char *server, bool undo)
{
    int fd = ut_sched_dial(w);
    reply_t *reply = ut_sched_drain(fd, server, undo);

    assert_null(reply->error);
    ut_sched_drop(reply);
    close(fd);
}

/* The members come, on connections of their own. */
static void
come(const struct world *w, int *fds, unsigned n, Gpupool__Ctl__CtlOpen open)
{
    for (unsigned i = 0; i < n; i++) {
        fds[i] = ut_sched_dial(w);
        ut_gang_post(fds[i], open);
    }
}

/* Every card of two servers is in use. */
struct full {
    struct world *w;
    int servers[2], fd;
    reply_t *grants[4];
};

static const char *const full_names[2] = {"alpha", "beta"};

static void
fill(struct full *f, struct world *w)
{
    f->w = w;
    ut_gang_start_with(w, "[queue]\nreserve-after = 0s\n");
    for (unsigned i = 0; i < 2; i++)
        f->servers[i] = ut_sched_join(w, full_names[i], 2);
    f->fd = ut_sched_dial(w);
    for (unsigned i = 0; i < 4; i++) {
        Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, 0);

        open.server = (char *)full_names[i / 2];
        f->grants[i] = ut_sched_granted(f->fd, open);
    }
}

/* The session on the @i-th card ends. */
static void
vacate(struct full *f, unsigned i)
{
    ut_gang_finish(f->servers[i / 2], f->fd, f->grants[i]->grant, 0);
    ut_sched_drop(f->grants[i]);
    f->grants[i] = NULL;
}

static void
empty(struct full *f)
{
    for (unsigned i = 0; i < 4; i++)
        if (f->grants[i])
            ut_sched_drop(f->grants[i]);
    for (unsigned i = 0; i < 2; i++)
        close(f->servers[i]);
    close(f->fd);
}

/* All members were granted; their sessions end. */
static void
leave(struct full *f, const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        reply_t *reply = ut_gang_granted(fds[i]);
        char first = (char)reply->grant->slices[0]->card_uuid.data[0];

        ut_gang_finish(f->servers[first == 'b'], fds[i], reply->grant, 0);
        ut_sched_drop(reply);
        close(fds[i]);
    }
}

/* Halves that have to be paired on the larger card: the largest first, on the card that
 * it fits most tightly, leaves none for the last. */
static void
gang_that_fits_in_another_order_is_served(void **state)
{
    static const uint32_t cores[] = {50, 50, 45, 45};
    struct world *w = *state;
    int server, a, fds[4];
    reply_t *first;

    ut_gang_start_with(w, "");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    first = ut_sched_granted(a, ut_sched_preference(10, GIB));
    for (unsigned i = 0; i < 4; i++) {
        fds[i] = ut_sched_dial(w);
        ut_gang_post(fds[i], ut_gang_member("g", 4, cores[i]));
    }
    for (unsigned i = 0; i < 4; i++) {
        ut_sched_drop(ut_gang_granted(fds[i]));
        close(fds[i]);
    }
    ut_sched_drop(first);
    close(server);
    close(a);
}

/* The same on cards that are kept for it until they are free. */
static void
cards_are_kept_for_a_gang_that_fits_in_another_order(void **state)
{
    static const uint32_t cores[] = {40, 40, 30, 30, 30, 30};
    struct world *w = *state;
    int server, a, fds[6];
    reply_t *grants[2];

    ut_gang_start_with(w, "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 2);
    a = ut_sched_dial(w);
    grants[0] = ut_sched_granted(a, ut_sched_preference(30, GIB));
    grants[1] = ut_sched_granted(a, ut_sched_preference(90, GIB));
    for (unsigned i = 0; i < 6; i++) {
        fds[i] = ut_sched_dial(w);
        ut_gang_post(fds[i], ut_gang_member("g", 6, cores[i]));
    }
    await_reason(w, "g", "cards are kept for all of its 6 members");
    ut_gang_finish(server, a, grants[0]->grant, grants[1]->grant->session_id);
    ut_gang_finish(server, a, grants[1]->grant, 0);
    for (unsigned i = 0; i < 6; i++) {
        ut_sched_drop(ut_gang_granted(fds[i]));
        close(fds[i]);
    }
    ut_sched_drop(grants[0]);
    ut_sched_drop(grants[1]);
    close(server);
    close(a);
}

static void
several_gangs_have_cards_kept(void **state)
{
    struct full f = {.w = NULL};
    int one[2], two[2];

    fill(&f, *state);
    come(f.w, one, 2, ut_gang_member("one", 2, 100));
    await_reason(f.w, "one", "cards are kept for all of its 2 members");
    come(f.w, two, 2, ut_gang_member("two", 2, 100));
    await_reason(f.w, "two", "cards are kept for all of its 2 members");
    await_reason(f.w, "one", "cards are kept for all of its 2 members");
    for (unsigned i = 0; i < 4; i++)
        vacate(&f, i);
    leave(&f, one, 2);
    leave(&f, two, 2);
    empty(&f);
}

/* A gang that comes first and needs all cards is served first, though others that need
 * fewer had theirs kept when it could not have any. */
static void
later_gangs_make_way_for_the_first(void **state)
{
    struct full f = {.w = NULL};
    int all[4], some[3][2];

    fill(&f, *state);
    drain(f.w, "beta", false);
    come(f.w, all, 4, ut_gang_member("all", 4, 100));
    await_reason(f.w, "all", "no room for all of its 4 members at once");
    come(f.w, some[0], 2, ut_gang_member("some0", 2, 100));
    await_reason(f.w, "some0", "cards are kept for all of its 2 members");
    drain(f.w, "beta", true);
    await_reason(f.w, "all", "cards are kept for all of its 4 members");
    await_reason(f.w, "some0", "no room for all of its 2 members at once");
    /* More of them that come find nothing to keep. */
    come(f.w, some[1], 2, ut_gang_member("some1", 2, 100));
    come(f.w, some[2], 2, ut_gang_member("some2", 2, 100));
    await_reason(f.w, "some2", "no room for all of its 2 members at once");
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ut_gang_waiting(f.w, NULL, 0), 10);
        vacate(&f, i);
    }
    leave(&f, all, 4);
    for (unsigned i = 0; i < 3; i++)
        leave(&f, some[i], 2);
    empty(&f);
}

/* The same for one request beside a gang that is behind it. */
static void
later_gang_makes_way_for_one_request(void **state)
{
    struct full f = {.w = NULL};
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(300, 0);
    int one, two[2];

    fill(&f, *state);
    drain(f.w, "beta", false);
    one = ut_sched_dial(f.w);
    open.owner = (char *)"ada@host";
    open.span = true;
    open.wait = true;
    ut_gang_post(one, open);
    ut_gang_await_waiting(f.w, 1);
    come(f.w, two, 2, ut_gang_member("two", 2, 100));
    await_reason(f.w, "two", "members, first on server alpha");
    drain(f.w, "beta", true);
    await_reason(f.w, "two", "no room for all of its 2 members at once");
    for (unsigned i = 0; i < 4; i++)
        vacate(&f, i);
    ut_sched_drop(ut_gang_granted(one));
    assert_int_equal(ut_gang_waiting(f.w, NULL, 0), 2);
    close(one);
    close(two[0]);
    close(two[1]);
    empty(&f);
}

/* Each of two gangs has cards kept; then the first loses one of its own and could be
 * served only with one that is kept for the other. */
static void
two_gangs_do_not_wait_for_each_other(void **state)
{
    struct full f = {.w = NULL};
    int one[2], two[2];

    fill(&f, *state);
    drain(f.w, "beta", false);
    come(f.w, one, 2, ut_gang_member("one", 2, 100));
    await_reason(f.w, "one", "members, first on server alpha");
    drain(f.w, "beta", true);
    come(f.w, two, 2, ut_gang_member("two", 2, 100));
    await_reason(f.w, "two", "members, first on server beta");
    drain(f.w, "alpha", false);
    await_reason(f.w, "one", "members, first on server beta");
    await_reason(f.w, "two", "no room for all of its 2 members at once");
    drain(f.w, "alpha", true);
    await_reason(f.w, "two", "members, first on server alpha");
    /* One card of each comes free, then the others. */
    vacate(&f, 1);
    vacate(&f, 2);
    assert_int_equal(ut_gang_waiting(f.w, NULL, 0), 4);
    vacate(&f, 3);
    leave(&f, one, 2);
    vacate(&f, 0);
    leave(&f, two, 2);
    empty(&f);
}

/* Gangs of random sizes that all have cards kept, on servers that are drained and come
 * back while sessions end: whoever waits is served in the end, whole. */
static void
gangs_with_kept_cards_are_all_served(void **state)
{
    enum { GANGS = 5, LARGEST_GANG = 4 };
    uint64_t seed = 31;

    for (unsigned round = 0; round < 4; round++) {
        struct full f = {.w = NULL};
        int fds[GANGS][LARGEST_GANG];
        unsigned sizes[GANGS], order[4] = {0, 1, 2, 3}, left = GANGS;
        uint64_t end = gp_now_ns() + PATIENCE;

        fill(&f, *state);
        for (unsigned g = 0; g < GANGS; g++) {
            char name[8];

            sizes[g] = 2 + (unsigned)(gp_hash_u64(++seed) % (LARGEST_GANG - 1));
            snprintf(name, sizeof(name), "g%u", g);
            for (unsigned m = 0; m < sizes[g]; m++) {
                uint32_t core = 40 + 10 * (uint32_t)(gp_hash_u64(++seed) % 7);

                fds[g][m] = ut_sched_dial(f.w);
                ut_gang_post(fds[g][m], ut_gang_member(name, sizes[g], core));
            }
        }
        for (unsigned i = 0; i < 4; i++) {
            unsigned k = i + (unsigned)(gp_hash_u64(++seed) % (4 - i)), at = order[k];

            order[k] = order[i];
            drain(f.w, full_names[seed % 2], false);
            vacate(&f, at);
            drain(f.w, full_names[seed % 2], true);
        }
        while (left && gp_now_ns() < end)
            for (unsigned g = 0; g < GANGS; g++) {
                struct pollfd p = {fds[g][0], POLLIN, 0};
                reply_t *reply =
                    sizes[g] && poll(&p, 1, 5) > 0 ? ut_sched_hear(fds[g][0]) : NULL;

                if (reply && reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT) {
                    char first = (char)reply->grant->slices[0]->card_uuid.data[0];

                    leave(&f, fds[g] + 1, sizes[g] - 1);
                    ut_gang_finish(f.servers[first == 'b'], fds[g][0], reply->grant, 0);
                    close(fds[g][0]);
                    sizes[g] = 0;
                    left--;
                }
                if (reply)
                    ut_sched_drop(reply);
            }
        assert_int_equal(left, 0);
        empty(&f);
        ut_sched_end(f.w, SIGKILL);
        ut_sched_start(f.w);
    }
}

/* A gang waits for a card that its own owner uses, so that it may wait for ever.  On
 * the other cards that are kept for it others have what it does not want. */
static void
what_a_gang_does_not_want_is_not_kept_from_others(void **state)
{
    struct world *w = *state;
    int server, other, a, b, c;
    Gpupool__Ctl__CtlOpen large = ut_sched_preference(100, 0), member;
    uint64_t end = gp_now_ns() + PATIENCE;
    char reason[256] = "";
    reply_t *reply;

    ut_gang_start_with(w, "[queue]\nreserve-after = 0s\n");
    server = ut_sched_join(w, "node-a", 1);
    other = ut_sched_join(w, "other", 1);
    a = ut_sched_dial(w);
    b = ut_sched_dial(w);
    c = ut_sched_dial(w);
    large.server = (char *)"other";
    ut_sched_drop(ut_sched_granted(a, large));
    member = ut_gang_member("never", 2, 100);
    member.server = (char *)"other";
    ut_gang_waits(b, member, "1 of its 2");
    ut_gang_waits(c, ut_gang_member("never", 2, 10), "gang never: ");
    while (!strstr(reason, "cards are kept for all of its 2 members") &&
           gp_now_ns() < end)
        ut_gang_waiting(w, reason, sizeof(reason));
    assert_true(gp_now_ns() < end);
    ut_sched_drop(ut_sched_granted(a, ut_sched_preference(60, GIB)));
    ut_sched_drop(ut_sched_granted(a, ut_sched_preference(30, GIB)));
    reply = ut_sched_ask_preference(a, 5); /* 10 % are the gang's */
    ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "");
    close(server);
    close(other);
    close(a);
    close(b);
    close(c);
}

#define T(name) cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        T(gang_that_fits_in_another_order_is_served),
        T(cards_are_kept_for_a_gang_that_fits_in_another_order),
        T(several_gangs_have_cards_kept),
        T(later_gangs_make_way_for_the_first),
        T(later_gang_makes_way_for_one_request),
        T(two_gangs_do_not_wait_for_each_other),
        T(gangs_with_kept_cards_are_all_served),
        T(what_a_gang_does_not_want_is_not_kept_from_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
