/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose connections end when too many answers are not read.
 */
#include "ut.h"

#include "gp_hash.h"
#include "gp_time.h"
#include "sched_unread.h"

#include <string.h>

/* A scheduler with nothing but @n connections. */
struct peers {
    struct sched *sched;
    struct sched_conn *conns;
    unsigned n;
};

static struct peers
peers_new(unsigned n)
{
    struct peers peers = {.sched = calloc(1, sizeof(struct sched)),
                          .conns = calloc(n, sizeof(struct sched_conn)),
                          .n = n};

    assert_non_null(peers.sched);
    assert_non_null(peers.conns);
    for (unsigned i = 0; i < n; i++) {
        peers.conns[i].next = peers.sched->conns;
        peers.sched->conns = &peers.conns[i];
    }
    return peers;
}

static void
peers_free(struct peers *peers)
{
    free(peers->conns);
    free(peers->sched);
}

/* As the header defines it: of the address with most, the connection with most.  NULL:
 * @most is kept. */
static const struct sched_conn *
first_by_definition(const struct peers *peers, const bool *gone, size_t most)
{
    size_t sums[SCHED_CROWD_BUCKETS] = {0}, total = 0, fullest = 0;
    const struct sched_conn *found = NULL;

    for (unsigned i = 0; i < peers->n; i++) {
        const struct sched_conn *conn = &peers->conns[i];

        if (gone[i])
            continue;
        total += conn->msg.out_len;
        sums[conn->from % SCHED_CROWD_BUCKETS] += conn->msg.out_len;
    }
    for (size_t b = 0; b < SCHED_CROWD_BUCKETS; b++)
        if (sums[b] > sums[fullest])
            fullest = b;
    for (unsigned i = 0; i < peers->n; i++)
        if (!gone[i] && peers->conns[i].from % SCHED_CROWD_BUCKETS == fullest &&
            (!found || peers->conns[i].msg.out_len > found->msg.out_len))
            found = &peers->conns[i];
    return total > most ? found : NULL;
}

static void
connections_end_in_the_order_of_the_definition(void **state)
{
    enum { PEERS = 24 };
    uint64_t seed = 7;

    (void)state;
    for (unsigned round = 0; round < 500; round++) {
        struct peers peers = peers_new(PEERS);
        struct sched_unread *list = NULL;
        bool gone[PEERS] = {false};
        size_t n, total, sum = 0, most;

        for (unsigned i = 0; i < PEERS; i++) {
            /* No two sums are equal, so that one order is right. */
            peers.conns[i].from = gp_hash_u64(++seed) % 5;
            peers.conns[i].msg.out_len =
                gp_hash_u64(++seed) % 4 ? ((gp_hash_u64(seed) % 1000) << 24) + (1u << i)
                                        : 0;
            sum += peers.conns[i].msg.out_len;
        }
        most = gp_hash_u64(++seed) % (sum + 1);
        assert_int_equal(sched_unread_choose(peers.sched, most, &list, &n, &total), 0);
        assert_true(total == sum);
        for (size_t i = 0; i < n; i++) {
            assert_ptr_equal(list[i].conn, first_by_definition(&peers, gone, most));
            assert_true(list[i].bytes == list[i].conn->msg.out_len);
            gone[list[i].conn - peers.conns] = true;
        }
        assert_null(first_by_definition(&peers, gone, most));
        free(list);
        peers_free(&peers);
    }
}

/* All who read nothing are ended in one turn of the loop, for which others wait: that
 * must not take a search through all connections for each of them. */
static void
choosing_all_takes_no_longer_than_some_searches_for_one(void **state)
{
    struct peers peers = peers_new(SCHED_CLIENTS_MAX);
    bool *gone = calloc(SCHED_CLIENTS_MAX, sizeof(bool));
    uint64_t one = UINT64_MAX, all = UINT64_MAX;

    (void)state;
    for (unsigned i = 0; i < SCHED_CLIENTS_MAX; i++) {
        peers.conns[i].from = i % 3;
        peers.conns[i].msg.out_len = (256u << 10) + i % 7;
    }
    for (unsigned i = 0; i < 5; i++) {
        uint64_t start = gp_now_ns(), middle;
        struct sched_unread *list;
        size_t chosen, total;

        assert_non_null(first_by_definition(&peers, gone, 1));
        middle = gp_now_ns();
        one = gp_min(one, middle - start);
        assert_int_equal(sched_unread_choose(peers.sched, 1, &list, &chosen, &total),
                         0);
        all = gp_min(all, gp_now_ns() - middle);
        assert_int_equal(chosen, SCHED_CLIENTS_MAX);
        free(list);
    }
    print_message("%u connections: %.0f times a search\n", SCHED_CLIENTS_MAX,
                  (double)all / (double)one);
    assert_true(all < one * SCHED_CLIENTS_MAX / 16);
    free(gone);
    peers_free(&peers);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_end_in_the_order_of_the_definition),
        cmocka_unit_test(choosing_all_takes_no_longer_than_some_searches_for_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
