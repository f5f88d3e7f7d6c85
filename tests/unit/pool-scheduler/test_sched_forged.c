/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool server that somebody has taken over: what it says of sessions of others is not
 * heard, and of its own no more than can be.
 */
#include "ut_sched.h"

#include "ctl_limits.h"

#include <stdio.h>
#include <string.h>

#define CARD_MEMORY (16 * GIB) /* ut_sched_enlist()'s */

/* A report of @id on the first card of the server @name, with these numbers for all. */
static reply_t *
report(int server, const char *name, uint64_t id, uint64_t number)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlReport body = GPUPOOL__CTL__CTL_REPORT__INIT;
    Gpupool__Ctl__CtlSessionUse use = GPUPOOL__CTL__CTL_SESSION_USE__INIT, *uses = &use;
    Gpupool__Ctl__CtlSliceUse slice = GPUPOOL__CTL__CTL_SLICE_USE__INIT,
                              *slices = &slice;
    Gpupool__Ctl__CtlCard card = GPUPOOL__CTL__CTL_CARD__INIT, *cards = &card;
    uint8_t uuid[16];
    reply_t *reply;

    memset(uuid, name[0], sizeof(uuid));
    uuid[15] = 0;
    card.uuid = slice.card_uuid = (ProtobufCBinaryData){sizeof(uuid), uuid};
    card.used_bytes = number;
    card.busy_percent = UINT32_MAX;
    slice.used_bytes = slice.high_bytes = slice.moved_bytes = number;
    slice.gpu_ns = slice.wait_ns = slice.launches = number;
    use.session_id = id;
    use.attachments = UINT32_MAX;
    use.slices = &slices;
    use.n_slices = 1;
    body.sessions = &uses;
    body.n_sessions = 1;
    body.cards = &cards;
    body.n_cards = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT;
    req.report = &body;
    reply = ut_sched_ask(server, &req);
    assert_null(reply->error);
    return reply;
}

static reply_t *
accounts(int client)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlList list = GPUPOOL__CTL__CTL_LIST__INIT;
    reply_t *reply;

    list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_ACCOUNT;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_LIST;
    req.list = &list;
    reply = ut_sched_ask(client, &req);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_LIST);
    return reply;
}

static void
server_has_no_say_about_sessions_of_others(void **state)
{
    struct world *w = *state;
    int alpha = ut_sched_join(w, "alpha", 1), client = ut_sched_dial(w), beta;
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(30, GIB)), *reply;
    uint64_t id = grant->grant->session_id;

    beta = ut_sched_join(w, "beta", 1);
    reply = report(beta, "alpha", id, GIB);
    assert_int_equal(reply->reported->n_close_sessions, 1); /* it is told to end it */
    ut_sched_drop(reply);
    reply = ut_sched_status(client);
    assert_int_equal(reply->status->sessions[0]->attachments, 0);
    assert_int_equal(reply->status->sessions[0]->use[0]->used_bytes, 0);
    for (size_t i = 0; i < reply->status->n_servers; i++)
        assert_int_equal(reply->status->servers[i]->cards[0]->card->used_bytes, 0);
    ut_sched_drop(reply);
    /* Nor does it end one: not by silence about it, and not by a goodbye. */
    ut_sched_post_close(client, grant->grant);
    ut_sched_await_notice(alpha, id);
    ut_sched_drop(ut_sched_report(beta, 0));
    close(beta);
    beta = ut_sched_dial(w);
    reply = ut_sched_status(beta);
    assert_int_equal(reply->status->n_sessions, 1);
    ut_sched_drop(reply);
    ut_sched_drop(ut_sched_report(alpha, 0));
    reply = ut_sched_hear(client);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(alpha);
    close(beta);
    close(client);
}

/* Time of a card is charged as it passes, whatever a server says: numbers that jump,
 * and numbers that begin again. */
static void
forged_use_is_charged_as_what_can_be(void **state)
{
    static const uint64_t said[] = {UINT64_MAX / 2, 0, UINT64_MAX, 1, UINT64_MAX - 1};
    struct world *w = *state;
    uint64_t begin = gp_now_ns(), most;
    int alpha = ut_sched_join(w, "alpha", 1), client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(30, GIB)), *reply;
    const Gpupool__Ctl__CtlAccount *account;

    for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
        const Gpupool__Ctl__CtlSessionStatus *session;

        ut_sched_drop(report(alpha, "alpha", grant->grant->session_id, said[i]));
        reply = ut_sched_status(client);
        session = reply->status->sessions[0];
        assert_in_range(session->attachments, 0, session->max_attachments);
        assert_in_range(session->use[0]->used_bytes, 0, CARD_MEMORY);
        assert_in_range(session->use[0]->high_bytes, 0, CARD_MEMORY);
        assert_in_range(session->use[0]->share_permille, 0, 1000);
        assert_in_range(reply->status->servers[0]->cards[0]->card->used_bytes, 0,
                        CARD_MEMORY);
        assert_in_range(reply->status->servers[0]->cards[0]->card->busy_percent, 0,
                        100);
        ut_sched_drop(reply);
    }
    ut_sched_post_close(client, grant->grant);
    ut_sched_await_notice(alpha, grant->grant->session_id);
    ut_sched_drop(ut_sched_report(alpha, 0));
    ut_sched_drop(ut_sched_hear(client));
    reply = accounts(client);
    assert_int_equal(reply->list->n_accounts, 1);
    account = reply->list->accounts[0];
    most = gp_now_ns() - begin + GP_NS_PER_S;
    assert_in_range(account->gpu_ns, 1, most);
    assert_in_range(account->wait_ns, 1, 8 * most);
    assert_in_range(account->launches, 1, most / 10);
    assert_in_range(account->moved_bytes, 1, most << 10);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(alpha);
    close(client);
}

