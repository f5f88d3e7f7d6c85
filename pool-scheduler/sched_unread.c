/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_unread.h"

#include "gp_tree.h"

#include <errno.h>
#include <string.h>

/* The connections of an address that have unread answers, in the sorted list. */
struct crowd {
    struct gp_tree_node by_sum;
    size_t sum, next, end;
};

struct choice {
    struct sched_unread *list; /* of all, sorted */
    size_t n, total;
    struct crowd *crowds;
    size_t n_crowds;
    struct gp_tree by_sum;
};

static size_t
count(const struct sched *sched)
{
    size_t n = 0;

    for (const struct sched_conn *conn = sched->conns; conn; conn = conn->next)
        n += gp_msg_conn_unsent(&conn->msg) != 0;
    return n;
}

static int
compare(const void *a, const void *b)
{
    const struct sched_unread *x = a, *y = b;

    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void
take_list(struct choice *choice, const struct sched *sched)
{
    for (struct sched_conn *conn = sched->conns; conn; conn = conn->next) {
        size_t bytes = gp_msg_conn_unsent(&conn->msg);

        if (!bytes)
            continue;
        choice->list[choice->n++] = (struct sched_unread){
            .conn = conn, .bytes = bytes, .bucket = conn->from % SCHED_CROWD_BUCKETS};
        choice->total += bytes;
    }
    qsort(choice->list, choice->n, sizeof(choice->list[0]), compare);
}

static void
file(struct choice *choice, struct crowd *crowd)
{
    gp_tree_insert(&choice->by_sum, &crowd->by_sum, crowd->sum,
                   (uint64_t)(crowd - choice->crowds));
}

static void
take_crowds(struct choice *choice)
{
    for (size_t i = 0; i < choice->n; i++) {
        struct crowd *crowd = &choice->crowds[choice->n_crowds];

        if (!i || choice->list[i].bucket != choice->list[i - 1].bucket)
            crowd->next = i;
        crowd->sum += choice->list[i].bytes;
        crowd->end = i + 1;
        if (crowd->end < choice->n &&
            choice->list[crowd->end].bucket == choice->list[i].bucket)
            continue;
        file(choice, crowd);
        choice->n_crowds++;
    }
}

/* The next that is to end. */
static const struct sched_unread *
take_one(struct choice *choice)
{
    struct crowd *crowd =
        container_of(gp_tree_last(&choice->by_sum), struct crowd, by_sum);
    const struct sched_unread *one = &choice->list[crowd->next++];

    gp_tree_remove(&choice->by_sum, &crowd->by_sum);
    crowd->sum -= one->bytes;
    if (crowd->next < crowd->end)
        file(choice, crowd);
    return one;
}

int
sched_unread_choose(const struct sched *sched, size_t most,
                    struct sched_unread **ret_list, size_t *ret_n, size_t *ret_total)
{
    size_t room = gp_max(count(sched), (size_t)1), n = 0, left;
    CLEANUP_FREE struct sched_unread *list = calloc(room, sizeof(*list));
    CLEANUP_FREE struct sched_unread *chosen = calloc(room, sizeof(*chosen));
    CLEANUP_FREE struct crowd *crowds = calloc(room, sizeof(*crowds));
    struct choice choice = {.list = list, .crowds = crowds};

    if (!list || !chosen || !crowds)
        return -ENOMEM;
    take_list(&choice, sched);
    take_crowds(&choice);
    for (left = choice.total; left > most; left -= chosen[n++].bytes)
        chosen[n] = *take_one(&choice);
    *ret_total = choice.total;
    *ret_n = n;
    *ret_list = TAKE_PTR(chosen);
    return 0;
}
