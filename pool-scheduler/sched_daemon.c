/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_daemon.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_metrics.h"
#include "gp_net.h"
#include "gp_notify.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_account_keep.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_copy.h"
#include "sched_door.h"
#include "sched_ended.h"
#include "sched_ending.h"
#include "sched_fed.h"
#include "sched_handle.h"
#include "sched_history.h"
#include "sched_metrics_cards.h"
#include "sched_metrics_text.h"
#include "sched_rates.h"
#include "sched_relay.h"
#include "sched_reload.h"
#include "sched_replica.h"
#include "sched_rules.h"
#include "sched_serve.h"
#include "sched_signer.h"
#include "sched_store.h"
#include "sched_tokens.h"
#include "sched_wait.h"
#include "ticket_key.h"
#include "tls_handshake.h"
#include "view.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/un.h>

/* Leases and heartbeats are seconds; a quarter of one is exact enough. */
#define TICK_NS (250 * GP_NS_PER_MS)
/* A tick that is later than this: the process was stopped, or its machine was. */
#define PAUSE_NS (2 * GP_NS_PER_S)
/* Three times the longest --heartbeat-ms: what a server may say of itself. */
#define SILENCE_MAX_MS 180000

/* -------------------------------------------------------------------- time -- */

/* Nobody could renew or report while this process stood still, as in a control group
 * that was frozen.  What clients and servers have sent since then is read after the
 * tick. */
static void
make_up_for_pause(struct sched *sched, uint64_t now)
{
    uint64_t pause = now - gp_min(now, sched->ticked_ns + TICK_NS);
    struct sched_sessions *set = &sched->sessions;
    const struct sched_session *s = NULL;

    sched->ticked_ns = now;
    if (pause < PAUSE_NS)
        return;
    gp_log_warn("sched",
                "stood still for %" PRIu64 " ms, which leases and servers are given",
                pause / GP_NS_PER_MS);
    while ((s = sched_sessions_next(set, s))) {
        uint64_t most = now + s->lease_ms * GP_NS_PER_MS;

        if (!s->closing && s->lease_end_ns < most)
            sched_session_lease(set, sched_sessions_find(set, s->id),
                                gp_min(s->lease_end_ns + pause, most));
    }
    for (struct sched_server *server = sched->pool->servers; server;
         server = server->next)
        if (server->conn)
            server->seen_ns = gp_min(server->seen_ns + pause, now);
}

static void
expire_leases(struct sched *sched, uint64_t now)
{
    struct sched_session *session;

    while ((session = sched_sessions_first_lease(&sched->sessions)) &&
           session->lease_end_ns <= now) {
        const char *words = "its lease was not renewed";

        if (session->pending && session->ends_ns <= now)
            return;             /* it ends when it is on disk */
        if (session->pending) { /* its term begins when it is on disk */
            sched_session_lease(&sched->sessions, session,
                                now + session->lease_ms * GP_NS_PER_MS);
            continue;
        }
        if (session->ends_ns <= now) {
            words = sched_session_end_words(session);
            sched_wait_notify(session, words, 1);
        } else {
            sched->counters.expired++;
        }
        sched_session_end(sched, session, words);
    }
}

/* One that has not heard of a shorter heartbeat, or does not know that it can change,
 * is given the time of its own. */
static uint64_t
silence_ns(const struct sched *sched, const struct sched_server *server)
{
    uint64_t ms = gp_min((uint64_t)3 * server->beat_ms, (uint64_t)SILENCE_MAX_MS);

    return gp_max(ms, (uint64_t)sched->config.dead_after_ms) * GP_NS_PER_MS;
}

static void
expire_servers(struct sched *sched, uint64_t now)
{
    for (struct sched_server *s = sched->pool->servers; s; s = s->next) {
        if (!s->conn || now - s->seen_ns <= silence_ns(sched, s))
            continue;
        gp_log_warn("server", "%s: silent for %" PRIu64 " ms", s->name,
                    (now - s->seen_ns) / GP_NS_PER_MS);
        sched_serve_end(s->conn);
    }
}

