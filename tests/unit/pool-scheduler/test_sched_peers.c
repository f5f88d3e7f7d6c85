/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's door: tokens, keys, caps, hostile peers, and what metrics say.
 */
#include "ut_sched.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "ticket.h"
#include "ticket_key.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void
twin_of_a_live_server_is_refused_its_restart_is_not(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), twin = ut_sched_dial(w),
        again = ut_sched_dial(w);
    reply_t *reply;

    ut_sched_refused(
        ut_sched_enlist(twin,
                        &(struct play){.name = "node-a", .instance = 2, .cards = 1}),
        GPUPOOL__CTL__CTL_CODE__CTL_CONFLICT, "another server named node-a");
    reply = ut_sched_enlist(
        again, &(struct play){.name = "node-a", .instance = 1, .cards = 1});
    assert_null(reply->error);
    ut_sched_drop(reply);
    assert_null(
        ut_sched_hear(server)); /* the old connection of the same process is ended */
    close(server);
    close(twin);
    close(again);
}

static void
owner_gets_no_more_than_its_sessions(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 2), client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(5, GIB);

    for (int i = 0; i < 4; i++)
        ut_sched_drop(ut_sched_granted(client, open));
    ut_sched_refused(ut_sched_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "ada@host has 4 sessions");
    open.owner = (char *)"bob@host";
    ut_sched_drop(ut_sched_granted(client, open));
    close(server);
    close(client);
}

/* Names differ in bytes that are shown, and kept, as question marks. */
static void
unprintable_names_of_an_owner_are_one_name(void **state)
{
    static const char *const names[] = {"eve@h\x01", "eve@h\x02", "eve@h\n",
                                        "eve@h\xff"};
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 2), client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(5, GIB);

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        open.owner = (char *)(uintptr_t)names[i];
        ut_sched_drop(ut_sched_granted(client, open));
    }
    open.owner = (char *)"eve@h\x03";
    ut_sched_refused(ut_sched_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                     "eve@h? has 4 sessions");
    close(server);
    close(client);
}

