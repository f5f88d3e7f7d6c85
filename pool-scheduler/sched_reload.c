/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_reload.h"

#include "ctl_limits.h"
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_conn.h"
#include "sched_fed.h"
#include "sched_handle.h"
#include "sched_peer.h"
#include "sched_rates.h"
#include "sched_replica.h"
#include "sched_rules.h"
#include "sched_serve.h"
#include "sched_tokens.h"
#include "sched_wait.h"
#include "ticket_key.h"
#include "tls_handshake.h"
#include "view.h"

#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------- rules -- */

static void
apply_to_card(struct sched *sched, struct sched_card *card)
{
    const struct sched_card_facts *facts = &card->facts;

    sched_pool_set_tflops(sched->pool, card,
                          sched_rules_tflops(sched->rules, facts->name));
    if (sched_pool_set_island(sched->pool, card,
                              sched_rules_island(sched->rules, card->server->name,
                                                 facts->index, facts->driver_island)) <
        0)
        gp_log_warn("server", "%s: out of memory; card %u is in no island",
                    card->server->name, facts->index);
}

void
sched_reload_apply_rules(struct sched *sched)
{
    char labels[SCHED_LABELS_MAX];
    struct sched_reach reach;

    for (struct sched_server *s = sched->pool->servers; s; s = s->next) {
        sched_rules_labels(sched->rules, s->name, labels, sizeof(labels));
        if (sched_pool_set_labels(sched->pool, s, labels) < 0)
            gp_log_warn("server",
                        "%s: too many kinds of cards; requests that select "
                        "cards may pass it over",
                        s->name);
        reach = s->reach;
        reach.zone = sched_rules_zone(sched->rules, s->name);
        if (sched_pool_set_reach(sched->pool, s, &reach) < 0)
            gp_log_warn("server", "%s: too many kinds of cards", s->name);
        if (sched_pool_set_fabric(
                sched->pool, s,
                sched_rules_fabric(sched->rules, s->name, s->driver_fabric)) < 0)
            gp_log_warn("server", "%s: too many fabrics; it is in none", s->name);
        for (unsigned i = 0; i < s->n_cards; i++)
            apply_to_card(sched, s->cards[i]);
        sched_pool_server_update(sched->pool, s);
    }
}

static void
change_rules(struct sched *sched, struct sched_rules *rules)
{
    struct sched_rules *old = sched->rules;

    sched->rules = rules;
    sched_sessions_set_rules(&sched->sessions, rules);
    sched_wait_rules_changed(sched);
    sched_reload_apply_rules(sched);
    sched_rules_free(old);
}

/* ------------------------------------------------------------------ tokens -- */

/* The session of a `gpupool run` needs its lease key only; all else asks anew. */
static bool
may_stay(const struct sched_conn *conn)
{
    return conn->held && !conn->waiting && !conn->server;
}

static void
change_tokens(struct sched *sched, struct sched_tokens *tokens)
{
    struct sched_conn *next;
    struct sched_tokens *old = sched->tokens;

    sched->tokens = tokens;
    for (struct sched_conn *conn = sched->conns; conn; conn = next) {
        char who[CTL_OWNER_MAX];

        next = conn->next;
        gp_str_copy(who, sizeof(who), sched_peer_who(conn) ? sched_peer_who(conn) : "");
        if (sched_peer_rebind(conn, tokens))
            continue;
        gp_audit("revoked", "from", conn->peer, "who", who, NULL);
        gp_log_info("conn", "%s: the token of %s is not good any more%s", conn->peer,
                    who, may_stay(conn) ? "" : ", disconnected");
        if (!may_stay(conn))
            sched_serve_end(conn);
    }
    sched_tokens_free(old);
}

/* --------------------------------------------------------------------- key -- */

int
sched_reload_tls(const struct ticket_key *key, struct tls_context **ret,
                 struct gp_err *err)
{
    uint8_t seed[32];
    int r;

    if (ticket_key_seed(key, seed) < 0)
        return gp_err_set(err, -ENOKEY, "the ticket key has no private half");
    r = tls_context_cert(seed, ret, err);
    explicit_bzero(seed, sizeof(seed));
    return r;
}

/* Connections that have not begun to speak begin with the new key. */
static void
move_connections(struct sched *sched)
{
    for (struct sched_conn *conn = sched->conns; conn; conn = conn->next) {
        if (conn->door.hs || conn->msg.wire)
            continue;
        ticket_key_free(conn->key);
        conn->key = ticket_key_ref(sched->key);
        conn->door.ctx = sched->tls;
    }
}

/* Other schedulers of the pool, which prove the key, prove the new one. */
static void
end_relays(struct sched *sched)
{
    struct sched_conn *next;

    for (struct sched_conn *conn = sched->conns; conn; conn = next) {
        next = conn->next;
        if (conn->relays)
            sched_serve_end(conn);
    }
}

/* What was read, until all of it is. */
struct change {
    struct sched_reread options;
    struct sched_rates rates;
    struct sched_rules *rules;
    struct sched_fed *fed;
    struct sched_tokens *tokens;
    struct ticket_key *key, *old_key; /* @key NULL: it comes from the store */
    struct tls_context *tls;
    struct view_cert *cert;
};

