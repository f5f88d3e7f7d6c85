/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table against a plain array, with keys that collide. */
#include "ut.h"

#include "gp_hash.h"
#include "gp_table.h"

enum { N = 300 };

struct entry {
    uint32_t key; /* 0: free */
    uint32_t value;
};

GP_TABLE_TYPE(table, struct entry);

static inline bool
table_used(const struct entry *e)
{
    return e->key != 0;
}

/* A third of all keys have one home, near the end of a small table. */
static inline uint32_t
table_hash(uint32_t key)
{
    return key % 3 ? key : 62;
}

static inline uint32_t
table_hash_of(const struct entry *e)
{
    return table_hash(e->key);
}

static inline bool
table_is(const struct entry *e, uint32_t key)
{
    return e->key == key;
}

GP_TABLE(table, struct entry, uint32_t)

static void
assert_same(const struct table *t, const uint32_t *values)
{
    uint32_t count = 0;

    for (uint32_t key = 1; key < N; key++) {
        const struct entry *e = table_find(t, key);

        assert_int_equal(e ? e->value : 0, values[key]);
        count += values[key] != 0;
    }
    assert_int_equal(t->count, count);
    assert_true(t->count <= t->cap / 2);
}

static void
entries_are_found_until_they_are_removed(void **state)
{
    uint32_t values[N] = {0};
    struct table t = {0};

    assert_null(table_find(&t, 1));
    for (uint32_t turn = 1; turn < 5000; turn++) {
        uint64_t r = gp_hash_u64(turn);
        uint32_t key = 1 + (uint32_t)(r >> 32) % (N - 1);
        struct entry *e;

        if (r % 5 < 3) {
            e = table_enter(&t, key);
            assert_non_null(e);
            assert_int_equal(e->value, values[key]);
            *e = (struct entry){key, turn};
            values[key] = turn;
        } else if ((e = table_find(&t, key))) {
            table_remove(&t, e);
            values[key] = 0;
        }
        if (turn % 50 == 0)
            assert_same(&t, values);
    }
    assert_same(&t, values);
    table_fini(&t);
    assert_null(table_find(&t, 1));
}

static void
all_are_seen_by_a_walk_that_removes(void **state)
{
    struct table t = {0};
    bool seen[N] = {false};

    for (uint32_t key = 1; key < N; key++)
        *table_enter(&t, key) = (struct entry){key, 1};
    for (uint32_t i = 0; i < t.cap;) {
        struct entry *e = &t.slots[i];

        if (!table_used(e)) {
            i++;
            continue;
        }
        seen[e->key] = true;
        if (e->key % 2)
            table_remove(&t, e);
        else
            i++;
    }
    for (uint32_t key = 1; key < N; key++) {
        assert_true(seen[key]);
        assert_int_equal(table_find(&t, key) != NULL, key % 2 == 0);
    }
    table_fini(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_until_they_are_removed),
        cmocka_unit_test(all_are_seen_by_a_walk_that_removes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
