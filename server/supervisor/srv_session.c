/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_session.h"

#include "gov_card.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_arbiter.h"
#include "srv_export.h"
#include "srv_inventory.h"
#include "srv_keeper.h"
#include "srv_ledger.h"
#include "srv_state.h"
#include "wrk_segment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Tickets run out at whole seconds. */
#define EXPIRY_NS GP_NS_PER_S

static int
check_cards(struct srv *srv, const struct ticket_claims *claims, struct gp_err *err)
{
    for (uint32_t i = 0; i < claims->n_slices; i++) {
        char uuid[TICKET_UUID_TEXT];

        if (srv_inventory_find(srv->inventory, claims->slices[i].card_uuid))
            continue;
        ticket_uuid_format(claims->slices[i].card_uuid, uuid);
        return gp_err_set(
            err, -ENODEV,
            "session %s wants card %s, which this server (%s) does not have",
            claims->session, uuid, srv->conf.name);
    }
    return 0;
}

/* For a successor.  The claims are written beside the ones that count, so that there
 * are whole ones at any time. */
static void
session_keep_claims(struct srv_session *s)
{
    uint32_t other = !s->kept->which;

    s->kept->claims[other] = s->claims;
    atomic_signal_fence(memory_order_seq_cst);
    s->kept->which = other;
}

static int
session_keep(struct srv_session *s, struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    int fds[SRV_SESSION_FDS];
    void *map = NULL;
    int r = srv_kept_new(SRV_KEPT_SESSION, sizeof(*s->kept), &fd, &map, err);

    if (r < 0)
        return r;
    s->kept = map;
    s->kept->uid = s->cell.uid;
    gp_str_copy(s->kept->exports, sizeof(s->kept->exports), s->cell.exports);
    session_keep_claims(s);
    fds[SRV_SESSION_KEPT] = fd;
    fds[SRV_SESSION_LEDGER] = srv_ledger_kept_fd(s->ledger);
    fds[SRV_SESSION_SEGMENT] = srv_ledger_segment_fd(s->ledger);
    srv_keeper_put(s->srv->keeper, SRV_KEEP_SESSION, s->claims.session_id, 0, fds,
                   SRV_SESSION_FDS);
    return 0;
}

/* What the card keeps back, no ticket can give: one of before a restart, say. */
static void
session_claim(struct srv_session *s, const struct ticket_claims *claims)
{
    s->claims = *claims;
    for (uint32_t i = 0; i < claims->n_slices; i++) {
        struct ticket_slice *slice = &s->claims.slices[i];
        const struct srv_card *card =
            srv_inventory_find(s->srv->inventory, slice->card_uuid);

        slice->memory = gp_min(slice->memory, card->memory);
    }
}

struct gov_share
srv_session_share(const struct ticket_claims *claims, uint32_t i)
{
    return (struct gov_share){.policy = (enum gov_policy)claims->policy,
                              .core = claims->slices[i].core,
                              .core_limit = claims->slices[i].core_limit,
                              .offline = claims->offline,
                              .in_space = claims->spatial != TICKET_SPATIAL_OFF};
}

static int
session_new(struct srv *srv, const struct ticket_claims *claims,
            struct srv_session **ret, struct gp_err *err)
{
    struct srv_session *s;
    int r;

