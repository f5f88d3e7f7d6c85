/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_list.h"

#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_events.h"
#include "sched_fed.h"
#include "sched_fed_link.h"
#include "sched_history.h"
#include "sched_list_next.h"
#include "sched_replica.h"
#include "sched_rows.h"
#include "sched_wait.h"
#include "ticket_key.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sessions of servers whose slices are counted: fewer than slices, but for the first
 * server, which is shown whole. */
#define SESSIONS_MAX                                                                   \
    (SCHED_LIST_SLICES + CTL_SERVER_CARDS_MAX * CTL_SLICES_PER_CARD_MAX)

/* A server that is shown, and which of its cards. */
struct pick {
    const struct sched_server *server;
    unsigned first, most;
};

/* One page while it is made: first what is shown is picked, then room is made for its
 * rows. */
struct page {
    const struct sched *sched;
    const Gpupool__Ctl__CtlList *want;
    size_t most, looks;
    uint64_t now, from[2]; /* where the page begins */
    char next[CTL_LIST_NEXT_MAX];
    struct pick picks[CTL_LIST_MAX];
    size_t n_picks, n_sessions;
    const struct sched_session *sessions[SESSIONS_MAX];
    struct sched_rows_room room;
    struct sched_rows rows;
    /* One of these, by kind. */
    Gpupool__Ctl__CtlPoolStatus pool;
    Gpupool__Ctl__CtlTenantUse tenants[CTL_LIST_MAX], *tenant_list[CTL_LIST_MAX];
    Gpupool__Ctl__CtlEvent events[CTL_LIST_MAX], *event_list[CTL_LIST_MAX];
    Gpupool__Ctl__CtlAccount accounts[CTL_LIST_MAX], *account_list[CTL_LIST_MAX];
    Gpupool__Ctl__CtlOtherPool pools[SCHED_POOLS_MAX], *pool_list[SCHED_POOLS_MAX];
    Gpupool__Ctl__CtlSample samples[CTL_LIST_MAX], *sample_list[CTL_LIST_MAX];
    Gpupool__Ctl__CtlListReply reply;
};

static_assert(SCHED_HISTORY_SAMPLES <= CTL_LIST_MAX, "a history is one page");

static void
set_next(struct page *page, uint64_t a, uint64_t b)
{
    const struct sched *sched = page->sched;

    sched_list_next_write(page->next, a, b,
                          sched->replica.shared && sched_replica_leads(sched));
}

/* ---------------------------------------------------------------- sessions -- */

static bool
server_is_dead(const struct sched_session *s)
{
    for (uint32_t i = 0; i < s->n_parts; i++)
        if (!s->parts[i].server->alive)
            return true;
    return false;
}

/* As ctl_json.h names it. */
static const char *
session_state(const struct sched_session *s, uint64_t now)
{
    if (server_is_dead(s))
        return "server-dead";
    if (sched_session_unseen(s))
        return "unknown";
    if (s->closing || s->lease_end_ns < now + GP_NS_PER_MS)
        return "closing";
    return sched_session_attachments(s) ? "running" : "idle";
}

static bool
session_wanted(const struct page *page, const struct sched_session *s)
{
    const Gpupool__Ctl__CtlList *want = page->want;

    return !s->pending && (!*want->owner || !strcmp(s->owner->name, want->owner)) &&
           (!*want->state || !strcmp(session_state(s, page->now), want->state));
}

/* False: the page is full, and the next one begins with it. */
static bool
pick_session(struct page *page, const struct sched_session *s)
{
    if (page->n_sessions == page->most || !page->looks) {
        set_next(page, s->id, 0);
        return false;
    }
    page->looks--;
    if (!session_wanted(page, s))
        return true;
    page->sessions[page->n_sessions++] = s;
    page->room.sessions++;
    page->room.slices += s->n_slices;
    return true;
}

