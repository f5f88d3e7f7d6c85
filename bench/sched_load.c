/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler as its peers meet it: sockets, protocol, signatures, the store.
 *
 *     sched_load SCHEDULER [SERVERS [SESSIONS [SECONDS [ETCD]]]]
 *
 * Starts the program SCHEDULER with its state in a folder of its own, or in the etcd of
 * the URLs ETCD, which holds no pool yet, plays SERVERS servers of eight cards (10,000)
 * and 256 clients, and prints "key value" lines:
 *
 *   half of the servers register at once, then the others
 *   all servers report once, with no sessions: heartbeats, as processor time
 *   clients open, renew and close sessions for SECONDS (5); an operation's processor
 *   time by threads: those that decide, sign and write, and these players' own
 *   SESSIONS (500,000) are opened and held: memory of each
 *   1,000 hosts hold all of them, each over one connection, and renew them as agents do
 *   (cli/cli_renewer.h), a sixth of them with new tickets: processor time, as a part of
 *   what passes until they are due again
 *   pages, a scrape and a heartbeat of all servers with that state; pages while the
 *   other clients open, renew and close, alone and beside a reader of /metrics, of
 *   /metrics/cards or of the web page's JSON: their times, and that reader's
 *   the command line beside SCHEDULER shows that state: time and memory of its process
 *   the scheduler is ended and started with that state
 *
 * Everything is one process on one machine, so on two cores the players take a part of
 * what the scheduler could use: rates are on the wall clock, with the scheduler's
 * processor time beside them.
 */
#include "control.pb-c.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "http_reader.h"
#include "sched_ask.h"
#include "sched_commands.h"
#include "sched_cost.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define CARDS 8
#define CLIENTS 256
#define AGENTS 1000
/* Of each page of metrics, in a row; and the pause behind each while others work. */
#define SCRAPES 9
#define SCRAPE_US 100000
/* A renewal is due each half lease of thirty seconds, and brings tickets to one session
 * in six: those that are bound to their client live for four leases. */
#define RENEWAL_S 15
#define TICKETS_EACH 6
#define TIB (UINT64_C(1) << 40)
#define MIB (UINT64_C(1) << 20)
/* A scheduler that says nothing for so long is broken. */
#define PATIENCE_NS (120 * GP_NS_PER_S)
/* Sessions opened between two reports of all servers: who is silent for long is dead.
 */
#define FILL_STEP UINT64_C(25000)
/* How often servers report, when nobody says otherwise. */
#define HEARTBEAT_S 2

extern char **environ;

enum task {
    REST,
    REGISTER, /* servers */
    REPORT,   /* servers, once each */
    CYCLE,    /* clients: open, renew, close, and again */
    FILL,     /* clients: open */
    LOOK,     /* the first client: pages of sessions */
    RENEW,    /* agents: all of their sessions once */
};

struct kept {
    uint64_t id;
    uint8_t key[CTL_LEASE_KEY_SIZE];
};

struct load;

struct peer {
    struct gp_msg_conn msg;
    struct load *load;
    uint32_t index, next_id;
    bool server, reporting, again;
    bool looks; /* at pages, while the others work */
    uint64_t sent_ns, session;
    uint8_t key[CTL_LEASE_KEY_SIZE];
    bool renewed;
    uint64_t at, end; /* of an agent: kept sessions that are yet to be renewed */
};

struct load {
    struct gp_loop *loop;
    struct gp_loop_timer timer;
    const char *program, *etcd;
    char dir[64], ready[96], address[GP_NET_NAME_MAX], metrics[64], http[64];
    pid_t scheduler;
    enum task task;
    struct peer *servers, *clients, *agents;
    struct kept *kept; /* sessions of FILL */
    uint64_t n_kept, kept_max, renewed, with_tickets;
    uint32_t n_servers, due; /* answers until the task is done */
    uint64_t wanted, opens, ops, refused;
    uint32_t *us; /* of each operation */
    size_t n_us, us_max;
    bool looking; /* only pages are measured */
    int runner;   /* of commands */
    char next[CTL_LIST_NEXT_MAX];
};

static pid_t to_kill; /* the scheduler, which must not outlive a failure */

