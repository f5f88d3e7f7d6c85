/* SPDX-License-Identifier: Apache-2.0 */
#include "ut_sched.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

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

void
ut_sched_start(struct world *w)
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

void
ut_sched_end(struct world *w, int sig)
{
    int status;

    kill(w->scheduler, sig);
    assert_int_equal(waitpid(w->scheduler, &status, 0), w->scheduler);
    if (sig == SIGTERM)
        assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

int
ut_sched_setup(void **state)
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
        .forget_ms = 3600000,
        .lease_ms = 60000,
        .lease_min_ms = 50,
        .lease_max_ms = 600000,
        .hold_grace_ms = 300,
        .placement = SCHED_BINPACK,
        .owner_sessions = 4,
        .max_attachments = 8,
        .attachments_limit = 16,
        .anonymous = {true, true, true},
    };
    ut_sched_start(w);
    *state = w;
    return 0;
}

int
ut_sched_teardown(void **state)
{
    struct world *w = *state;
    DIR *dir = opendir(w->dir);
    struct dirent *entry;

    ut_sched_end(w, SIGTERM);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    assert_int_equal(rmdir(w->dir), 0);
    free(w);
    return 0;
}

/* ------------------------------------------------------------------- peers -- */

int
ut_sched_dial(const struct world *w)
{
    int fd;

    assert_int_equal(
        gp_net_connect(w->address, 0, gp_now_ns() + PATIENCE, true, &fd, NULL), 0);
    return fd;
}

void
ut_sched_post(int fd, Gpupool__Ctl__CtlRequest *req)
{
    static uint32_t id;
    uint8_t bytes[CTL_CLIENT_REQUEST_MAX];

    req->id = ++id;
    assert_true(gpupool__ctl__ctl_request__get_packed_size(req) <= sizeof(bytes));
    assert_int_equal(gp_msg_send(fd, bytes, gpupool__ctl__ctl_request__pack(req, bytes),
                                 gp_now_ns() + PATIENCE, NULL),
                     0);
}

reply_t *
ut_sched_hear(int fd)
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

void
ut_sched_drop(reply_t *reply)
{
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}

reply_t *
ut_sched_ask(int fd, Gpupool__Ctl__CtlRequest *req)
{
    reply_t *reply;

    ut_sched_post(fd, req);
    reply = ut_sched_hear(fd);
    assert_non_null(reply);
    assert_int_equal(reply->id, req->id);
    return reply;
}

void
ut_sched_refused(reply_t *reply, Gpupool__Ctl__CtlCode code, const char *words)
{
    assert_non_null(reply->error);
    assert_int_equal(reply->error->code, code);
    if (!strstr(reply->error->words, words))
        fail_msg("\"%s\" does not say \"%s\"", reply->error->words, words);
    ut_sched_drop(reply);
}

reply_t *
ut_sched_enlist(int fd, const struct play *play)
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
    return ut_sched_ask(fd, &req);
}

int
ut_sched_join(const struct world *w, const char *name, unsigned cards)
{
    int fd = ut_sched_dial(w);
    reply_t *reply = ut_sched_enlist(
        fd, &(struct play){.name = name, .instance = 1, .cards = cards});

    assert_null(reply->error);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_REGISTERED);
    ut_sched_drop(reply);
    return fd;
}

reply_t *
ut_sched_report(int fd, uint64_t running)
{
    return ut_sched_report_after(fd, running, 0);
}

reply_t *
ut_sched_report_after(int fd, uint64_t running, uint64_t closes_followed)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlReport body = GPUPOOL__CTL__CTL_REPORT__INIT;
    Gpupool__Ctl__CtlSessionUse use = GPUPOOL__CTL__CTL_SESSION_USE__INIT, *uses = &use;

    use.session_id = running;
    use.attachments = 3;
    body.sessions = &uses;
    body.n_sessions = running != 0;
    body.closes_followed = closes_followed;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT;
    req.report = &body;
    return ut_sched_ask(fd, &req);
}

Gpupool__Ctl__CtlOpen
ut_sched_preference(uint32_t core, uint64_t memory)
{
    Gpupool__Ctl__CtlOpen open = GPUPOOL__CTL__CTL_OPEN__INIT;

    open.major = CTL_MAJOR;
    open.owner = (char *)"ada@host";
    open.core = core;
    open.memory_bytes = memory;
    return open;
}

reply_t *
ut_sched_open(int fd, Gpupool__Ctl__CtlOpen *open)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = open;
    return ut_sched_ask(fd, &req);
}

reply_t *
ut_sched_ask_preference(int fd, uint32_t core)
{
    Gpupool__Ctl__CtlOpen open = ut_sched_preference(core, GIB);

    return ut_sched_open(fd, &open);
}

/* A grant; the caller drops it. */
reply_t *
ut_sched_granted(int fd, Gpupool__Ctl__CtlOpen open)
{
    reply_t *reply = ut_sched_open(fd, &open);

    if (reply->error)
        fail_msg("refused: %s", reply->error->words);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_GRANT);
    return reply;
}

reply_t *
ut_sched_renew(int fd, const Gpupool__Ctl__CtlGrant *grant, bool hold)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew renew = GPUPOOL__CTL__CTL_RENEW__INIT;

    renew.session_id = grant->session_id;
    renew.lease_key = grant->lease_key;
    renew.hold = hold;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req.renew = &renew;
    return ut_sched_ask(fd, &req);
}

void
ut_sched_post_close(int fd, const Gpupool__Ctl__CtlGrant *grant)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose close_msg = GPUPOOL__CTL__CTL_CLOSE__INIT;

    close_msg.session_id = grant->session_id;
    close_msg.lease_key = grant->lease_key;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &close_msg;
    ut_sched_post(fd, &req);
}

reply_t *
ut_sched_status(int fd)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlStatus status = GPUPOOL__CTL__CTL_STATUS__INIT;
    reply_t *reply;

    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS;
    req.status = &status;
    reply = ut_sched_ask(fd, &req);
    assert_int_equal(reply->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_STATUS);
    return reply;
}

reply_t *
ut_sched_drain(int fd, const char *server, bool undo)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlDrain drain = GPUPOOL__CTL__CTL_DRAIN__INIT;

    drain.server = (char *)server;
    drain.undo = undo;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_DRAIN;
    req.drain = &drain;
    return ut_sched_ask(fd, &req);
}

void
ut_sched_await_notice(int server, uint64_t session)
{
    reply_t *notice = ut_sched_hear(server);

    assert_non_null(notice);
    assert_int_equal(notice->id, 0);
    assert_int_equal(notice->body_case, GPUPOOL__CTL__CTL_REPLY__BODY_CLOSE_SESSION);
    assert_int_equal(notice->close_session->session_id, session);
    ut_sched_drop(notice);
}
