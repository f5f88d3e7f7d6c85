/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler as a process, with servers and clients played by the test: what it
 * promises across kills, restarts, lost connections and hostile peers.
 */
#include "ut.h"

#include "control.pb-c.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_daemon.h"
#include "ticket.h"
#include "ticket_key.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define GIB (UINT64_C(1) << 30)
#define PATIENCE (20 * GP_NS_PER_S)

typedef Gpupool__Ctl__CtlReply reply_t;

struct world {
    char dir[64], ready[128], address[64];
    struct sched_config config;
    pid_t scheduler;
};

/* -------------------------------------------------------------- the daemon -- */

static void
be_the_scheduler(const struct sched_config *config)
{
    struct gp_err err = {0};
    struct sched sched;
    int r;

    gp_log_init("scheduler", GP_LOG_NONE);
    r = sched_init(&sched, config, &err);
    if (!r)
        r = sched_run(&sched);
    else
        fprintf(stderr, "scheduler: %s\n", gp_err_msg(&err, r));
    sched_fini(&sched);
    exit(r < 0);
}

static void
start(struct world *w)
{
    char *text;
    size_t len;

    unlink(w->ready);
    w->scheduler = fork();
    assert_true(w->scheduler >= 0);
    if (w->scheduler == 0)
        be_the_scheduler(&w->config);
    while (access(w->ready, R_OK) < 0) {
        assert_int_equal(waitpid(w->scheduler, NULL, WNOHANG), 0);
        usleep(2000);
    }
    assert_int_equal(gp_file_read(w->ready, 100, &text, &len, NULL), 0);
    text[strcspn(text, "\n")] = 0;
    gp_str_copy(w->address, sizeof(w->address), text);
    free(text);
}

static void
end(struct world *w, int sig)
{
    int status;

    kill(w->scheduler, sig);
    assert_int_equal(waitpid(w->scheduler, &status, 0), w->scheduler);
    if (sig == SIGTERM)
        assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static int
setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    snprintf(w->dir, sizeof(w->dir), "/tmp/ut-sched-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    snprintf(w->ready, sizeof(w->ready), "%s/ready", w->dir);
    w->config = (struct sched_config){
        .listen = "127.0.0.1:0",
        .state_dir = w->dir,
        .ready_file = w->ready,
        .heartbeat_ms = 100,
        .dead_after_ms = 60000,
        .lease_ms = 60000,
        .lease_min_ms = 50,
        .lease_max_ms = 600000,
        .hold_grace_ms = 300,
        .placement = SCHED_BINPACK,
        .owner_sessions = 4,
        .max_attachments = 8,
    };
    start(w);
    *state = w;
    return 0;
}

static int
teardown(void **state)
{
    struct world *w = *state;
    char command[128];

    end(w, SIGTERM);
    snprintf(command, sizeof(command), "rm -rf '%s'", w->dir);
    assert_int_equal(system(command), 0);
    free(w);
    return 0;
}

/* ------------------------------------------------------------------- peers -- */

static int
dial(const struct world *w)
{
    int fd;

    assert_int_equal(
        gp_net_connect(w->address, 0, gp_now_ns() + PATIENCE, true, &fd, NULL), 0);
    return fd;
}

static void
post(int fd, Gpupool__Ctl__CtlRequest *req)
{
    static uint32_t id;
    uint8_t bytes[4096];

    req->id = ++id;
    assert_true(gpupool__ctl__ctl_request__get_packed_size(req) <= sizeof(bytes));
    assert_int_equal(gp_msg_send(fd, bytes, gpupool__ctl__ctl_request__pack(req, bytes),
                                 gp_now_ns() + PATIENCE, NULL),
                     0);
}

static reply_t *
hear(int fd)
{
    void *data;
    size_t len;
    reply_t *reply;

    if (gp_msg_recv(fd, CTL_REPLY_MAX, gp_now_ns() + PATIENCE, &data, &len, NULL) < 0)
        return NULL;
    reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);
    free(data);
    assert_non_null(reply);
    return reply;
}

static void
drop(reply_t *reply)
{
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}

static reply_t *
ask(int fd, Gpupool__Ctl__CtlRequest *req)
{
    reply_t *reply;

    post(fd, req);
    reply = hear(fd);
    assert_non_null(reply);
    assert_int_equal(reply->id, req->id);
    return reply;
}