static void
fail(const char *words)
{
    fprintf(stderr, "sched_load: %s\n", words);
    if (to_kill)
        kill(to_kill, SIGKILL);
    exit(1);
}

/* ------------------------------------------------------------ the scheduler -- */

/* Processor time of all its threads. */
static double
cpu_seconds(const struct load *load)
{
    double seconds = sched_cost_seconds(load->scheduler);

    if (seconds < 0)
        fail("the scheduler is gone");
    return seconds;
}

static void
await_ready(struct load *load)
{
    uint64_t end = gp_now_ns() + PATIENCE_NS;
    char *text;
    size_t len;

    while (access(load->ready, R_OK) < 0) {
        if (gp_now_ns() > end || waitpid(load->scheduler, NULL, WNOHANG))
            fail("the scheduler does not start");
        usleep(1000);
    }
    if (gp_file_read(load->ready, sizeof(load->address), &text, &len, NULL) < 0)
        fail("the ready file cannot be read");
    text[strcspn(text, "\n")] = '\0';
    gp_str_copy(load->address, sizeof(load->address), text);
    free(text);
}

static void
start_scheduler(struct load *load)
{
    const char *argv[] = {load->program,
                          "--state-dir",
                          load->dir,
                          "--listen",
                          "127.0.0.1:0",
                          "--ready-file",
                          load->ready,
                          "--metrics-listen",
                          load->metrics,
                          "--tls",
                          "off",
                          "--allow-anonymous",
                          "client",
                          "--allow-anonymous",
                          "server",
                          "--owner-sessions",
                          "1000000",
                          "--rate-requests=0",
                          "--rate-opens=0",
                          "--rate-reads=0",
                          "--lease-ms",
                          "86400000",
                          "--heartbeat-ms",
                          "60000",
                          "--http",
                          load->http,
                          "--http-public",
                          load->etcd ? "--etcd" : NULL,
                          load->etcd,
                          NULL};
    int r;

    setenv("GPUPOOL_LOG", "*:error", 1);
    unlink(load->ready);
    if (posix_spawn(&load->scheduler, load->program, NULL, NULL,
                    (char *const *)(uintptr_t)argv, environ))
        fail("the scheduler cannot be started");
    to_kill = load->scheduler;
    await_ready(load);
    while ((r = sched_ask_leads(load->address, PATIENCE_NS)) == 0)
        usleep(10000);
    if (r < 0)
        fail("the scheduler does not answer");
}

static void
end_scheduler(struct load *load)
{
    kill(load->scheduler, SIGTERM);
    waitpid(load->scheduler, NULL, 0);
}

/* ------------------------------------------------------------------- requests -- */

static void
post(struct peer *peer, Gpupool__Ctl__CtlRequest *req)
{
    uint8_t bytes[CTL_CLIENT_REQUEST_MAX];
    size_t size;

    req->id = ++peer->next_id;
    size = gpupool__ctl__ctl_request__get_packed_size(req);
    if (size > sizeof(bytes))
        fail("a request is too large");
    gpupool__ctl__ctl_request__pack(req, bytes);
    peer->sent_ns = gp_now_ns();
    if (gp_msg_conn_send(&peer->msg, bytes, size) < 0)
        fail("a request cannot be sent");
}

static void
post_register(struct peer *peer)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRegister body = GPUPOOL__CTL__CTL_REGISTER__INIT;
    Gpupool__Ctl__CtlCard cards[CARDS], *list[CARDS];
    uint8_t uuids[CARDS][16] = {{0}};
    char name[32];

    snprintf(name, sizeof(name), "node-%u", peer->index);
    for (uint32_t i = 0; i < CARDS; i++) {
        uint64_t number = (uint64_t)peer->index * CARDS + i + 1;

        gpupool__ctl__ctl_card__init(&cards[i]);
        memcpy(uuids[i], &number, sizeof(number));
        cards[i].uuid.data = uuids[i];
        cards[i].uuid.len = sizeof(uuids[i]);
        cards[i].name = (char *)"card";
        cards[i].memory_bytes = TIB;
        cards[i].index = i;
        list[i] = &cards[i];
    }
    body.major = CTL_MAJOR;
    body.server = name;
    body.endpoint = (char *)"10.0.0.1:7481";
    body.version = (char *)GPUPOOL_VERSION;
    body.driver = (char *)"bench";
    body.instance = peer->index + 1;
    body.cards = list;
    body.n_cards = CARDS;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REGISTER_SERVER;
    req.register_server = &body;
    post(peer, &req);
}