static void
sessions_of_server(struct page *page, const struct sched_server *server)
{
    const struct gp_tree *tree = &page->sched->sessions.by_server;
    struct gp_tree_node *node;

    node = gp_tree_at_least(tree, server->serial, page->from[0]);
    for (; node && node->key[0] == server->serial; node = gp_tree_next(tree, node))
        if (!pick_session(page,
                          container_of(node, struct sched_part, by_server)->session))
            return;
}

static int
by_id(const void *a, const void *b)
{
    const struct sched_session *x = *(const struct sched_session *const *)a;
    const struct sched_session *y = *(const struct sched_session *const *)b;

    return (x->id > y->id) - (x->id < y->id);
}

/* His list has no order: all of it is looked at, and so he has few enough sessions. */
static int
sessions_of_owner(struct page *page, const struct sched_owner *owner)
{
    CLEANUP_FREE const struct sched_session **all = NULL;
    size_t n = 0;

    all = calloc(owner->n_sessions + 1, sizeof(const struct sched_session *));
    if (!all)
        return -ENOMEM;
    for (const struct sched_session *s = owner->sessions; s; s = s->owner_next)
        if (s->id >= page->from[0])
            all[n++] = s;
    qsort(all, n, sizeof(const struct sched_session *), by_id);
    for (size_t i = 0; i < n && pick_session(page, all[i]); i++)
        ;
    return 0;
}

/* "s7": the newest of that number. */
static void
pick_named_session(struct page *page)
{
    const char *name = page->want->session;
    const struct sched_session *s = NULL;
    uint64_t number;

    if (*name == 's' && gp_str_u64(name + 1, 1, UINT32_MAX, &number) == 0)
        s = sched_sessions_find_number(&page->sched->sessions, (uint32_t)number);
    if (s)
        pick_session(page, s);
}

static int
pick_sessions(struct page *page)
{
    const struct sched_sessions *set = &page->sched->sessions;
    const Gpupool__Ctl__CtlList *want = page->want;
    const struct sched_owner *owner = NULL;
    const struct sched_server *server = NULL;
    struct gp_tree_node *node;

    if (*want->session) {
        pick_named_session(page);
        return 0;
    }
    if (*want->server) {
        server = sched_pool_server_find(page->sched->pool, want->server);
        if (server)
            sessions_of_server(page, server);
        return 0;
    }
    if (*want->owner) {
        owner = sched_sessions_owner(set, want->owner);
        if (!owner)
            return 0;
        if (owner->n_sessions <= SCHED_LIST_LOOKS)
            return sessions_of_owner(page, owner);
    }
    node = gp_tree_at_least(&set->by_id, page->from[0], 0);
    for (; node; node = gp_tree_next(&set->by_id, node))
        if (!pick_session(page, container_of(node, struct sched_session, by_id)))
            break;
    return 0;
}

/* ------------------------------------------------------- servers and cards -- */

static const char *
server_state(const struct sched_server *server)
{
    if (!server->alive)
        return "dead";
    return server->drain_asked || server->drain_self ? "draining" : "alive";
}

static bool
server_wanted(const struct page *page, const struct sched_server *server)
{
    const Gpupool__Ctl__CtlList *want = page->want;

    return (!*want->server || !strcmp(server->name, want->server)) &&
           (!*want->state || !strcmp(server_state(server), want->state));
}

static uint32_t
slices_on(const struct sched_server *server)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < server->n_cards; i++)
        n += server->cards[i]->slices;
    return n;
}

static bool
is_picked(const struct page *page, const struct sched_session *s)
{
    for (size_t i = 0; i < page->n_sessions; i++)
        if (page->sessions[i] == s)
            return true;
    return false;
}

static void
pick_sessions_on(struct page *page, const struct sched_server *server)
{
    const struct sched_part *part = NULL;

    while ((part = sched_sessions_next_on(&page->sched->sessions, server, part))) {
        const struct sched_session *s = part->session;

        if (s->pending || (s->n_parts > 1 && is_picked(page, s)) ||
            page->n_sessions == SESSIONS_MAX)
            continue;
        page->sessions[page->n_sessions++] = s;
        page->room.sessions++;
        page->room.slices += s->n_slices;
    }
}

