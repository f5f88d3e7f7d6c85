/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random requests, alone and in gangs, that are cancelled, renewed, closed and lost at
 * any moment: no card is given twice, no tenant gets beyond its quota, and in the end
 * nothing is held, kept or waited for.  GPUPOOL_SEED repeats a run, GPUPOOL_STORM sets
 * the number of steps.
 */
#include "ut_gang.h"

#include "gp_file.h"
#include "gp_hash.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 24, SERVERS = 3, CARDS = 2, STEPS = 1500, GANGS = 3 };

#define QUEUE "[queue]\nreserve-after = 0s\n"
/* The same quotas by other names, and without the classes that requests have. */
static const char *const RULES[] = {
    QUEUE "[class high]\nvalue = 20\npreempts = yes\n"
          "[class low]\nvalue = 1\npreemptible = yes\ngrace = 0s\n"
          "[tenant red]\nowners = kube:red*\ncore = 300\n"
          "[tenant blue]\nowners = kube:blue*\ncore = 350\n",
    QUEUE "[tenant crimson]\nowners = kube:red*\ncore = 300\n"
          "[tenant navy]\nowners = kube:blue*\ncore = 350\n",
};

struct client {
    int fd;
    bool asked;    /* an answer is awaited */
    reply_t *held; /* its session */
};

struct storm {
    struct world *w;
    struct client clients[CLIENTS];
    int servers[SERVERS], control;
    uint64_t random;
    unsigned grants, refusals, losses;
};

static unsigned
roll(struct storm *s, unsigned n)
{
    s->random = gp_hash_u64(s->random + 1);
    return (unsigned)(s->random >> 33) % n;
}

static void
forget(struct client *client)
{
    if (client->held)
        ut_sched_drop(client->held);
    client->held = NULL;
}

/* Closes the connection as a process that dies, and is another one. */
static void
again(struct storm *s, struct client *client)
{
    forget(client);
    close(client->fd);
    client->fd = ut_sched_dial(s->w);
    client->asked = false;
}

static void
hear(struct storm *s, struct client *client)
{
    struct pollfd fd = {.fd = client->fd, .events = POLLIN};

    while (poll(&fd, 1, 0) > 0) {
        reply_t *reply = ut_sched_hear(client->fd);

        if (!reply) {
            s->losses++;
            again(s, client);
            return;
        }
        if (reply->error) {
            client->asked = false;
            s->refusals++;
        } else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT) {
            forget(client);
            client->held = reply;
            client->asked = false;
            s->grants++;
            continue;
        } else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED) {
            client->asked = false;
        }
        ut_sched_drop(reply);
    }
}

/* Servers do at once what they are told, and say so. */
static void
hear_servers(struct storm *s)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlReport body = GPUPOOL__CTL__CTL_REPORT__INIT;

    req.id = 5;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT;
    req.report = &body;
    for (int i = 0; i < SERVERS; i++) {
        struct pollfd fd = {.fd = s->servers[i], .events = POLLIN};
        bool told = false;

        while (poll(&fd, 1, 0) > 0) {
            reply_t *reply = ut_sched_hear(s->servers[i]);

            assert_non_null(reply);
            told |= !reply->id;
            ut_sched_drop(reply);
        }
        if (told)
            ut_sched_post(s->servers[i], &req);
    }
}

static void
ask(struct storm *s, struct client *client)
{
    static const char *const OWNERS[] = {"red", "blue", "free"};
    static const char *const CLASSES[] = {"", "", "high", "low"};
    static const unsigned CORES[] = {10, 20, 30, 60, 100};
    static char owner[64], gang[32];
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(CORES[roll(s, 5)], GIB);
    unsigned kind = roll(s, 4), who = roll(s, 3);

    snprintf(owner, sizeof(owner), "kube:%s%u", OWNERS[who], roll(s, 40));
    open.owner = owner;
    open.priority = (char *)CLASSES[roll(s, 4)];
    open.wait = kind;
    open.hold = roll(s, 2);
    open.once = kind == 3;
    open.wait_ms = roll(s, 3) ? 0 : 20 + roll(s, 200);
    open.run_ms = roll(s, 4) ? 0 : 1000;
    open.cards = roll(s, 6) ? 0 : 2;
    if (open.cards)
        open.core = 200;
    if (kind >= 2) {
        unsigned g = roll(s, GANGS);

        snprintf(gang, sizeof(gang), "g%u", g);
        open.gang = gang;
        open.gang_size = 2 + g % 3;
        if (kind == 2)
            snprintf(owner, sizeof(owner), "kube:%s0", OWNERS[g % 3]);
    }
    ut_gang_post(client->fd, open);
    client->asked = true;
}

static void
renew(struct client *client)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew renew = GPUPOOL__CTL__CTL_RENEW__INIT;

    req.id = 9;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    renew.session_id = client->held->grant->session_id;
    renew.lease_key = client->held->grant->lease_key;
    renew.hold = true;
    req.renew = &renew;
    ut_sched_post(client->fd, &req);
    client->asked = true;
}