/* Nothing runs: what was closed is gone. */
static void
post_report(struct peer *peer)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlReport body = GPUPOOL__CTL__CTL_REPORT__INIT;

    if (peer->reporting) {
        peer->again = true;
        return;
    }
    peer->reporting = true;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT;
    req.report = &body;
    post(peer, &req);
}

static void
post_open(struct peer *peer)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlOpen body = GPUPOOL__CTL__CTL_OPEN__INIT;
    uint8_t key[32] = {1};
    char owner[32];

    snprintf(owner, sizeof(owner), "user%u@host", peer->index % 64);
    body.major = CTL_MAJOR;
    body.owner = owner;
    body.core = 5;
    body.memory_bytes = MIB;
    body.program = (char *)"/usr/bin/train";
    body.client_key.data = key;
    body.client_key.len = sizeof(key);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &body;
    post(peer, &req);
}

static void
post_renew(struct peer *peer)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew body = GPUPOOL__CTL__CTL_RENEW__INIT;

    body.session_id = peer->session;
    body.lease_key.data = peer->key;
    body.lease_key.len = sizeof(peer->key);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req.renew = &body;
    post(peer, &req);
}

static void
post_close(struct peer *peer)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose body = GPUPOOL__CTL__CTL_CLOSE__INIT;

    body.session_id = peer->session;
    body.lease_key.data = peer->key;
    body.lease_key.len = sizeof(peer->key);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &body;
    post(peer, &req);
}

/* The next of its sessions, as many as one request may name. */
static void
post_renewals(struct peer *peer)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenewMany body = GPUPOOL__CTL__CTL_RENEW_MANY__INIT;
    static Gpupool__Ctl__CtlRenewOne ones[CTL_RENEW_MAX], *list[CTL_RENEW_MAX];

    for (; body.n_sessions < CTL_RENEW_MAX && peer->at < peer->end; body.n_sessions++) {
        struct kept *kept = &peer->load->kept[peer->at++];
        Gpupool__Ctl__CtlRenewOne *one = &ones[body.n_sessions];

        gpupool__ctl__ctl_renew_one__init(one);
        one->session_id = kept->id;
        one->lease_key = (ProtobufCBinaryData){sizeof(kept->key), kept->key};
        list[body.n_sessions] = one;
    }
    body.sessions = list;
    body.hold = true;
    body.no_tickets = peer->index % TICKETS_EACH;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW_MANY;
    req.renew_many = &body;
    post(peer, &req);
}

static void
post_list(struct peer *peer)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlList body = GPUPOOL__CTL__CTL_LIST__INIT;

    body.kind = GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS;
    body.most = CTL_LIST_MAX;
    body.next = peer->load->next;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_LIST;
    req.list = &body;
    post(peer, &req);
}

/* -------------------------------------------------------------------- answers -- */

static void
task_step_done(struct load *load)
{
    if (!--load->due)
        gp_loop_stop(load->loop, 0);
}

static void
next_open(struct peer *peer)
{
    struct load *load = peer->load;

    if (load->task == CYCLE || (load->task == FILL && load->opens < load->wanted)) {
        load->opens++;
        post_open(peer);
    } else
        task_step_done(load);
}

static void
measured(struct peer *peer)
{
    struct load *load = peer->load;

    if (load->task != REST && peer->looks != load->looking)
        return;
    load->ops++;
    if (load->n_us < load->us_max)
        load->us[load->n_us++] = (uint32_t)((gp_now_ns() - peer->sent_ns) / 1000);
}

