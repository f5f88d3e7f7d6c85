/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races on global memory; see exec_race_grid.h.
 *
 * A word has a cell, 256 words a page, found by its number in one of a few hash tables,
 * each with its lock.  Time is the number of releases so far.
 */
#include "exec_race_grid.h"

#include "gp_base.h"
#include "sg_map_zero.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WORD 4u
#define PAGE_WORDS 256u
#define PAGE_BYTES (WORD * PAGE_WORDS)
#define N_READERS 2
#define N_TABLES 64u
#define MAX_CTAS (1u << 24)
/* Of notes in one launch, of memory that it touches a twentieth of that. */
#define MAX_NOTE_BYTES (4ull << 30)

struct note {
    uint64_t time;
    uint32_t cta, pc, clock;
    uint8_t warp, lane;
    uint8_t bytes : 4; /* of the word; 0: nobody */
    bool many : 1;     /* other lanes as well */
    bool strong : 1;
};

struct cell {
    struct note writer;
    struct note readers[N_READERS]; /* the last one first */
    uint32_t value;                 /* what the writer wrote to its bytes */
    bool valued;                    /* or is it not known? */
};

struct page {
    uint64_t number;
    struct cell cells[PAGE_WORDS];
};

struct table {
    pthread_mutex_t lock;
    struct page **slots;
    uint32_t n, size; /* pages; slots, a power of two */
};

struct order {
    uint64_t released, acquired; /* when last */
    bool acquires;               /* it does at its next access */
};

struct sg_race_grid {
    uint64_t time;
    uint64_t n_pages;
    uint64_t n_ctas;
    struct order *orders; /* by CTA */
    struct table tables[N_TABLES];
};

struct sg_race_grid *
sg_race_grid_new(uint64_t n_ctas)
{
    struct sg_race_grid *grid = n_ctas <= MAX_CTAS ? calloc(1, sizeof(*grid)) : NULL;

    if (!grid)
        return NULL;
    grid->n_ctas = n_ctas;
    grid->orders = sg_map_zero(n_ctas * sizeof(*grid->orders));
    if (!grid->orders) {
        free(grid);
        return NULL;
    }
    for (unsigned i = 0; i < N_TABLES; i++)
        pthread_mutex_init(&grid->tables[i].lock, NULL);
    return grid;
}

void
sg_race_grid_free(struct sg_race_grid *grid)
{
    if (!grid)
        return;
    for (unsigned i = 0; i < N_TABLES; i++) {
        struct table *t = &grid->tables[i];

        for (uint32_t k = 0; k < t->size; k++)
            free(t->slots[k]);
        free(t->slots);
        pthread_mutex_destroy(&t->lock);
    }
    munmap(grid->orders, grid->n_ctas * sizeof(*grid->orders));
    free(grid);
}

/* ----------------------------------------------------------------------- pages */

static uint64_t
hash_of(uint64_t number)
{
    return number * 0x9e3779b97f4a7c15ull;
}

static struct table *
table_of(struct sg_race_grid *grid, uint64_t number)
{
    return &grid->tables[hash_of(number) >> 58];
}

/* The slot of the page, or the empty one where it belongs; the table has one. */
static struct page **
slot_of(const struct table *t, uint64_t number)
{
    uint32_t at = (uint32_t)(hash_of(number) >> 20) & (t->size - 1);

    while (t->slots[at] && t->slots[at]->number != number)
        at = (at + 1) & (t->size - 1);
    return &t->slots[at];
}

static bool
table_grow(struct table *t)
{
    struct table more = {.size = t->size ? t->size * 2 : 16};

    more.slots = calloc(more.size, sizeof(struct page *));
    if (!more.slots)
        return false;
    for (uint32_t i = 0; i < t->size; i++)
        if (t->slots[i])
            *slot_of(&more, t->slots[i]->number) = t->slots[i];
    free(t->slots);
    t->slots = more.slots;
    t->size = more.size;
    return true;
}

/* NULL: there is none, or with @make no memory for it. */
static struct page *
page_at(struct sg_race_grid *grid, struct table *t, uint64_t number, bool make)
{
    struct page **slot = t->size ? slot_of(t, number) : NULL;

    if (slot && *slot)
        return *slot;
    if (!make || __atomic_load_n(&grid->n_pages, __ATOMIC_RELAXED) >=
                     MAX_NOTE_BYTES / sizeof(struct page))
        return NULL;
    if (t->n >= t->size / 2) {
        if (!table_grow(t))
            return NULL;
        slot = slot_of(t, number);
    }
    *slot = calloc(1, sizeof(struct page));
    if (!*slot)
        return NULL;
    (*slot)->number = number;
    t->n++;
    __atomic_add_fetch(&grid->n_pages, 1, __ATOMIC_RELAXED);
    return *slot;
}