/* So many of its cards, from the first on, are in the page. */
static unsigned
shown_cards(const struct sched_server *server, unsigned first, size_t most)
{
    unsigned n = 0;

    for (unsigned i = first; i < server->n_cards && n < most; i++)
        n += sched_rows_shows(server->cards[i]);
    return n;
}

/* False: it has no room; the next page begins with it. */
static bool
pick_server(struct page *page, const struct sched_server *server, unsigned first,
            size_t cards)
{
    uint32_t slices = page->want->with_sessions ? slices_on(server) : 0;

    if (page->n_picks == CTL_LIST_MAX ||
        (page->n_picks && page->room.slices + slices > SCHED_LIST_SLICES))
        return false;
    page->picks[page->n_picks++] = (struct pick){server, first, (unsigned)cards};
    page->room.servers++;
    page->room.cards += shown_cards(server, first, cards);
    if (page->want->with_sessions)
        pick_sessions_on(page, server);
    return true;
}

/* The list of servers is in the order of their serials; to pass over those of earlier
 * pages takes less time than to show one. */
static const struct sched_server *
first_server(const struct page *page)
{
    const struct sched_server *server = page->sched->pool->servers;

    while (server && server->serial < page->from[0])
        server = server->next;
    return server;
}

static void
pick_servers(struct page *page)
{
    const struct sched_server *server = first_server(page);

    for (; server; server = server->next) {
        if (!server_wanted(page, server))
            continue;
        if (page->n_picks == page->most ||
            !pick_server(page, server, 0, CTL_SERVER_CARDS_MAX)) {
            set_next(page, server->serial, 0);
            return;
        }
    }
}

/* The index behind the last card of @most from @first on. */
static unsigned
behind_cards(const struct sched_server *server, unsigned first, size_t most)
{
    unsigned i = first;

    for (size_t n = 0; i < server->n_cards && n < most; i++)
        n += sched_rows_shows(server->cards[i]);
    return i;
}

/* Whether @text, "GPU-5ad3..." in any case of letters, begins the uuid of @card. */
static bool
uuid_begins(const struct sched_card *card, const char *text)
{
    unsigned digits = 0;

    if (!strncasecmp(text, "GPU-", 4))
        text += 4;
    for (; *text; text++) {
        const char *digit = strchr("0123456789abcdef", tolower((unsigned char)*text));

        if (*text == '-')
            continue;
        if (!digit || digits == 2 * TICKET_UUID_SIZE ||
            (card->facts.uuid[digits / 2] >> (digits % 2 ? 0 : 4) & 15) !=
                digit - "0123456789abcdef")
            return false;
        digits++;
    }
    return true;
}

/* The cards that are named; each is looked at. */
static void
pick_named_cards(struct page *page)
{
    const struct sched_server *server = first_server(page);
    unsigned i = (unsigned)page->from[1];

    if (server && server->serial != page->from[0])
        i = 0;
    for (; server; server = server->next, i = 0) {
        for (; server_wanted(page, server) && i < server->n_cards; i++) {
            if (page->n_picks == page->most || !page->looks) {
                set_next(page, server->serial, i);
                return;
            }
            page->looks--;
            if (sched_rows_shows(server->cards[i]) &&
                uuid_begins(server->cards[i], page->want->card))
                pick_server(page, server, i, 1);
        }
    }
}

static void
pick_cards(struct page *page)
{
    const struct sched_server *server = first_server(page);
    size_t left = page->most;

    for (; server; server = server->next) {
        unsigned first = server->serial == page->from[0] ? (unsigned)page->from[1] : 0;
        unsigned shown = shown_cards(server, first, CTL_SERVER_CARDS_MAX);

        if (!shown || !server_wanted(page, server))
            continue;
        if (!left || !pick_server(page, server, first, left)) {
            set_next(page, server->serial, first);
            return;
        }
        if (shown > left) {
            set_next(page, server->serial, behind_cards(server, first, left));
            return;
        }
        left -= shown;
    }
}

