/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement on a large pool: decisions per second, and how long a slow one takes.
 *
 *     place [CARDS [DECISIONS]]        100,000 cards and 200,000 decisions by default
 *
 * Servers of eight cards are filled to about 70 % by a mix of requests; then every
 * decision is followed by its booking, and once the pool is full by an end of the
 * oldest session, as in a pool that lives.  A decision and its booking are timed
 * together; ending a session is not.  Prints "key value" lines.
 */
#include "gp_hash.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_place.h"

#include <stdio.h>
#include <string.h>

#define CARDS_PER_SERVER 8
#define GIB (UINT64_C(1) << 30)

struct bench {
    struct sched_pool *pool;
    struct sched_decision *live; /* a ring of sessions, oldest first */
    size_t cap, first, n;
    uint64_t seed;
    uint32_t *ns; /* of each decision */
    size_t decided, refused;
};

static uint32_t
roll(struct bench *b, uint32_t n)
{
    return (uint32_t)(gp_hash_u64(++b->seed) % n);
}

static int
make_pool(struct bench *b, unsigned cards)
{
    b->pool = sched_pool_new();
    if (!b->pool)
        return -1;
    for (unsigned i = 0; i < cards; i += CARDS_PER_SERVER) {
        struct sched_server *server;
        struct sched_card *card;
        char name[16];

        snprintf(name, sizeof(name), "n%u", i / CARDS_PER_SERVER);
        if (sched_pool_server_add(b->pool, name, &server, NULL) < 0)
            return -1;
        server->alive = true;
        for (unsigned k = 0; k < CARDS_PER_SERVER; k++) {
            struct sched_card_facts facts = {.memory = (i % 3 ? 80 : 141) * GIB,
                                             .index = k};
            uint64_t number = i + k;

            memcpy(facts.uuid, &number, sizeof(number));
            if (sched_pool_card_put(b->pool, server, &facts, &card, NULL) < 0)
                return -1;
        }
    }
    return 0;
}

/* Mostly fractions of one card, some whole cards, some on several cards. */
static struct sched_request
draw(struct bench *b, enum sched_placement placement)
{
    struct sched_request req = {.placement = placement};
    uint32_t kind = roll(b, 20), cards = 1 + roll(b, 4);

    if (kind == 0)
        sched_request_shape(&req, 100 * cards, 0, 0, 0, NULL);
    else if (kind == 1)
        sched_request_shape(&req, 10 + roll(b, 40), (1 + roll(b, 20)) * GIB, cards, 0,
                            NULL);
    else
        sched_request_shape(&req, 5 + roll(b, 60), (1 + roll(b, 40)) * GIB, 0, 0, NULL);
    return req;
}

static void
end_oldest(struct bench *b)
{
    struct sched_decision *d = &b->live[b->first];

    for (uint32_t i = 0; i < d->n_slices; i++)
        sched_pool_give(b->pool, d->slices[i].card, d->slices[i].core,
                        d->slices[i].memory);
    b->first = (b->first + 1) % b->cap;
    b->n--;
}

static void
decide(struct bench *b, enum sched_placement placement, bool timed)
{
    struct sched_request req = draw(b, placement);
    struct sched_decision *d = &b->live[(b->first + b->n) % b->cap];
    uint64_t start = gp_now_ns();
    int r = sched_place(b->pool, &req, d);

    for (uint32_t i = 0; !r && i < d->n_slices; i++)
        r = sched_pool_take(b->pool, d->slices[i].card, d->slices[i].core,
                            d->slices[i].memory, d->slices[i].in_space);
    if (timed)
        b->ns[b->decided++] =
            (uint32_t)gp_min(gp_now_ns() - start, (uint64_t)UINT32_MAX);
    if (r < 0)
        b->refused += timed;
    else
        b->n++;
    if (r < 0 || b->n == b->cap)
        end_oldest(b);
}

static int
by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void
measure(struct bench *b, const char *name, enum sched_placement placement, size_t count)
{
    uint64_t total = 0;

    b->decided = b->refused = 0;
    while (b->decided < count)
        decide(b, placement, true);
    for (size_t i = 0; i < count; i++)
        total += b->ns[i];
    qsort(b->ns, count, sizeof(b->ns[0]), by_value);
    printf("place_%s_per_s %.0f\n", name, 1e9 * (double)count / (double)total);
    printf("place_%s_p99_us %.1f\n", name, b->ns[count * 99 / 100] / 1e3);
    printf("place_%s_max_us %.1f\n", name, b->ns[count - 1] / 1e3);
    printf("place_%s_refused %.4f\n", name, (double)b->refused / (double)count);
}

int
main(int argc, char **argv)
{
    uint64_t cards = 100000, count = 200000;
    struct bench b = {.seed = 1};

    if ((argc > 1 && gp_str_u64(argv[1], 8, 200000, &cards) < 0) ||
        (argc > 2 && gp_str_u64(argv[2], 100, 100000000, &count) < 0) || argc > 3) {
        fprintf(stderr, "usage: place [CARDS [DECISIONS]]\n");
        return 2;
    }
    b.cap = 2 * cards;
    b.live = calloc(b.cap, sizeof(b.live[0]));
    b.ns = calloc(count, sizeof(b.ns[0]));
    if (!b.live || !b.ns || make_pool(&b, (unsigned)cards) < 0) {
        fprintf(stderr, "place: out of memory\n");
        return 1;
    }
    printf("place_cards %u\n", b.pool->n_cards);
    for (uint64_t i = 0; i < 2 * cards; i++)
        decide(&b, SCHED_SPREAD, false);
    measure(&b, "spread", SCHED_SPREAD, count);
    measure(&b, "binpack", SCHED_BINPACK, count);
    sched_pool_free(b.pool);
    free(b.live);
    free(b.ns);
    return 0;
}
