/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of what the pool has, on a pool in memory: each row once, whatever the size of
 * the page and the filter; and the events and samples that pages show.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_events.h"
#include "sched_history.h"
#include "sched_list.h"
#include "sched_list_next.h"
#include "sched_types.h"
#include "view_call.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SERVERS 7
#define CARDS 3
#define SESSIONS 60
#define GIB (UINT64_C(1) << 30)
#define KIND(name) GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_##name

/* -------------------------------------------------------------------- the pool -- */

static struct sched_card *
card_of(struct sched *sched, unsigned i)
{
    struct sched_server *server = sched->pool->servers;

    for (unsigned k = i / CARDS % SERVERS; k; k--)
        server = server->next;
    return server->cards[i % CARDS];
}

static void
add_servers(struct sched *sched)
{
    struct sched_card_facts facts = {.memory = 64 * GIB, .name = "card"};
    struct sched_server *server;
    struct sched_card *card;
    char name[16];

    for (unsigned i = 0; i < SERVERS; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(sched_pool_server_add(sched->pool, name, &server, NULL), 0);
        server->alive = i != 2;
        server->seen_ns = 1;
        server->drain_asked = i == 4;
        for (unsigned k = 0; k < CARDS; k++) {
            facts.uuid[0] = (uint8_t)(1 + i * CARDS + k);
            facts.index = k;
            assert_int_equal(
                sched_pool_card_put(sched->pool, server, &facts, &card, NULL), 0);
        }
    }
}

/* Every third has slices on two servers. */
static void
add_session(struct sched *sched, unsigned i)
{
    static const char *const owners[] = {"ada", "bob", "eve"};
    const struct sched_session_spec spec = {.owner = owners[i % 3],
                                            .program = "p",
                                            .max_attachments = 1,
                                            .lease_ms = 60000};
    struct sched_decision decision = {.n_slices = i % 3 ? 1 : 2};
    struct sched_session *session;

    for (unsigned k = 0; k < decision.n_slices; k++)
        decision.slices[k] = (struct sched_slice){
            .card = card_of(sched, i + k * CARDS), .core = 5, .memory = GIB};
    assert_int_equal(
        sched_sessions_add(&sched->sessions, &spec, &decision, gp_now_ns(), &session),
        0);
    session->parts[0].attachments = i % 2;
}

static int
setup(void **state)
{
    struct sched *sched = calloc(1, sizeof(*sched));

    assert_non_null(sched);
    sched->pool = sched_pool_new();
    sched->history = calloc(1, sizeof(*sched->history));
    assert_non_null(sched->pool);
    sched_sessions_init(&sched->sessions, sched->pool);
    sched->sessions.next_id = sched_id_make(7, 1);
    add_servers(sched);
    for (unsigned i = 0; i < SESSIONS; i++)
        add_session(sched, i);
    *state = sched;
    return 0;
}

static int
teardown(void **state)
{
    struct sched *sched = *state;

    sched_sessions_fini(&sched->sessions);
    sched_pool_free(sched->pool);
    sched_events_fini(&sched->events);
    free(sched->history);
    free(sched);
    return 0;
}

/* ----------------------------------------------------------------------- pages -- */

struct seen {
    unsigned sessions[SESSIONS + 1], cards[SERVERS * CARDS + 1], servers[SERVERS];
    unsigned n_sessions, n_cards, n_servers, pages, in_page;
    char next[CTL_LIST_NEXT_MAX];
    uint64_t total; /* that the first page told */
};

static void
look(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    const Gpupool__Ctl__CtlListReply *list = reply->list;
    struct seen *seen = arg;

    seen->in_page = 0;
    for (size_t i = 0; i < list->n_sessions; i++, seen->n_sessions++)
        seen->sessions[sched_id_number(list->sessions[i]->session_id)]++;
    for (size_t i = 0; i < list->n_servers; i++, seen->n_servers++) {
        seen->servers[list->servers[i]->server[1] - '0']++;
        for (size_t k = 0; k < list->servers[i]->n_cards; k++, seen->n_cards++) {
            seen->cards[list->servers[i]->cards[k]->card->uuid.data[0]]++;
            seen->in_page++;
        }
    }
    assert_true(gp_str_copy(seen->next, sizeof(seen->next), list->next));
    if (!seen->pages++)
        seen->total = list->total;
}