/* ------------------------------------------------- tenants, events, samples -- */

static void
list_tenants(struct page *page)
{
    const struct sched_tenants *set = &page->sched->sessions.tenants;
    struct gp_tree_node *node =
        gp_tree_at_least(&set->by_name, page->from[0], page->from[1]);

    for (; node; node = gp_tree_next(&set->by_name, node)) {
        size_t n = page->reply.n_tenants;

        if (n == page->most) {
            set_next(page, node->key[0], node->key[1]);
            break;
        }
        sched_rows_tenant(set, container_of(node, struct sched_tenant, by_name),
                          &page->tenants[n]);
        page->tenant_list[n] = &page->tenants[n];
        page->reply.n_tenants++;
    }
    page->reply.tenants = page->tenant_list;
}

static bool
event_wanted(const Gpupool__Ctl__CtlList *want, const struct sched_event *event)
{
    return (!*want->owner || !strcmp(want->owner, event->owner)) &&
           (!*want->server || !strcmp(want->server, event->server));
}

static void
add_event(struct page *page, const struct sched_event *event)
{
    size_t n = page->reply.n_events++;
    Gpupool__Ctl__CtlEvent *msg = &page->events[n];

    gpupool__ctl__ctl_event__init(msg);
    msg->serial = event->serial;
    msg->unix_ms = event->unix_ms;
    msg->kind = (char *)event->kind;
    msg->session = (char *)event->session;
    msg->server = (char *)event->server;
    msg->owner = (char *)event->owner;
    msg->words = (char *)event->words;
    page->event_list[n] = msg;
}

static void
list_events_after(struct page *page)
{
    const struct sched_events *events = &page->sched->events;
    const struct sched_event *event = sched_events_after(events, page->want->after);

    for (; event && page->reply.n_events < page->most;
         event = sched_events_after(events, event->serial))
        if (event_wanted(page->want, event))
            add_event(page, event);
}

static void
list_events(struct page *page)
{
    const struct sched_events *events = &page->sched->events;
    uint64_t serial = page->from[0] ? page->from[0] : UINT64_MAX;
    const struct sched_event *event;

    page->reply.events = page->event_list;
    if (page->want->oldest_first) {
        list_events_after(page);
        return;
    }
    while ((event = sched_events_before(events, serial))) {
        if (page->reply.n_events == page->most) {
            set_next(page, serial, 0);
            return;
        }
        serial = event->serial;
        if (event_wanted(page->want, event))
            add_event(page, event);
    }
}

static void
list_history(struct page *page)
{
    const struct sched_history_span *span =
        page->want->week ? &page->sched->history->week : &page->sched->history->hour;

    for (size_t i = 0; i < sched_history_count(span); i++) {
        const struct sched_sample *sample = sched_history_at(span, i);
        Gpupool__Ctl__CtlSample *msg = &page->samples[i];

        gpupool__ctl__ctl_sample__init(msg);
        msg->unix_s = sample->unix_s;
        msg->core = sample->core;
        msg->core_given = sample->core_given;
        msg->busy = sample->busy;
        msg->memory_bytes = sample->memory;
        msg->memory_given = sample->memory_given;
        msg->memory_used = sample->memory_used;
        msg->sessions = sample->sessions;
        msg->waiting = sample->waiting;
        page->sample_list[i] = msg;
    }
    page->reply.samples = page->sample_list;
    page->reply.n_samples = sched_history_count(span);
}

static void
add_account(struct page *page, const struct sched_account *row)
{
    size_t n = page->reply.n_accounts++;
    Gpupool__Ctl__CtlAccount *msg = &page->accounts[n];

    gpupool__ctl__ctl_account__init(msg);
    msg->day = row->day;
    msg->owner = (char *)(uintptr_t)row->owner;
    msg->tenant = (char *)(uintptr_t)row->tenant;
    msg->sessions = row->sums.sessions;
    msg->core_ms = row->sums.core_ms;
    msg->memory_mib_ms = row->sums.memory_mib_ms;
    msg->slice_ms = row->sums.slice_ms;
    msg->gpu_ns = row->sums.spent.gpu_ns;
    msg->wait_ns = row->sums.spent.wait_ns;
    msg->launches = row->sums.spent.launches;
    msg->moved_bytes = row->sums.spent.moved_bytes;
    page->account_list[n] = msg;
}

