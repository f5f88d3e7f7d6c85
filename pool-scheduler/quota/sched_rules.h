/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an administrator says about sharing the pool, in one file (--rules FILE):
 * tenants with weights and quotas, priority classes, labels of servers, ratings of card
 * models, and how long a request may wait before room is kept for it.
 *
 *     [tenant research]           owners = ada@*, kube:research-*   (or: each)
 *                                 weight, core, memory, cards
 *     [class batch]               value, preemptible, preempts, grace
 *     [servers node-a*]           labels = rack=r1, zone=a
 *                                 islands = 0-3, 4-7; fabric = row1
 *     [model NVIDIA H100*]        tflops = 989
 *     [queue]                     reserve-after, default-class
 *     [pool east]                 scheduler, key-file, token-file: of another pool
 *     [reservation exam]          owners = ada@*; cards, servers, from, until, lead,
 * end
 *
 * Immutable after loading; a reload makes a new one.  The file is an administrator's,
 * so its caps only stop accidents.
 */
#ifndef SCHED_RULES_H
#define SCHED_RULES_H

#include "gp_base.h"
#include "sched_tenant.h"

#include <stdint.h>

struct gp_err;

#define SCHED_RULES_FILE_MAX ((size_t)1 << 20)
#define SCHED_RULES_EACH_MAX 4096 /* sections of a kind */
#define SCHED_RULES_TEXT 256      /* patterns and labels of one section */
#define SCHED_RULES_NAME 64
#define SCHED_RULES_CARDS 64 /* as CTL_SERVER_CARDS_MAX */
#define SCHED_RULES_CLASS 32 /* as SCHED_CLASS_NAME_MAX */

struct sched_tenant_rule {
    char name[SCHED_RULES_NAME];
    char owners[SCHED_RULES_TEXT]; /* patterns, with commas between */
    bool each;                     /* every owner that fits is a tenant of his own */
    uint32_t weight;
    struct sched_amount limit;
};

struct sched_class {
    char name[SCHED_RULES_CLASS];
    uint32_t value;   /* more is served first */
    bool preemptible; /* its sessions may be ended for those of higher classes that */
    bool preempts;    /* ... may do that */
    uint32_t grace_ms;
};

struct sched_server_rule {
    char servers[SCHED_RULES_NAME]; /* pattern */
    char labels[SCHED_RULES_TEXT];  /* "rack=r1,zone=a", without spaces */
    /* The island of the card that its driver counts so, from 1; 0: in none. */
    uint8_t islands[SCHED_RULES_CARDS];
    bool has_islands;
    char fabric[SCHED_RULES_NAME]; /* "": not said */
    /* Patterns of the hosts whose programs reach them, with commas between; "": all */
    char clients[SCHED_RULES_TEXT];
    uint8_t zone; /* of those with @clients, from 1; 0: it has none */
};

struct sched_model {
    char cards[SCHED_RULES_NAME]; /* pattern of the card's name */
    uint32_t tflops;
};

/* Another pool, which requests are handed to that do not fit here (sched_fed.h). */
struct sched_pool_rule {
    char name[SCHED_RULES_NAME];
    char scheduler[SCHED_RULES_TEXT]; /* host:port, with commas between */
    char key_file[SCHED_RULES_TEXT];  /* its public key */
    char token_file[SCHED_RULES_TEXT];
};

/* Cards that belong to some owners for a time; sched_reserve.h. */
struct sched_reservation_rule {
    char name[SCHED_RULES_NAME];
    char owners[SCHED_RULES_TEXT]; /* patterns, with commas between */
    char servers[SCHED_RULES_NAME];
    uint32_t cards, lead_ms;
    uint64_t from, until; /* Unix seconds */
    bool end;             /* sessions of others end when it begins */
};

#define SCHED_ZONES_MAX 63      /* [servers] sections with clients; bits of a word */
#define SCHED_RESERVED_MAX 1024 /* cards of one reservation */

struct sched_rules {
    struct sched_reservation_rule *reservations;
    unsigned n_reservations;
    struct sched_tenant_rule *tenants;
    struct sched_class *classes;
    struct sched_server_rule *servers;
    struct sched_model *models;
    struct sched_pool_rule *pools;
    unsigned n_tenants, n_classes, n_servers, n_models, n_pools;
    uint32_t reserve_after_ms;
    char default_class[SCHED_RULES_CLASS];
};

/* @path NULL: the rules of a pool that nobody wrote rules for.  Words name file and
 * line. */
int sched_rules_load(const char *path, struct sched_rules **ret_rules,
                     struct gp_err *err);
void sched_rules_free(struct sched_rules *rules); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_rules, sched_rules_free)

/* The first rule that @owner fits, or NULL. */
const struct sched_tenant_rule *sched_rules_tenant(const struct sched_rules *rules,
                                                   const char *owner);
bool sched_rules_reserved_for(const struct sched_reservation_rule *rule,
                              const char *owner);
/* "": the default.  NULL: no such class. */
const struct sched_class *sched_rules_class(const struct sched_rules *rules,
                                            const char *name);
/* Labels of a server: those of all rules that its name fits.  "": none. */
void sched_rules_labels(const struct sched_rules *rules, const char *server, char *ret,
                        size_t size);
/* The fabric that a server is in, whose driver says that it is @fabric; "": none. */
const char *sched_rules_fabric(const struct sched_rules *rules, const char *server,
                               const char *fabric);
/* Which clients reach a server: the first rule that says it; 0: all do. */
uint8_t sched_rules_zone(const struct sched_rules *rules, const char *server);
/* The zones that programs on the host @node do not reach, a bit each; "": none. */
uint64_t sched_rules_unreached(const struct sched_rules *rules, const char *node);
/* Are there servers that programs of some hosts only reach? */
bool sched_rules_by_node(const struct sched_rules *rules);
/* The island of card @index of a server, whose driver says that it is @island. */
uint32_t sched_rules_island(const struct sched_rules *rules, const char *server,
                            uint32_t index, uint32_t island);
/* What a card of that name does, in TFLOPS; 0: unknown. */
uint32_t sched_rules_tflops(const struct sched_rules *rules, const char *card);
/* The names of all classes, for messages. */
void sched_rules_class_names(const struct sched_rules *rules, char *ret, size_t size);

#endif
