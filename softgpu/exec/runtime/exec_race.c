/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races on shared memory; see exec_race.h.
 *
 * Clocks only grow, also from one CTA to the next: a CTA begins with all warps knowing
 * of everything before, so nothing has to be cleared.  A cell is as small as the
 * smallest access of the unit.
 */
#include "exec_race.h"

#include "insn_watch.h"

#include <stdlib.h>
#include <string.h>

#define CLOCK_MAX (UINT32_MAX / 2) /* then everything is begun anew */
#define N_BARS (SG_N_BARRIERS + 1)

struct writer {
    uint32_t clock; /* 0: none */
    uint32_t pc;
    uint8_t warp, lane;
    bool strong;
};

struct reader {
    uint32_t clock;
    uint32_t pc;
    uint8_t lane;
    bool many; /* other lanes as well */
    bool strong;
};

struct bar {
    uint32_t turn;       /* moves on when somebody is the first to arrive */
    uint32_t *clocks[2]; /* what those who arrived know, by turn & 1 */
    uint32_t *turns;     /* by warp: in which it arrived */
    uint32_t *pcs;       /* and where */
};

struct sg_race {
    uint64_t serial, index; /* of the launch, of the CTA */
    const struct sg_unit *unit;
    uint32_t n_warps, bytes, shift;
    uint32_t base;   /* the largest clock before this CTA */
    uint32_t *clock; /* by warp */
    uint32_t *known; /* [warp][other] */
    struct writer *writers;
    struct reader *readers; /* [cell][warp] */
    uint32_t *vectors;      /* storage of the barriers' */
    struct bar bars[N_BARS];
    uint32_t *elsewhere; /* clocks released to memory that is not shared */
    uint32_t **words;    /* and to each 8 bytes of shared memory, or NULL */
};

static void
race_clear(struct sg_race *race)
{
    for (uint32_t i = 0; race->words && i < race->bytes / 8 + 1; i++)
        free(race->words[i]);
    free(race->words);
    free(race->clock);
    free(race->known);
    free(race->writers);
    free(race->readers);
    free(race->vectors);
    free(race->elsewhere);
    *race = (struct sg_race){0};
}

void
sg_race_free(struct sg_race *race)
{
    if (!race)
        return;
    race_clear(race);
    free(race);
}

static uint32_t
cell_shift(const struct sg_unit *unit)
{
    uint32_t least = 4;

    for (uint32_t i = 0; i < unit->n_ops; i++) {
        const struct sg_watch *w = &sg_watches[unit->ops[i].code];
        if (w->size && w->space != SG_MEM_GLOBAL)
            least = gp_min(least, (uint32_t)w->size);
    }
    return (uint32_t)__builtin_ctz(least);
}

static int
race_make(struct sg_race *race, const struct sg_cta *cta, uint32_t shift)
{
    const size_t n = cta->n_warps;
    const size_t cells = (cta->shared_bytes >> shift) + 1;
    uint32_t *v;

    race_clear(race);
    race->n_warps = cta->n_warps;
    race->bytes = cta->shared_bytes;
    race->shift = shift;
    race->clock = calloc(n, sizeof(*race->clock));
    race->known = calloc(n * n, sizeof(*race->known));
    race->writers = calloc(cells, sizeof(*race->writers));
    race->readers = calloc(cells * n, sizeof(*race->readers));
    race->vectors = calloc(N_BARS * 4 * n, sizeof(*race->vectors));
    race->elsewhere = calloc(n, sizeof(*race->elsewhere));
    race->words = calloc(cta->shared_bytes / 8 + 1, sizeof(*race->words));
    if (!race->clock || !race->known || !race->writers || !race->readers ||
        !race->vectors || !race->elsewhere || !race->words) {
        race_clear(race);
        return -1;
    }
    v = race->vectors;
    for (uint32_t i = 0; i < N_BARS; i++, v += 4 * n)
        race->bars[i] =
            (struct bar){.clocks = {v, v + n}, .turns = v + 2 * n, .pcs = v + 3 * n};
    return 0;
}

/* Nothing is under way: every warp knows of all that came before. */
static void
race_begin(struct sg_race *race)
{
    const uint32_t n = race->n_warps;

    for (uint32_t w = 0; w < n; w++)
        race->base = gp_max(race->base, race->clock[w]);
    for (uint32_t w = 0; w < n; w++)
        race->clock[w] = race->base + 1;
    for (uint32_t i = 0; i < n * n; i++)
        race->known[i] = race->base;
    for (uint32_t i = 0; i < N_BARS; i++) {
        race->bars[i].turn = 0;
        memset(race->bars[i].turns, 0, n * sizeof(*race->bars[i].turns));
    }
}