static void
list_accounts(struct page *page)
{
    const struct sched_accounts *set = &page->sched->sessions.accounts;
    const Gpupool__Ctl__CtlList *want = page->want;
    const uint64_t first[2] = {(uint64_t)want->from_day << 32, 0};
    struct sched_account *row =
        sched_account_at_least(set, page->from[0] >= first[0] ? page->from : first);

    page->reply.accounts = page->account_list;
    for (; row && (!want->to_day || row->day <= want->to_day);
         row = sched_account_next(set, row)) {
        if (page->reply.n_accounts == page->most || !page->looks--) {
            set_next(page, row->node.key[0], row->node.key[1]);
            return;
        }
        if (!*want->owner || !strcmp(want->owner, row->owner))
            add_account(page, row);
    }
}

static void
list_copied_pools(struct page *page)
{
    const struct sched_copy *copy = &page->sched->copy;
    const Gpupool__Ctl__CtlListReply *list = copy->pools ? copy->pools->list : NULL;
    size_t n = list ? gp_min(list->n_pools, (size_t)SCHED_POOLS_MAX) : 0;

    for (size_t i = 0; i < n; i++) {
        page->pools[i] = *list->pools[i];
        if (page->pools[i].tried)
            page->pools[i].last_ms += (page->now - copy->pools_ns) / GP_NS_PER_MS;
        page->pool_list[i] = &page->pools[i];
    }
    page->reply.pools = page->pool_list;
    page->reply.n_pools = n;
}

static void
list_pools(struct page *page)
{
    const struct sched_fed *fed = page->sched->fed;

    if (sched_replica_follows(page->sched)) {
        list_copied_pools(page);
        return;
    }
    for (unsigned i = 0; i < sched_fed_count(fed); i++) {
        struct sched_fed_link *link = sched_fed_at(fed, i);
        const struct sched_fed_config *config = sched_fed_link_config(link);
        const struct sched_fed_stats *stats = sched_fed_link_stats(link);
        Gpupool__Ctl__CtlOtherPool *msg = &page->pools[i];

        gpupool__ctl__ctl_other_pool__init(msg);
        msg->pool = (char *)config->name;
        msg->scheduler = (char *)config->scheduler;
        msg->words = (char *)stats->words;
        msg->tried = stats->last_ns;
        msg->answers = stats->answers;
        msg->asked = stats->asked;
        msg->granted = stats->granted;
        msg->refused = stats->refused;
        msg->failed = stats->failed;
        msg->last_ms = stats->last_ns ? (page->now - stats->last_ns) / GP_NS_PER_MS : 0;
        page->pool_list[i] = msg;
    }
    page->reply.pools = page->pool_list;
    page->reply.n_pools = sched_fed_count(fed);
}

/* -------------------------------------------------------------------- pool -- */

static void
count_servers(const struct sched_pool *pool, Gpupool__Ctl__CtlPoolStatus *msg)
{
    for (const struct sched_server *s = pool->servers; s; s = s->next)
        if (!s->alive)
            msg->servers_dead++;
        else if (s->drain_asked || s->drain_self)
            msg->servers_draining++;
        else
            msg->servers_alive++;
}

/* What the leader said lately, as this scheduler. */
static void
show_live(const struct sched_copy *copy, uint64_t now, Gpupool__Ctl__CtlPoolStatus *msg)
{
    const Gpupool__Ctl__CtlPoolStatus own = *msg;

    if (!copy->live_ns || now - copy->live_ns >= SCHED_COPY_LIVE_NS)
        return;
    *msg = copy->live;
    msg->live = true;
    msg->leads = own.leads;
    msg->leader = own.leader;
    msg->version = own.version;
    msg->scheduler_key_id = own.scheduler_key_id;
    msg->up_ms = own.up_ms;
}