/* ----------------------------------------------------------------------- order */

void
sg_race_grid_release(struct sg_race_grid *grid, const struct sg_cta *cta)
{
    uint64_t now = __atomic_add_fetch(&grid->time, 1, __ATOMIC_ACQ_REL);

    __atomic_store_n(&grid->orders[cta->index].released, now, __ATOMIC_RELEASE);
}

/* Its check comes before the load, and another CTA may release in between. */
void
sg_race_grid_acquire(struct sg_race_grid *grid, const struct sg_cta *cta)
{
    grid->orders[cta->index].acquires = true;
}

/* What the warp has acquired is settled now. */
static void
settle(struct sg_race_grid *grid, const struct sg_cta *cta)
{
    struct order *order = &grid->orders[cta->index];

    if (order->acquires)
        order->acquired = __atomic_load_n(&grid->time, __ATOMIC_ACQUIRE);
    order->acquires = false;
}

/* -------------------------------------------------------------------- accesses */

/* One lane's access. */
struct access {
    struct sg_race_grid *grid;
    const uint32_t *known; /* by the warp, of the others of its CTA */
    const uint8_t *value;  /* NULL: it is not known */
    struct note mine;
    bool write;
    uint64_t number; /* of the page that is entered; UINT64_MAX: none */
    struct table *table;
    struct page *page; /* NULL: no memory for it */
};

static bool
is_ordered(const struct access *a, const struct note *earlier)
{
    const struct order *orders = a->grid->orders;

    if (earlier->cta != a->mine.cta)
        return __atomic_load_n(&orders[earlier->cta].released, __ATOMIC_ACQUIRE) >
                   earlier->time &&
               orders[a->mine.cta].acquired > earlier->time;
    if (earlier->warp != a->mine.warp)
        return earlier->clock <= a->known[earlier->warp];
    return earlier->clock != a->mine.clock ||
           (earlier->lane == a->mine.lane && !earlier->many);
}

static bool
is_conflict(const struct access *a, const struct note *earlier)
{
    return earlier->bytes & a->mine.bytes && !(earlier->strong && a->mine.strong) &&
           !is_ordered(a, earlier);
}

static bool
same_warp(const struct note *a, const struct note *b)
{
    return a->bytes && a->cta == b->cta && a->warp == b->warp;
}

/* Lanes of one instruction: sg_race_within() compares what they write. */
static bool
same_instruction(const struct note *a, const struct note *b)
{
    return same_warp(a, b) && a->clock == b->clock && a->pc == b->pc;
}

/* The value of the bytes of the word that are written, at their places. */
static uint32_t
word_of(const struct access *a)
{
    uint32_t word = 0;

    memcpy((uint8_t *)&word + __builtin_ctz(a->mine.bytes), a->value,
           (size_t)__builtin_popcount(a->mine.bytes));
    return word;
}

/* What another has written there, this one writes again. */
static bool
repeats(const struct access *a, const struct cell *cell)
{
    unsigned common = cell->writer.bytes & a->mine.bytes;
    uint32_t differ;

    if (!a->write || !a->value || !cell->valued)
        return false;
    differ = word_of(a) ^ cell->value;
    for (unsigned i = 0; i < WORD; i++)
        if (common >> i & 1 && (differ >> 8 * i & 0xff))
            return false;
    return true;
}

static bool
conflict_with(const struct note *earlier, enum sg_race_kind kind,
              struct sg_race_conflict *ret)
{
    *ret = (struct sg_race_conflict){
        .kind = kind,
        .other_cta = earlier->cta,
        .other_warp = earlier->warp,
        .other_lane = earlier->many ? SG_RACE_LANES : earlier->lane,
        .other_pc = earlier->pc,
    };
    return true;
}

static bool
find_conflict(const struct access *a, const struct cell *cell,
              struct sg_race_conflict *ret)
{
    if (is_conflict(a, &cell->writer) && !repeats(a, cell) &&
        !(a->write && same_instruction(&cell->writer, &a->mine)))
        return conflict_with(
            &cell->writer,
            a->write ? SG_RACE_WRITE_AFTER_WRITE : SG_RACE_READ_AFTER_WRITE, ret);
    for (int i = 0; i < N_READERS && a->write; i++)
        if (is_conflict(a, &cell->readers[i]))
            return conflict_with(&cell->readers[i], SG_RACE_WRITE_AFTER_READ, ret);
    return false;
}

/* The warp's earlier note is taken along where nothing came in between. */
static struct note
merged(const struct note *old, struct note mine)
{
    if (same_warp(old, &mine) && old->clock == mine.clock) {
        mine.bytes |= old->bytes;
        mine.many = old->many || old->lane != mine.lane;
        mine.strong = mine.strong && old->strong;
    }
    return mine;
}

