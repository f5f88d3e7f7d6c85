/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_trial.h"

#include <stdlib.h>

/* The other way must be so much faster: medians of seven differ by a few percent
 * without a reason. */
#define WIN 0.95f

/* Uses of other sizes after which a trial is given up. */
#define ASTRAY_MAX 64u

/* Sizes within a power of two are compared with each other. */
static uint32_t
group_of(uint64_t size)
{
    return 64 - (uint32_t)__builtin_clzll(size | 1);
}

/* ABBAABBA...: what changes slowly meanwhile hits both alike. */
static unsigned
way_of_turn(const struct gp_trial *trial)
{
    return trial->turn == 0 ? trial->best : trial->best ^ (trial->turn / 2 & 1);
}

/* Turns of either way are numbered apart. */
static unsigned
number_of_turn(const struct gp_trial *trial)
{
    return (trial->turn - 1) / 2;
}

bool
gp_trial_is_due(const struct gp_trial *trial)
{
    return trial->turn == 0 &&
           trial->used >= (trial->tried ? GP_TRIAL_AGAIN : GP_TRIAL_FIRST);
}

static void
end(struct gp_trial *trial)
{
    trial->turn = trial->used = 0;
    trial->warm = false;
    trial->tried = true;
}

void
gp_trial_put_off(struct gp_trial *trial)
{
    end(trial);
}

unsigned
gp_trial_way(struct gp_trial *trial, uint64_t size)
{
    if (gp_trial_is_due(trial)) {
        trial->turn = 1;
        trial->used = 0;
        trial->group = group_of(size);
    }
    return way_of_turn(trial);
}

static int
by_cost(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static float
median(float cost[GP_TRIAL_TURNS])
{
    qsort(cost, GP_TRIAL_TURNS, sizeof(*cost), by_cost);
    return cost[GP_TRIAL_TURNS / 2];
}

/* All turns were taken. */
static bool
decide(struct gp_trial *trial, float ret_cost[2])
{
    uint8_t other = trial->best ^ 1;

    ret_cost[0] = median(trial->cost[trial->best]);
    ret_cost[1] = median(trial->cost[other]);
    end(trial);
    if (ret_cost[1] >= WIN * ret_cost[0])
        return false;
    trial->best = other;
    return true;
}

bool
gp_trial_took(struct gp_trial *trial, uint64_t size, uint64_t ns, float ret_cost[2])
{
    if (trial->turn == 0) {
        trial->used++;
        return false;
    }
    if (group_of(size) != trial->group) {
        if (++trial->used > ASTRAY_MAX)
            end(trial);
        return false;
    }
    if (!trial->warm) {
        trial->warm = true;
        return false;
    }
    trial->cost[way_of_turn(trial)][number_of_turn(trial)] = (float)ns / (float)size;
    trial->warm = false;
    return trial->turn++ == 2 * GP_TRIAL_TURNS && decide(trial, ret_cost);
}