static void
list_pool(struct page *page)
{
    const struct sched *sched = page->sched;
    const struct sched_pool *pool = sched->pool;
    Gpupool__Ctl__CtlPoolStatus *msg = &page->pool;

    gpupool__ctl__ctl_pool_status__init(msg);
    msg->version = (char *)GPUPOOL_VERSION;
    msg->up_ms = (page->now - sched->started_ns) / GP_NS_PER_MS;
    msg->leads = sched_replica_leads(sched);
    msg->leader = msg->leads ? (char *)"" : (char *)sched->replica.leader;
    msg->placement = (Gpupool__Ctl__CtlPlacement)sched->config.placement;
    count_servers(pool, msg);
    msg->cards = pool->n_cards;
    msg->slices = (uint32_t)pool->sums.slices;
    msg->sessions = (uint32_t)sched->sessions.by_id.count;
    msg->waiting = sched->waits->queue.n;
    msg->core = pool->core;
    msg->core_given = pool->sums.core_given;
    msg->busy = pool->sums.busy;
    msg->memory_bytes = pool->sums.memory;
    msg->memory_given = pool->sums.memory_given;
    msg->memory_used = pool->sums.memory_used;
    msg->opened = sched->counters.opened;
    msg->refused = sched->counters.refused;
    msg->ended = sched->counters.closed;
    msg->heartbeat_ms = sched->config.heartbeat_ms;
    msg->lease_ms = sched->config.lease_ms;
    msg->scheduler_key_id = (char *)ticket_key_id(sched->key);
    if (!msg->leads)
        show_live(&sched->copy, page->now, msg);
    page->reply.pool = msg;
}

/* -------------------------------------------------------------------- page -- */

static bool
state_is_one_of(const char *state, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(state, *names))
            return true;
    return false;
}

static int
check_state(const Gpupool__Ctl__CtlList *want, struct gp_err *err)
{
    static const char *const of_server[] = {"alive", "dead", "draining", NULL};
    static const char *const of_session[] = {"running",     "idle",    "closing",
                                             "server-dead", "unknown", NULL};
    bool sessions = want->kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS;

    if (!*want->state ||
        state_is_one_of(want->state, sessions ? of_session : of_server))
        return 0;
    return gp_err_set(err, -EINVAL, "state: %s is wanted",
                      sessions ? "running, idle, closing, server-dead or unknown"
                               : "alive, dead or draining");
}

static int
pick(struct page *page, struct gp_err *err)
{
    switch (page->want->kind) {
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOL:
        list_pool(page);
        return 0;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS:
        pick_servers(page);
        return 0;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS:
        if (*page->want->card)
            pick_named_cards(page);
        else
            pick_cards(page);
        return 0;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS:
        return pick_sessions(page);
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_TENANTS:
        list_tenants(page);
        return 0;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_EVENTS:
        list_events(page);
        return 0;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_HISTORY:
        list_history(page);
        return 0;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_ACCOUNT:
        list_accounts(page);
        return 0;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOLS:
        list_pools(page);
        return 0;
    default:
        return gp_err_set(err, -EINVAL, "no list of kind %d", (int)page->want->kind);
    }
}

/* Sessions of one server are as many as it has slices at most. */
static uint64_t
count_sessions(const struct page *page)
{
    const struct sched_sessions *set = &page->sched->sessions;
    const Gpupool__Ctl__CtlList *want = page->want;
    const struct sched_server *server = NULL;
    const struct sched_owner *owner = NULL;
    const struct sched_part *part = NULL;
    uint64_t n = 0;

    if (*want->state || (*want->server && *want->owner))
        return 0;
    if (!*want->server) {
        owner = *want->owner ? sched_sessions_owner(set, want->owner) : NULL;
        return owner ? owner->n_sessions : set->by_id.count;
    }
    server = sched_pool_server_find(page->sched->pool, want->server);
    while (server && (part = sched_sessions_next_on(set, server, part)))
        n += !part->session->pending;
    return n;
}