struct sg_race *
sg_race_of(struct sg_cta *cta)
{
    struct sg_race *race = cta->race;
    uint32_t shift;

    if (race && race->serial == cta->launch->serial && race->index == cta->index)
        return race;
    if (!race)
        race = cta->race = calloc(1, sizeof(*race));
    if (!race)
        return NULL;
    shift = race->unit == cta->unit ? race->shift : cell_shift(cta->unit);
    if ((!race->clock || race->n_warps != cta->n_warps || race->shift != shift ||
         race->bytes != cta->shared_bytes || race->base > CLOCK_MAX) &&
        race_make(race, cta, shift) < 0)
        return NULL;
    race->unit = cta->unit;
    race->serial = cta->launch->serial;
    race->index = cta->index;
    race_begin(race);
    return race;
}

void
sg_race_forget(struct sg_race *race)
{
    const size_t cells = (race->bytes >> race->shift) + 1;

    memset(race->writers, 0, cells * sizeof(*race->writers));
    memset(race->readers, 0, cells * race->n_warps * sizeof(*race->readers));
}

/* ----------------------------------------------------------------------- order */

static uint32_t *
known_by(const struct sg_race *race, uint32_t warp)
{
    return race->known + (size_t)warp * race->n_warps;
}

static void
publish(struct sg_race *race, uint32_t warp, uint32_t *clocks)
{
    const uint32_t *known = known_by(race, warp);

    for (uint32_t i = 0; i < race->n_warps; i++)
        clocks[i] = gp_max(clocks[i], i == warp ? race->clock[warp] : known[i]);
    race->clock[warp]++;
}

static void
learn(struct sg_race *race, uint32_t warp, const uint32_t *clocks)
{
    uint32_t *known = known_by(race, warp);

    for (uint32_t i = 0; i < race->n_warps; i++)
        known[i] = gp_max(known[i], clocks[i]);
}

uint32_t
sg_race_clock(const struct sg_race *race, const struct sg_warp *warp,
              const uint32_t **ret_known)
{
    *ret_known = known_by(race, warp->index);
    return race->clock[warp->index];
}

void
sg_race_warp_sync(struct sg_race *race, const struct sg_warp *warp)
{
    race->clock[warp->index]++;
}

static uint32_t *
word_clocks(struct sg_race *race, uint32_t off)
{
    uint32_t **word;

    if (off >= race->bytes)
        return race->elsewhere;
    word = &race->words[off / 8];
    if (!*word)
        *word = calloc(race->n_warps, sizeof(**word));
    return *word ? *word : race->elsewhere;
}

void
sg_race_acquire(struct sg_race *race, const struct sg_warp *warp, uint32_t off)
{
    learn(race, warp->index, word_clocks(race, off));
}

void
sg_race_release(struct sg_race *race, const struct sg_warp *warp, uint32_t off)
{
    publish(race, warp->index, word_clocks(race, off));
}

uint32_t
sg_race_arrive(struct sg_race *race, const struct sg_warp *warp, uint32_t id,
               bool first, uint32_t pc)
{
    struct bar *bar = &race->bars[id];
    uint32_t w = warp->index, other = UINT32_MAX;

    if (first || bar->turn == 0) {
        bar->turn++;
        memset(bar->clocks[bar->turn & 1], 0, race->n_warps * sizeof(uint32_t));
    }
    if (bar->turns[w] == bar->turn)
        other = bar->pcs[w];
    bar->turns[w] = bar->turn;
    bar->pcs[w] = pc;
    publish(race, w, bar->clocks[bar->turn & 1]);
    return other;
}

void
sg_race_arrive_cluster(struct sg_race *race, const struct sg_warp *warp, bool phase,
                       uint32_t pc)
{
    /* Turns count from 1, and phases from false. */
    bool first = (race->bars[SG_RACE_CLUSTER].turn & 1) == phase;

    sg_race_arrive(race, warp, SG_RACE_CLUSTER, first, pc);
}

void
sg_race_pass(struct sg_race *race, const struct sg_cta *cta, const struct sg_warp *warp,
             uint32_t id)
{
    const struct bar *bar = &race->bars[id];
    uint32_t *known = known_by(race, warp->index);

    learn(race, warp->index, bar->clocks[bar->turns[warp->index] & 1]);
    for (uint32_t i = 0; i < race->n_warps; i++)
        if (!cta->warps[i]->live)
            known[i] = race->clock[i];
    race->clock[warp->index]++;
}

/* -------------------------------------------------------------------- accesses */

/* Whether @lane of @warp cannot know of an access of @other at @clock. */
static bool
unordered(const struct sg_race *race, uint32_t warp, uint32_t lane, uint32_t other,
          uint32_t clock, uint32_t other_lane)
{
    if (clock == 0)
        return false;
    if (other != warp)
        return clock > known_by(race, warp)[other];
    return other_lane != lane && clock == race->clock[warp];
}

/* Writing what is there already is seen by nobody. */
static bool
changes_nothing(const struct sg_cta *cta, const struct sg_race_access *a)
{
    return a->value && memcmp(a->value, cta->shared + a->at, a->size) == 0;
}