static void
on_grant(struct peer *peer, const Gpupool__Ctl__CtlGrant *grant)
{
    struct load *load = peer->load;

    if (load->task == FILL) {
        if (load->n_kept < load->kept_max &&
            grant->lease_key.len == CTL_LEASE_KEY_SIZE) {
            struct kept *kept = &load->kept[load->n_kept++];

            kept->id = grant->session_id;
            memcpy(kept->key, grant->lease_key.data, sizeof(kept->key));
        }
        next_open(peer);
        return;
    }
    peer->session = grant->session_id;
    if (grant->lease_key.len == sizeof(peer->key))
        memcpy(peer->key, grant->lease_key.data, sizeof(peer->key));
    peer->renewed = !peer->renewed;
    if (peer->renewed)
        post_renew(peer);
    else
        post_close(peer);
}

static void
on_renewed(struct peer *peer, const Gpupool__Ctl__CtlRenewed *answer)
{
    struct load *load = peer->load;

    for (size_t i = 0; i < answer->n_sessions; i++) {
        load->renewed += answer->sessions[i]->lease_ms != 0;
        load->with_tickets += answer->sessions[i]->grant != NULL;
    }
    if (peer->at < peer->end)
        post_renewals(peer);
    else
        task_step_done(load);
}

static void
on_client(struct peer *peer, const Gpupool__Ctl__CtlReply *reply)
{
    struct load *load = peer->load;

    measured(peer);
    if (reply->error) {
        if (!load->refused++)
            fprintf(stderr, "sched_load: refused: %s\n", reply->error->words);
        task_step_done(load);
    } else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_RENEWED)
        on_renewed(peer, reply->renewed);
    else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_GRANT)
        on_grant(peer, reply->grant);
    else if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_LIST) {
        gp_str_copy(load->next, sizeof(load->next), reply->list->next);
        if (peer->looks ? load->task == CYCLE : *load->next && load->ops < load->wanted)
            post_list(peer);
        else
            task_step_done(load);
    } else
        next_open(peer);
}

static void
on_server(struct peer *peer, const Gpupool__Ctl__CtlReply *reply)
{
    if (reply->error)
        fail(reply->error->words);
    if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_CLOSE_SESSION) {
        post_report(peer);
        return;
    }
    if (reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_REPORTED)
        peer->reporting = false;
    if (peer->again) {
        peer->again = false;
        post_report(peer);
    }
    if (peer->load->task == REGISTER || peer->load->task == REPORT)
        task_step_done(peer->load);
}

static void
on_msg(struct gp_msg_conn *msg, const void *data, size_t len)
{
    struct peer *peer = container_of(msg, struct peer, msg);
    Gpupool__Ctl__CtlReply *reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);

    if (!reply)
        fail("an answer cannot be read");
    if (peer->server)
        on_server(peer, reply);
    else
        on_client(peer, reply);
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}

static void
on_close(struct gp_msg_conn *msg, int code)
{
    (void)msg;
    (void)code;
    fail("the scheduler ended a connection");
}

/* ---------------------------------------------------------------------- phases -- */

static void
dial(struct load *load, struct peer *peer, bool server, uint32_t index)
{
    struct gp_err err = {0};
    int fd;

    *peer = (struct peer){.load = load, .server = server, .index = index};
    if (gp_net_connect(load->address, 0, gp_now_ns() + PATIENCE_NS, false, &fd, &err) <
            0 ||
        gp_msg_conn_init(&peer->msg, load->loop, fd, CTL_REPLY_MAX, CTL_REPLY_MAX,
                         on_msg, on_close) < 0)
        fail(err.msg);
}

static void
dial_clients(struct load *load)
{
    for (uint32_t i = 0; i < CLIENTS; i++)
        dial(load, &load->clients[i], false, i);
}

static void
on_timeout(struct gp_loop_timer *timer)
{
    struct load *load = container_of(timer, struct load, timer);

    if (load->task != CYCLE)
        fail("the scheduler does not answer");
    load->task = REST; /* each client ends when its session is closed */
    gp_loop_timer_set(load->loop, timer, gp_now_ns() + PATIENCE_NS, on_timeout);
}

struct cost {
    double wall, cpu;
};

