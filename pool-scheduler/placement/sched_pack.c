/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_pack.h"

#include "sched_several.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where the search for a card of one piece is. */
enum phase {
    KEPT,   /* cards of the caller's */
    CHOSEN, /* cards that pieces before it are on: to fill them */
    LINKED, /* cards of its server, of the same island */
    SERVER, /* the others of its server */
    INDEX,
    END,
};

struct cursor {
    enum phase phase;
    unsigned at;          /* in a list of cards */
    unsigned core, group; /* of the next tree; counted from the request's */
    const struct gp_tree *tree;
    const struct gp_tree_node *node;
    const struct sched_card *twins_of; /* unused cards like it are still to come */
};

/* What makes two cards alike for pieces that are still to be placed; compared with
 * memcmp(). */
struct key {
    const void *group, *hold, *server, *island, *card;
    uint64_t memory, total;
    uint32_t core, slices;
    uint32_t in_space, used, avoided, pad;
};

struct piece {
    const struct sched_pack_request *request;
    unsigned number, first; /* of the request; its first piece */
    bool twin;              /* it and the piece before it could change places */
    struct sched_card *card;
    struct key before; /* of the card, without this piece */
    struct sched_pack_room after;
    struct cursor cursor;
    unsigned tried; /* where its keys begin in the list of all */
    bool could;     /* some card had room for it */
};

struct search {
    struct sched_pack *pack;
    bool by_server; /* it matters on which server a card is */
    bool by_card;   /* somebody names a card */
    const struct sched_avoid *avoid;
    bool apart;
    struct piece *pieces;
    unsigned n;
    struct key *tried; /* a stack: cards that a piece was on, the last of them now */
    unsigned n_tried, steps;
};

/* -------------------------------------------------------------------- cards -- */

static void
room_now(const struct search *search, const struct sched_card *card,
         struct sched_pack_room *ret)
{
    if (search->pack->room) {
        search->pack->room(search->pack->arg, card, ret);
        return;
    }
    *ret = (struct sched_pack_room){
        .core = sched_card_free_core(card),
        .slices = card->slices,
        .memory = sched_card_free_memory(card),
        .in_space = card->in_space,
    };
}

/* What the pieces before @n leave of @card.  Whether one of them is on it. */
static bool
room_left(const struct search *search, unsigned n, const struct sched_card *card,
          struct sched_pack_room *ret)
{
    while (n--)
        if (search->pieces[n].card == card) {
            *ret = search->pieces[n].after;
            return true;
        }
    room_now(search, card, ret);
    return false;
}

static bool
is_avoided(const struct search *search, const struct sched_card *card)
{
    for (unsigned i = 0; search->avoid && i < search->avoid->n; i++)
        if (search->avoid->cards[i] == card)
            return true;
    return false;
}

static void
key_of(const struct search *search, const struct sched_card *card,
       const struct sched_pack_room *room, bool used, struct key *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->group = card->group;
    ret->hold = card->hold;
    ret->server = search->by_server ? card->server : NULL;
    ret->island = search->by_server ? card->island : NULL;
    ret->card = search->by_card ? card : NULL;
    ret->memory = room->memory;
    ret->total = card->facts.memory;
    ret->core = room->core;
    ret->slices = room->slices;
    if (room->slices + search->n < CTL_SLICES_PER_CARD_MAX)
        ret->slices = room->slices != 0; /* the cap is out of reach */
    ret->in_space = room->slices && room->in_space;
    ret->used = search->apart && used;
    ret->avoided = is_avoided(search, card);
}

static bool
in_range(struct search *search, unsigned from, unsigned to, const struct key *key)
{
    search->steps += (to - from) / 16; /* about what it costs */
    for (; from < to; from++)
        if (!memcmp(&search->tried[from], key, sizeof(*key)))
            return true;
    return false;
}

/* Has a card like this one been tried in vain, for this piece or for one that it could
 * change places with?  @key is that of @card now. */
