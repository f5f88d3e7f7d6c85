/* SPDX-License-Identifier: Apache-2.0 */
/* Many sessions renewed by one request, and held by one connection. */
#include "ut_sched.h"

#include "ctl_limits.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef Gpupool__Ctl__CtlRenewOne one_t;

/* A request about sessions, filled in one by one. */
struct batch {
    Gpupool__Ctl__CtlRenewMany msg;
    one_t ones[CTL_RENEW_MAX + 1], *list[CTL_RENEW_MAX + 1];
};

static struct batch *
batch_new(bool hold)
{
    struct batch *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    gpupool__ctl__ctl_renew_many__init(&b->msg);
    b->msg.sessions = b->list;
    b->msg.hold = hold;
    return b;
}

static one_t *
batch_add(struct batch *b, uint64_t id, const ProtobufCBinaryData *key)
{
    one_t *one = &b->ones[b->msg.n_sessions];

    gpupool__ctl__ctl_renew_one__init(one);
    one->session_id = id;
    one->lease_key = *key;
    b->list[b->msg.n_sessions++] = one;
    return one;
}

static one_t *
batch_grant(struct batch *b, const reply_t *granted)
{
    one_t *one = batch_add(b, granted->grant->session_id, &granted->grant->lease_key);

    one->tickets_unix = granted->grant->tickets_unix;
    return one;
}

static reply_t *
ask(int fd, const struct batch *b)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY;
    req.renew_many = (Gpupool__Ctl__CtlRenewMany *)&b->msg;
    return ut_sched_ask(fd, &req);
}

static reply_t *
renewed(int fd, const struct batch *b)
{
    reply_t *reply = ask(fd, b);

    assert_null(reply->error);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED);
    assert_int_equal(reply->renewed->n_sessions, b->msg.n_sessions);
    for (size_t i = 0; i < b->msg.n_sessions; i++)
        assert_true(reply->renewed->sessions[i]->session_id == b->ones[i].session_id);
    return reply;
}

static void
assert_one(const reply_t *reply, size_t i, uint32_t lease_ms,
           Gpupool__Ctl__CtlCode code, const char *words)
{
    const Gpupool__Ctl__CtlRenewedOne *one = reply->renewed->sessions[i];

    assert_int_equal(one->lease_ms, lease_ms);
    assert_int_equal(one->error ? one->error->code : GPUPOOL__CTL__CTL_CODE__CTL_OK,
                     code);
    if (words)
        assert_non_null(strstr(one->error->words, words));
}

static void
renew_ok(int fd, const reply_t *granted)
{
    reply_t *reply = ut_sched_renew(fd, granted->grant, true);

    assert_null(reply->error);
    ut_sched_drop(reply);
}

/* Two sessions end, in any order. */
static void
await_ends(int server, const reply_t *one, const reply_t *other)
{
    uint64_t ids[2] = {one->grant->session_id, other->grant->session_id};

    for (int i = 0; i < 2; i++) {
        reply_t *notice = ut_sched_hear(server);

        assert_non_null(notice);
        assert_int_equal(notice->body_case,
                         GPUPOOL__CTL__CTL_REPLY__BODY_CLOSE_SESSION);
        assert_true(notice->close_session->session_id == ids[0] ||
                    notice->close_session->session_id == ids[1]);
        if (notice->close_session->session_id == ids[0])
            ids[0] = 0;
        else
            ids[1] = 0;
        ut_sched_drop(notice);
    }
}