/* Run @task until @due answers have come, or, a cycle, for @ns and then to its end. */
static struct cost
perform(struct load *load, enum task task, uint32_t due, uint64_t ns,
        void (*begin)(struct peer *), struct peer *peers)
{
    struct cost cost = {.cpu = cpu_seconds(load)};
    uint64_t from = gp_now_ns();

    load->task = task;
    load->due = due;
    load->ops = load->opens = 0;
    load->n_us = 0;
    gp_loop_timer_set(load->loop, &load->timer, from + ns, on_timeout);
    for (uint32_t i = 0; i < due; i++)
        begin(&peers[i]);
    gp_loop_run(load->loop);
    gp_loop_timer_del(&load->timer);
    load->task = REST;
    cost.wall = (double)(gp_now_ns() - from) / 1e9;
    cost.cpu = cpu_seconds(load) - cost.cpu;
    return cost;
}

static void
first_open(struct peer *peer)
{
    peer->load->opens++;
    post_open(peer);
}

static void
print_times(struct load *load, const char *what)
{
    sched_cost_print_us(load->us, load->n_us, what);
}

static void
measure_storm(struct load *load)
{
    uint32_t half = load->n_servers / 2;
    struct cost cost;

    for (uint32_t part = 0; part < 2; part++) {
        uint64_t from = gp_now_ns();
        double cpu = cpu_seconds(load);

        for (uint32_t i = part * half; i < (part + 1) * half; i++) {
            dial(load, &load->servers[i], true, i);
            post_register(&load->servers[i]); /* in time: strangers are not kept */
        }
        load->task = REGISTER;
        load->due = half;
        gp_loop_timer_set(load->loop, &load->timer, from + PATIENCE_NS, on_timeout);
        gp_loop_run(load->loop);
        gp_loop_timer_del(&load->timer);
        load->task = REST;
        printf("scheduler_storm_%s_cpu_s %.2f\n", part ? "second" : "first",
               cpu_seconds(load) - cpu);
        printf("scheduler_storm_%s_s %.2f\n", part ? "second" : "first",
               (double)(gp_now_ns() - from) / 1e9);
    }
    cost = perform(load, REPORT, 2 * half, PATIENCE_NS, post_report, load->servers);
    printf("scheduler_heartbeats_cores %.3f\n", cost.cpu / HEARTBEAT_S);
}

static void
measure_cycle(struct load *load, double seconds)
{
    struct sched_cost_parts from = sched_cost_parts(load->scheduler), to;
    double own = sched_cost_own_seconds();
    struct cost cost = perform(load, CYCLE, CLIENTS, (uint64_t)(seconds * 1e9),
                               first_open, load->clients);
    double us = 1e6 / (double)load->ops;

    to = sched_cost_parts(load->scheduler);
    printf("session_ops_per_s %.0f\n", (double)load->ops / cost.wall);
    printf("session_op_cpu_us %.1f\n", us * cost.cpu);
    printf("session_op_deciding_us %.1f\n", us * (to.deciding - from.deciding));
    printf("session_op_signing_us %.1f\n", us * (to.signing - from.signing));
    printf("session_op_writing_us %.1f\n", us * (to.writing - from.writing));
    printf("session_op_players_us %.1f\n", us * (sched_cost_own_seconds() - own));
    print_times(load, "session_op");
}

static void
measure_fill(struct load *load, uint64_t sessions)
{
    double before = sched_cost_bytes(load->scheduler), opened = 0;
    struct cost cost = {0};

    while (opened < (double)sessions && !load->refused) {
        struct cost part;

        load->wanted = gp_min(sessions - (uint64_t)opened, FILL_STEP);
        part = perform(load, FILL, (uint32_t)gp_min(load->wanted, (uint64_t)CLIENTS),
                       PATIENCE_NS, first_open, load->clients);
        opened += (double)load->ops;
        cost.wall += part.wall;
        cost.cpu += part.cpu;
        perform(load, REPORT, load->n_servers, PATIENCE_NS, post_report, load->servers);
    }
    printf("sessions_held %.0f\n", opened - (double)load->refused);
    printf("session_opens_per_s %.0f\n", opened / cost.wall);
    printf("session_open_cpu_us %.1f\n", 1e6 * cost.cpu / opened);
    printf("session_bytes %.0f\n",
           (sched_cost_bytes(load->scheduler) - before) / opened);
}

/* From its first session on. */
static void
renew_all(struct peer *agent)
{
    uint64_t n = agent->load->n_kept;

    agent->at = n * agent->index / AGENTS;
    agent->end = n * (agent->index + 1) / AGENTS;
    post_renewals(agent);
}