static void
note_read(struct cell *cell, const struct note *mine)
{
    struct note now;
    int i = 0;

    while (i < N_READERS - 1 && !same_warp(&cell->readers[i], mine))
        i++;
    now = merged(&cell->readers[i], *mine);
    memmove(&cell->readers[1], &cell->readers[0], (size_t)i * sizeof(now));
    cell->readers[0] = now;
}

static void
note_write(struct cell *cell, const struct access *a)
{
    cell->writer = a->mine;
    cell->valued = a->value;
    if (a->value)
        cell->value = word_of(a);
}

/* @n bytes at offset @from of the memory of the page that is entered. */
static bool
page_access(struct access *a, uint32_t from, uint32_t n, struct sg_race_conflict *ret)
{
    bool found = false;

    while (n) {
        struct cell *cell = &a->page->cells[from / WORD];
        uint32_t first = from % WORD, part = gp_min(WORD - first, n);

        a->mine.bytes = (uint8_t)(((1u << part) - 1) << first);
        found = found || find_conflict(a, cell, ret);
        if (a->write)
            note_write(cell, a);
        else
            note_read(cell, &a->mine);
        if (a->value)
            a->value += part;
        from += part;
        n -= part;
    }
    return found;
}

/* The page is locked until another is entered, or none (UINT64_MAX): the lanes of a
 * warp mostly share one. */
static void
enter(struct access *a, uint64_t number)
{
    if (a->number == number)
        return;
    if (a->table)
        pthread_mutex_unlock(&a->table->lock);
    a->number = number;
    a->page = NULL;
    a->table = number == UINT64_MAX ? NULL : table_of(a->grid, number);
    if (!a->table)
        return;
    pthread_mutex_lock(&a->table->lock);
    a->page = page_at(a->grid, a->table, number, true);
}

static bool
lane_access(struct access *a, const struct sg_race_access *one,
            struct sg_race_conflict *ret)
{
    uint64_t addr = one->at, left = one->size;
    bool found = false;

    a->mine.lane = (uint8_t)one->lane;
    while (left) {
        uint64_t number = addr / PAGE_BYTES, from = addr % PAGE_BYTES;
        uint64_t n = gp_min(PAGE_BYTES - from, left);
        struct sg_race_conflict x = {0}; /* of which gcc is not sure with TSan */

        a->value = one->value ? (const uint8_t *)one->value + (addr - one->at) : NULL;
        enter(a, number);
        if (a->page && page_access(a, (uint32_t)from, (uint32_t)n, &x) && !found) {
            found = true;
            *ret = x;
        }
        addr += n;
        left -= n;
    }
    return found;
}

bool
sg_race_grid_access(struct sg_race_grid *grid, const struct sg_race *race,
                    const struct sg_cta *cta, const struct sg_warp *warp,
                    const struct sg_race_access *list, uint32_t n, bool write,
                    bool strong, uint32_t pc, struct sg_race_conflict *ret)
{
    bool found = write && !strong && sg_race_within(list, n, cta, warp, pc, ret);
    struct access a = {.grid = grid, .write = write, .number = UINT64_MAX};

    settle(grid, cta);
    a.mine.time = __atomic_load_n(&grid->time, __ATOMIC_ACQUIRE);
    a.mine.cta = (uint32_t)cta->index;
    a.mine.pc = pc;
    a.mine.clock = sg_race_clock(race, warp, &a.known);
    a.mine.warp = (uint8_t)warp->index;
    a.mine.strong = strong;
    for (uint32_t i = 0; i < n; i++) {
        struct sg_race_conflict x;

        if (!lane_access(&a, &list[i], &x) || found)
            continue;
        found = true;
        *ret = x;
        ret->lane = list[i].lane;
        ret->at = list[i].at;
        ret->size = list[i].size;
    }
    enter(&a, UINT64_MAX);
    return found;
}

void
sg_race_grid_forget(struct sg_race_grid *grid, uint64_t addr, uint64_t size)
{
    const uint64_t end = addr + size;

    for (uint64_t at = addr; at < end; at = (at / PAGE_BYTES + 1) * PAGE_BYTES) {
        uint64_t number = at / PAGE_BYTES;
        uint64_t from = at % PAGE_BYTES / WORD;
        uint64_t to = gp_min(end - number * PAGE_BYTES, (uint64_t)PAGE_BYTES);
        struct table *t = table_of(grid, number);
        struct page *page;

        pthread_mutex_lock(&t->lock);
        page = page_at(grid, t, number, false);
        if (page)
            memset(&page->cells[from], 0,
                   ((to + WORD - 1) / WORD - from) * sizeof(struct cell));
        pthread_mutex_unlock(&t->lock);
    }
}
