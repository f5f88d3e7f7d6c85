/* SPDX-License-Identifier: Apache-2.0 */
/* The ordered set against a plain array. */
#include "ut.h"

#include "gp_hash.h"
#include "gp_tree.h"

#include <string.h>

enum { N = 300 };

static struct gp_tree_node nodes[N];
static bool in[N];

static void
key_of(int i, uint64_t key[2])
{
    key[0] = gp_hash_u64((uint64_t)i) % 17;
    key[1] = (uint64_t)i;
}

static bool
before(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] != b[0] ? a[0] < b[0] : a[1] < b[1];
}

/* The member next to @key, above or below; -1 when there is none. */
static int
nearest(const uint64_t key[2], bool above)
{
    int best = -1;

    for (int i = 0; i < N; i++) {
        uint64_t k[2], b[2];

        key_of(i, k);
        if (!in[i] || (above ? before(k, key) : before(key, k)))
            continue;
        if (best >= 0)
            key_of(best, b);
        if (best < 0 || (above ? before(k, b) : before(b, k)))
            best = i;
    }
    return best;
}

static void
assert_node(const struct gp_tree_node *node, int want)
{
    if (node != (want < 0 ? NULL : &nodes[want]))
        fail_msg("node %td instead of %d", node ? node - nodes : -1, want);
}

static void
lookups_agree_with_an_array(void **state)
{
    struct gp_tree tree = {0};
    size_t count = 0;

    for (uint64_t step = 0; step < 20000; step++) {
        int i = (int)(gp_hash_u64(step) % N);
        uint64_t key[2],
            probe[2] = {gp_hash_u64(step + 7) % 19, gp_hash_u64(step + 9) % (N + 5)};

        key_of(i, key);
        if (in[i])
            gp_tree_remove(&tree, &nodes[i]);
        else
            gp_tree_insert(&tree, &nodes[i], key[0], key[1]);
        in[i] = !in[i];
        count += in[i] ? 1 : (size_t)-1;
        assert_int_equal(tree.count, count);
        assert_node(gp_tree_at_least(&tree, probe[0], probe[1]), nearest(probe, true));
        assert_node(gp_tree_at_most(&tree, probe[0], probe[1]), nearest(probe, false));
        assert_node(gp_tree_find(&tree, key[0], key[1]), in[i] ? i : -1);
    }
}

static void
walking_visits_every_member_in_order(void **state)
{
    struct gp_tree tree = {0};
    struct gp_tree_node *node, *last = NULL;
    size_t n = 0;

    memset(nodes, 0, sizeof(nodes));
    for (int i = 0; i < N; i++) {
        uint64_t key[2];

        key_of(i, key);
        gp_tree_insert(&tree, &nodes[i], key[0], key[1]);
    }
    for (node = gp_tree_first(&tree); node; node = gp_tree_next(&tree, node), n++) {
        if (last)
            assert_true(before(last->key, node->key));
        assert_ptr_equal(gp_tree_prev(&tree, node), last);
        last = node;
    }
    assert_int_equal(n, N);
    assert_ptr_equal(gp_tree_last(&tree), last);
}

static void
ends_of_the_key_range_work(void **state)
{
    struct gp_tree tree = {0};
    struct gp_tree_node low = {0}, high = {0};

    gp_tree_insert(&tree, &high, UINT64_MAX, UINT64_MAX);
    gp_tree_insert(&tree, &low, 0, 0);
    assert_ptr_equal(gp_tree_next(&tree, &low), &high);
    assert_null(gp_tree_next(&tree, &high));
    assert_ptr_equal(gp_tree_prev(&tree, &high), &low);
    assert_null(gp_tree_prev(&tree, &low));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookups_agree_with_an_array),
        cmocka_unit_test(walking_visits_every_member_in_order),
        cmocka_unit_test(ends_of_the_key_range_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