static void
assert_refused(reply_t *reply, Gpupool__Ctl__CtlCode code, const char *words)
{
    assert_non_null(reply->error);
    assert_int_equal(reply->error->code, code);
    if (!strstr(reply->error->words, words))
        fail_msg("\"%s\" does not say \"%s\"", reply->error->words, words);
    drop(reply);
}

struct play { /* what a played server says of itself */
    const char *name;
    uint64_t instance;
    unsigned cards;
    uint64_t running; /* a session id, or 0 */
    const char *token;
};

static reply_t *
enlist(int fd, const struct play *play)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRegister reg = GPUPOOL__CTL__CTL_REGISTER__INIT;
    Gpupool__Ctl__CtlCard cards[8], *list[8];
    Gpupool__Ctl__CtlSessionUse use = GPUPOOL__CTL__CTL_SESSION_USE__INIT, *uses = &use;
    uint8_t uuids[8][16];

    for (unsigned i = 0; i < play->cards; i++) {
        gpupool__ctl__ctl_card__init(&cards[i]);
        memset(uuids[i], play->name[0], 16);
        uuids[i][15] = (uint8_t)i;
        cards[i].uuid = (ProtobufCBinaryData){16, uuids[i]};
        cards[i].name = (char *)"a card";
        cards[i].memory_bytes = 16 * GIB;
        cards[i].index = i;
        list[i] = &cards[i];
    }
    reg.major = CTL_MAJOR;
    reg.token = (char *)(play->token ? play->token : "");
    reg.server = (char *)play->name;
    reg.endpoint = (char *)":7481";
    reg.instance = play->instance;
    reg.cards = list;
    reg.n_cards = play->cards;
    use.session_id = play->running;
    use.attachments = 1;
    reg.sessions = &uses;
    reg.n_sessions = play->running != 0;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REGISTER_SERVER;
    req.register_server = &reg;
    return ask(fd, &req);
}

static int
join(const struct world *w, const char *name, unsigned cards)
{
    int fd = dial(w);
    reply_t *reply =
        enlist(fd, &(struct play){.name = name, .instance = 1, .cards = cards});

    assert_null(reply->error);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_REGISTERED);
    drop(reply);
    return fd;
}

/* A heartbeat that names @running, if not 0. */
static reply_t *
report(int fd, uint64_t running)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlReport body = GPUPOOL__CTL__CTL_REPORT__INIT;
    Gpupool__Ctl__CtlSessionUse use = GPUPOOL__CTL__CTL_SESSION_USE__INIT, *uses = &use;

    use.session_id = running;
    use.attachments = 3;
    body.sessions = &uses;
    body.n_sessions = running != 0;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT;
    req.report = &body;
    return ask(fd, &req);
}

static Gpupool__Ctl__CtlOpen
wish(uint32_t core, uint64_t memory)
{
    Gpupool__Ctl__CtlOpen open = GPUPOOL__CTL__CTL_OPEN__INIT;

    open.major = CTL_MAJOR;
    open.owner = (char *)"ada@host";
    open.core = core;
    open.memory_bytes = memory;
    return open;
}

static reply_t *
ask_open(int fd, Gpupool__Ctl__CtlOpen *open)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = open;
    return ask(fd, &req);
}

static reply_t *
ask_wish(int fd, uint32_t core)
{
    Gpupool__Ctl__CtlOpen open = wish(core, GIB);

    return ask_open(fd, &open);
}

/* A grant; the caller drops it. */
static reply_t *
granted(int fd, Gpupool__Ctl__CtlOpen open)
{
    reply_t *reply = ask_open(fd, &open);

    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    return reply;
}

static reply_t *
ask_renew(int fd, const Gpupool__Ctl__CtlGrant *grant, bool hold)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew renew = GPUPOOL__CTL__CTL_RENEW__INIT;

    renew.session_id = grant->session_id;
    renew.lease_key = grant->lease_key;
    renew.hold = hold;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req.renew = &renew;
    return ask(fd, &req);
}

static void
post_close(int fd, const Gpupool__Ctl__CtlGrant *grant)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose close_msg = GPUPOOL__CTL__CTL_CLOSE__INIT;

    close_msg.session_id = grant->session_id;
    close_msg.lease_key = grant->lease_key;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &close_msg;
    post(fd, &req);
}

static reply_t *
ask_status(int fd)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;
    reply_t *reply;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &status;
    reply = ask(fd, &req);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_STATUS);
    return reply;
}