static void
step(struct storm *s)
{
    struct client *client = &s->clients[roll(s, CLIENTS)];
    unsigned what = roll(s, 8);

    if (client->asked) {
        if (what == 0)
            again(s, client);
    } else if (!client->held) {
        ask(s, client);
    } else if (what == 0) {
        again(s, client);
    } else if (what < 3) {
        renew(client);
    } else if (what < 6) {
        ut_sched_post_close(client->fd, client->held->grant);
        client->asked = true;
        forget(client);
    }
}

/* A server that is gone for a moment, with the sessions on its cards. */
static void
blink(struct storm *s, unsigned i)
{
    static const char *const NAMES[SERVERS] = {"a-node", "b-node", "c-node"};

    close(s->servers[i]);
    s->servers[i] = -1;
    usleep(2000);
    s->servers[i] = ut_sched_join(s->w, NAMES[i], CARDS);
}

static void
other_rules(struct storm *s)
{
    const char *rules = RULES[roll(s, ARRAY_SIZE(RULES))];

    assert_int_equal(
        gp_file_replace(s->w->config.rules, rules, strlen(rules), 0600, NULL), 0);
    kill(s->w->scheduler, SIGHUP);
}

static uint64_t
given_to(const Gpupool__Ctl__CtlStatusReply *status, const char *prefix)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < status->n_sessions; i++)
        for (size_t k = 0; k < status->sessions[i]->n_slices; k++)
            if (!strncmp(status->sessions[i]->owner, prefix, strlen(prefix)))
                sum += status->sessions[i]->slices[k]->core;
    return sum;
}

/* Returns what is given of all cards. */
static uint64_t
check(struct storm *s)
{
    reply_t *reply = ut_sched_status(s->control);
    const Gpupool__Ctl__CtlStatusReply *status = reply->status;
    uint64_t cards = 0, all;

    for (size_t i = 0; i < status->n_servers; i++)
        for (size_t k = 0; k < status->servers[i]->n_cards; k++) {
            assert_in_range(status->servers[i]->cards[k]->core_given, 0, 100);
            cards += status->servers[i]->cards[k]->core_given;
        }
    all = given_to(status, "");
    assert_int_equal(cards, all);
    assert_in_range(given_to(status, "kube:red"), 0, 300);
    assert_in_range(given_to(status, "kube:blue"), 0, 350);
    ut_sched_drop(reply);
    return all;
}

static void
hear_all(struct storm *s)
{
    for (int i = 0; i < CLIENTS; i++)
        hear(s, &s->clients[i]);
    hear_servers(s);
}

/* All have gone: nothing is left, and a gang of two tenants gets all that they may
 * have.
 */
static void
settle(struct storm *s)
{
    uint64_t end = gp_now_ns() + PATIENCE;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(100, GIB);

    for (int i = 0; i < CLIENTS; i++)
        again(s, &s->clients[i]);
    while ((check(s) || ut_gang_waiting(s->w, NULL, 0)) && gp_now_ns() < end) {
        hear_all(s);
        usleep(1000);
    }
    assert_int_equal(check(s), 0);
    open.wait = open.once = true;
    open.gang = (char *)"last";
    open.gang_size = 6;
    for (int i = 0; i < 6; i++) {
        char owner[32];

        snprintf(owner, sizeof(owner), "kube:%s%d", i % 2 ? "red" : "blue", i);
        open.owner = owner;
        ut_gang_post(s->clients[i].fd, open);
    }
    for (int i = 0; i < 6; i++)
        ut_sched_drop(ut_gang_granted(s->clients[i].fd));
    assert_int_equal(check(s), 600);
}

static unsigned
number(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void
random_requests_leave_nothing_behind(void **state)
{
    struct storm s = {.w = *state};
    unsigned seed = number("GPUPOOL_SEED", (unsigned)gp_now_ns());
    unsigned steps = number("GPUPOOL_STORM", STEPS);

    print_message("GPUPOOL_SEED=%u\n", seed);
    s.random = seed;
    s.w->config.lease_ms = 2000; /* of sessions whose clients have gone */
    ut_gang_start_with(s.w, RULES[0]);
    s.servers[0] = ut_sched_join(s.w, "a-node", CARDS);
    s.servers[1] = ut_sched_join(s.w, "b-node", CARDS);
    s.servers[2] = ut_sched_join(s.w, "c-node", CARDS);
    s.control = ut_sched_dial(s.w);
    for (int i = 0; i < CLIENTS; i++)
        s.clients[i].fd = ut_sched_dial(s.w);
    for (unsigned i = 0; i < steps; i++) {
        step(&s);
        hear_all(&s);
        if (!(i % 4)) /* and it has time to answer */
            check(&s);
        if (!roll(&s, 200))
            blink(&s, roll(&s, SERVERS));
        if (!roll(&s, 100))
            other_rules(&s);
    }
    settle(&s);
    print_message("%u grants, %u refusals, %u connections lost\n", s.grants, s.refusals,
                  s.losses);
    assert_true(s.grants > 0);
    for (int i = 0; i < CLIENTS; i++)
        close(s.clients[i].fd);
    for (int i = 0; i < SERVERS; i++)
        close(s.servers[i]);
    close(s.control);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_requests_leave_nothing_behind,
                                        ut_sched_setup, ut_sched_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