static void
all_pages(const struct sched *sched, Gpupool__Ctl__CtlList want, struct seen *seen)
{
    struct gp_err err = {0};

    memset(seen, 0, sizeof(*seen));
    do {
        want.next = seen->next;
        assert_int_equal(sched_list(sched, &want, look, seen, &err), 0);
        assert_true(seen->pages < 1000);
    } while (*seen->next);
}

static Gpupool__Ctl__CtlList
want(Gpupool__Ctl__CtlListKind kind, uint32_t most)
{
    Gpupool__Ctl__CtlList list = GPUPOOL__CTL__CTL_LIST__INIT;

    list.kind = kind;
    list.most = most;
    return list;
}

static void
every_session_is_in_one_page(void **state)
{
    static const uint32_t sizes[] = {1, 2, 7, 59, 60, 61, 0};
    struct seen seen;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        all_pages(*state, want(KIND(SESSIONS), sizes[i]), &seen);
        assert_int_equal(seen.n_sessions, SESSIONS);
        for (unsigned n = 1; n <= SESSIONS; n++)
            assert_int_equal(seen.sessions[n], 1);
        if (sizes[i])
            assert_int_equal(seen.pages, (SESSIONS + sizes[i] - 1) / sizes[i]);
    }
}

static void
filters_find_what_a_look_at_all_finds(void **state)
{
    struct sched *sched = *state;
    Gpupool__Ctl__CtlList list;
    struct seen seen;

    for (uint32_t most = 1; most < 9; most += 3) {
        list = want(KIND(SESSIONS), most);
        list.owner = (char *)"bob";
        all_pages(sched, list, &seen);
        for (unsigned n = 1; n <= SESSIONS; n++)
            assert_int_equal(seen.sessions[n], (n - 1) % 3 == 1);
        list.state = (char *)"running";
        all_pages(sched, list, &seen);
        for (unsigned n = 1; n <= SESSIONS; n++) {
            const struct sched_session *s =
                sched_sessions_find_number(&sched->sessions, n);

            assert_int_equal(seen.sessions[n], (n - 1) % 3 == 1 && (n - 1) % 2 == 1 &&
                                                   s->parts[0].server->alive);
        }
        list = want(KIND(SESSIONS), most);
        list.server = (char *)"n3";
        all_pages(sched, list, &seen);
        for (unsigned n = 1; n <= SESSIONS; n++)
            assert_int_equal(
                seen.sessions[n],
                sched_session_part(sched_sessions_find_number(&sched->sessions, n),
                                   sched_pool_server_find(sched->pool, "n3")) != NULL);
    }
    list = want(KIND(SESSIONS), 5);
    list.session = (char *)"s17";
    all_pages(sched, list, &seen);
    assert_int_equal(seen.n_sessions, 1);
    assert_int_equal(seen.sessions[17], 1);
    list.session = (char *)"17";
    all_pages(sched, list, &seen);
    assert_int_equal(seen.n_sessions, 0);
    list = want(KIND(SESSIONS), 5);
    list.server = (char *)"nosuch";
    all_pages(sched, list, &seen);
    assert_int_equal(seen.n_sessions, 0);
}

static void
pages_go_on_when_the_pool_changes_between_them(void **state)
{
    struct sched *sched = *state;
    Gpupool__Ctl__CtlList list = want(KIND(SESSIONS), 10);
    struct seen seen = {0};
    struct gp_err err = {0};

    list.next = seen.next;
    assert_int_equal(sched_list(sched, &list, look, &seen, &err), 0);
    /* The one that the next page would begin with, and one that was shown. */
    for (unsigned n = 10; n <= 11; n++)
        sched_session_free(&sched->sessions,
                           sched_sessions_find_number(&sched->sessions, n));
    while (*seen.next)
        assert_int_equal(sched_list(sched, &list, look, &seen, &err), 0);
    for (unsigned n = 1; n <= SESSIONS; n++)
        assert_int_equal(seen.sessions[n], n != 11);
}

