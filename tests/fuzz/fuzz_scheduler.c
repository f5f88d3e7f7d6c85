/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole scheduler that is talked to by unauthenticated peers.
 *
 * The input is a list of messages (one length byte pair, then that many bytes); each
 * goes to one of two connections.  One of them is a registered server, so that reports
 * and placements run too.  Sessions have ids and lease keys that an input can name, so
 * that renewals of many and closes run as well.  Whatever comes, the books must stay
 * right.
 */
#include "control.pb-c.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"
#include "sched_commit.h"
#include "sched_daemon.h"
#include "sched_serve.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sched sched;

/* The files stay open for as long as the process lives, which ends in many ways. */
static void
remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

/* With the first input and not before: AFL++ forks the process between the two, which
 * leaves threads and SQLite's locks behind. */
static void
scheduler_start(void)
{
    static char dir[] = "/tmp/fuzz-scheduler-XXXXXX";
    static struct sched_config config = {
        .listen = "127.0.0.1:0",
        .heartbeat_ms = 1000,
        .dead_after_ms = 3000,
        .forget_ms = 3600000,
        .lease_ms = 1000,
        .lease_min_ms = 1,
        .lease_max_ms = 1000,
        .hold_grace_ms = 10,
        .placement = SCHED_BINPACK,
        .owner_sessions = 100,
        .max_attachments = 8,
        .attachments_limit = 16,
        .anonymous = {true, true, true},
    };

    gp_log_init("scheduler", GP_LOG_NONE);
    config.state_dir = mkdtemp(dir);
    if (!config.state_dir || sched_init(&sched, &config, NULL) < 0)
        __builtin_trap();
    remove_folder(dir);
}

/* A connection whose other end the fuzzer never reads; that end. */
static int
join(void)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
        __builtin_trap();
    sched_serve_accept(&sched, fds[0]);
    return fds[1];
}

static void
register_server(struct sched_conn *conn)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRegister reg = GPUPOOL__CTL__CTL_REGISTER__INIT;
    Gpupool__Ctl__CtlCard card = GPUPOOL__CTL__CTL_CARD__INIT, *cards = &card;
    uint8_t bytes[512];

    card.uuid = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
    card.memory_bytes = UINT64_C(16) << 30;
    reg.major = CTL_MAJOR;
    reg.server = (char *)"node";
    reg.endpoint = (char *)"127.0.0.1:7481";
    reg.instance = 1;
    reg.cards = &cards;
    reg.n_cards = 1;
    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REGISTER_SERVER;
    req.register_server = &reg;
    conn->msg.on_msg(&conn->msg, bytes, gpupool__ctl__ctl_request__pack(&req, bytes));
}

static void
check_books(void)
{
    const struct sched_session *s = NULL;
    uint64_t core = 0, want = 0;

    while ((s = sched_sessions_next(&sched.sessions, s)))
        for (uint32_t i = 0; i < s->n_slices; i++)
            want += s->slices[i].core;
    for (const struct sched_server *v = sched.pool->servers; v; v = v->next)
        for (unsigned i = 0; i < v->n_cards; i++) {
            const struct sched_card *card = v->cards[i];

            if (card->core_given > 100 || card->memory_given > card->facts.memory)
                __builtin_trap();
            core += card->core_given;
        }
    if (core != want)
        __builtin_trap();
    for (const struct sched_conn *conn = sched.conns; conn; conn = conn->next)
        for (s = conn->held; s; s = s->held_next)
            if (s->holder != conn || s->closing || *s->held_link != s)
                __builtin_trap();
}

/* Lease keys of sixteen times "k". */
static void
tell_keys(void)
{
    struct sched_session *s = NULL;

    while ((s = sched_sessions_next(&sched.sessions, s)))
        memset(s->lease_key, 'k', sizeof(s->lease_key));
}

static void
end_everything(const int fds[2])
{
    struct sched_session *s;

    while (sched.conns)
        sched_serve_end(sched.conns);
    while ((s = sched_sessions_next(&sched.sessions, NULL)))
        sched_session_end(&sched, s, "fuzz");
    close(fds[0]);
    close(fds[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    int fds[2];

    if (!started)
        scheduler_start();
    started = true;
    sched.sessions.next_id = 1;
    fds[0] = join();
    register_server(sched.conns);
    fds[1] = join();
    while (size > 2 && sched.conns) {
        size_t len = gp_min((size_t)(data[0] | (data[1] & 15) << 8), size - 2);
        struct sched_conn *conn = sched.conns;

        if (data[1] & 128 && conn->next)
            conn = conn->next;
        conn->msg.on_msg(&conn->msg, data + 2, len);
        sched_commit(&sched, NULL); /* as the loop does; the connection was held */
        data += 2 + len;
        size -= 2 + len;
        tell_keys();
        check_books();
    }
    end_everything(fds);
    return 0;
}