static reply_t *
ask_drain(int fd, const char *server, bool undo)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlDrain drain = GPUPOOL__CTL__CTL_DRAIN__INIT;

    drain.server = (char *)server;
    drain.undo = undo;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_DRAIN;
    req.drain = &drain;
    return ask(fd, &req);
}

static void
await_notice(int server, uint64_t session)
{
    reply_t *notice = hear(server);

    assert_non_null(notice);
    assert_int_equal(notice->id, 0);
    assert_int_equal(notice->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSE_SESSION);
    assert_int_equal(notice->close_session->session_id, session);
    drop(notice);
}

/* ---------------------------------------------------------------- promises -- */

static void
ticket_of_a_grant_is_good_for_its_server(void **state)
{
    struct world *w = *state;
    int server = dial(w), client = dial(w);
    reply_t *reg =
        enlist(server, &(struct play){.name = "node-a", .instance = 1, .cards = 2});
    Gpupool__Ctl__CtlOpen open = wish(30, GIB);
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;
    struct ticket_claims c;
    struct ticket_key *pub;
    reply_t *grant;

    assert_int_equal(ticket_key_from_pub(reg->registered->scheduler_key.data,
                                         reg->registered->scheduler_key.len, &pub,
                                         NULL),
                     0);
    open.policy = GPUPOOL__CTL__CTL_POLICY__CTL_BURST_SHARE;
    open.core_limit = 60;
    grant = granted(client, open);
    assert_int_equal(grant->grant->n_tickets, 1);
    assert_string_equal(grant->grant->tickets[0]->server, "node-a");
    assert_string_equal(grant->grant->tickets[0]->endpoint, "127.0.0.1:7481");
    assert_int_equal(
        ticket_verify(pub, grant->grant->tickets[0]->text, now, "node-a", &c, NULL), 0);
    assert_int_equal(c.session_id, grant->grant->session_id);
    assert_string_equal(c.owner, "ada@host");
    assert_int_equal(c.policy, TICKET_BURST_SHARE);
    assert_int_equal(c.slices[0].core, 30);
    assert_int_equal(c.slices[0].core_limit, 60);
    assert_true(c.slices[0].memory == GIB);
    assert_int_equal(c.max_attachments, 8);
    assert_in_range(c.expires, now + 60, now + 120);
    ticket_key_free(pub);
    drop(reg);
    drop(grant);
    close(server);
    close(client);
}

static void
killed_scheduler_comes_back_with_its_sessions(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    reply_t *grant = granted(client, wish(60, 10 * GIB)), *again, *reg, *status;
    char key_id[32];

    status = ask_status(client);
    gp_str_copy(key_id, sizeof(key_id), status->status->scheduler_key_id);
    drop(status);
    end(w, SIGKILL);
    close(server);
    close(client);
    start(w);

    /* The server re-registers, reports the session, and is not told to end it. */
    server = dial(w);
    reg = enlist(server, &(struct play){.name = "node-a",
                                        .instance = 1,
                                        .cards = 1,
                                        .running = grant->grant->session_id});
    assert_null(reg->error);
    assert_int_equal(reg->registered->n_close_sessions, 0);
    assert_string_equal(reg->registered->scheduler_key_id, key_id);
    drop(reg);

    /* Its client renews; what it holds is not given to another. */
    client = dial(w);
    again = ask_renew(client, grant->grant, true);
    assert_null(again->error);
    assert_string_equal(again->grant->session, grant->grant->session);
    drop(again);
    assert_refused(ask_wish(client, 50), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                   "lack core");
    drop(grant);
    grant = granted(client, wish(40, GIB));
    assert_int_equal(grant->grant->session_id, 2); /* numbers go on */
    drop(grant);
    close(server);
    close(client);
}

static void
unknown_running_session_is_ended_before_its_card_is_given(void **state)
{
    struct world *w = *state;
    int server = dial(w), client = dial(w);
    reply_t *reg, *reply;

    reg = enlist(
        server,
        &(struct play){.name = "node-a", .instance = 1, .cards = 1, .running = 4711});
    assert_int_equal(reg->registered->n_close_sessions, 1);
    assert_int_equal(reg->registered->close_sessions[0], 4711);
    drop(reg);
    assert_refused(ask_wish(client, 50), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                   "not available");
    reply = report(server, 0);
    assert_int_equal(reply->reported->n_close_sessions, 0);
    drop(reply);
    drop(granted(client, wish(50, GIB)));
    close(server);
    close(client);
}

