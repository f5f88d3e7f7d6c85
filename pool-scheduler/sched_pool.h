/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every server and card the scheduler knows, what is given away of each, and
 * the index that finds a card that fits without looking at all of them.
 *
 * Owned by struct sched; servers and cards keep their addresses for as long as they
 * are known.  Event loop thread only.  It neither decides (sched_place.h)
 * nor remembers (sched_store.h), and knows nothing of sessions but their sums.
 *
 * The index, which holds only what may be given now:
 * (Of a server's unused cards that are alike, one stands for all.)
 *   cards    one tree per number of free core percent (1..100) and kind of sharing,
 *            ordered by free memory; among cards that nobody uses, by what is left on
 * their server servers  for n = 1..16, one list per free core of the n-th freest card:
 * the servers in lists c..100 have n cards with c percent free Both move with every
 * change of a card, at a cost that grows with the cards of one server only, which is
 * why those are capped.
 */
#ifndef SCHED_POOL_H
#define SCHED_POOL_H

#include "ctl_limits.h"
#include "gp_base.h"
#include "gp_tree.h"
#include "sched_where.h"
#include "ticket.h"

#include <stdint.h>

struct gp_err;
struct sched_conn;
struct sched_server;

/* As registered. */
struct sched_card_facts {
    uint8_t uuid[TICKET_UUID_SIZE];
    char name[CTL_NAME_MAX];
    uint64_t memory;
    uint64_t reserved; /* kept back by the server, for people */
    uint32_t sms, cc_major, cc_minor, index;
    uint32_t tflops; /* as the rules rate its model; 0: unknown */
};

/* A place in a circular list; the list's own is its head. */
struct sched_link {
    struct sched_link *prev, *next;
};

struct sched_card {
    struct sched_card_facts facts;
    struct sched_server *server;
    struct sched_group *group;
    uint32_t serial; /* unique in the pool */
    bool present;    /* in the server's last registration */

    uint32_t core_given, slices; /* what sessions hold */
    bool in_space;               /* in parts of the card, not in turns on all of it */
    uint64_t memory_given;

    uint64_t used_bytes; /* as last reported */
    uint32_t busy_percent;

    const void *hold; /* what room is kept for: for nothing else; NULL: for nothing */
    struct sched_card *freed_next; /* in pool->freed; itself: the last one; NULL: not */

    struct gp_tree_node by_uuid, by_fit;
    struct gp_tree_node by_group; /* as by_fit, in its group */
    bool in_group;                /* that is in use */
    /* Its free core, if it may be given, else 0.  Of the unused cards of a server that
     * are alike, only the first is in the trees. */
    unsigned bucket;
    bool in_tree;
};

struct sched_server {
    char name[CTL_NAME_MAX];
    char endpoint[CTL_ENDPOINT_MAX];
    char local[CTL_WORD_MAX];      /* "unix:/path" for clients on its host, or empty */
    char labels[SCHED_LABELS_MAX]; /* "rack=r1,zone=a", as the rules say */
    uint8_t attach_key[TICKET_CLIENT_KEY_SIZE]; /* what clients make TLS with */
    bool has_attach_key;
    char rdma[CTL_RDMA_MAX]; /* addresses of its RDMA ports; not kept over restarts */
    char version[CTL_WORD_MAX], driver[CTL_WORD_MAX];
    uint32_t driver_version, pid;
    uint64_t instance;

    /* Why its cards may not be given; sched_pool_server_update() after a change. */
    bool alive;
    bool drain_asked; /* the administrator's, kept over restarts */
    bool drain_self;  /* the server is shutting down */
    bool unclean; /* runs sessions that the scheduler ended: wait until they are gone */

    uint64_t seen_ns;        /* last sign of life */
    struct sched_conn *conn; /* NULL: not connected; sched_conn.c's */

    struct sched_card *cards[CTL_SERVER_CARDS_MAX];
    unsigned n_cards;
    uint32_t free_core; /* sum over cards that may be given */
    uint32_t serial;
    struct sched_nth {
        struct sched_link link, group_link; /* in the pool's list; in its group's */
        unsigned core;                      /* list it is in; 0: none */
        bool grouped;                       /* group_link is in a list as well */
    } nth[TICKET_SLICES_MAX];
    struct sched_group *group; /* of all its cards; NULL: it has cards of several */
    struct sched_server *next;
    struct gp_tree_node by_name;
};

/* The tree of cards with so much free core, shared in space or in time.  A card that
 * nobody uses has 100 free and is neither. */
#define SCHED_FIT(in_space, core) ((in_space) && (core) < 100 ? 100 + (core) : (core))
#define SCHED_FITS 200

/* Cards that are alike for requests that select cards: their servers' labels, their
 * model and compute capability.  Each group has an index of its own, so that such a
 * request does not pass over cards of other kinds.  Groups are never forgotten. */
struct sched_group {
    char labels[SCHED_LABELS_MAX];
    struct sched_card_facts facts; /* name, compute capability, speed */
    struct gp_tree by_fit[SCHED_FITS];
    struct sched_link by_nth[TICKET_SLICES_MAX][101];
};
/* Far more kinds of cards than a pool has; 35 KiB each.  Cards of further kinds are
 * refused at registration. */
#define SCHED_GROUPS_MAX 1024

/* Over all cards, so that nobody has to look at each. */
struct sched_pool_sums {
    uint64_t core_given, memory_given, slices;
    uint64_t memory_used, busy; /* as last reported; percent of cards */
};

struct sched_pool {
    struct sched_group **groups;
    unsigned n_groups;
    /* Servers with cards of several groups, as by_nth: each is looked at. */
    struct sched_link mixed_by_nth[TICKET_SLICES_MAX][101];
    struct sched_server *servers; /* in order of first registration */
    struct sched_server **servers_tail;
    unsigned n_servers, n_cards;
    uint32_t next_serial;
    uint64_t core, memory; /* of all cards that are known */
    struct sched_pool_sums sums;
    uint32_t most_tflops; /* of any card that ever was there */
    /* Cards that may have more to give than before; sched_pool_freed() takes them. */
    struct sched_card *freed, *freed_last;
    void (*on_freed)(void *arg); /* the list is not empty any more; or NULL */
    void *on_freed_arg;
    struct gp_tree by_uuid, by_name; /* cards; servers, under hashes of their names */
    struct gp_tree by_fit[SCHED_FITS];
    struct sched_link by_nth[TICKET_SLICES_MAX][101]; /* [n - 1][free core] */
};

/* Far above any pool that one scheduler process should hold; bounds memory. */
#define SCHED_SERVERS_MAX 32768

struct sched_pool *sched_pool_new(void);
void sched_pool_free(struct sched_pool *pool); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_pool, sched_pool_free)