/* Honest numbers are charged to the last. */
static void
honest_use_is_charged_as_it_is(void **state)
{
    struct world *w = *state;
    int alpha = ut_sched_join(w, "alpha", 1), client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(30, GIB)), *reply;

    ut_sched_drop(report(alpha, "alpha", grant->grant->session_id, 1000));
    ut_sched_drop(report(alpha, "alpha", grant->grant->session_id, 3000));
    ut_sched_drop(report(alpha, "alpha", grant->grant->session_id, 500)); /* anew */
    ut_sched_post_close(client, grant->grant);
    ut_sched_await_notice(alpha, grant->grant->session_id);
    ut_sched_drop(ut_sched_report(alpha, 0));
    ut_sched_drop(ut_sched_hear(client));
    reply = accounts(client);
    assert_int_equal(reply->list->accounts[0]->gpu_ns, 3500);
    assert_int_equal(reply->list->accounts[0]->wait_ns, 3500);
    assert_int_equal(reply->list->accounts[0]->launches, 3500);
    assert_int_equal(reply->list->accounts[0]->moved_bytes, 3500);
    ut_sched_drop(reply);
    ut_sched_drop(grant);
    close(alpha);
    close(client);
}

static void
impossible_cards_are_refused(void **state)
{
    static const struct {
        uint64_t memory, reserved;
        uint32_t major;
    } cards[] = {{UINT64_C(1) << 62, 0, 8}, {GIB, UINT64_MAX, 8}, {GIB, 0, 5000}};
    struct world *w = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cards); i++) {
        Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
        Gpupool__Ctl__CtlRegister reg = GPUPOOL__CTL__CTL_REGISTER__INIT;
        Gpupool__Ctl__CtlCard card = GPUPOOL__CTL__CTL_CARD__INIT, *list = &card;
        uint8_t uuid[16] = {1};
        int server = ut_sched_dial(w);

        card.uuid = (ProtobufCBinaryData){sizeof(uuid), uuid};
        card.memory_bytes = cards[i].memory;
        card.reserved_bytes = cards[i].reserved;
        card.cc_major = cards[i].major;
        reg.major = CTL_MAJOR;
        reg.server = (char *)"alpha";
        reg.endpoint = (char *)":7481";
        reg.cards = &list;
        reg.n_cards = 1;
        req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REGISTER_SERVER;
        req.register_server = &reg;
        ut_sched_refused(ut_sched_ask(server, &req),
                         GPUPOOL__CTL__CTL_CODE__CTL_CONFLICT, "no card has that");
        close(server);
    }
}

/* A card with this name, of the server @name. */
static reply_t *
enlist_card(int server, const char *name, const char *card_name)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRegister reg = GPUPOOL__CTL__CTL_REGISTER__INIT;
    Gpupool__Ctl__CtlCard card = GPUPOOL__CTL__CTL_CARD__INIT, *list = &card;
    uint8_t uuid[16];

    memset(uuid, name[0], sizeof(uuid));
    card.uuid = (ProtobufCBinaryData){sizeof(uuid), uuid};
    card.name = (char *)(uintptr_t)card_name;
    card.memory_bytes = GIB;
    reg.major = CTL_MAJOR;
    reg.server = (char *)(uintptr_t)name;
    reg.endpoint = (char *)":7481";
    reg.cards = &list;
    reg.n_cards = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REGISTER_SERVER;
    req.register_server = &reg;
    return ut_sched_ask(server, &req);
}

/* Each registration says that the card is of another kind. */
static void
server_uses_up_the_kinds_of_cards_of_nobody_else(void **state)
{
    struct world *w = *state;
    int server = ut_sched_dial(w), other = ut_sched_dial(w);
    unsigned taken = 0;
    reply_t *reply;

    for (unsigned i = 0; i < 2000; i++) {
        char name[16];

        snprintf(name, sizeof(name), "card %u", i);
        reply = enlist_card(server, "alpha", name);
        if (!reply->error)
            taken++;
        else if (taken == i)
            assert_non_null(strstr(reply->error->words, "more than 32 kinds of cards"));
        ut_sched_drop(reply);
    }
    assert_int_equal(taken, 32);
    reply = enlist_card(other, "beta", "a card of beta's");
    assert_null(reply->error);
    ut_sched_drop(reply);
    close(server);
    close(other);
}

#define PROMISE(fn)                                                                    \
    cmocka_unit_test_setup_teardown(fn, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(server_has_no_say_about_sessions_of_others),
        PROMISE(forged_use_is_charged_as_what_can_be),
        PROMISE(honest_use_is_charged_as_it_is),
        PROMISE(impossible_cards_are_refused),
        PROMISE(server_uses_up_the_kinds_of_cards_of_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