static void
closed_session_keeps_its_place_until_the_server_is_done(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w), other = dial(w);
    reply_t *grant = granted(client, wish(100, 0)), *reply;
    uint64_t id = grant->grant->session_id;
    Gpupool__Ctl__CtlOpen open = wish(10, GIB);

    drop(report(server, id));
    post_close(client, grant->grant);
    await_notice(server, id);
    reply = report(server, id); /* its workers are still dying */
    assert_int_equal(reply->reported->n_close_sessions, 1);
    drop(reply);
    assert_refused(ask_open(other, &open), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, "core");
    drop(report(server, 0));
    reply = hear(client); /* only now is the close answered */
    assert_non_null(reply);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSED);
    drop(reply);
    drop(granted(other, open));
    drop(grant);
    close(server);
    close(client);
    close(other);
}

static void
lease_that_is_not_renewed_ends(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    Gpupool__Ctl__CtlOpen open = wish(100, 0);
    reply_t *grant;

    open.lease_ms = 100;
    grant = granted(client, open);
    assert_int_equal(grant->grant->lease_ms, 100);
    await_notice(server, grant->grant->session_id);
    drop(report(server, 0));
    assert_refused(ask_renew(client, grant->grant, false),
                   GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, "closed or expired");
    drop(grant);
    close(server);
    close(client);
}

static void
held_session_ends_soon_after_its_client(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    Gpupool__Ctl__CtlOpen open = wish(100, 0);
    reply_t *grant;

    open.hold = true; /* with a lease of a minute */
    grant = granted(client, open);
    close(client);
    await_notice(server, grant->grant->session_id);
    drop(grant);
    close(server);
}

static void
held_session_survives_a_new_connection(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w), second, third;
    Gpupool__Ctl__CtlOpen open = wish(100, 0);
    reply_t *grant, *reply;

    open.hold = true;
    grant = granted(client, open);
    second = dial(w);
    drop(ask_renew(second, grant->grant, true));
    close(client); /* no longer the holder */
    close(second);
    third = dial(w);
    reply = ask_renew(third, grant->grant, true);
    assert_null(reply->error);
    drop(reply);
    reply = ask_status(third);
    assert_int_equal(reply->status->n_sessions, 1);
    assert_true(reply->status->sessions[0]->lease_left_ms > 50000);
    drop(reply);
    drop(grant);
    close(third);
    close(server);
}

static void
lost_server_takes_no_session_and_gives_none_away(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    reply_t *grant = granted(client, wish(60, GIB)), *reply;

    close(server);
    do { /* until the scheduler has seen it */
        reply = ask_status(client);
        if (reply->status->servers[0]->state ==
            GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD)
            break;
        drop(reply);
    } while (true);
    assert_int_equal(reply->status->n_sessions, 1);
    assert_true(reply->status->sessions[0]->server_dead);
    drop(reply);
    assert_refused(ask_wish(client, 10), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                   "not available");
    reply = ask_renew(client, grant->grant, false);
    assert_null(reply->error);
    drop(reply);
    server = join(w, "node-a", 1);
    assert_refused(ask_wish(client, 50), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                   "50 % wanted");
    drop(grant);
    close(server);
    close(client);
}

static void
twin_of_a_live_server_is_refused_its_restart_is_not(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), twin = dial(w), again = dial(w);
    reply_t *reply;

    assert_refused(
        enlist(twin, &(struct play){.name = "node-a", .instance = 2, .cards = 1}),
        GPUPOOL__CTL__CTL_CODE__CTL_CONFLICT, "another server named node-a");
    reply = enlist(again, &(struct play){.name = "node-a", .instance = 1, .cards = 1});
    assert_null(reply->error);
    drop(reply);
    assert_null(hear(server)); /* the old connection of the same process is ended */
    close(server);
    close(twin);
    close(again);
}

static void
drained_server_stays_drained_over_a_restart(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    reply_t *reply = ask_drain(client, "node-a", false);

    assert_null(reply->error);
    drop(reply);
    assert_refused(ask_drain(client, "node-z", false),
                   GPUPOOL__CTL__CTL_CODE__CTL_NOT_FOUND, "no server node-z");
    end(w, SIGKILL);
    close(server);
    close(client);
    start(w);
    server = join(w, "node-a", 1);
    client = dial(w);
    assert_refused(ask_wish(client, 50), GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT,
                   "not available");
    drop(ask_drain(client, "node-a", true));
    drop(granted(client, wish(50, GIB)));
    close(server);
    close(client);
}