static void
change_fini(struct change *c)
{
    sched_rates_fini(&c->rates);
    sched_rules_free(c->rules);
    sched_fed_free(c->fed);
    sched_tokens_free(c->tokens);
    ticket_key_free(c->key);
    ticket_key_free(c->old_key);
    tls_context_free(c->tls);
    view_cert_free(c->cert);
}

static bool
is_key(const struct ticket_key *a, const struct ticket_key *b)
{
    return a && b && !memcmp(ticket_key_pub(a), ticket_key_pub(b), TICKET_PUB_SIZE);
}

/* Whoever took a key out, as one that was stolen, sees that it is out. */
static void
say_gone(const struct ticket_key *gone, const struct change *c)
{
    if (!gone || is_key(gone, c->key) || is_key(gone, c->old_key))
        return;
    gp_log_info("sched", "the key %s is not good any more", ticket_key_id(gone));
    gp_audit("key", "gone", ticket_key_id(gone), NULL);
}

/* Servers hear of the new key now; until each has, a ticket is signed with the old one,
 * where that stays good. */
static void
change_key(struct sched *sched, struct change *c)
{
    bool was_other = !is_key(c->key, sched->key);
    uint64_t wait_ns = is_key(c->old_key, sched->key)
                           ? 2 * sched->config.heartbeat_ms * GP_NS_PER_MS
                           : 0;

    say_gone(sched->key, c);
    say_gone(sched->old_key, c);
    if (was_other) {
        sched->sign_old_ns = gp_now_ns() + wait_ns;
        sched->signs_since_unix = (gp_wall_ns() + wait_ns) / GP_NS_PER_S + 1;
        gp_log_info("sched", "the key is %s from now on, it was %s%s",
                    ticket_key_id(c->key), ticket_key_id(sched->key),
                    is_key(c->old_key, sched->key) ? ", which stays good" : "");
        gp_audit("key", "key", ticket_key_id(c->key), "before",
                 ticket_key_id(sched->key), NULL);
        ticket_key_free(sched->key);
        sched->key = TAKE_PTR(c->key);
        tls_context_free(sched->tls);
        sched->tls = TAKE_PTR(c->tls);
    }
    ticket_key_free(sched->old_key);
    sched->old_key = TAKE_PTR(c->old_key);
    if (was_other)
        move_connections(sched);
    end_relays(sched);
    sched_handle_tell_keys(sched);
}

static int
read_key(const struct sched *sched, struct change *c, struct gp_err *err)
{
    int r = sched_replica_read_key(sched, &c->key, &c->old_key, err);

    if (!r && c->key && sched->tls_policy != TLS_OFF)
        r = sched_reload_tls(c->key, &c->tls, err);
    if (!r && c->key)
        r = sched_replica_publish_key(sched, c->key, c->old_key, err);
    return r;
}

/* ----------------------------------------------------------------- options -- */

static int
read_options(const struct sched *sched, struct change *c, struct gp_err *err)
{
    int r;

    c->options.config = sched->config;
    r = sched->config.reread ? sched->config.reread(&sched->config, &c->options, err)
                             : 0;
    return r < 0 ? r : sched_rates_init(&c->rates, &c->options.config);
}

static bool
same_rates(const struct sched_config *a, const struct sched_config *b)
{
    return a->rate_requests == b->rate_requests && a->rate_opens == b->rate_opens &&
           a->rate_denials == b->rate_denials && a->rate_reads == b->rate_reads;
}

/* Servers hear of another heartbeat when they are told the keys. */
static void
change_options(struct sched *sched, struct change *c)
{
    const struct sched_config *config = &c->options.config;

    if (*c->options.changes.live)
        gp_log_info("sched", "changed: %s", c->options.changes.live);
    if (*c->options.changes.fixed)
        gp_log_warn("sched", "changed, but needs a restart: %s",
                    c->options.changes.fixed);
    if (!same_rates(&sched->config, config)) {
        sched_rates_fini(&sched->rates);
        sched->rates = c->rates;
        c->rates = (struct sched_rates){0};
    }
    if (sched->config.log != config->log)
        gp_log_set_filter(config->log);
    sched->config = *config;
}

int
sched_reload(struct sched *sched, struct gp_err *err)
{
    CLEANUP(change_fini) struct change c = {0};
    /* First: when its file was renamed for rotation, events must go to the new one
     * whatever fault the other files have. */
    int r = gp_audit_reopen(err);

    if (!r)
        r = read_options(sched, &c, err);
    if (!r)
        r = sched_rules_load(c.options.config.rules, &c.rules, err);
    if (!r)
        r = sched_fed_new(sched->loop, c.rules, sched->fed, &c.fed, err);
    if (!r)
        r = sched_tokens_load(&c.options.config, &c.tokens, err);
    if (!r)
        r = view_cert_read(sched->view, &c.cert, err);
    if (!r)
        r = read_key(sched, &c, err);
    if (r < 0)
        return r;
    change_options(sched, &c);
    change_rules(sched, TAKE_PTR(c.rules));
    sched_fed_free(sched->fed);
    sched->fed = TAKE_PTR(c.fed);
    if (c.key)
        change_key(sched, &c);
    else
        sched_handle_tell_keys(sched);
    change_tokens(sched, TAKE_PTR(c.tokens));
    view_cert_use(sched->view, TAKE_PTR(c.cert));
    gp_audit("reload", NULL);
    return 0;
}
