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
 *            their server
 *   servers  for n = 1..16, one list per free core of the n-th freest card: the
 *            servers in lists c..100 have n cards with c percent free
 *   islands, fabrics
 *            the same for cards of a server that are linked to each other, and for
 *            servers that are
 * All move with every change of a card, at a cost that grows with the cards of one
 * server only, which is why those are capped.
 */
#ifndef SCHED_POOL_H
#define SCHED_POOL_H

#include "ctl_limits.h"
#include "gp_base.h"
#include "gp_tree.h"
#include "sched_mix.h"
#include "sched_where.h"
#include "ticket.h"

#include <stdint.h>

struct gp_err;
struct sched_conn;
struct sched_group;
struct sched_server;

#define SCHED_FABRIC_MAX 64 /* a name, with the NUL */
#define SCHED_FAULT_MAX 128 /* words, with the NUL */

/* As registered. */
struct sched_card_facts {
    uint8_t uuid[TICKET_UUID_SIZE];
    uint64_t memory;
    uint32_t index;
    uint32_t sms, cc_major, cc_minor;
    uint64_t reserved; /* kept back by the server, for people */
    char name[CTL_NAME_MAX];
    uint32_t tflops; /* as the rules rate its model; 0: unknown */
    /* Which of the server's islands it is in: cards that reach each other over NVLink
     * or a switch of their own.  0: none. */
    uint32_t island;
    uint32_t driver_island; /* as the driver says; the rules come first */
};

/* A place in a circular list; the list's own is its head. */
struct sched_link {
    struct sched_link *prev, *next;
};

/* What cards are filed under together. */
enum sched_level {
    SCHED_ISLANDS,
    SCHED_SERVERS,
    SCHED_FABRICS,
    SCHED_LEVELS,
};

/* [n - 1][free core]: islands, servers or fabrics by the free core of their n-th
 * freest card. */
struct sched_lists {
    struct sched_link of[TICKET_SLICES_MAX][101];
};

/* An island, a server or a fabric, as the lists have it. */
struct sched_unit {
    struct sched_nth {
        struct sched_link link, group_link; /* in the pool's list; in its group's */
        struct sched_link fabric_link;      /* of a server: in its fabric's */
        unsigned core;                      /* list it is in; 0: none */
        bool grouped;                       /* group_link is in a list as well */
        bool in_fabric;                     /* fabric_link is */
    } nth[TICKET_SLICES_MAX];
    struct sched_group *group; /* of all its cards; NULL: it has cards of several */
};

/* Forgotten when it has no card any more. */
struct sched_island {
    uint32_t number; /* unique in its server, not 0 */
    unsigned n_cards;
    struct sched_server *server;
    struct sched_unit unit;
    struct sched_island *next; /* of the same server */
};

/* Servers between whose cards copies need not leave one network: a rack-wide NVLink
 * domain, or what an administrator calls so.  Never forgotten. */
struct sched_fabric {
    char name[SCHED_FABRIC_MAX];
    unsigned n_servers;
    uint32_t cards[101]; /* that may be given, by their free core */
    bool changed;        /* ... in a way that the lists must follow */
    struct sched_unit unit;
    struct sched_lists servers;
    struct sched_fabric *next;
};

/* What is counted comes first, with the beginning of the facts: whoever looks at all
 * cards waits for this cache line of each, and for no other. */
struct sched_card {
    uint64_t memory_given;       /* what sessions hold, with */
    uint32_t core_given, slices; /* ... these */
    uint64_t used_bytes;         /* as last reported */
    uint32_t busy_percent;
    bool in_space; /* sessions have parts of the card, not turns on all of it */
    bool present;  /* in the server's last registration */
    bool cordoned; /* the administrator's, kept over restarts */
    struct sched_card_facts facts;
    struct sched_server *server;
    struct sched_group *group;
    struct sched_island *island; /* NULL: none */
    uint32_t serial;             /* unique in the pool */
    char *fault; /* what is wrong with it, as its server says; NULL: nothing */