static void
cards_and_servers_are_in_one_page_each(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 20, 21, 100};
    Gpupool__Ctl__CtlList list;
    struct seen seen;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        all_pages(*state, want(KIND(CARDS), sizes[i]), &seen);
        assert_int_equal(seen.n_cards, SERVERS * CARDS);
        for (unsigned c = 1; c <= SERVERS * CARDS; c++)
            assert_int_equal(seen.cards[c], 1);
        assert_true(seen.in_page <= sizes[i]);
        list = want(KIND(SERVERS), sizes[i]);
        list.with_sessions = true;
        all_pages(*state, list, &seen);
        for (unsigned s = 0; s < SERVERS; s++)
            assert_int_equal(seen.servers[s], 1);
        for (unsigned n = 1; n <= SESSIONS; n++) /* on two servers: twice at most */
            assert_in_range(seen.sessions[n], 1, 2);
    }
    assert_int_equal(seen.n_sessions, SESSIONS); /* in one page: once */
    list = want(KIND(SERVERS), 2);
    list.state = (char *)"draining";
    all_pages(*state, list, &seen);
    assert_int_equal(seen.servers[4], 1);
    assert_int_equal(seen.n_servers, 1);
}

static void
first_page_tells_how_many_rows_all_have(void **state)
{
    Gpupool__Ctl__CtlList list;
    struct seen seen;

    all_pages(*state, want(KIND(SESSIONS), 7), &seen);
    assert_int_equal(seen.total, SESSIONS);
    all_pages(*state, want(KIND(SERVERS), 2), &seen);
    assert_int_equal(seen.total, SERVERS);
    all_pages(*state, want(KIND(CARDS), 2), &seen);
    assert_int_equal(seen.total, SERVERS * CARDS);
    list = want(KIND(SESSIONS), 2);
    list.owner = (char *)"bob";
    all_pages(*state, list, &seen);
    assert_int_equal(seen.total, seen.n_sessions);
    list.owner = (char *)"";
    list.server = (char *)"n3";
    all_pages(*state, list, &seen);
    assert_int_equal(seen.total, seen.n_sessions);
    list.state = (char *)"idle"; /* each would have to be looked at */
    all_pages(*state, list, &seen);
    assert_int_equal(seen.total, 0);
}

static void
cards_are_found_by_the_beginning_of_their_uuid(void **state)
{
    Gpupool__Ctl__CtlList list = want(KIND(CARDS), 2);
    struct seen seen;

    list.card = (char *)"GPU-05";
    all_pages(*state, list, &seen);
    assert_int_equal(seen.n_cards, 1);
    assert_int_equal(seen.cards[5], 1);
    list.card = (char *)"gpu-0";
    all_pages(*state, list, &seen);
    assert_int_equal(seen.n_cards, 15);
    assert_int_equal(seen.pages, 8);
    list.card = (char *)"GPU-05000000-0000-0000-0000-000000000000";
    all_pages(*state, list, &seen);
    assert_int_equal(seen.n_cards, 1);
    list.card = (char *)"GPU-ff";
    all_pages(*state, list, &seen);
    assert_int_equal(seen.n_cards, 0);
}

static void
nonsense_is_refused_in_words(void **state)
{
    static const char *const next[] = {
        "x", ".", "1", "1.", ".1", "1.2.3", "1.2 ", "11111111111111111.0", "-1.0"};
    Gpupool__Ctl__CtlList list = want(KIND(SESSIONS), 5);
    struct seen seen = {0};
    struct gp_err err = {0};

    for (size_t i = 0; i < ARRAY_SIZE(next); i++) {
        list.next = (char *)next[i];
        assert_int_equal(sched_list(*state, &list, look, &seen, &err), -EINVAL);
        assert_non_null(strstr(err.msg, "where a page ended"));
    }
    list = want(KIND(SESSIONS), 5);
    list.state = (char *)"alive";
    assert_int_equal(sched_list(*state, &list, look, &seen, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "running"));
    list = want((Gpupool__Ctl__CtlListKind)99, 5);
    assert_int_equal(sched_list(*state, &list, look, &seen, &err), -EINVAL);
    assert_int_equal(seen.pages, 0);
}

static void
session_takes_less_than_a_kibibyte(void **state)
{
    const struct sched *sched = *state;

    assert_true(malloc_usable_size(sched_sessions_next(&sched->sessions, NULL)) < 1024);
}

/* -------------------------------------------------------------- events, history -- */