/* CtlListReply.total of a page that another one follows. */
static uint64_t
count_all(const struct page *page)
{
    const Gpupool__Ctl__CtlList *want = page->want;

    if (want->kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS)
        return count_sessions(page);
    if (*want->server || *want->state || *want->card)
        return 0;
    if (want->kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS)
        return page->sched->pool->n_servers;
    return want->kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS
               ? page->sched->pool->n_cards
               : 0;
}

static int
fill(struct page *page)
{
    if (!sched_rows_init(&page->rows, &page->room))
        return -ENOMEM;
    for (size_t i = 0; i < page->n_picks; i++)
        sched_rows_server(&page->rows, page->picks[i].server, page->picks[i].first,
                          page->picks[i].most, page->now);
    for (size_t i = 0; i < page->n_sessions; i++)
        sched_rows_session(&page->rows, page->sessions[i], page->now);
    page->reply.servers = page->rows.server_list;
    page->reply.n_servers = page->rows.n_servers;
    page->reply.sessions = page->rows.session_list;
    page->reply.n_sessions = page->rows.n_sessions;
    page->reply.next = page->next;
    if (*page->next)
        page->reply.total = count_all(page);
    return 0;
}

static void
mark_source(const struct page *page, Gpupool__Ctl__CtlReply *reply)
{
    uint64_t copied = sched_copy_time(&page->sched->copy, page->want);

    if (!sched_replica_follows(page->sched))
        return;
    reply->source = GPUPOOL__CTL__CTL_SOURCE__CTL_SOURCE_COPY;
    if (copied)
        reply->age_ms = (page->now - copied) / GP_NS_PER_MS + 1;
}

int
sched_list(const struct sched *sched, const Gpupool__Ctl__CtlList *want,
           void (*take)(void *arg, Gpupool__Ctl__CtlReply *reply), void *arg,
           struct gp_err *err)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    CLEANUP_FREE struct page *page = calloc(1, sizeof(*page));
    int r;

    if (!page)
        return -ENOMEM;
    page->sched = sched;
    page->want = want;
    page->most = want->most ? gp_min(want->most, (uint32_t)CTL_LIST_MAX)
                            : (uint32_t)CTL_LIST_DEFAULT;
    page->looks = SCHED_LIST_LOOKS;
    page->now = gp_now_ns();
    gpupool__ctl__ctl_list_reply__init(&page->reply);
    if (!sched_list_next_read(want->next, page->from))
        return gp_err_set(err, -EINVAL, "this is not where a page ended");
    r = check_state(want, err);
    if (!r)
        r = pick(page, err);
    if (!r)
        r = fill(page);
    if (!r) {
        reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_LIST;
        reply.list = &page->reply;
        mark_source(page, &reply);
        take(arg, &reply);
    }
    sched_rows_fini(&page->rows);
    return r;
}

/* ----------------------------------------------------------------- request -- */

struct asked {
    struct sched_conn *conn;
    uint32_t id;
};

static void
answer(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    const struct asked *asked = arg;

    reply->id = asked->id;
    sched_commit_everything(asked->conn->sched); /* nothing that a crash takes back */
    sched_conn_reply(asked->conn, reply);
}

void
sched_handle_list(struct sched_conn *conn, uint32_t id,
                  const Gpupool__Ctl__CtlList *msg)
{
    struct asked asked = {conn, id};
    struct gp_err err = {0};
    int r;

    if (!sched_auth_check(conn, id, SCHED_MAY_READ, msg->token))
        return;
    r = sched_list(conn->sched, msg, answer, &asked, &err);
    if (r < 0)
        sched_conn_refuse(conn, id,
                          r == -EINVAL ? GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST
                                       : GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          gp_err_msg(&err, r), NULL);
}
