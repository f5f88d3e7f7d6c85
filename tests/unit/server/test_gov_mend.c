/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounting of a card whose arbiter died in the middle of a change: what a
 * successor makes of it, against a virtual clock.
 */
#include "ut.h"

#include "gov_card.h"
#include "ut_gov_sim.h"

#include <string.h>

/* The arbiter dies: whatever follows from other fields may be half changed. */
static void
arbiter_dies(struct sim *sim)
{
    bool here[GOV_SLOTS_MAX] = {false};

    sim->card->holders = (uint32_t)rnd(sim, 100);
    sim->card->n_tenants = (uint32_t)rnd(sim, 100);
    sim->card->tenants_end = (uint32_t)rnd(sim, 3);
    for (unsigned i = 0; i < GOV_TENANTS_MAX; i++) {
        sim->card->tenants[i].wanting = (uint32_t)rnd(sim, 9);
        sim->card->tenants[i].running = (uint32_t)rnd(sim, 9);
        sim->card->tenants[i].slots = (uint32_t)rnd(sim, 9);
    }
    for (unsigned i = 0; i < sim->n; i++)
        here[sim->w[i].slot] = sim->w[i].state != GONE;
    gov_card_mend(sim->card, here, sim->now);
}

static void
shares_and_ceilings_hold_although_the_arbiter_dies_all_the_time(void **state)
{
    static const struct {
        enum gov_policy policy;
        uint32_t cores[3];
    } all[] = {{GOV_FIXED_SHARE, {20, 30, 10}}, {GOV_BURST_SHARE, {20, 50, 30}}};

    (void)state;
    for (unsigned k = 0; k < ARRAY_SIZE(all); k++) {
        struct sim sim;

        sim_new(&sim);
        for (unsigned i = 0; i < 3; i++)
            sim_add(&sim, i + 1, share(all[k].policy, all[k].cores[i]), 20 * US, 6 * MS,
                    0);
        sim_run(&sim, 4 * S);
        for (unsigned i = 0; i < 3; i++)
            part(&sim, i, 1);
        for (unsigned i = 0; i < 200; i++) {
            sim_run(&sim, rnd(&sim, 100 * MS));
            arbiter_dies(&sim);
        }
        sim.busy = sim.w[0].ran + sim.w[1].ran + sim.w[2].ran;
        for (unsigned i = 0; i < 3; i++) {
            double want = all[k].cores[i], sum = 0;

            for (unsigned j = 0; j < 3; j++)
                sum += all[k].cores[j];
            expect_near(100.0 * (double)sim.w[i].ran / (double)sim.busy,
                        100 * want / sum, 2.0);
        }
        if (all[k].policy == GOV_FIXED_SHARE)
            assert_true(100 * sim.busy <= 62 * (sim.now - 9 * S)); /* 60 % are theirs */
        sim_free(&sim);
    }
}

static void
who_died_with_the_arbiter_leaves_its_turn_and_its_debt(void **state)
{
    bool here[GOV_SLOTS_MAX] = {false};
    struct sim_worker *gone, *stays;
    struct sim sim;
    uint64_t until;

    (void)state;
    sim_new(&sim);
    gone = sim_add(&sim, 1, share(GOV_FIXED_SHARE, 10), MS, MS, 0);
    stays = sim_add(&sim, 2, share(GOV_BURST_SHARE, 50), MS, MS, 0);
    sim.now += MS; /* the bucket fills */
    assert_true(gov_card_ask(sim.card, gone->slot, sim.now, &until));
    assert_false(gov_card_ask(sim.card, stays->slot, sim.now, &until));
    sim.now += 100 * MS;
    here[stays->slot] = true;
    gov_card_mend(sim.card, here, sim.now);
    assert_true(gov_card_ask(sim.card, stays->slot, sim.now, &until));
    assert_true(gov_card_is_of(sim.card, stays->slot, 2));
    assert_false(gov_card_is_of(sim.card, gone->slot, 1));
    gone->slot =
        gov_card_join(sim.card, 1, 7, &(struct gov_share){.core = 10}, sim.now);
    assert_true(tenant_of(sim.card, gone->slot)->tokens_ns < 0);
    sim_free(&sim);
}

static void
number_that_is_no_slot_is_nobodys(void **state)
{
    struct sim sim;

    (void)state;
    sim_new(&sim);
    sim_add(&sim, 1, share(GOV_FIXED_SHARE, 10), MS, MS, 0);
    assert_false(gov_card_is_of(sim.card, -1, 1));
    assert_false(gov_card_is_of(sim.card, GOV_SLOTS_MAX, 1));
    assert_false(gov_card_is_of(sim.card, 1, 0));
    sim.card->slots[1] = (struct gov_slot){.pid = 1, .tenant = GOV_TENANTS_MAX};
    assert_false(gov_card_is_of(sim.card, 1, 0));
    sim_free(&sim);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            shares_and_ceilings_hold_although_the_arbiter_dies_all_the_time),
        cmocka_unit_test(who_died_with_the_arbiter_leaves_its_turn_and_its_debt),
        cmocka_unit_test(number_that_is_no_slot_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