/* Hosts come and go; without this the list would only grow. */
static void
forget_servers(struct sched *sched, uint64_t now)
{
    struct sched_server *server, *next;

    for (server = sched->pool->servers; server; server = next) {
        uint64_t seen = gp_max(server->seen_ns, sched->started_ns);
        char name[CTL_NAME_MAX];
        struct gp_err err = {0};

        next = server->next;
        if (server->conn || now - seen < sched->config.forget_ms * GP_NS_PER_MS)
            continue;
        gp_str_copy(name, sizeof(name), server->name);
        if (sched_pool_server_remove(sched->pool, server) < 0)
            continue;
        gp_log_info("server", "%s: away for too long, forgotten", name);
        sched_commit_soon(sched);
        if (sched_store_del_server(sched->store, name, &err) < 0)
            gp_log_error("server", "%s: still in the state file: %s", name, err.msg);
    }
}

static void
on_tick(struct gp_loop_timer *timer)
{
    struct sched *sched = container_of(timer, struct sched, tick);
    uint64_t now = gp_now_ns();

    gp_notify_alive(now);
    sched_commit_turn(sched);
    sched_store_write(sched->store); /* what an earlier write could not */
    make_up_for_pause(sched, now);
    if (sched_replica_leads(sched)) {
        expire_leases(sched, now);
        expire_servers(sched, now);
        forget_servers(sched, now);
        sched_wait_tick(sched, now);
        sched_fed_tick(sched, now);
        sched_account_tick(sched, now);
        sched_history_tick(sched->history, sched->pool,
                           (uint32_t)sched->sessions.by_id.count, sched->waits->queue.n,
                           now);
    } else {
        sched_wait_renew_total(sched);
        sched_copy_tick(sched, now);
    }
    sched_serve_sweep_unread(sched, now);
    sched_watch_pool_check(sched);
    gp_loop_timer_set(sched->loop, timer, now + TICK_NS, on_tick);
}

/* -------------------------------------------------------------- start, stop -- */

static void
on_accept(struct gp_listener *listener, int fd)
{
    sched_serve_accept(container_of(listener, struct sched, listener), fd);
}

static void
on_accept_local(struct gp_listener *listener, int fd)
{
    sched_serve_accept(container_of(listener, struct sched, local), fd);
}

static void
on_trouble(struct gp_listener *listener, int error)
{
    gp_listener_log_trouble(&container_of(listener, struct sched, listener)->accept_log,
                            "sched", error);
}

static void
on_trouble_local(struct gp_listener *listener, int error)
{
    gp_listener_log_trouble(&container_of(listener, struct sched, local)->accept_log,
                            "sched", error);
}

static void
on_signal(struct gp_loop *loop, int signo, void *arg)
{
    struct gp_err err = {0};
    int r;

    if (signo == SIGHUP) {
        gp_notify("STATUS=reading options and rules again");
        r = gp_log_reopen();
        if (r < 0)
            gp_log_error("sched", "the log's file is not opened anew: %s",
                         strerror(-r));
        r = sched_reload(arg, &err);
        gp_notify("STATUS=");
        if (r < 0)
            gp_log_error("sched",
                         "options, rules, tokens and key stay as they were: %s",
                         gp_err_msg(&err, r));
        else
            gp_log_info("sched", "rules, tokens and key were read again");
        return;
    }
    gp_log_info("sched", "%s: stopping", strsignal(signo));
    gp_notify("STOPPING=1");
    gp_loop_stop(loop, 0);
}

static int
open_state(struct sched *sched, struct gp_err *err)
{
    int r = gp_file_mkdirs(sched->config.state_dir, 0700, err);

    return r < 0 ? r : sched_replica_open(sched, err);
}

static int
start_tls(struct sched *sched, struct gp_err *err)
{
    int r = tls_policy_parse(sched->config.tls, "--tls", &sched->tls_policy, err);

    if (r < 0 || sched->tls_policy == TLS_OFF)
        return r;
    r = sched_reload_tls(sched->key, &sched->tls, err);
    if (sched->tls_policy == TLS_PREFER)
        gp_log_info("sched",
                    "clear-text TCP is accepted as well as TLS; --tls require refuses "
                    "it");
    return r;
}