    if (srv->n_sessions >= srv->conf.max_sessions)
        return gp_err_set(err, -EDQUOT, "this server holds %u %s, its limit",
                          srv->n_sessions,
                          gp_plural(srv->n_sessions, "session", "sessions"));
    r = check_cards(srv, claims, err);
    if (r < 0)
        return r;
    s = calloc(1, sizeof(*s));
    if (!s)
        return gp_err_set(err, -ENOMEM, "no memory for session %s", claims->session);
    s->srv = srv;
    session_claim(s, claims);
    s->next = srv->sessions;
    srv->sessions = s;
    srv->n_sessions++;
    r = srv_jail_enter(srv->jail, claims->session_id, &s->cell, err);
    if (r == 0)
        r = srv_ledger_new(&s->claims, &s->ledger, err);
    if (r == 0)
        r = session_keep(s, err);
    if (r < 0) {
        srv_session_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

/* A younger ticket of the session may carry other limits.  Only the latest one
 * counts, so that an old ticket cannot bring back what it once allowed. */
static void
session_renew(struct srv_session *s, const struct ticket_claims *claims)
{
    if (claims->expires <= s->claims.expires)
        return;
    session_claim(s, claims);
    session_keep_claims(s);
    srv_ledger_limit(s->ledger, &s->claims);
    for (uint32_t i = 0; i < claims->n_slices; i++) {
        const struct srv_card *card =
            srv_inventory_find(s->srv->inventory, claims->slices[i].card_uuid);
        struct gov_share share = srv_session_share(claims, i);

        srv_arbiter_reshare(s->srv->arbiter, card->at, claims->session_id, &share);
    }
}

/* Is @claims a ticket of the very session that is open here?  An id that two schedulers
 * gave out, or one scheduler twice, must not join sessions of others: they would
 * share memory.  Its key may be another: a session outlives a change of the key.
 */
static bool
same_session(const struct srv_session *s, const struct ticket_claims *claims)
{
    if (strcmp(claims->owner, s->claims.owner) != 0 ||
        claims->n_slices != s->claims.n_slices)
        return false;
    for (uint32_t i = 0; i < claims->n_slices; i++)
        if (memcmp(claims->slices[i].card_uuid, s->claims.slices[i].card_uuid,
                   TICKET_UUID_SIZE) != 0)
            return false;
    return true;
}

/* The words are those that who held the session is told by the scheduler. */
static int
closed_error(const struct srv *srv, const struct ticket_claims *claims,
             struct gp_err *err)
{
    const char *why = srv_closed_why(&srv->closed, claims->session_id);

    return gp_err_set(err, -EKEYREVOKED, "session %s has been closed%s%s",
                      claims->session, *why ? ": " : "", why);
}

int
srv_session_get(struct srv *srv, const struct ticket_claims *claims,
                struct srv_session **ret, struct gp_err *err)
{
    struct srv_session *s = srv_session_find(srv, claims->session_id);

    if (!s && !srv_closed_has(&srv->closed, claims->session_id))
        return session_new(srv, claims, ret, err);
    if (!s || s->closed)
        return closed_error(srv, claims, err);
    if (!same_session(s, claims))
        return gp_err_set(err, -EKEYREVOKED,
                          "session %s: another one of that id is open on this server, "
                          "with another owner or other cards",
                          claims->session);
    session_renew(s, claims);
    *ret = s;
    return 0;
}

/* What @workers of it may use of the host. */
static int
session_limit(const struct srv_session *s, uint32_t workers, struct gp_err *err)
{
    uint64_t slices = 0;

    for (uint32_t i = 0; i < s->claims.n_slices; i++)
        slices += s->claims.slices[i].memory;
    return srv_jail_limit(s->srv->jail, &s->cell, workers, slices, err);
}

/* No string of a kept memory is without its end, no number an index beyond its array.
 */
static int
claims_check(const struct srv *srv, struct ticket_claims *claims, uint64_t id,
             struct gp_err *err)
{
    claims->session[sizeof(claims->session) - 1] = 0;
    claims->owner[sizeof(claims->owner) - 1] = 0;
    claims->key_id[sizeof(claims->key_id) - 1] = 0;
    for (uint32_t i = 0; i < TICKET_SLICES_MAX; i++)
        claims->peers[i][sizeof(claims->peers[i]) - 1] = 0;
    if (claims->session_id != id || claims->n_slices == 0 ||
        claims->n_slices > TICKET_SLICES_MAX || claims->n_peers > TICKET_SLICES_MAX)
        return gp_err_set(err, -EPROTO, "what the keeper has of session %" PRIu64, id);
    return check_cards((struct srv *)(uintptr_t)srv, claims, err);
}

static int
session_adopt(struct srv_session *s, struct srv_keep_fds *fds, struct gp_err *err)
{
    struct srv_session_kept *kept = s->kept;
    int r;

    kept->exports[sizeof(kept->exports) - 1] = 0;
    r = srv_jail_reenter(s->srv->jail, s->claims.session_id, kept->uid, kept->exports,
                         &s->cell, err);
    if (r == 0)
        r = srv_ledger_adopt(&s->claims, fds->fd[SRV_SESSION_LEDGER],
                             fds->fd[SRV_SESSION_SEGMENT], &s->ledger, err);
    if (r < 0)
        return r;
    fds->fd[SRV_SESSION_LEDGER] = -1;
    s->closed = kept->closed != 0;
    s->next_attachment = kept->next_attachment;
    srv_keeper_set(s->srv->keeper, SRV_KEEP_SESSION, s->claims.session_id, 0,
                   SRV_SESSION_SEGMENT, srv_ledger_segment_fd(s->ledger));
    return 0;
}

int
srv_session_adopt(struct srv *srv, uint64_t id, struct srv_keep_fds *fds,
                  struct gp_err *err)
{
    struct srv_session *s = calloc(1, sizeof(*s));
    void *map = NULL;
    int r = -ENOMEM;

    if (s && fds->n >= SRV_SESSION_FDS)
        r = srv_kept_map(fds->fd[SRV_SESSION_KEPT], SRV_KEPT_SESSION, sizeof(*s->kept),
                         &map);
    if (r < 0) {
        free(s);
        return gp_err_set(err, r, "what the keeper has of session %" PRIu64, id);
    }
    s->srv = srv;
    s->kept = map;
    s->claims = s->kept->claims[s->kept->which & 1];
    s->next = srv->sessions;
    srv->sessions = s;
    srv->n_sessions++;
    r = claims_check(srv, &s->claims, id, err);
    if (r == 0)
        r = session_adopt(s, fds, err);
    if (r < 0)
        srv_session_free(s);
    return r;
}

void
srv_session_mend(struct srv_session *s)
{
    srv_ledger_mend(s->ledger);
    session_limit(s, s->n_workers, NULL);
    for (uint32_t i = 0; i < s->claims.n_slices; i++) {
        struct gov_share share = srv_session_share(&s->claims, i);

        srv_arbiter_reshare(
            s->srv->arbiter,
            srv_inventory_find(s->srv->inventory, s->claims.slices[i].card_uuid)->at,
            s->claims.session_id, &share);
    }
}

struct srv_session *
srv_session_find(struct srv *srv, uint64_t id)
{
    struct srv_session *s = srv->sessions;

    while (s && s->claims.session_id != id)
        s = s->next;
    return s;
}

int
srv_session_take_slot(struct srv_session *s, uint32_t *ret_slot, struct gp_err *err)
{
    uint32_t cap = gp_min(s->claims.max_attachments, (uint32_t)WRK_SLOTS_MAX);
    int r;

    if (s->n_workers >= cap)
        return gp_err_set(err, -EDQUOT,
                          "session %s already has %u client processes, its limit",
                          s->claims.session, s->n_workers);
    r = session_limit(s, s->n_workers + 1, err);
    if (r < 0)
        return r;
    if (srv_ledger_slot_take(s->ledger, ret_slot) < 0)
        return gp_err_set(err, -EDQUOT, "session %s: no slot is free",
                          s->claims.session);
    s->n_workers++;
    return 0;
}

void
srv_session_free_slot(struct srv_session *s, uint32_t slot)
{
    srv_ledger_leave(s->ledger, slot);
    session_limit(s, --s->n_workers, NULL);
    if (s->n_workers == 0)
        srv_jail_idle(s->srv->jail, &s->cell);
}

/* It was there, and its server goes on without it. */
static void
session_end(struct srv_session *s)
{
    if (s->srv->session_ended)
        s->srv->session_ended(s->srv, s);
    srv_session_free(s);
}

void
srv_session_commit(struct srv_session *s)
{
    if (!s->closed || s->n_workers)
        return;
    srv_closed_add(&s->srv->closed, s->claims.session_id, "");
    session_end(s);
}

struct srv_session *
srv_session_close(struct srv *srv, uint64_t id, const char *why)
{
    struct srv_session *s = srv_session_find(srv, id);

    if (!s) {
        srv_closed_add(&srv->closed, id, why);
        return NULL;
    }
    if (!s->closed)
        gp_log_info("server", "session %s: %s (%u %s)", s->claims.session,
                    *why ? why : "closed by the scheduler", s->n_workers,
                    gp_plural(s->n_workers, "worker", "workers"));
    s->closed = true;
    srv_closed_add(&srv->closed, id, why);
    s->kept->closed = 1;
    return s;
}

static void
expire(struct srv *srv)
{
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;
    struct srv_session *next;

    for (struct srv_session *s = srv->sessions; s; s = next) {
        next = s->next;
        if (s->n_workers == 0 && s->claims.expires <= now)
            session_end(s);
    }
}

static void
on_expiry(struct gp_loop_timer *timer)
{
    struct srv *srv = container_of(timer, struct srv, expiry);

    expire(srv);
    srv_closed_retry(&srv->closed);
    srv_session_start_expiry(srv);
}

void
srv_session_start_expiry(struct srv *srv)
{
    gp_loop_timer_set(srv->loop, &srv->expiry, gp_now_ns() + EXPIRY_NS, on_expiry);
}

/* Counters of its cards do not fall because it ends. */
static void
keep_spent(const struct srv_session *s)
{
    for (uint32_t i = 0; s->ledger && i < s->claims.n_slices; i++) {
        const struct srv_card *card =
            srv_inventory_find(s->srv->inventory, s->claims.slices[i].card_uuid);

        for (unsigned k = 0; card && k < WRK_SPENT_KINDS; k++)
            s->srv->state->spent[card->at][k] +=
                srv_session_spent(s, (enum wrk_spent)k, i);
    }
}

void
srv_session_free(struct srv_session *s)
{
    struct srv_session **at = &s->srv->sessions;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->srv->n_sessions--;
    srv_export_free_all(s);
    if (!s->srv->leaving) {
        keep_spent(s);
        srv_jail_leave(s->srv->jail, &s->cell);
        srv_keeper_drop(s->srv->keeper, SRV_KEEP_SESSION, s->claims.session_id, 0);
    }
    srv_ledger_free(s->ledger);
    srv_kept_unmap(s->kept, sizeof(*s->kept));
    free(s);
}

uint64_t
srv_session_used(const struct srv_session *s, uint32_t slice)
{
    return srv_ledger_used(s->ledger, slice);
}

uint64_t
srv_session_spent(const struct srv_session *s, enum wrk_spent kind, uint32_t slice)
{
    return srv_ledger_spent(s->ledger, kind, slice);
}

unsigned
srv_session_links_of(const struct srv_session *s, uint32_t transport, uint32_t gdr_mode)
{
    return srv_ledger_links(s->ledger, transport, gdr_mode);
}

void
srv_session_links(const struct srv_session *s, char text[SRV_LINKS_MAX])
{
    size_t at = 0;

    text[0] = 0;
    for (uint32_t t = WRK_TRANSPORTS - 1; t; t--)
        for (uint32_t gdr_mode = 0; gdr_mode < WRK_GDR_MODES; gdr_mode++) {
            unsigned n = srv_session_links_of(s, t, gdr_mode);

            if (!n || at >= SRV_LINKS_MAX)
                continue;
            at += (size_t)snprintf(text + at, SRV_LINKS_MAX - at, "%s%u %s%s%s%s",
                                   at ? ", " : "", n, wrk_transport_name(t),
                                   gdr_mode ? " (" : "", wrk_gdr_mode_name(gdr_mode),
                                   gdr_mode ? ")" : "");
        }
}

uint64_t
srv_session_high(const struct srv_session *s, uint32_t slice)
{
    return srv_ledger_high(s->ledger, slice);
}