struct sched_server *sched_pool_server_find(const struct sched_pool *pool,
                                            const char *name);
/* -ENOSPC: SCHED_SERVERS_MAX.  @name fits (the caller checked). */
int sched_pool_server_add(struct sched_pool *pool, const char *name,
                          struct sched_server **ret_server, struct gp_err *err);
/* Forget a server and its cards.  -EBUSY: it is connected, or sessions hold slices. */
int sched_pool_server_remove(struct sched_pool *pool, struct sched_server *server);
/* Recompute whether the cards may be given, after a change of the flags. */
void sched_pool_server_update(struct sched_pool *pool, struct sched_server *server);
bool sched_server_open(const struct sched_server *server); /* may cards be given? */

struct sched_card *sched_pool_card_find(const struct sched_pool *pool,
                                        const uint8_t uuid[TICKET_UUID_SIZE]);
/* Add a card, or refresh what is known of it; it becomes present.
 *
 * -EEXIST: the uuid belongs to another server that is alive, or still holds
 * sessions there.  -ENOSPC: too many cards.  -EBUSY: less memory than given away.
 */
int sched_pool_card_put(struct sched_pool *pool, struct sched_server *server,
                        const struct sched_card_facts *facts,
                        struct sched_card **ret_card, struct gp_err *err);
/* All cards of @server become absent; a registration follows. */
void sched_pool_cards_absent(struct sched_pool *pool, struct sched_server *server);

static inline uint32_t
sched_card_free_core(const struct sched_card *card)
{
    return 100 - card->core_given;
}

static inline uint64_t
sched_card_free_memory(const struct sched_card *card)
{
    return card->facts.memory - card->memory_given;
}

/* May the next session of that kind come to @card?  One that has multiprocessors of
 * its own and one that runs anywhere would each take from the other. */
static inline bool
sched_card_shares(const struct sched_card *card, bool in_space)
{
    return !card->slices || card->in_space == in_space;
}

/* The next card that has more to give than when this was asked last, or NULL. */
struct sched_card *sched_pool_freed(struct sched_pool *pool);
/* @labels are those of @server from now on. */
int sched_pool_set_labels(struct sched_pool *pool, struct sched_server *server,
                          const char *labels);
/* What @card does, in TFLOPS, as the rules say now. */
void sched_pool_set_tflops(struct sched_pool *pool, struct sched_card *card,
                           uint32_t tflops);
/* Keep @card for @hold alone, or for nothing (NULL). */
void sched_pool_hold(struct sched_pool *pool, struct sched_card *card,
                     const void *hold);

/* Give a part of @card away.  -ENOSPC when that is not there: never overcommits. */
int sched_pool_take(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                    uint64_t memory, bool in_space);
void sched_pool_give(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                     uint64_t memory);
/* Its server says what is really in use. */
void sched_pool_used(struct sched_pool *pool, struct sched_card *card,
                     uint64_t used_bytes, uint32_t busy_percent);

#endif
