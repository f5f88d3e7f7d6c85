/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the scheduler's store, as a start loads them and as a follower sees them
 * change: whatever they say, the books stay right, and a refusal has words.
 *
 * The input is a list of records: what to do and which key (one byte each), a length,
 * that many bytes.  Bit 7 of the first byte puts a right checksum behind them, so that
 * mutations come past it.
 */
#include "gp_err.h"
#include "gp_str.h"
#include "sched_account.h"
#include "sched_pool.h"
#include "sched_session.h"
#include "store_check.h"
#include "store_records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_books(const struct store_world *world)
{
    const struct sched_session *s = NULL;
    uint64_t core = 0, memory = 0, core_want = 0, memory_want = 0;

    while ((s = sched_sessions_next(world->sessions, s)))
        for (uint32_t i = 0; i < s->n_slices; i++) {
            core_want += s->slices[i].core;
            memory_want += s->slices[i].memory;
        }
    for (const struct sched_server *v = world->pool->servers; v; v = v->next)
        for (unsigned i = 0; i < v->n_cards; i++) {
            const struct sched_card *card = v->cards[i];

            if (card->core_given > 100 || card->memory_given > card->facts.memory)
                __builtin_trap();
            core += card->core_given;
            memory += card->memory_given;
        }
    if (core != core_want || memory != memory_want)
        __builtin_trap();
}

/* Few keys, so that records meet each other; an account's is of its day and owner. */
static void
make_key(uint8_t kind, uint8_t which, const char *bytes, size_t len,
         char key[STORE_KEY_MAX])
{
    const uint64_t id = 1 + which % 16;

    if (kind == 0)
        snprintf(key, STORE_KEY_MAX, STORE_SERVER "node%u", which % 4);
    else if (kind == 1)
        store_session_key(id, key);
    else if (kind == 2) {
        struct sched_account row = {.day = 20261123};

        sched_account_key(row.day, which & 1 ? "ada" : "bob", row.node.key);
        store_account_key(&row, key);
    } else if (kind == 3)
        gp_str_copy(key, STORE_KEY_MAX, STORE_NUMBER);
    else
        snprintf(key, STORE_KEY_MAX, "%.*s", (int)gp_min(len, (size_t)80), bytes);
}

static void
one_record(struct store_world *world, const uint8_t *head, const uint8_t *bytes,
           size_t len)
{
    char key[STORE_KEY_MAX];
    uint8_t *value = malloc(len ? len : 1);
    struct gp_err err = {0};
    int r;

    if (!value)
        return;
    if (len)
        memcpy(value, bytes, len);
    make_key(head[0] & 7, head[1], (const char *)value, len, key);
    if (head[0] & 128 && store_check_add(key, &value, &len) < 0)
        __builtin_trap();
    if (head[0] & 64) {
        store_record_drop(world, key);
    } else {
        r = store_record_take(world, key, value, len, &err);
        if (r < 0 && r != -ENOMEM && !err.msg[0])
            __builtin_trap(); /* a refusal without words */
    }
    free(value);
    check_books(world);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sched_sessions sessions;
    struct store_world world = {.sessions = &sessions, .now_ns = 1};

    world.pool = sched_pool_new();
    if (!world.pool)
        return 0;
    sched_sessions_init(&sessions, world.pool);
    while (size > 4) {
        size_t len = gp_min((size_t)(data[2] | data[3] << 8), size - 4);

        one_record(&world, data, data + 4, len);
        data += 4 + len;
        size -= 4 + len;
    }
    sched_sessions_fini(&sessions);
    sched_pool_free(world.pool);
    return 0;
}