static bool
in_vain(struct search *search, unsigned n, const struct sched_card *card,
        const struct key *key)
{
    const struct piece *pieces = search->pieces;

    if (in_range(search, pieces[n].tried, search->n_tried, key))
        return true;
    for (; pieces[n].twin; n--) {
        if (pieces[n - 1].card == card)
            key = &pieces[n - 1].before;
        if (in_range(search, pieces[n - 1].tried, pieces[n].tried - 1, key))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------- pieces -- */

/* May @card be beside what its own request has? */
static bool
is_near(const struct search *search, unsigned n, const struct sched_card *card)
{
    const struct piece *piece = &search->pieces[n];
    const struct sched_request *req = &piece->request->req;
    const struct sched_card *first = search->pieces[piece->first].card;

    for (unsigned i = piece->first; i < n; i++)
        if (search->pieces[i].card == card)
            return false;
    if (req->near == SCHED_NEAR_ISLAND && req->cards > 1 && !card->island)
        return false;
    if (n == piece->first)
        return true;
    if (req->near == SCHED_NEAR_ISLAND)
        return card->island == first->island;
    if (card->server == first->server)
        return true;
    return req->span &&
           (req->near != SCHED_NEAR_FABRIC ||
            (first->server->fabric && card->server->fabric == first->server->fabric));
}

static bool
is_apart(const struct search *search, unsigned n, const struct sched_card *card)
{
    const struct piece *piece = &search->pieces[n];

    for (unsigned i = 0; piece->request->apart_card && i < piece->first; i++) {
        const struct sched_card *other = search->pieces[i].card;

        if (other == card ||
            (piece->request->apart_server && other->server == card->server))
            return false;
    }
    return true;
}

/* @n goes on @card, if it can. */
static bool
put(struct search *search, unsigned n, struct sched_card *card)
{
    struct piece *piece = &search->pieces[n];
    const struct sched_request *req = &piece->request->req;
    uint32_t core = sched_place_core(card, req);
    struct sched_pack_room room;
    struct key key;
    bool used;

    if (!sched_card_open(card) || !is_near(search, n, card))
        return false;
    used = room_left(search, n, card, &room);
    if (room.core < core || room.memory < req->memory ||
        room.slices >= CTL_SLICES_PER_CARD_MAX ||
        (room.slices && room.in_space != req->in_space) ||
        !sched_place_accepts(card, req) || !is_apart(search, n, card))
        return false;
    piece->could = true;
    key_of(search, card, &room, used, &key);
    if (in_vain(search, n, card, &key))
        return false;
    search->tried[search->n_tried++] = key;
    piece->before = key;
    piece->card = card;
    piece->after = room;
    piece->after.core -= core;
    piece->after.memory -= req->whole ? room.memory : req->memory;
    piece->after.slices++;
    piece->after.in_space = req->in_space;
    return true;
}

/* ------------------------------------------------------------ through cards -- */

static const struct sched_server *
only_server(const struct search *search, unsigned n)
{
    const struct piece *piece = &search->pieces[n];
    const struct sched_request *req = &piece->request->req;
    const struct sched_card *named;

    if (n > piece->first && !req->span)
        return search->pieces[piece->first].card->server;
    if (req->has_uuid) {
        named = sched_pool_card_find(search->pack->pool, req->uuid);
        return named ? named->server : NULL;
    }
    return req->server ? sched_pool_server_find(search->pack->pool, req->server) : NULL;
}

static bool
names_server(const struct search *search, unsigned n)
{
    const struct sched_request *req = &search->pieces[n].request->req;

    return (n > search->pieces[n].first && !req->span) || req->has_uuid || req->server;
}

static struct sched_card *
next_of_server(const struct search *search, unsigned n, struct cursor *at, bool linked)
{
    const struct piece *piece = &search->pieces[n];
    const struct sched_server *server = only_server(search, n);
    const struct sched_island *island =
        n > piece->first ? search->pieces[piece->first].card->island : NULL;

    while (server && at->at < server->n_cards) {
        struct sched_card *card = server->cards[at->at++];

        if (card->bucket && linked == (island && card->island == island))
            return card;
    }
    return NULL;
}

/* The index has one of the unused cards of a server that are alike. */
static struct sched_card *
next_twin(struct cursor *at)
{
    const struct sched_card *card = at->twins_of;

    while (at->at < card->server->n_cards) {
        struct sched_card *other = card->server->cards[at->at++];

        if (other != card && other->bucket && !other->slices &&
            other->group == card->group && other->facts.memory == card->facts.memory)
            return other;
    }
    at->twins_of = NULL;
    return NULL;
}

static bool
by_group(const struct search *search, const struct sched_request *req)
{
    return req->where && search->pack->pool->n_groups > 1;
}

/* To the first card of the next tree; or NULL, and there may be more trees. */
static const struct gp_tree_node *
begin_tree(struct search *search, const struct sched_request *req, struct cursor *at)
{
    const struct sched_pool *pool = search->pack->pool;
    bool grouped = by_group(search, req);
    unsigned core =
        req->placement == SCHED_SPREAD ? 100 - at->core : req->core + at->core;
    const struct sched_group *group = grouped ? pool->groups[at->group++] : NULL;

    at->tree = group ? group->by_fit : pool->by_fit;
    at->tree += SCHED_FIT(req->in_space, core);
    if (!grouped || at->group == pool->n_groups) {
        at->group = 0;
        at->core++;
    }
    if (!at->tree->root)
        return NULL;
    search->steps++;
    return !group || sched_group_accepts(group, req)
               ? gp_tree_at_least(at->tree, req->memory, 0)
               : NULL;
}

/* False: that was the last. */
static bool
next_node(struct search *search, const struct sched_request *req, struct cursor *at)
{
    if (at->node)
        at->node = gp_tree_next(at->tree, at->node);
    while (!at->node && req->core + at->core <= 100)
        at->node = begin_tree(search, req, at);
    return at->node != NULL;
}

static struct sched_card *
next_of_index(struct search *search, const struct sched_request *req, struct cursor *at)
{
    struct sched_card *card = at->twins_of ? next_twin(at) : NULL;

    if (card)
        return card;
    if (!next_node(search, req, at))
        return NULL;
    card =
        by_group(search, req)
            ? container_of((struct gp_tree_node *)at->node, struct sched_card, by_group)
            : container_of((struct gp_tree_node *)at->node, struct sched_card, by_fit);
    at->twins_of = card->slices ? NULL : card;
    at->at = 0;
    return card;
}

static struct sched_card *
next_in_phase(struct search *search, unsigned n, struct cursor *at)
{
    const struct sched_pack *pack = search->pack;
    const struct piece *piece = &search->pieces[n];

    switch (at->phase) {
    case KEPT:
        return pack->also ? pack->also(pack->arg, piece->number, &at->at) : NULL;
    case CHOSEN:
        while (at->at < n && search->pieces[at->at].card->hold)
            at->at++;
        return at->at < n ? search->pieces[at->at++].card : NULL;
    case LINKED:
    case SERVER:
        return next_of_server(search, n, at, at->phase == LINKED);
    case INDEX:
        return next_of_index(search, &piece->request->req, at);
    default:
        return NULL;
    }
}

static enum phase
phase_after(const struct search *search, unsigned n, enum phase phase)
{
    bool spread = search->pieces[n].request->req.placement == SCHED_SPREAD;

    switch (phase) {
    case KEPT:
        if (!search->pack->pool)
            return END;
        if (names_server(search, n))
            return LINKED;
        return spread ? INDEX : CHOSEN;
    case CHOSEN:
        return INDEX;
    case LINKED:
        return SERVER;
    default:
        return END;
    }
}

static struct sched_card *
next_card(struct search *search, unsigned n)
{
    struct cursor *at = &search->pieces[n].cursor;

    while (at->phase != END) {
        struct sched_card *card = next_in_phase(search, n, at);

        if (card)
            return card;
        *at = (struct cursor){.phase = phase_after(search, n, at->phase)};
    }
    return NULL;
}

/* ------------------------------------------------------------------- search -- */

/* Piece @n goes on the next card that it can be on.  -ENOSPC: there is none any more.
 */
static int
advance(struct search *search, unsigned n)
{
    struct sched_card *card;

    search->pieces[n].card = NULL;
    while ((card = next_card(search, n))) {
        if (search->steps++ >= search->pack->steps)
            return -EAGAIN;
        if (put(search, n, card))
            return 0;
    }
    return search->steps > search->pack->steps ? -EAGAIN : -ENOSPC;
}

static void
enter(struct search *search, unsigned n)
{
    search->pieces[n].cursor = (struct cursor){.phase = KEPT};
    search->pieces[n].tried = search->n_tried;
    search->pieces[n].could = false;
}

/* No card has room for piece @n.  If it is one of several requests for one card each
 * that are alike, it does not matter how those before it were placed: they took what
 * all of them could have together.  Returns the first of them. */
static unsigned
back_to(const struct search *search, unsigned n)
{
    if (search->pieces[n].could || search->pieces[n].request->req.cards > 1)
        return n;
    while (search->pieces[n].twin)
        n--;
    return n;
}

static int
run(struct search *search)
{
    unsigned n = 0;
    int r;

    enter(search, 0);
    for (;;) {
        r = advance(search, n);
        if (r == -EAGAIN)
            return r;
        if (r < 0) {
            n = back_to(search, n);
            search->n_tried = search->pieces[n].tried;
            if (!n--)
                return r;
        } else if (++n == search->n) {
            return 0;
        } else {
            enter(search, n);
        }
    }
}

/* ------------------------------------------------------------------ prepare -- */

static bool
same_string(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool
same_where(const struct sched_where *a, const struct sched_where *b)
{
    return a == b || (a && b && !memcmp(a, b, sizeof(*a)));
}

static bool
alike(const struct sched_pack_request *a, const struct sched_pack_request *b)
{
    const struct sched_request *r = &a->req, *s = &b->req;

    return r->cards == 1 && s->cards == 1 && r->core == s->core &&
           r->whole == s->whole && r->memory == s->memory &&
           r->in_space == s->in_space && r->has_uuid == s->has_uuid &&
           (!r->has_uuid || !memcmp(r->uuid, s->uuid, sizeof(r->uuid))) &&
           same_string(r->server, s->server) && same_where(r->where, s->where) &&
           r->avoid == s->avoid && a->apart_card == b->apart_card &&
           a->apart_server == b->apart_server && a->rights == b->rights;
}

static void
add_pieces(struct search *search, unsigned number)
{
    const struct sched_pack_request *requests = search->pack->requests;
    const struct sched_pack_request *request = &requests[number];
    const struct sched_request *req = &request->req;
    unsigned first = search->n;

    for (unsigned i = 0; i < req->cards; i++)
        search->pieces[search->n++] = (struct piece){
            .request = request,
            .number = number,
            .first = first,
            .twin = i || (number && alike(request, request - 1)),
        };
    search->by_card |= req->has_uuid;
    search->by_server |= req->cards > 1 || req->server || request->apart_server ||
                         (req->where && req->where->over == SCHED_OVER_SHM);
    search->apart |= request->apart_card;
    if (req->avoid) {
        search->avoid = req->avoid;
        search->by_server |= req->avoid->servers;
    }
}

static void
decide(const struct search *search, struct sched_decision *ret)
{
    for (unsigned i = 0; i < search->pack->n; i++)
        ret[i].n_slices = 0;
    for (unsigned i = 0; i < search->n; i++)
        sched_decide(&ret[search->pieces[i].number], &search->pieces[i].request->req,
                     search->pieces[i].card);
}

int
sched_pack(struct sched_pack *pack, struct sched_decision *ret)
{
    struct search search = {.pack = pack};
    unsigned n = 0;
    int r = -ENOMEM;

    for (unsigned i = 0; i < pack->n; i++)
        n += pack->requests[i].req.cards;
    search.pieces = calloc(n, sizeof(*search.pieces));
    search.tried = malloc((pack->steps + 1) * sizeof(*search.tried));
    if (search.pieces && search.tried) {
        for (unsigned i = 0; i < pack->n; i++)
            add_pieces(&search, i);
        r = run(&search);
    }
    if (!r)
        decide(&search, ret);
    pack->steps = search.steps;
    free(search.pieces);
    free(search.tried);
    return r;
}