static void
dial_and_renew(struct peer *agent)
{
    struct load *load = agent->load;

    dial(load, agent, false, agent->index);
    renew_all(agent); /* in time: strangers are not kept */
}

/* The first time, the sessions move to the agents' connections. */
static void
measure_agents(struct load *load)
{
    double before = sched_cost_bytes(load->scheduler);
    struct sched_cost_parts from, to;
    struct cost cost;

    for (uint32_t i = 0; i < AGENTS; i++)
        load->agents[i] = (struct peer){.load = load, .index = i};
    perform(load, RENEW, AGENTS, PATIENCE_NS, dial_and_renew, load->agents);
    printf("agent_bytes %.0f\n", (sched_cost_bytes(load->scheduler) - before) / AGENTS);
    load->renewed = load->with_tickets = 0;
    from = sched_cost_parts(load->scheduler);
    cost = perform(load, RENEW, AGENTS, PATIENCE_NS, renew_all, load->agents);
    to = sched_cost_parts(load->scheduler);
    printf("agents_renewed %" PRIu64 "\n", load->renewed);
    printf("agents_with_tickets %" PRIu64 "\n", load->with_tickets);
    printf("renewals_cores %.3f\n", cost.cpu / RENEWAL_S);
    printf("renewals_deciding_cores %.3f\n", (to.deciding - from.deciding) / RENEWAL_S);
    printf("renewals_signing_cores %.3f\n", (to.signing - from.signing) / RENEWAL_S);
    printf("renewal_cpu_us %.2f\n", 1e6 * cost.cpu / (double)load->renewed);
    print_times(load, "renewal_batch");
    if (load->renewed != load->n_kept)
        fail("not all sessions were renewed");
}

/* All of the page of metrics at @path, some times. */
static void
scrape(struct load *load, const char *path, const char *what)
{
    double cpu = cpu_seconds(load);
    uint32_t us[SCRAPES];
    size_t size = http_reader_time(load->metrics, path, us, SCRAPES);

    if (!size)
        fail("a page of metrics is not answered");
    sched_cost_print_us(us, SCRAPES, what);
    printf("%s_cpu_ms %.2f\n", what, 1e3 * (cpu_seconds(load) - cpu) / SCRAPES);
    printf("%s_mib %.1f\n", what, (double)size / MIB);
}

static void
measure_state(struct load *load)
{
    struct cost cost;

    load->wanted = 1000; /* pages */
    load->next[0] = '\0';
    perform(load, LOOK, 1, PATIENCE_NS, post_list, load->clients);
    print_times(load, "scheduler_page");
    scrape(load, "/metrics", "scheduler_scrape");
    scrape(load, "/metrics/cards", "scheduler_cards");
    cost =
        perform(load, REPORT, load->n_servers, PATIENCE_NS, post_report, load->servers);
    printf("scheduler_heartbeats_full_cores %.3f\n", cost.cpu / HEARTBEAT_S);
}

static void
begin_busy(struct peer *peer)
{
    peer->looks = peer->index == 0;
    if (peer->looks)
        post_list(peer);
    else
        first_open(peer);
}

/* What a page costs whoever waits for it while the pool is in full use. */
static void
look_busy(struct load *load, double seconds, const char *what)
{
    load->next[0] = '\0';
    load->looking = true;
    perform(load, CYCLE, CLIENTS, (uint64_t)(seconds * 1e9), begin_busy, load->clients);
    load->looking = load->clients[0].looks = false;
    print_times(load, what);
}

/* The same beside somebody who reads @path, with a pause behind each answer; what that
 * reader waits, too. */
static void
look_beside(struct load *load, double seconds, const char *address, const char *path,
            uint32_t pause_us, const char *what)
{
    static struct http_reader reader;
    char name[64];

    if (http_reader_start(&reader, address, path, pause_us) < 0)
        fail("no thread");
    snprintf(name, sizeof(name), "scheduler_page_beside_%s", what);
    look_busy(load, seconds, name);
    http_reader_stop(&reader);
    if (!reader.n)
        fail("a page is not answered over HTTP");
    snprintf(name, sizeof(name), "scheduler_%s_busy", what);
    sched_cost_print_us(reader.us, reader.n, name);
}