static void
lease_key_guards_a_session(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    reply_t *grant = ut_sched_granted(client, ut_sched_preference(50, GIB)), *reply;

    grant->grant->lease_key.data[3] ^= 1;
    ut_sched_refused(ut_sched_renew(client, grant->grant, false),
                     GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong lease key");
    ut_sched_post_close(client, grant->grant);
    reply = ut_sched_hear(client);
    ut_sched_refused(reply, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong lease key");
    ut_sched_drop(grant);
    close(server);
    close(client);
}

static const char *
token_file(const struct world *w, char path[128], const char *name, const char *text)
{
    snprintf(path, 128, "%s/%s", w->dir, name);
    assert_int_equal(gp_file_replace(path, text, strlen(text), 0600, NULL), 0);
    return path;
}

static void
tokens_guard_servers_and_clients(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(50, GIB);
    char servers[128], clients[128];
    int fd;

    ut_sched_end(w, SIGTERM);
    memset(w->config.anonymous, 0, sizeof(w->config.anonymous));
    w->config.token_files[SCHED_ROLE_SERVER] =
        token_file(w, servers, "servers", "of servers\n");
    w->config.token_files[SCHED_ROLE_CLIENT] =
        token_file(w, clients, "clients", "the next one\nof clients\n");
    ut_sched_start(w);
    fd = ut_sched_dial(w);
    ut_sched_refused(
        ut_sched_enlist(
            fd, &(struct play){.name = "node-a", .cards = 1, .token = "of clients"}),
        GPUPOOL__CTL__CTL_CODE__CTL_DENIED, "wrong server token");
    ut_sched_drop(ut_sched_enlist(
        fd, &(struct play){.name = "node-a", .cards = 1, .token = "of servers"}));
    ut_sched_refused(ut_sched_open(fd, &open), GPUPOOL__CTL__CTL_CODE__CTL_DENIED,
                     "wrong client token");
    open.token = (char *)"of clients";
    ut_sched_drop(ut_sched_granted(fd, open));
    close(fd);
}

/* The next answer to a renewal, again and again until it names @n keys. */
static void
await_keys(int client, const reply_t *grant, size_t n)
{
    uint64_t end = gp_now_ns() + 20 * GP_NS_PER_S;
    size_t seen = 0;

    while (seen != n && gp_now_ns() < end) {
        reply_t *reply = ut_sched_renew(client, grant->grant, true);

        assert_null(reply->error);
        seen = reply->grant->n_scheduler_keys;
        ut_sched_drop(reply);
        usleep(5000);
    }
    assert_int_equal(seen, n);
}

static void
sighup_changes_token_and_key_and_keeps_sessions(void **state)
{
    struct world *w = *state;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(50, GIB);
    CLEANUP_FREE char *pem = NULL, *old = NULL, *both = NULL;
    char clients[128], key[128], other[128];
    struct ticket_key *made;
    int server, client, another;
    reply_t *grant;
    size_t len;

    ut_sched_end(w, SIGTERM);
    w->config.anonymous[SCHED_ROLE_CLIENT] = false;
    w->config.anonymous[SCHED_ROLE_ADMIN] = false; /* is a client as well */
    w->config.token_files[SCHED_ROLE_CLIENT] =
        token_file(w, clients, "clients", "of clients\n");
    ut_sched_start(w);
    server = ut_sched_join(w, "node-a", 1);
    client = ut_sched_dial(w);
    another = ut_sched_dial(w);
    open.token = (char *)"of clients";
    open.hold = true;
    grant = ut_sched_granted(client, open);
    assert_int_equal(grant->grant->n_scheduler_keys, 1);
    open.hold = false;
    open.explain = true;
    ut_sched_drop(ut_sched_open(another, &open)); /* has shown the token as well */

    snprintf(key, sizeof(key), "%s/ticket-key.pem", w->dir);
    snprintf(other, sizeof(other), "%s/other.pem", w->dir);
    assert_int_equal(ticket_key_load(other, &made, NULL), 0);
    assert_int_equal(gp_file_read(other, 4096, &pem, &len, NULL), 0);
    assert_int_equal(gp_file_read(key, 4096, &old, &len, NULL), 0);
    both = gp_str_printf("%s%s", pem, old);
    assert_int_equal(gp_file_replace(key, both, strlen(both), 0600, NULL), 0);
    token_file(w, clients, "clients", "of other clients\n");
    kill(w->scheduler, SIGHUP);
    await_keys(client, grant, 2);

    assert_null(ut_sched_hear(another)); /* nothing hangs on it: disconnected */
    close(another);
    another = ut_sched_dial(w);
    ut_sched_refused(ut_sched_open(another, &open), GPUPOOL__CTL__CTL_CODE__CTL_DENIED,
                     "wrong client token");
    assert_int_equal(gp_file_replace(key, pem, strlen(pem), 0600, NULL), 0);
    kill(w->scheduler, SIGHUP);
    await_keys(client, grant, 1);
    ticket_key_free(made);
    ut_sched_drop(grant);
    close(another);
    close(client);
    close(server);
}

static void
nonsense_is_refused_in_words(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(150, GIB);

    ut_sched_refused(ut_sched_open(client, &open),
                     GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "the rule is 1..100");
    open = ut_sched_preference(50, GIB);
    open.owner = (char *)"";
    ut_sched_refused(ut_sched_open(client, &open),
                     GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "an owner has");
    open = ut_sched_preference(50, GIB);
    open.policy = (Gpupool__Ctl__CtlPolicy)9;
    ut_sched_refused(ut_sched_open(client, &open),
                     GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "unknown policy");
    open = ut_sched_preference(50, GIB);
    open.major = 99;
    ut_sched_refused(ut_sched_open(client, &open), GPUPOOL__CTL__CTL_CODE__CTL_VERSION,
                     "speaks version 99");
    ut_sched_refused(ut_sched_report(client, 0),
                     GPUPOOL__CTL__CTL_CODE__CTL_UNREGISTERED, "before a registration");
    ut_sched_refused(ut_sched_enlist(client, &(struct play){.name = "a b", .cards = 1}),
                     GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST, "no blanks");
    close(server);
    close(client);
}

static void
bytes_that_are_no_message_end_only_their_connection(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), vandal, client;
    reply_t *reply;

    for (size_t len = 1; len < 300; len += 13) {
        uint8_t junk[300];

        for (size_t i = 0; i < len; i++)
            junk[i] = (uint8_t)(i * 37 + len);
        junk[0] = 0xff; /* no field has that tag */
        vandal = ut_sched_dial(w);
        assert_int_equal(gp_msg_send(vandal, junk, len, gp_now_ns() + PATIENCE, NULL),
                         0);
        while ((reply = ut_sched_hear(vandal))) {
            assert_non_null(reply->error);
            ut_sched_drop(reply);
        }
        close(vandal);
    }
    client = ut_sched_dial(w);
    ut_sched_drop(ut_sched_granted(client, ut_sched_preference(50, GIB)));
    ut_sched_drop(ut_sched_report(server, 0));
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
unproven_peers_shut_nobody_out(void **state)
{
    enum { N = SCHED_UNPROVEN_MAX + 20 };
    struct world *w = *state;
    static int unproven[N];
    int server = ut_sched_join(w, "node-a", 1), client;

    for (int i = 0; i < N; i++)
        unproven[i] = ut_sched_dial(w);
    client = ut_sched_dial(w);
    ut_sched_drop(ut_sched_granted(client, ut_sched_preference(50, GIB)));
    ut_sched_drop(ut_sched_report(server, 0));
    assert_null(ut_sched_hear(unproven[0])); /* the oldest had to go */
    for (int i = 0; i < N; i++)
        close(unproven[i]);
    close(server);
    close(client);
}

static void
client_that_sends_too_much_is_sent_away(void **state)
{
    struct world *w = *state;
    int server = ut_sched_join(w, "node-a", 1), client = ut_sched_dial(w);
    static uint8_t much[CTL_CLIENT_REQUEST_MAX + 1];

    ut_sched_drop(ut_sched_granted(client, ut_sched_preference(50, GIB)));
    gp_msg_send(client, much, sizeof(much), gp_now_ns() + PATIENCE, NULL);
    assert_null(ut_sched_hear(client));
    close(client);
    client = ut_sched_dial(w);
    ut_sched_drop(ut_sched_granted(client, ut_sched_preference(50, GIB)));
    close(server);
    close(client);
}

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
    char address[32], text[16384], one[16384];
    Gpupool__Ctl__CtlOpen open;
    reply_t *grant;
    int server, client;

    ut_sched_end(w, SIGTERM);
    snprintf(address, sizeof(address), "127.0.0.1:%u", free_port());
    w->config.metrics_listen = address;
    ut_sched_start(w);
    server = ut_sched_join(w, "node-a", 1);
    client = ut_sched_dial(w);
    open = ut_sched_preference(30, GIB);
    open.program = (char *)"a \"b";
    grant = ut_sched_granted(client, open);
    ut_sched_drop(ut_sched_report(server, grant->grant->session_id));
    ut_sched_drop(grant);
    http_get(address, "/metrics", text, sizeof(text));
    assert_non_null(strstr(text, "200 OK"));
    assert_non_null(strstr(text, "\ngpupool_sessions 1\n"));
    assert_non_null(strstr(text, "\ngpupool_queue_waiting 0\n"));
    assert_non_null(strstr(text, "\ngpupool_servers{state=\"alive\"} 1\n"));
    assert_non_null(strstr(text, "\ngpupool_server_cards{server=\"node-a\"} 1\n"));
    assert_non_null(
        strstr(text, "\ngpupool_server_core_given_percent{server=\"node-a\"} 30\n"));
    assert_non_null(strstr(text, "\ngpupool_server_memory_given_bytes{server="
                                 "\"node-a\"} 1073741824\n"));
    assert_non_null(strstr(text, "\ngpupool_server_slices{server=\"node-a\"} 1\n"));
    assert_null(strstr(text, "card=\"0\"")); /* nor with cards */
    assert_non_null(
        strstr(text, "\ngpupool_tenant_core_given_percent{tenant=\"ada@host\"} 30\n"));
    assert_non_null(strstr(text, "\ngpupool_tenant_sessions{tenant=\"ada@host\"} 1\n"));
    assert_null(strstr(text, "session=\"s1\"")); /* series never grow with sessions */
    http_get(address, "/metrics/cards", text, sizeof(text));
    assert_non_null(strstr(text, "gpupool_card_core_given_percent{server=\"node-a\","
                                 "card=\"0\",uuid=\"GPU-6e6e6e6e-"));
    assert_non_null(strstr(text, "\"} 30\n"));
    assert_null(strstr(text, "gpupool_server"));
    http_get(address, "/metrics/cards?server=node-a", one, sizeof(one));
    assert_string_equal(strstr(one, "\r\n\r\n"), strstr(text, "\r\n\r\n"));
    http_get(address, "/metrics/cards?server=nosuch", text, sizeof(text));
    assert_non_null(strstr(text, "404 "));
    assert_non_null(strstr(text, "there is no server of that name"));
    http_get(address, "/metric", text, sizeof(text));
    assert_non_null(strstr(text, "\ngpupool_session_attachments{session=\"s1\","
                                 "owner=\"ada@host\"} 3\n"));
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

static int
dial_from(const struct world *w, const char *source)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int room = 8192; /* what is not read fills it soon */
    uint64_t port;

    assert_true(fd >= 0);
    assert_int_equal(gp_str_u64(strchr(w->address, ':') + 1, 1, 65535, &port), 0);
    to.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, source, &own.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* A pod's question waits for the API server: connections that others open meanwhile end
 * their own kind. */
static void
unproven_peers_of_one_address_end_none_of_another(void **state)
{
    enum { N = SCHED_UNPROVEN_MAX + 20 };
    struct world *w = *state;
    static int unproven[N];
    struct pollfd other = {.fd = dial_from(w, "127.0.0.2"),
                           .events = POLLIN | POLLRDHUP};

    for (int i = 0; i < N; i++)
        unproven[i] = dial_from(w, "127.0.0.1");
    assert_null(ut_sched_hear(unproven[0]));
    assert_int_equal(poll(&other, 1, 0), 0);
    for (int i = 0; i < N; i++)
        close(unproven[i]);
    close(other.fd);
}

/* Whether @client is answered while @oldest, which came before, still has its second.
 */
static bool
is_answered_before(int client, int oldest)
{
    struct pollfd fds[] = {{.fd = client, .events = POLLIN},
                           {.fd = oldest, .events = POLLIN | POLLRDHUP}};

    return poll(fds, 2, -1) > 0 && !fds[1].revents;
}

/* All places are taken by one address that says nothing: another does not wait until
 * those have had their time. */
static void
silent_peers_of_one_address_keep_no_other_waiting(void **state)
{
    enum { N = SCHED_UNPROVEN_MAX + 20, TRIES = 40, GOOD = 10 };
    struct world *w = *state;
    static int silent[N];
    unsigned good = 0;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;
    bool answered = false;

    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &status;
    for (int i = 0; !answered && i < TRIES && good < GOOD; i++) {
        uint64_t start = gp_now_ns();
        int client;

        for (int k = 0; k < N; k++)
            silent[k] = dial_from(w, "127.0.0.2");
        client = dial_from(w, "127.0.0.1");
        ut_sched_post(client, &req);
        good += gp_now_ns() - start < SCHED_UNPROVEN_NS / 2; /* else: a slow machine */
        answered = is_answered_before(client, silent[0]);
        if (answered)
            ut_sched_drop(ut_sched_hear(client));
        close(client);
        for (int k = 0; k < N; k++)
            close(silent[k]);
    }
    if (!good)
        skip();
    assert_true(answered);
}

/* All of them are taken by somebody who has shown a right token. */
static void
address_crowds_out_its_own_connections_only(void **state)
{
    enum { MOST = 8, FLOOD = 20 };
    struct world *w = *state;
    int server, holder, flood[FLOOD], late[3];
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(5, GIB);
    Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;
    unsigned answered = 0;
    reply_t *grant;

    ut_sched_end(w, SIGTERM);
    w->config.clients_max = MOST;
    ut_sched_start(w);
    server = ut_sched_join(w, "node-a", 1);
    holder = ut_sched_dial(w);
    open.hold = true;
    grant = ut_sched_granted(holder, open);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &status;
    for (unsigned i = 0; i < FLOOD; i++) {
        reply_t *reply;

        flood[i] = dial_from(w, "127.0.0.2");
        ut_sched_post(flood[i], &req);
        reply = ut_sched_hear(flood[i]);
        answered += reply != NULL;
        if (reply)
            ut_sched_drop(reply);
    }
    assert_int_equal(answered, MOST - 1);
    for (unsigned i = 0; i < ARRAY_SIZE(late); i++) {
        late[i] = ut_sched_dial(w);
        ut_sched_drop(ut_sched_status(late[i]));
        assert_null(ut_sched_hear(flood[i])); /* the oldest has gone for it */
    }
    ut_sched_drop(ut_sched_status(flood[ARRAY_SIZE(late)]));
    ut_sched_drop(ut_sched_renew(holder, grant->grant, true));
    ut_sched_drop(grant);
    for (unsigned i = 0; i < FLOOD; i++)
        close(flood[i]);
    for (unsigned i = 0; i < ARRAY_SIZE(late); i++)
        close(late[i]);
    close(server);
    close(holder);
}

struct reader {
    int fd;
    size_t sent;
};

/* Ask for as many statuses as can be sent, and read little of the answers. */
static void
ask_much_and_read_little(struct reader *reader)
{
    static const uint8_t one[] = {4, 0, 0, 0, 8, 1, 66, 0}; /* id 1, a CtlStatus */
    static uint8_t requests[64 * 1024];
    size_t at = reader->sent % sizeof(one);
    char buf[4096];
    ssize_t n;

    for (size_t i = 0; i < sizeof(requests); i += sizeof(one))
        memcpy(requests + i, one, sizeof(one));
    n = send(reader->fd, requests + at, sizeof(requests) - at,
             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        reader->sent += (size_t)n;
    if (recv(reader->fd, buf, sizeof(buf), MSG_DONTWAIT) < 0)
        errno = 0;
}

static bool
is_reset(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP));
}

static void
unread_answers_have_a_bound_and_the_crowd_pays(void **state)
{
    enum { SLOW = 6, MOST = 1024 * 1024, SERVERS = 24 };
    struct world *w = *state;
    struct reader slow[SLOW], other = {.sent = 0};
    unsigned gone = 0;
    uint64_t end;
    int server[SERVERS]; /* a slow scheduler writes more of long answers than is read */

    ut_sched_end(w, SIGTERM);
    w->config.unread_max = MOST;
    ut_sched_start(w);
    for (unsigned i = 0; i < SERVERS; i++) {
        char name[] = {(char)('a' + i), '\0'};

        server[i] = ut_sched_join(w, name, 8);
    }
    other.fd = dial_from(w, "127.0.0.1");
    for (unsigned i = 0; i < SLOW; i++)
        slow[i] = (struct reader){.fd = dial_from(w, "127.0.0.2")};
    /* They read, so that nobody is ended for reading nothing; 256 KiB wait for each. */
    end = gp_now_ns() + 3 * PATIENCE;
    while (gone < 3) {
        gone = 0;
        ask_much_and_read_little(&other);
        for (unsigned i = 0; i < SLOW; i++) {
            ask_much_and_read_little(&slow[i]);
            gone += is_reset(slow[i].fd);
        }
        assert_true(gp_now_ns() < end);
        usleep(10000);
    }
    assert_in_range(gone, 3, SLOW - 1);
    assert_false(is_reset(other.fd));
    for (unsigned i = 0; i < SLOW; i++)
        close(slow[i].fd);
    close(other.fd);
    for (unsigned i = 0; i < SERVERS; i++)
        close(server[i]);
}

#define PROMISE(fn)                                                                    \
    cmocka_unit_test_setup_teardown(fn, ut_sched_setup, ut_sched_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(twin_of_a_live_server_is_refused_its_restart_is_not),
        PROMISE(owner_gets_no_more_than_its_sessions),
        PROMISE(unprintable_names_of_an_owner_are_one_name),
        PROMISE(lease_key_guards_a_session),
        PROMISE(tokens_guard_servers_and_clients),
        PROMISE(sighup_changes_token_and_key_and_keeps_sessions),
        PROMISE(nonsense_is_refused_in_words),
        PROMISE(bytes_that_are_no_message_end_only_their_connection),
        PROMISE(second_scheduler_on_the_same_state_does_not_start),
        PROMISE(unproven_peers_shut_nobody_out),
        PROMISE(unproven_peers_of_one_address_end_none_of_another),
        PROMISE(silent_peers_of_one_address_keep_no_other_waiting),
        PROMISE(client_that_sends_too_much_is_sent_away),
        PROMISE(address_crowds_out_its_own_connections_only),
        PROMISE(unread_answers_have_a_bound_and_the_crowd_pays),
        PROMISE(metrics_show_cards_and_sessions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