static void
events_are_kept_newest_first_and_forgotten_oldest_first(void **state)
{
    struct sched_events events = {0};
    const struct sched_event *event;
    uint64_t serial = UINT64_MAX, n = 0;
    char words[16];

    (void)state;
    assert_null(sched_events_before(&events, UINT64_MAX));
    for (unsigned i = 1; i <= SCHED_EVENTS_MAX + 10; i++) {
        snprintf(words, sizeof(words), "%u", i);
        sched_events_add(&events, "open", "s", NULL, NULL, words);
    }
    for (; (event = sched_events_before(&events, serial)); serial = event->serial, n++)
        assert_int_equal(strtoul(event->words, NULL, 10), SCHED_EVENTS_MAX + 10 - n);
    assert_int_equal(n, SCHED_EVENTS_MAX);
    assert_null(sched_events_before(&events, 11));
    assert_null(sched_events_before(&events, 0));
    sched_events_fini(&events);
}

static void
events_of_another_scheduler_keep_their_serials(void **state)
{
    struct sched_events from = {0}, to = {0};
    const struct sched_event *event;
    uint64_t serial = 0, n = 0;

    (void)state;
    assert_null(sched_events_after(&from, 0));
    for (unsigned i = 1; i <= SCHED_EVENTS_MAX + 10; i++)
        sched_events_add(&from, i % 2 ? "open" : "end", "s", NULL, NULL, "");
    for (; (event = sched_events_after(&from, serial)); serial = event->serial, n++)
        sched_events_put(&to, event, event->kind);
    assert_int_equal(n, SCHED_EVENTS_MAX);
    assert_int_equal(serial, from.n);
    assert_int_equal(sched_events_before(&to, 12)->serial, 11);
    assert_null(sched_events_before(&to, 11)); /* it never had those */
    assert_string_equal(sched_events_after(&to, 11)->kind, "end");

    /* One that it has changes nothing; a kind of a later version has a name. */
    sched_events_put(&to, sched_events_before(&from, 20), "lead");
    assert_int_equal(to.n, from.n);
    sched_events_put(&to, &(struct sched_event){.serial = to.n + 1},
                     "of a later version");
    assert_string_equal(sched_events_before(&to, UINT64_MAX)->kind, "other");

    /* After a gap there is nothing that is before it, and it goes on behind it. */
    sched_events_put(&to, &(struct sched_event){.serial = to.n + 5}, "open");
    assert_null(sched_events_before(&to, to.n));
    sched_events_add(&to, "lead", NULL, NULL, NULL, "");
    assert_int_equal(sched_events_before(&to, UINT64_MAX)->serial, from.n + 7);
    sched_events_fini(&from);
    sched_events_fini(&to);
}

static void
page_knows_whose_list_it_continues(void **state)
{
    Gpupool__Ctl__CtlList list = want(GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS, 5);
    char text[CTL_LIST_NEXT_MAX];
    uint64_t at[2];

    (void)state;
    list.next = text;
    for (int of_leader = 0; of_leader < 2; of_leader++) {
        sched_list_next_write(text, UINT64_MAX, 7, of_leader);
        assert_true(sched_list_next_read(text, at));
        assert_true(at[0] == UINT64_MAX && at[1] == 7);
        list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS;
        assert_int_equal(sched_list_next_is_of_leader(&list), of_leader);
        assert_int_equal(sched_list_next_is_of_copy(&list), !of_leader);
        /* Sessions are in the order of their ids, which are the same everywhere. */
        list.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS;
        assert_false(sched_list_next_is_of_leader(&list));
        assert_false(sched_list_next_is_of_copy(&list));
    }
    for (const char *const *bad =
             (const char *const[]){"l", "ll1.2", "1.2l", ".", NULL};
         *bad; bad++)
        assert_false(sched_list_next_read(*bad, at));
}

static void
history_has_an_hour_and_a_week(void **state)
{
    struct sched *sched = *state;
    struct sched_history *history = sched->history;
    const struct sched_sample *sample;

    for (uint64_t s = 1; s <= 8 * 24 * 3600; s++)
        sched_history_tick(history, sched->pool, (uint32_t)s, 0, s * GP_NS_PER_S);
    assert_int_equal(sched_history_count(&history->hour), SCHED_HISTORY_SAMPLES);
    assert_int_equal(sched_history_count(&history->week), SCHED_HISTORY_SAMPLES);
    sample = sched_history_at(&history->hour, 0);
    assert_int_equal(sched_history_at(&history->hour, 359)->sessions - sample->sessions,
                     3590);
    assert_int_equal(sample->core, SERVERS * CARDS * 100);
    assert_int_equal(sample->core_given, sched->pool->sums.slices * 5);
    sample = sched_history_at(&history->week, 0);
    assert_int_equal(sched_history_at(&history->week, 359)->sessions - sample->sessions,
                     359 * 28 * 60);
}