static int
start_listening(struct sched *sched, struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    int r;

    r = gp_net_listen(sched->config.listen, CTL_DEFAULT_PORT, SOMAXCONN, &fd, err);
    if (r < 0)
        return r;
    r = gp_listener_init(&sched->listener, sched->loop, fd, on_accept, on_trouble);
    if (r < 0)
        return gp_err_set(err, r, "event loop: %s", strerror(-r));
    fd = -1; /* closed by sched_fini() */
    return 0;
}

/* Local administrators are known by their user id here. */
static int
start_local(struct sched *sched, struct gp_err *err)
{
    const char *given = sched->config.local;
    CLEANUP_FREE char *path =
        given ? strdup(given)
              : gp_str_printf("unix:%s/" SCHED_SOCKET_NAME, sched->config.state_dir);
    CLEANUP_FD int fd = -1;
    int r;

    if (!path)
        return -ENOMEM;
    if (strncmp(path, "unix:", 5) != 0)
        return gp_err_set(err, -EINVAL, "--local %s: unix:/path is wanted", path);
    if (!given && strlen(path) - 5 >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        gp_log_warn("sched",
                    "no Unix socket for local administrators: %s is too long; "
                    "--local unix:PATH names a shorter one",
                    path);
        return 0;
    }
    r = gp_net_listen(path, 0, 64, &fd, err);
    if (r < 0)
        return r;
    r = gp_listener_init(&sched->local, sched->loop, fd, on_accept_local,
                         on_trouble_local);
    if (r < 0)
        return gp_err_set(err, r, "event loop: %s", strerror(-r));
    fd = -1; /* closed by sched_fini() */
    return 0;
}

static void
warn_of_open_doors(const struct sched *sched)
{
    for (int role = 0; role < SCHED_ROLES; role++)
        if (sched->config.anonymous[role])
            gp_log_warn("sched",
                        "--allow-anonymous %s: everybody who can connect may "
                        "act as %s",
                        sched_role_name(role), sched_role_name(role));
}

/* "host:port" with the port that was really taken. */
static int
announce(struct sched *sched, struct gp_err *err)
{
    char name[GP_NET_NAME_MAX];
    CLEANUP_FREE char *line = NULL;

    gp_net_own_name(sched->listener.src.fd, name, sizeof(name));
    gp_log_info("sched", "listening on %s, %u %s and %zu %s known, key %s", name,
                sched->pool->n_servers,
                gp_plural(sched->pool->n_servers, "server", "servers"),
                sched->sessions.by_id.count,
                gp_plural(sched->sessions.by_id.count, "session", "sessions"),
                ticket_key_id(sched->key));
    if (!sched->config.ready_file)
        return 0;
    line = gp_str_printf("%s\n", name);
    if (!line)
        return -ENOMEM;
    return gp_file_replace(sched->config.ready_file, line, strlen(line), 0644, err);
}

/* What needs nothing but memory.  -ENOMEM. */
static int
init_values(struct sched *sched, const struct sched_config *config)
{
    memset(sched, 0, sizeof(*sched));
    sched->config = *config;
    sched->started_ns = gp_now_ns();
    sched->signs_since_unix = gp_wall_ns() / GP_NS_PER_S;
    sched->next_report = 1;
    sched->commit.end = &sched->commit.first;
    sched->fed_waits_end = &sched->fed_waits;
    sched->commit.answers_end = &sched->commit.answers;
    sched->commit.orphaned = sched_session_orphaned;
    sched->reads.answer = sched_serve_read;
    sched_door_init(sched);
    sched->door.serve = sched_serve_begin;
    sched->door.end = sched_serve_end;
    sched->pool = sched_pool_new();
    sched->history = calloc(1, sizeof(*sched->history));
    sched->ended = calloc(1, sizeof(*sched->ended));
    if (!sched->pool || !sched->history || !sched->ended)
        return -ENOMEM;
    sched_sessions_init(&sched->sessions, sched->pool);
    return sched_rates_init(&sched->rates, &sched->config);
}