    const void *hold; /* what room is kept for: for nothing else; NULL: for nothing */
    const char *hold_words; /* what that is, of who keeps it; NULL: somebody waits */
    struct sched_card *freed_next; /* in pool->freed; itself: the last one; NULL: not */

    struct gp_tree_node by_uuid, by_fit;
    struct gp_tree_node by_group; /* as by_fit, in its group */
    bool in_group;                /* that is in use */
    /* Its free core, if it may be given, else 0.  Of the unused cards of a server that
     * are alike, only the first is in the trees. */
    unsigned bucket;
    bool in_tree;
};

/* Over the cards of the pool or of one server, so that nobody has to look at each. */
struct sched_sums {
    uint64_t memory; /* of all cards that are known */
    uint64_t core_given, memory_given, slices;
    uint64_t memory_used, busy;    /* as last reported; percent of cards */
    uint32_t n_faulty, n_cordoned; /* cards with something wrong; cordoned */
    uint32_t n_draining, n_away;   /* cards of servers that drain; not connected */
};

struct sched_server {
    char name[CTL_NAME_MAX];
    char endpoint[CTL_ENDPOINT_MAX];
    char local[CTL_WORD_MAX];      /* "unix:/path" for clients on its host, or empty */
    char labels[SCHED_LABELS_MAX]; /* "rack=r1,zone=a", as the rules say */
    uint8_t attach_key[TICKET_CLIENT_KEY_SIZE]; /* what clients make TLS with */
    bool has_attach_key;
    struct sched_reach reach;             /* not kept over restarts */
    char driver_fabric[SCHED_FABRIC_MAX]; /* as it says; not kept over restarts */
    char rdma[CTL_RDMA_MAX]; /* addresses of its RDMA ports; not kept over restarts */
    char version[CTL_WORD_MAX], driver[CTL_WORD_MAX];
    uint32_t driver_version, pid;
    uint64_t instance;

    /* Why its cards may not be given; sched_pool_server_update() after a change. */
    bool alive;
    bool drain_asked; /* the administrator's, kept over restarts */
    bool drain_self;  /* the server is shutting down */
    uint32_t closes;  /* notices of closed sessions on this connection; wraps */
    bool unclean; /* runs sessions that the scheduler ended: wait until they are gone */

    uint64_t registered_unix; /* the last time, here; 0: not yet */
    uint64_t seen_ns;         /* last sign of life */
    uint64_t lost_ns;         /* when its connection broke; 0: not since the start */
    bool left;                /* it took its leave, and is not expected back */
    uint32_t beat_ms;         /* how often it reports, as far as it has said */
    struct sched_conn *conn;  /* NULL: not connected; sched_conn.c's */

    struct sched_card *cards[CTL_SERVER_CARDS_MAX];
    unsigned n_cards;
    unsigned groups_made; /* that its cards were the first of */
    struct sched_sums sums;
    uint32_t free_core; /* sum over cards that may be given */
    uint32_t serial;
    struct sched_unit unit;
    struct sched_island *islands; /* of its cards, a list; NULL: none is known */
    struct sched_fabric *fabric;  /* NULL: none */
    struct sched_server *next;
    struct gp_tree_node by_name;
};

/* The tree of cards with so much free core, shared in space or in time.  A card that
 * nobody uses has 100 free and is neither. */
#define SCHED_FIT(in_space, core) ((in_space) && (core) < 100 ? 100 + (core) : (core))
#define SCHED_FITS 200

/* Cards that are alike for requests that select cards: their servers' labels, their
 * model and compute capability.  Each group has an index of its own, so that such a
 * request does not pass over cards of other kinds.  Groups are not forgotten, but one
 * that no card is of any more is used again when there are as many as there may be. */