/* A batch with what is good, gone, another's and there twice. */
static void
each_session_of_a_batch_gets_an_answer_of_its_own(void **state)
{
    const struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), first = ut_sched_dial(w);
    int second = ut_sched_dial(w), agent = ut_sched_dial(w);
    reply_t *mine = ut_sched_granted(first, ut_sched_preference(10, GIB));
    reply_t *other = ut_sched_granted(second, ut_sched_preference(10, GIB)), *reply;
    struct batch *b = batch_new(false);

    batch_grant(b, mine);
    batch_add(b, mine->grant->session_id + 1000, &mine->grant->lease_key);
    batch_add(b, other->grant->session_id, &mine->grant->lease_key);
    batch_add(b, other->grant->session_id, &(ProtobufCBinaryData){0});
    batch_grant(b, mine);
    reply = renewed(agent, b);
    assert_one(reply, 0, mine->grant->lease_ms, GPUPOOL__CTL__CTL_CODE__CTL_OK, NULL);
    assert_one(reply, 1, 0, GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, "closed or expired");
    assert_one(reply, 2, 0, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong lease key");
    assert_one(reply, 3, 0, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong lease key");
    assert_one(reply, 4, mine->grant->lease_ms, GPUPOOL__CTL__CTL_CODE__CTL_OK, NULL);
    assert_null(reply->renewed->sessions[2]->grant);
    ut_sched_drop(reply);

    ut_sched_drop(mine);
    ut_sched_drop(other);
    free(b);
    close(agent);
    close(second);
    close(first);
    close(server);
}

/* Whoever renews with hold has the sessions from then on, those that were twice in the
 * batch as well; they end soon after that connection, and not with the old ones. */
static void
sessions_move_to_the_connection_that_holds_them(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), client = ut_sched_dial(w);
    int agent = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB);
    struct batch *b = batch_new(true);
    reply_t *granted[3], *reply;

    open.hold = true;
    for (int i = 0; i < 3; i++)
        granted[i] = ut_sched_granted(client, open);
    batch_grant(b, granted[0]);
    batch_grant(b, granted[1]);
    batch_grant(b, granted[0]);
    ut_sched_drop(renewed(agent, b));
    close(client);
    ut_sched_await_notice(server, granted[2]->grant->session_id); /* it was nobody's */
    reply = renewed(agent, b);
    for (int i = 0; i < 3; i++)
        assert_one(reply, (size_t)i, granted[0]->grant->lease_ms,
                   GPUPOOL__CTL__CTL_CODE__CTL_OK, NULL);
    ut_sched_drop(reply);
    close(agent);
    await_ends(server, granted[0], granted[1]);

    for (int i = 0; i < 3; i++)
        ut_sched_drop(granted[i]);
    free(b);
    close(server);
}

static void
post_lost(int fd, const reply_t *granted)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose body = GPUPOOL__CTL__CTL_CLOSE__INIT;
    reply_t *reply;

    body.session_id = granted->grant->session_id;
    body.lease_key = granted->grant->lease_key;
    body.lost = true;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &body;
    reply = ut_sched_ask(fd, &req);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    ut_sched_drop(reply);
}

/* One client of a connection that holds many is gone. */
static void
lost_session_ends_unless_another_holds_it(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), agent = ut_sched_dial(w);
    int own = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB);
    reply_t *gone, *moved, *stays;

    open.hold = true;
    gone = ut_sched_granted(agent, open);
    moved = ut_sched_granted(agent, open);
    stays = ut_sched_granted(agent, open);
    renew_ok(own, moved);
    post_lost(agent, moved);
    post_lost(agent, gone);
    ut_sched_await_notice(server, gone->grant->session_id);
    renew_ok(own, moved);
    renew_ok(own, stays);

    ut_sched_drop(gone);
    ut_sched_drop(moved);
    ut_sched_drop(stays);
    close(own);
    close(agent);
    close(server);
}

static void
batch_over_the_cap_is_refused_whole(void **state)
{
    const struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), fd = ut_sched_dial(w);
    reply_t *granted = ut_sched_granted(fd, ut_sched_preference(10, GIB));
    struct batch *b = batch_new(false);

    ut_sched_refused(ask(fd, b), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "0 sessions to renew; 1 to 450");
    for (int i = 0; i < CTL_RENEW_MAX; i++)
        batch_grant(b, granted)->tickets_unix = UINT32_MAX;
    ut_sched_drop(renewed(fd, b));
    batch_grant(b, granted);
    ut_sched_refused(ask(fd, b), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                     "451 sessions to renew");
    renew_ok(fd, granted);

    ut_sched_drop(granted);
    free(b);
    close(fd);
    close(server);
}