static bool
conflict_with_writer(const struct sg_race *race, const struct sg_cta *cta,
                     uint32_t warp, const struct sg_race_access *a, uint32_t cell,
                     bool write, bool strong, struct sg_race_conflict *ret)
{
    const struct writer *w = &race->writers[cell];

    if ((w->strong && strong) ||
        !unordered(race, warp, a->lane, w->warp, w->clock, w->lane) ||
        (write && changes_nothing(cta, a)))
        return false;
    *ret = (struct sg_race_conflict){
        .kind = write ? SG_RACE_WRITE_AFTER_WRITE : SG_RACE_READ_AFTER_WRITE,
        .other_cta = cta->index,
        .other_warp = w->warp,
        .other_lane = w->lane,
        .other_pc = w->pc,
    };
    return true;
}

static bool
conflict_with_readers(const struct sg_race *race, const struct sg_cta *cta,
                      uint32_t warp, const struct sg_race_access *a, uint32_t cell,
                      bool strong, struct sg_race_conflict *ret)
{
    const struct reader *all = race->readers + (size_t)cell * race->n_warps;

    for (uint32_t i = 0; i < race->n_warps; i++) {
        uint32_t lane = all[i].many ? SG_RACE_LANES : all[i].lane;

        if ((all[i].strong && strong) ||
            !unordered(race, warp, a->lane, i, all[i].clock, lane))
            continue;
        *ret = (struct sg_race_conflict){
            .kind = SG_RACE_WRITE_AFTER_READ,
            .other_cta = cta->index,
            .other_warp = i,
            .other_lane = lane,
            .other_pc = all[i].pc,
        };
        return true;
    }
    return false;
}

static bool
lanes_differ(const struct sg_race_access *a, const struct sg_race_access *b)
{
    uint64_t lo = gp_max(a->at, b->at);
    uint64_t hi = gp_min(a->at + a->size, b->at + b->size);

    return lo < hi && a->value && b->value &&
           memcmp((const char *)a->value + (lo - a->at),
                  (const char *)b->value + (lo - b->at), hi - lo) != 0;
}

bool
sg_race_within(const struct sg_race_access *list, uint32_t n, const struct sg_cta *cta,
               const struct sg_warp *warp, uint32_t pc, struct sg_race_conflict *ret)
{
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (!lanes_differ(&list[i], &list[k]))
                continue;
            *ret = (struct sg_race_conflict){
                .kind = SG_RACE_SAME_INSTRUCTION,
                .lane = list[i].lane,
                .at = list[i].at,
                .size = list[i].size,
                .other_cta = cta->index,
                .other_warp = warp->index,
                .other_lane = list[k].lane,
                .other_pc = pc,
            };
            return true;
        }
    }
    return false;
}

static void
note_write(struct sg_race *race, uint32_t warp, const struct sg_race_access *a,
           uint32_t cell, bool strong, uint32_t pc)
{
    race->writers[cell] = (struct writer){
        .clock = race->clock[warp],
        .pc = pc,
        .warp = (uint8_t)warp,
        .lane = (uint8_t)a->lane,
        .strong = strong,
    };
}

static void
note_read(struct sg_race *race, uint32_t warp, const struct sg_race_access *a,
          uint32_t cell, bool strong, uint32_t pc)
{
    struct reader *r = race->readers + (size_t)cell * race->n_warps + warp;
    bool again = r->clock == race->clock[warp];

    *r = (struct reader){
        .clock = race->clock[warp],
        .pc = pc,
        .lane = (uint8_t)a->lane,
        .many = again && (r->many || r->lane != a->lane),
        .strong = strong && (!again || r->strong),
    };
}

#define FOR_CELLS(cell, race, a)                                                       \
    for (uint32_t                                                                      \
             cell = (uint32_t)((a)->at >> (race)->shift),                              \
             last_##cell = (uint32_t)(((a)->at + (a)->size - 1) >> (race)->shift);     \
         cell <= last_##cell; cell++)

bool
sg_race_access(struct sg_race *race, const struct sg_cta *cta,
               const struct sg_warp *warp, const struct sg_race_access *list,
               uint32_t n, bool write, bool strong, uint32_t pc,
               struct sg_race_conflict *ret)
{
    const uint32_t w = warp->index;
    bool found = write && !strong && sg_race_within(list, n, cta, warp, pc, ret);

    for (uint32_t i = 0; i < n && !found; i++) {
        FOR_CELLS(cell, race, &list[i])
        {
            found = conflict_with_writer(race, cta, w, &list[i], cell, write, strong,
                                         ret) ||
                    (write &&
                     conflict_with_readers(race, cta, w, &list[i], cell, strong, ret));
            if (!found)
                continue;
            ret->lane = list[i].lane;
            ret->at = list[i].at;
            ret->size = list[i].size;
            break;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        FOR_CELLS(cell, race, &list[i])
        {
            if (write)
                note_write(race, w, &list[i], cell, strong, pc);
            else
                note_read(race, w, &list[i], cell, strong, pc);
        }
    }
    return found;
}