/* ----------------------------------------------------------------------- calls -- */

struct caller {
    struct view_calls *calls;
    struct gp_loop *loop;
    pthread_t loop_thread;
    unsigned ran, refused;
};

static void
count(void *arg)
{
    struct caller *caller = arg;

    assert_true(pthread_equal(pthread_self(), caller->loop_thread));
    if (++caller->ran == 100)
        gp_loop_stop(caller->loop, 0);
}

static void *
call_until_closed(void *arg)
{
    struct caller *caller = arg;

    while (view_calls_do(caller->calls, count, caller))
        ;
    caller->refused++;
    return NULL;
}

static void
calls_run_on_the_loop_and_end_with_it(void **state)
{
    struct view_calls calls;
    struct caller caller = {.calls = &calls, .loop_thread = pthread_self()};
    pthread_t thread;

    (void)state;
    assert_int_equal(gp_loop_new(&caller.loop, NULL), 0);
    assert_int_equal(view_calls_init(&calls, caller.loop), 0);
    assert_int_equal(pthread_create(&thread, NULL, call_until_closed, &caller), 0);
    assert_int_equal(gp_loop_run(caller.loop), 0);
    assert_int_equal(caller.ran, 100);
    view_calls_close(&calls);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(caller.refused, 1);
    assert_int_equal(caller.ran, 100);
    view_calls_fini(&calls);
    gp_loop_free(caller.loop);
}

struct deferred {
    struct view_calls calls;
    struct view_call *call;
    struct gp_loop *loop;
    struct gp_loop_timer timer;
    atomic_bool told;
};

static void
on_later(struct gp_loop_timer *timer)
{
    struct deferred *d = container_of(timer, struct deferred, timer);

    assert_false(atomic_load(&d->told)); /* it waited for this */
    view_calls_end(&d->calls, d->call);
}

static void
answer_later(void *arg)
{
    struct deferred *d = arg;

    d->call = view_calls_defer(&d->calls);
    gp_loop_timer_set(d->loop, &d->timer, gp_now_ns() + GP_NS_PER_MS, on_later);
}

static void
stop(void *arg)
{
    gp_loop_stop(((struct deferred *)arg)->loop, 0);
}

static void *
call_and_wait(void *arg)
{
    struct deferred *d = arg;

    assert_true(view_calls_do(&d->calls, answer_later, d));
    atomic_store(&d->told, true);
    assert_true(view_calls_do(&d->calls, stop, d));
    return NULL;
}

static void
call_that_is_deferred_ends_later(void **state)
{
    struct deferred d = {.told = false};
    pthread_t thread;

    (void)state;
    assert_int_equal(gp_loop_new(&d.loop, NULL), 0);
    assert_int_equal(view_calls_init(&d.calls, d.loop), 0);
    assert_int_equal(pthread_create(&thread, NULL, call_and_wait, &d), 0);
    assert_int_equal(gp_loop_run(d.loop), 0);
    view_calls_close(&d.calls);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(&d.told));
    view_calls_fini(&d.calls);
    gp_loop_free(d.loop);
}

#define PROMISE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(every_session_is_in_one_page),
        PROMISE(filters_find_what_a_look_at_all_finds),
        PROMISE(pages_go_on_when_the_pool_changes_between_them),
        PROMISE(cards_and_servers_are_in_one_page_each),
        PROMISE(session_takes_less_than_a_kibibyte),
        PROMISE(first_page_tells_how_many_rows_all_have),
        PROMISE(cards_are_found_by_the_beginning_of_their_uuid),
        PROMISE(nonsense_is_refused_in_words),
        cmocka_unit_test(events_are_kept_newest_first_and_forgotten_oldest_first),
        cmocka_unit_test(events_of_another_scheduler_keep_their_serials),
        cmocka_unit_test(page_knows_whose_list_it_continues),
        PROMISE(history_has_an_hour_and_a_week),
        cmocka_unit_test(calls_run_on_the_loop_and_end_with_it),
        cmocka_unit_test(call_that_is_deferred_ends_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