/* The cap is what fits into a client's request: as above, but with what is longest. */
static void
full_batch_fits_into_a_request(void **state)
{
    static uint8_t key[CTL_LEASE_KEY_SIZE];
    struct batch *b = batch_new(true);
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    (void)state;
    for (int i = 0; i < CTL_RENEW_MAX; i++)
        batch_add(b, UINT64_MAX, &(ProtobufCBinaryData){sizeof(key), key})
            ->tickets_unix = UINT32_MAX;
    b->msg.no_tickets = true;
    req.id = UINT32_MAX;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY;
    req.renew_many = &b->msg;
    assert_true(gpupool__ctl__ctl_request__get_packed_size(&req) <=
                CTL_CLIENT_REQUEST_MAX);
    free(b);
}

/* The newest tickets of the one session of @b are its own from now on. */
static bool
got_tickets(int fd, struct batch *b)
{
    reply_t *reply = renewed(fd, b);
    const Gpupool__Ctl__CtlGrant *grant = reply->renewed->sessions[0]->grant;
    bool got = grant;

    if (grant) {
        assert_int_equal(grant->n_tickets, 1);
        assert_true(grant->session_id == b->ones[0].session_id);
        b->ones[0].tickets_unix = grant->tickets_unix;
    }
    ut_sched_drop(reply);
    return got;
}

static void
await_none(int fd, struct batch *b)
{
    uint64_t end = gp_now_ns() + PATIENCE;

    while (got_tickets(fd, b)) { /* a ticket of the second of a change may be older */
        assert_true(gp_now_ns() < end);
        usleep(50000);
    }
}

static void
tickets_come_only_when_they_are_due(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), fd = ut_sched_dial(w);
    uint8_t key[32] = {9};
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB);
    struct batch *b = batch_new(false);
    reply_t *granted;

    open.client_key = (ProtobufCBinaryData){sizeof(key), key};
    granted = ut_sched_granted(fd, open);
    assert_true(granted->grant->tickets_unix);
    batch_grant(b, granted);
    await_none(fd, b);
    b->ones[0].tickets_unix -= 3 * 60 + 2; /* of four leases of a minute, one is left */
    assert_true(got_tickets(fd, b));
    b->ones[0].tickets_unix = 0;
    b->msg.no_tickets = true;
    assert_false(got_tickets(fd, b));
    b->msg.no_tickets = false;
    assert_true(got_tickets(fd, b));
    await_none(fd, b);
    b->ones[0].tickets_unix += 3600; /* the clock was set back */
    assert_true(got_tickets(fd, b));
    await_none(fd, b);

    while (gp_wall_ns() / GP_NS_PER_S <= b->ones[0].tickets_unix)
        usleep(10000); /* so that these are of a second before */
    close(server);     /* it may be elsewhere now */
    server = ut_sched_join(w, "a", 1);
    assert_true(got_tickets(fd, b));

    ut_sched_drop(granted);
    free(b);
    close(fd);
    close(server);
}

#define MANY 5
#define FEW 2

/* How many of a batch got tickets, which count from then on. */
static unsigned
count_tickets(int fd, struct batch *b)
{
    reply_t *reply = renewed(fd, b);
    unsigned n = 0;

    for (size_t i = 0; i < b->msg.n_sessions; i++) {
        const Gpupool__Ctl__CtlRenewedOne *one = reply->renewed->sessions[i];

        assert_true(one->lease_ms); /* with tickets or without */
        if (!one->grant)
            continue;
        b->ones[i].tickets_unix = one->grant->tickets_unix;
        n++;
    }
    ut_sched_drop(reply);
    return n;
}