static void
owner_gets_no_more_than_its_sessions(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 2), client = dial(w);
    Gpupool__Ctl__CtlOpen open = wish(5, GIB);

    for (int i = 0; i < 4; i++)
        drop(granted(client, open));
    assert_refused(ask_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                   "ada@host has 4 sessions");
    open.owner = (char *)"bob@host";
    drop(granted(client, open));
    close(server);
    close(client);
}

static void
lease_key_guards_a_session(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    reply_t *grant = granted(client, wish(50, GIB)), *reply;

    grant->grant->lease_key.data[3] ^= 1;
    assert_refused(ask_renew(client, grant->grant, false),
                   GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong lease key");
    post_close(client, grant->grant);
    reply = hear(client);
    assert_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong lease key");
    drop(grant);
    close(server);
    close(client);
}

static void
tokens_guard_servers_and_clients(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = wish(50, GIB);
    int fd;

    end(w, SIGTERM);
    w->config.server_token = (char *)"of servers";
    w->config.client_token = (char *)"of clients";
    start(w);
    fd = dial(w);
    assert_refused(
        enlist(fd, &(struct play){.name = "node-a", .cards = 1, .token = "of clients"}),
        GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong server token");
    drop(enlist(fd,
                &(struct play){.name = "node-a", .cards = 1, .token = "of servers"}));
    assert_refused(ask_open(fd, &open), GPUPOOL__CTL__CTL_CODE__CTL_DENIED,
                   "wrong client token");
    open.token = (char *)"of clients";
    drop(granted(fd, open));
    close(fd);
}

static void
nonsense_is_refused_in_words(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    Gpupool__Ctl__CtlOpen open = wish(150, GIB);

    assert_refused(ask_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                   "the rule is 1..100");
    open = wish(50, GIB);
    open.owner = (char *)"";
    assert_refused(ask_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                   "an owner has");
    open = wish(50, GIB);
    open.policy = (Gpupool__Ctl__CtlPolicy)9;
    assert_refused(ask_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                   "unknown policy");
    open = wish(50, GIB);
    open.major = 99;
    assert_refused(ask_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_VERSION,
                   "speaks version 99");
    assert_refused(report(client, 0), GPUPOOL__CTL__CTL_CODE__CTL_UNREGISTERED,
                   "before a registration");
    assert_refused(enlist(client, &(struct play){.name = "a b", .cards = 1}),
                   GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "no blanks");
    close(server);
    close(client);
}

static void
bytes_that_are_no_message_end_only_their_connection(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), vandal, client;
    reply_t *reply;

    for (size_t len = 1; len < 300; len += 13) {
        uint8_t junk[300];

        for (size_t i = 0; i < len; i++)
            junk[i] = (uint8_t)(i * 37 + len);
        junk[0] = 0xff; /* no field has that tag */
        vandal = dial(w);
        assert_int_equal(gp_msg_send(vandal, junk, len, gp_now_ns() + PATIENCE, NULL),
                         0);
        while ((reply = hear(vandal))) {
            assert_non_null(reply->error);
            drop(reply);
        }
        close(vandal);
    }
    client = dial(w);
    drop(granted(client, wish(50, GIB)));
    drop(report(server, 0));
    close(server);
    close(client);
}

static void
second_scheduler_on_the_same_state_does_not_start(void **state)
{
    struct world *w = *state;
    struct gp_err err = {0};
    struct sched second;

    assert_int_equal(sched_init(&second, &w->config, &err), -EBUSY);
    assert_non_null(strstr(err.msg, "another scheduler"));
    sched_fini(&second);
}

static void
strangers_shut_nobody_out(void **state)
{
    enum { N = SCHED_STRANGERS_MAX + 20 };
    struct world *w = *state;
    static int strangers[N];
    int server = join(w, "node-a", 1), client;

    for (int i = 0; i < N; i++)
        strangers[i] = dial(w);
    client = dial(w);
    drop(granted(client, wish(50, GIB)));
    drop(report(server, 0));
    assert_null(hear(strangers[0])); /* the oldest had to go */
    for (int i = 0; i < N; i++)
        close(strangers[i]);
    close(server);
    close(client);
}

static void
client_that_sends_too_much_is_sent_away(void **state)
{
    struct world *w = *state;
    int server = join(w, "node-a", 1), client = dial(w);
    static uint8_t much[CTL_CLIENT_REQUEST_MAX + 1];

    drop(granted(client, wish(50, GIB)));
    gp_msg_send(client, much, sizeof(much), gp_now_ns() + PATIENCE, NULL);
    assert_null(hear(client));
    close(client);
    client = dial(w);
    drop(granted(client, wish(50, GIB)));
    close(server);
    close(client);
}

/* A port that nobody has now; port 0 would be known to the daemon alone. */
static unsigned
free_port(void)
{
    unsigned port;
    int fd;

    assert_int_equal(gp_net_listen("127.0.0.1:0", 0, 1, &fd, NULL), 0);
    port = gp_net_port(fd);
    close(fd);
    return port;
}

static void
http_get(const char *address, const char *path, char *text, size_t size)
{
    char request[128];
    size_t len = 0;
    ssize_t n;
    int fd;

    snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
    assert_int_equal(
        gp_net_connect(address, 0, gp_now_ns() + PATIENCE, true, &fd, NULL), 0);
    assert_int_equal(gp_file_write_all(fd, request, strlen(request)), 0);
    while ((n = read(fd, text + len, size - len - 1)) > 0)
        len += (size_t)n;
    text[len] = 0;
    close(fd);
}

static void
metrics_show_cards_and_sessions(void **state)
{
    struct world *w = *state;
    char address[32], text[16384];
    Gpupool__Ctl__CtlOpen open;
    int server, client;

    end(w, SIGTERM);
    snprintf(address, sizeof(address), "127.0.0.1:%u", free_port());
    w->config.metrics_listen = address;
    start(w);
    server = join(w, "node-a", 1);
    client = dial(w);
    open = wish(30, GIB);
    open.program = (char *)"a \"b";
    drop(granted(client, open));
    drop(report(server, 1));
    http_get(address, "/metrics", text, sizeof(text));
    assert_non_null(strstr(text, "200 OK"));
    assert_non_null(strstr(text, "\ngpupool_sessions 1\n"));
    assert_non_null(strstr(text, "\ngpupool_servers{state=\"alive\"} 1\n"));
    assert_non_null(strstr(text, "gpupool_card_core_given_percent{server=\"node-a\","
                                 "card=\"0\",uuid=\"GPU-6e6e6e6e-"));
    assert_non_null(strstr(text, "\"} 30\n"));
    assert_non_null(strstr(text, "\ngpupool_session_attachments{session=\"s1\","
                                 "owner=\"ada@host\"} 3\n"));
    http_get(address, "/metric", text, sizeof(text));
    assert_non_null(strstr(text,
                           "\ncontainer_request_gpu_memory{container_name=\"a \\\"b\","
                           "namespace=\"gpupool\",node=\"host\",pod_name=\"s1\","
                           "req_of_gpu_memory=\"total\"} 1024\n"));
    assert_non_null(strstr(text, "req_of_gpu=\"total\"} 0.3\n"));
    http_get(address, "/else", text, sizeof(text));
    assert_non_null(strstr(text, "404"));
    close(server);
    close(client);
}

#define PROMISE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(ticket_of_a_grant_is_good_for_its_server),
        PROMISE(killed_scheduler_comes_back_with_its_sessions),
        PROMISE(unknown_running_session_is_ended_before_its_card_is_given),
        PROMISE(closed_session_keeps_its_place_until_the_server_is_done),
        PROMISE(lease_that_is_not_renewed_ends),
        PROMISE(held_session_ends_soon_after_its_client),
        PROMISE(held_session_survives_a_new_connection),
        PROMISE(lost_server_takes_no_session_and_gives_none_away),
        PROMISE(twin_of_a_live_server_is_refused_its_restart_is_not),
        PROMISE(drained_server_stays_drained_over_a_restart),
        PROMISE(owner_gets_no_more_than_its_sessions),
        PROMISE(lease_key_guards_a_session),
        PROMISE(tokens_guard_servers_and_clients),
        PROMISE(nonsense_is_refused_in_words),
        PROMISE(bytes_that_are_no_message_end_only_their_connection),
        PROMISE(strangers_shut_nobody_out),
        PROMISE(client_that_sends_too_much_is_sent_away),
        PROMISE(metrics_show_cards_and_sessions),
        PROMISE(second_scheduler_on_the_same_state_does_not_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
