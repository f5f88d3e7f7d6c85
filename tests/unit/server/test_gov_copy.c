/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's part about copies, against a virtual clock: sessions with one or many
 * connections over a link that serves all connections alike, as networks do.
 */
#include "ut.h"

#include "gov_copy.h"
#include "ut_gov_card.h"

#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)
#define PIECE (UINT64_C(512) << 10)
#define LINK 4.0 /* bytes per ns, all connections together */

/* One connection: pieces one after the other, each when its bytes are through. */
struct conn {
    int slot;
    double left;  /* bytes of the piece under way; 0: waiting at the gate */
    double speed; /* its client's own limit, bytes per ns */
    uint64_t until;
    double moved;
};

struct sim {
    struct gov_card *card;
    struct conn conns[64];
    unsigned n;
    uint64_t now;
};

static void
sim_new(struct sim *sim)
{
    *sim = (struct sim){.now = 5 * S};
    sim->card = calloc(1, sizeof(*sim->card));
    assert_non_null(sim->card);
}

static void
sim_add(struct sim *sim, uint64_t session, uint32_t core, unsigned conns, double speed)
{
    struct gov_share sh = {.policy = GOV_BURST_SHARE, .core = core};

    for (unsigned i = 0; i < conns; i++) {
        struct conn *c = &sim->conns[sim->n++];

        *c = (struct conn){.speed = speed};
        c->slot = gov_card_join(sim->card, session, 1000 + (int)sim->n, &sh, sim->now);
        assert_true(c->slot >= 0);
    }
}

/* The next piece of a connection, if it may. */
static void
ask(struct sim *sim, struct conn *c)
{
    if (c->until &&
        (sim->now >= c->until || gov_copy_caught_up(sim->card, c->slot, sim->now))) {
        c->until = 0;
        c->left = PIECE;
    } else if (!c->until) {
        c->until = gov_copy_take(sim->card, c->slot, PIECE, sim->now);
        assert_true(!c->until || c->until <= sim->now + GOV_COPY_PAUSE_MAX_NS);
        c->left = c->until ? 0 : PIECE;
    }
}

/* What each connection that moves gets of the link, if it can take it. */
static double
fair_rate(const struct sim *sim)
{
    double rate = LINK;

    for (int round = 0; round < 8; round++) {
        double left = LINK;
        unsigned open = 0;

        for (unsigned i = 0; i < sim->n; i++) {
            const struct conn *c = &sim->conns[i];

            if (c->left > 0 && c->speed < rate)
                left -= c->speed;
            else
                open += c->left > 0;
        }
        rate = open ? left / open : LINK;
    }
    return rate;
}

/* Steps of 10 us: the link is divided equally among the connections that move. */
static void
sim_run(struct sim *sim, uint64_t span)
{
    const uint64_t step = 10000;

    for (uint64_t end = sim->now + span; sim->now < end; sim->now += step) {
        double rate;

        for (unsigned i = 0; i < sim->n; i++) {
            if (sim->conns[i].left <= 0)
                ask(sim, &sim->conns[i]);
        }
        rate = fair_rate(sim);
        for (unsigned i = 0; i < sim->n; i++) {
            struct conn *c = &sim->conns[i];
            double bytes = fmin(rate, c->speed) * (double)step;

            if (c->left <= 0)
                continue;
            c->left -= bytes;
            c->moved += bytes;
        }
    }
}

/* What session @session moved, in percent of the link's @span. */
static double
part(struct sim *sim, uint64_t session, uint64_t span)
{
    double sum = 0;

    for (unsigned i = 0; i < sim->n; i++) {
        struct conn *c = &sim->conns[i];

        if (tenant_of(sim->card, c->slot)->session != session)
            continue;
        sum += c->moved;
        c->moved = 0;
    }
    return 100 * sum / (LINK * (double)span);
}

static void
expect(double got, double low, double high)
{
    if (got < low || got > high)
        fail_msg("%.1f %%, expected %.0f to %.0f", got, low, high);
}

static void
lone_session_copies_without_a_pause(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, 10, 3, LINK);
    sim_run(&sim, S);
    expect(part(&sim, 1, S), 98, 100.1);
    free(sim.card);
}

static void
many_connections_get_no_more_than_one(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, 50, 9, LINK);
    sim_add(&sim, 2, 50, 1, LINK); /* the link alone would give it 10 % */
    sim_run(&sim, S);
    part(&sim, 1, S);
    part(&sim, 2, S);
    sim_run(&sim, 2 * S);
    expect(part(&sim, 1, 2 * S), 40, 60);
    expect(part(&sim, 2, 2 * S), 40, 60);
    free(sim.card);
}

static void
parts_of_the_link_follow_the_parts_of_the_card(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, 20, 1, LINK);
    sim_add(&sim, 2, 60, 1, LINK);
    sim_run(&sim, S);
    part(&sim, 1, S);
    part(&sim, 2, S);
    sim_run(&sim, 2 * S);
    expect(part(&sim, 1, 2 * S), 20, 32);
    expect(part(&sim, 2, 2 * S), 65, 80);
    free(sim.card);
}

static void
slow_neighbour_costs_little(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, 50, 2, LINK);
    sim_add(&sim, 2, 50, 1, LINK / 50); /* a client on a slow network */
    sim_run(&sim, S);
    part(&sim, 1, S);
    part(&sim, 2, S);
    sim_run(&sim, 2 * S);
    expect(part(&sim, 1, 2 * S), 88, 99);
    expect(part(&sim, 2, 2 * S), 1.8, 2.1);
    free(sim.card);
}

static void
neighbour_that_takes_less_than_its_part_leaves_the_rest(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, 50, 1, LINK);
    sim_add(&sim, 2, 50, 1, LINK * 0.3);
    sim_run(&sim, S);
    part(&sim, 1, S);
    part(&sim, 2, S);
    sim_run(&sim, 2 * S);
    expect(part(&sim, 1, 2 * S), 60, 71);
    expect(part(&sim, 2, 2 * S), 28, 31);
    free(sim.card);
}

static void
everybody_goes_on_when_some_go(void **state)
{
    struct sim sim;

    sim_new(&sim);
    sim_add(&sim, 1, 50, 4, LINK);
    sim_add(&sim, 2, 25, 1, LINK);
    sim_add(&sim, 3, 25, 1, LINK);
    sim_run(&sim, 500 * MS);
    /* The last two die wherever they are. */
    gov_card_leave(sim.card, sim.conns[4].slot, sim.now);
    gov_card_leave(sim.card, sim.conns[5].slot, sim.now);
    sim.n = 4;
    sim_run(&sim, 100 * MS);
    part(&sim, 1, S);
    sim_run(&sim, S);
    expect(part(&sim, 1, S), 98, 100.1);
    free(sim.card);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lone_session_copies_without_a_pause),
        cmocka_unit_test(many_connections_get_no_more_than_one),
        cmocka_unit_test(parts_of_the_link_follow_the_parts_of_the_card),
        cmocka_unit_test(slow_neighbour_costs_little),
        cmocka_unit_test(neighbour_that_takes_less_than_its_part_leaves_the_rest),
        cmocka_unit_test(everybody_goes_on_when_some_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