/* Tickets of the second in which their server registered may be of before. */
static void
let_seconds_pass(unsigned n)
{
    uint64_t end = gp_wall_ns() / GP_NS_PER_S + n;

    while (gp_wall_ns() / GP_NS_PER_S < end)
        usleep(10000);
}

/* As after a restart, when the sessions of all hosts are due at once. */
static void
tickets_beyond_the_bound_come_with_the_next_renewals(void **state)
{
    struct world *w = *state;
    uint8_t key[32] = {9};
    reply_t *granted[MANY];
    struct batch *b = batch_new(false);
    int server, fd;

    ut_sched_end(w, SIGTERM);
    w->config.batch_tickets = FEW;
    w->config.owner_sessions = MANY;
    ut_sched_start(w);
    server = ut_sched_join(w, "a", 1);
    fd = ut_sched_dial(w);
    for (unsigned i = 0; i < MANY; i++) {
        Gpupool__Ctl__CtlOpen open = ut_sched_preference(10, GIB / 8);

        open.client_key = (ProtobufCBinaryData){sizeof(key), key};
        granted[i] = ut_sched_granted(fd, open);
        batch_grant(b, granted[i])->tickets_unix -= 3 * 60 + 2; /* one lease is left */
    }
    let_seconds_pass(3);
    assert_int_equal(count_tickets(fd, b), FEW);
    assert_int_equal(count_tickets(fd, b), FEW); /* what was sent waits no more */
    assert_int_equal(count_tickets(fd, b), MANY - 2 * FEW);
    assert_int_equal(count_tickets(fd, b), 0);
    /* Those that end before the next renewals do not wait. */
    for (unsigned i = 0; i < MANY; i++)
        b->ones[i].tickets_unix -= 4 * 60;
    assert_int_equal(count_tickets(fd, b), MANY);
    for (unsigned i = 0; i < MANY; i++)
        ut_sched_drop(granted[i]);
    free(b);
    close(fd);
    close(server);
}

/* Tickets that anybody can use live for one lease, so each renewal brings new ones. */
static void
unbound_tickets_are_new_each_time(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), fd = ut_sched_dial(w);
    reply_t *granted = ut_sched_granted(fd, ut_sched_preference(10, GIB));
    struct batch *b = batch_new(false);

    batch_grant(b, granted)->tickets_unix -= 31;
    assert_true(got_tickets(fd, b));
    ut_sched_drop(granted);
    free(b);
    close(fd);
    close(server);
}

/* Who has no right key at all is no known peer, however many he tries. */
static void
wrong_keys_only_end_the_connection(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "a", 1), client = ut_sched_dial(w);
    int fd = ut_sched_dial(w);
    reply_t *granted = ut_sched_granted(client, ut_sched_preference(10, GIB));
    uint8_t key[CTL_LEASE_KEY_SIZE] = {1};
    struct batch *b = batch_new(true);
    char byte;

    batch_add(b, granted->grant->session_id, &(ProtobufCBinaryData){sizeof(key), key});
    for (int i = 0; i < 16; i++) {
        reply_t *reply = renewed(fd, b);

        assert_one(reply, 0, 0, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong lease key");
        ut_sched_drop(reply);
    }
    assert_int_equal(read(fd, &byte, 1), 0);
    renew_ok(client, granted);

    ut_sched_drop(granted);
    free(b);
    close(fd);
    close(client);
    close(server);
}

#define PROMISE(name)                                                                  \
    cmocka_unit_test_setup_teardown(name, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(each_session_of_a_batch_gets_an_answer_of_its_own),
        PROMISE(sessions_move_to_the_connection_that_holds_them),
        PROMISE(lost_session_ends_unless_another_holds_it),
        PROMISE(batch_over_the_cap_is_refused_whole),
        cmocka_unit_test(full_batch_fits_into_a_request),
        PROMISE(tickets_come_only_when_they_are_due),
        PROMISE(tickets_beyond_the_bound_come_with_the_next_renewals),
        PROMISE(unbound_tickets_are_new_each_time),
        PROMISE(wrong_keys_only_end_the_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