static void
measure_busy(struct load *load, double seconds)
{
    look_busy(load, seconds, "scheduler_page_busy");
    look_beside(load, seconds, load->metrics, "/metrics", SCRAPE_US, "scrape");
    look_beside(load, seconds, load->metrics, "/metrics/cards", SCRAPE_US, "cards");
    look_beside(load, seconds, load->http, "/api/v1/sessions?limit=500", 0, "json");
}

static void
hang_up(struct peer *peers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        gp_msg_conn_fini(&peers[i].msg);
}

static void
measure_restart(struct load *load)
{
    uint64_t from;

    end_scheduler(load);
    from = gp_now_ns();
    start_scheduler(load);
    printf("scheduler_restart_cpu_s %.2f\n", cpu_seconds(load));
    printf("scheduler_restart_s %.2f\n", (double)(gp_now_ns() - from) / 1e9);
}

/* ------------------------------------------------------------------------ main -- */

static void
remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

static uint64_t
number(int argc, char **argv, int at, uint64_t least, uint64_t most, uint64_t dflt)
{
    uint64_t value = dflt;

    if (argc > at && gp_str_u64(argv[at], least, most, &value) < 0)
        fail("usage: sched_load SCHEDULER [SERVERS [SESSIONS [SECONDS [ETCD]]]]");
    return value;
}

static void
raise_fd_limit(uint64_t n)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < n + CLIENTS + AGENTS + 64)
        fail("the limit of open files is too low for so many servers");
}

int
main(int argc, char **argv)
{
    uint64_t servers = number(argc, argv, 2, 2, 12000, 10000);
    uint64_t sessions = number(argc, argv, 3, 1, 1000000, 500000);
    uint64_t seconds = number(argc, argv, 4, 1, 600, 5);
    struct load load = {.program = argc > 1 ? argv[1] : "", .us_max = 4000000};
    const char *tmp = getenv("TMPDIR");

    load.etcd = argc > 5 ? argv[5] : NULL;
    load.runner = sched_commands_new(load.program);
    if (load.runner < 0)
        fail("no process for commands");
    raise_fd_limit(servers);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(load.dir, sizeof(load.dir), "%.40s/sched-load-XXXXXX", tmp ? tmp : "/tmp");
    load.n_servers = (uint32_t)(servers - servers % 2);
    load.servers = calloc(load.n_servers, sizeof(load.servers[0]));
    load.clients = calloc(CLIENTS, sizeof(load.clients[0]));
    load.agents = calloc(AGENTS, sizeof(load.agents[0]));
    load.kept_max = sessions;
    load.kept = calloc(sessions, sizeof(load.kept[0]));
    load.us = calloc(load.us_max, sizeof(load.us[0]));
    if (!load.servers || !load.clients || !load.agents || !load.kept || !load.us ||
        !mkdtemp(load.dir) || gp_loop_new(&load.loop, NULL) < 0)
        fail("out of memory, or no folder for the state");
    snprintf(load.ready, sizeof(load.ready), "%s/ready", load.dir);
    snprintf(load.metrics, sizeof(load.metrics), "127.0.0.1:%u", sched_ask_free_port());
    snprintf(load.http, sizeof(load.http), "127.0.0.1:%u", sched_ask_free_port());
    start_scheduler(&load);
    measure_storm(&load);
    dial_clients(&load);
    measure_cycle(&load, (double)seconds);
    measure_fill(&load, sessions);
    hang_up(load.clients, CLIENTS); /* who is idle for a minute is sent away */
    measure_agents(&load);
    dial_clients(&load);
    measure_state(&load);
    measure_busy(&load, (double)seconds);
    perform(&load, REPORT, load.n_servers, PATIENCE_NS, post_report, load.servers);
    if (sched_commands_run(load.runner, load.address) < 0)
        fail("gpupool beside the scheduler cannot be run, or failed");
    hang_up(load.clients, CLIENTS);
    hang_up(load.agents, AGENTS);
    hang_up(load.servers, load.n_servers);
    measure_restart(&load);
    end_scheduler(&load);
    remove_dir(load.dir);
    return 0; /* the system takes the memory back */
}
