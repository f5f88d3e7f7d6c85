/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_mix.h"

#include "sched_place.h"

#define MEMORY_STEP 256 /* MiB */

static void
halve(struct sched_mix *mix)
{
    mix->sum = 0;
    for (unsigned i = 0; i < mix->n; i++) {
        mix->shapes[i].count /= 2;
        mix->sum += mix->shapes[i].count;
    }
}

/* The shape itself, a free place, or the rarest one, whose count the new one takes
 * over. */
static struct sched_shape *
shape_for(struct sched_mix *mix, uint32_t core, uint32_t cards, uint64_t memory)
{
    struct sched_shape *rarest = &mix->shapes[0];

    for (unsigned i = 0; i < mix->n; i++) {
        struct sched_shape *shape = &mix->shapes[i];

        if (shape->core == core && shape->cards == cards && shape->memory == memory)
            return shape;
        if (shape->count < rarest->count)
            rarest = shape;
    }
    if (mix->n < SCHED_SHAPES_MAX) {
        rarest = &mix->shapes[mix->n++];
        rarest->count = 0;
    }
    rarest->core = core;
    rarest->cards = cards;
    rarest->memory = memory;
    return rarest;
}

void
sched_mix_note(struct sched_mix *mix, const struct sched_request *req)
{
    uint64_t mib = (req->memory + (1u << 20) - 1) >> 20;

    shape_for(mix, req->core, req->cards,
              (mib + MEMORY_STEP - 1) / MEMORY_STEP * MEMORY_STEP)
        ->count++;
    if (++mix->sum >= SCHED_MIX_SUM)
        halve(mix);
}

/* What is free of a server's cards that may be given. */
struct room {
    uint32_t core[CTL_SERVER_CARDS_MAX];
    uint64_t memory[CTL_SERVER_CARDS_MAX]; /* MiB */
    unsigned n;
    uint64_t sum;
};

static void
room_of(const struct sched_server *server, const struct sched_slice *slices, unsigned n,
        struct room *room)
{
    room->n = 0;
    room->sum = 0;
    for (unsigned i = 0; i < server->n_cards; i++) {
        const struct sched_card *card = server->cards[i];
        uint32_t core = card->bucket;
        uint64_t memory = sched_card_free_memory(card);

        for (unsigned k = 0; core && k < n; k++)
            if (slices[k].card == card) {
                core -= gp_min(slices[k].core, core);
                memory -= slices[k].memory;
            }
        if (!core)
            continue;
        room->core[room->n] = core;
        room->memory[room->n++] = memory >> 20;
        room->sum += core;
    }
}

/* Fragments for one shape. */
static uint64_t
fragments(const struct room *room, const struct sched_shape *shape)
{
    uint64_t useless = 0;
    unsigned fit = 0;

    for (unsigned i = 0; i < room->n; i++) {
        if (room->core[i] >= shape->core && room->memory[i] >= shape->memory)
            fit++;
        else
            useless += room->core[i];
    }
    return fit >= shape->cards ? useless : room->sum;
}

double
sched_mix_fragments(const struct sched_mix *mix, const struct sched_server *server,
                    const struct sched_slice *slices, unsigned n)
{
    struct room room;
    double sum = 0;

    if (!mix->sum)
        return 0;
    room_of(server, slices, n, &room);
    for (unsigned i = 0; i < mix->n; i++)
        sum += (double)fragments(&room, &mix->shapes[i]) * mix->shapes[i].count;
    return sum / mix->sum;
}