/* Tokens, rules, and what the store knows of the pool. */
static int
load(struct sched *sched, struct gp_err *err)
{
    const struct sched_config *config = &sched->config;
    int r = sched_tokens_load(config, &sched->tokens, err);

    if (!r)
        r = sched_rules_load(config->rules, &sched->rules, err);
    sched->sessions.tenants.rules = sched->rules;
    if (!r)
        r = sched_waits_init(sched);
    if (!r)
        r = sched_relay_new(&sched->relay);
    if (!r)
        r = open_state(sched, err);
    if (!r)
        sched_reload_apply_rules(sched);
    return r;
}

static int
start_metrics(struct sched *sched, struct gp_err *err)
{
    const struct gp_metrics_config config = {.listen = sched->config.metrics_listen,
                                             .area = "metrics",
                                             .more = SCHED_METRICS_CARDS_PATH,
                                             .answer = sched_metrics_answer,
                                             .arg = sched};

    return config.listen ? gp_metrics_start(sched->loop, &config, &sched->metrics, err)
                         : 0;
}

/* The event loop, the threads beside it, and everything that listens. */
static int
start(struct sched *sched, struct gp_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, 0};
    int r = gp_loop_new(&sched->loop, err);

    if (!r)
        r = gp_loop_signals(sched->loop, signals, on_signal, sched, err);
    if (!r)
        r = sched_commit_start(sched, err);
    if (!r)
        r = sched_fed_new(sched->loop, sched->rules, NULL, &sched->fed, err);
    if (!r)
        r = start_tls(sched, err);
    if (!r)
        r = sched_replica_start(sched, err);
    if (!r)
        r = start_listening(sched, err);
    if (!r)
        r = start_local(sched, err);
    if (!r)
        warn_of_open_doors(sched);
    if (!r)
        r = start_metrics(sched, err);
    if (!r && sched->config.http)
        r = view_start(sched, &sched->view, err);
    if (!r && sched->config.kube_pods)
        r = sched_kube_start(sched, err);
    return r;
}

int
sched_init(struct sched *sched, const struct sched_config *config, struct gp_err *err)
{
    int r = init_values(sched, config);

    if (!r)
        r = load(sched, err);
    if (!r)
        r = start(sched, err);
    if (!r && sched_replica_leads(sched))
        sched_account_tick(sched, gp_now_ns());
    if (!r)
        r = announce(sched, err);
    if (r < 0)
        return r;
    sched->ticked_ns = gp_now_ns();
    gp_loop_timer_set(sched->loop, &sched->tick, sched->ticked_ns + TICK_NS, on_tick);
    gp_notify("READY=1");
    return 0;
}

int
sched_run(struct sched *sched)
{
    return gp_loop_run(sched->loop);
}

void
sched_fini(struct sched *sched)
{
    gp_loop_timer_del(&sched->tick);
    if (sched->store) {
        sched_account_end(sched);
        sched_commit(sched, NULL);
    }
    while (sched->conns)
        sched_serve_end(sched->conns);
    sched_door_fini(sched);
    sched_relay_cancel(sched->relay);
    sched_relay_free(TAKE_PTR(sched->relay));
    sched_fed_cancel(sched->fed);
    sched_fed_free(sched->fed);
    gp_metrics_stop(sched->metrics);
    sched_metrics_page_free(sched->metrics_page);
    view_stop(sched->view);
    tls_context_free(sched->tls);
    gp_listener_fini(&sched->listener);
    gp_listener_fini(&sched->local);
    sched_kube_stop(sched->kube);
    sched_replica_fini(sched);
    sched_store_close(sched->store);
    sched_signer_free(sched->signer);
    gp_loop_timer_del(&sched->commit.timer);
    gp_loop_timer_del(&sched->reads.timer);
    if (sched->waits)
        gp_loop_timer_del(&sched->waits->timer);
    gp_loop_free(sched->loop);
    sched_waits_fini(sched);
    if (sched->pool)
        sched_sessions_fini(&sched->sessions);
    sched_rules_free(sched->rules);
    sched_tokens_free(sched->tokens);
    ticket_key_free(sched->key);
    ticket_key_free(sched->old_key);
    sched_pool_free(sched->pool);
    sched_rates_fini(&sched->rates);
    sched_events_fini(&sched->events);
    sched_copy_fini(&sched->copy);
    free(sched->history);
    free(sched->ended);
}