struct sched_group {
    bool used; /* while one is looked for that is not */
    char labels[SCHED_LABELS_MAX];
    struct sched_reach reach;      /* but for the host */
    struct sched_card_facts facts; /* name, compute capability, speed */
    struct gp_tree by_fit[SCHED_FITS];
    struct sched_lists lists[SCHED_FABRICS]; /* of its islands and servers */
};
/* Far more kinds of cards than a pool has at a time; 60 KiB each.  Cards of further
 * kinds are refused at registration. */
#define SCHED_GROUPS_MAX 1024
/* Of them, those that one server's cards were the first of: it may say of a card what
 * it likes, and again something else. */
#define SCHED_SERVER_GROUPS_MAX 32

struct sched_pool {
    struct sched_group **groups;
    unsigned n_groups;
    uint64_t groups_made; /* so far, those included that were used again */
    /* Islands and servers with cards of several groups: each is looked at. */
    struct sched_lists mixed[SCHED_FABRICS];
    struct sched_server *servers; /* in order of first registration */
    struct sched_server **servers_tail;
    unsigned n_servers, n_cards;
    uint64_t servers_removed; /* so far: is a pointer to one still good? */
    uint32_t next_serial;
    uint64_t core; /* of all cards that are known */
    struct sched_sums sums;
    uint32_t most_tflops; /* of any card that ever was there */
    uint64_t most_memory; /* the same */
    /* Cards that may have more to give than before; sched_pool_freed() takes them. */
    struct sched_card *freed, *freed_last;
    void (*on_freed)(void *arg); /* the list is not empty any more; or NULL */
    void *on_freed_arg;
    struct gp_tree by_uuid, by_name; /* cards; servers, under hashes of their names */
    struct gp_tree by_fit[SCHED_FITS];
    struct sched_lists lists[SCHED_LEVELS];
    struct sched_fabric *fabrics;
    unsigned n_fabrics, n_islands;
    struct sched_mix mix; /* what is asked for; the caller notes it */
};
/* 27 KiB each; servers of further fabrics are in none. */
#define SCHED_FABRICS_MAX 4096

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

/* Apart from what is free on it: may it be given? */
static inline bool
sched_card_open(const struct sched_card *card)
{
    return card->present && !card->fault && !card->cordoned &&
           sched_server_open(card->server);
}

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
/* How clients reach it from now on. */
int sched_pool_set_reach(struct sched_pool *pool, struct sched_server *server,
                         const struct sched_reach *reach);
/* The fabric that @server is in; "": none.  -ENOSPC: SCHED_FABRICS_MAX, it is in none.
 */
int sched_pool_set_fabric(struct sched_pool *pool, struct sched_server *server,
                          const char *name);
/* The island of its server that @card is in, as the rules say now; 0: none. */
int sched_pool_set_island(struct sched_pool *pool, struct sched_card *card,
                          uint32_t number);
/* What @card does, in TFLOPS, as the rules say now. */
void sched_pool_set_tflops(struct sched_pool *pool, struct sched_card *card,
                           uint32_t tflops);
/* What is wrong with @card; "": nothing any more.  -ENOMEM: as it was. */
int sched_pool_set_fault(struct sched_pool *pool, struct sched_card *card,
                         const char *words);
/* Nothing more is placed on @card, or it accepts sessions again. */
void sched_pool_set_cordoned(struct sched_pool *pool, struct sched_card *card,
                             bool cordoned);
/* Keep @card for @hold alone, or for nothing (NULL). */
void sched_pool_hold(struct sched_pool *pool, struct sched_card *card,
                     const void *hold);

/* Give a part of @card away.  -ENOSPC when that is not there: never overcommits. */
int sched_pool_take(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                    uint64_t memory, bool in_space);
void sched_pool_give(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                     uint64_t memory);
/* What was taken this moment to see whether more could be: nothing has come free. */
void sched_pool_untake(struct sched_pool *pool, struct sched_card *card, uint32_t core,
                       uint64_t memory);
/* Its server says what is really in use. */
void sched_pool_used(struct sched_pool *pool, struct sched_card *card,
                     uint64_t used_bytes, uint32_t busy_percent);

#endif
