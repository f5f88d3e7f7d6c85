/* SPDX-License-Identifier: Apache-2.0 */
/* The whole worker, the hand-written handlers included, against hostile frames, before
 * the null driver with guard.c in front: a number of the client's that arrives there as
 * a pointer or a handle ends the program.
 *
 * The input is what a client sends after it is attached: frames, one behind the other.
 * Sizes, numbers and flags of their headers are put right first, so that mutations meet
 * decoders and handlers; payloads behind frames are not here.  Handles live from one
 * frame to the next, and no longer than the input. */
#define main worker_program
#include "wrk_main.c" /* for what a worker is made of */
#undef main

#include "gov_card.h"
#include "guard.h"
#include "srv_arbiter.h"
#include "srv_desk.h"
#include "srv_ledger.h"
#include "wire_api.h"
#include "wrk_control.h"
#include "wrk_hostfn_own.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 65536u
#define RETAIN_PRIMARY 0x031d
#define STUCK_MS 200

static void
must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz_worker: %s\n", what);
    exit(2);
}

/* What the supervisor makes for a session of one slice that has its card to itself. */
static void
session_make(struct wrk_priv *p)
{
    static struct ticket_claims claims = {
        .session_id = 1,
        .n_slices = 1,
        .slices = {{.core = 100, .core_limit = 100, .memory = UINT64_C(1) << 30}}};
    struct srv_arbiter *arbiter = NULL;
    struct srv_ledger *ledger = NULL;
    struct srv_desk *desk = NULL;
    uint32_t slot = 0;

    must(srv_arbiter_new(1, &arbiter, NULL) == 0, "no arbiter");
    must(srv_ledger_new(&claims, &ledger, NULL) == 0, "no memory of the session");
    must(srv_ledger_slot_take(ledger, &slot) == 0, "no slot");
    must(srv_desk_new(&desk, NULL) == 0, "no desk");
    desk->session = claims.session_id;
    desk->ledger = ledger;
    desk->slot = slot;
    desk->n_slices = 1;
    desk->slices[0].share = (struct gov_share){.policy = GOV_BURST_SHARE, .core = 100};
    srv_ledger_desk(ledger, slot, desk, (uint32_t)getpid());
    must(srv_arbiter_add(arbiter, desk, NULL) == 0, "no place at the card");
    the_desks = (struct wrk_desks){.desk = desk->desk,
                                   .notice = desk->notice,
                                   .slot = slot,
                                   .wake_fd = desk->wake_fd};
    the_desks.segment = mmap(NULL, sizeof(*the_desks.segment), PROT_READ, MAP_SHARED,
                             srv_ledger_segment_fd(ledger), 0);
    must(the_desks.segment != MAP_FAILED, "no segment");
    pthread_mutex_init(&the_desks.lock, NULL);
    p->desks = &the_desks;
    wrk_supervisor_open(&the_desks);
    p->usage = &the_desks.desk->usage;
    p->conf.slices[0] = claims.slices[0];
}

static void
worker_make(struct wrk *w)
{
    struct wrk_priv *p = w->priv;
    struct drv *table = &the_table.drv;
    struct gp_err err = {0};

    signal(SIGPIPE, SIG_IGN);
    session_make(p);
    p->conf.n_slices = 1;
    p->conf.card_sms[0] = 8;
    must(wrk_driver_open("null", table, &err) == 0, "the null driver does not open");
    must(table->cuInit(0) == CUDA_SUCCESS, "the null driver does not start");
    guard_prefer(table);
    wrk_drv_shims_enter(w, table);
    must(wrk_seal(&err) == 0, "the table stays writable");
    p->cards.n = 1;
    must(wrk_card_read(table, 0, &p->cards.card[0]) == CUDA_SUCCESS, "no card 0");
    must(start_objects(w, &err) == 0, "no memory for the worker's objects");
}

/* --- one client ---------------------------------------------------------------------
 */

static bool
is_elsewhere(uint16_t call)
{
    return call >= 0xe000 && ((call & 0xf0) == 0x10 || call == 0xe006);
}

/* How many sequence numbers the frame of @call with this body takes: those of a run of
 * launches are as many as its launches. */
static uint32_t
numbers_of(uint16_t call, const uint8_t *body, size_t len, uint32_t *n_params)
{
    struct wire_gp_launch_shape_req shape;
    struct wire_gp_launch_run_req run;

    if (call == WIRE_CALL_gp_launch_shape && len == sizeof(shape)) {
        memcpy(&shape, body, sizeof(shape));
        if (shape.number < WIRE_LAUNCH_SHAPES &&
            shape.n_params <= WIRE_LAUNCH_PARAMS_MAX)
            n_params[shape.number] = shape.n_params;
    }
    if (call != WIRE_CALL_gp_launch_run || len < sizeof(run))
        return 1;
    memcpy(&run, body, sizeof(run));
    return run.number < WIRE_LAUNCH_SHAPES
               ? gp_max(run.n / wire_launch_stride(n_params[run.number]), 1u)
               : 1;
}

/* Frames of @data into @to, made to look like a client's; returns how many bytes. */
static size_t
frames_make(uint8_t *to, const uint8_t *data, size_t size)
{
    struct wire_req req = {.size = 24, .call = RETAIN_PRIMARY, .seq = 1};
    uint32_t n_params[WIRE_LAUNCH_SHAPES] = {0}, seq = 2;
    size_t n = 24;

    memset(to, 0, n);
    memcpy(to, &req, sizeof(req));
    while (size >= sizeof(req)) {
        size_t len;

        memcpy(&req, data, sizeof(req));
        len = gp_min((size_t)(req.size & ~7u), size & ~(size_t)7);
        len = gp_max(len, sizeof(req));
        if (!is_elsewhere(req.call)) {
            req.size = (uint32_t)len;
            req.seq = seq;
            seq +=
                numbers_of(req.call, data + sizeof(req), len - sizeof(req), n_params);
            req.flags &= WIRE_F_REPLY | WIRE_F_RELAXED;
            memcpy(to + n, &req, sizeof(req));
            memcpy(to + n + sizeof(req), data + sizeof(req), len - sizeof(req));
            n += len;
        }
        data += len;
        size -= len;
    }
    return n;
}

struct client {
    int fd;
    const uint8_t *data;
    size_t size;
};

static void *
client_send(void *arg)
{
    struct client *c = arg;

    while (c->size) {
        ssize_t n = write(c->fd, c->data, c->size);

        if (n <= 0)
            break;
        c->data += n;
        c->size -= (size_t)n;
    }
    shutdown(c->fd, SHUT_WR);
    return NULL;
}

/* A call may wait in the reader for functions of the client, which no client of ours
 * would have it do: they have all returned then.  True: it does wait. */
static bool
reader_help(struct wrk *w, uint32_t *seq)
{
    static uint64_t said;
    struct wrk_hostfns *hosts = w->priv->hosts;
    uint32_t now = atomic_load(&w->priv->seq);
    bool stuck = now == *seq && !atomic_load(&w->priv->waiting);
    uint64_t last;

    *seq = now;
    pthread_mutex_lock(&hosts->lock);
    last = hosts->last_ticket;
    pthread_mutex_unlock(&hosts->lock);
    while (stuck && said < last)
        wrk_hostfn_done(w, ++said);
    return stuck;
}

static void *
client_read(void *arg)
{
    static uint8_t drop[1 << 16];
    const struct client *c = arg;
    struct pollfd fd = {.fd = c->fd, .events = POLLIN};
    bool stuck = false;
    uint32_t seq = 0;

    for (;;) {
        int r = poll(&fd, 1, stuck ? 1 : STUCK_MS);

        if (r == 0)
            stuck = reader_help(&the_worker, &seq);
        else if (read(c->fd, drop, sizeof(drop)) <= 0)
            return NULL;
    }
}

/* A connection that has ended, for threads of the worker that answer a client after its
 * end: waits go on until the work is done.  In a worker the connection stays. */
static struct xport_conn *
conn_dead(void)
{
    static struct xport_conn *dead;
    struct gp_err err = {0};
    int ends[2];

    if (dead)
        return dead;
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
    must(xport_tcp_new(ends[1], WIRE_FRAME_MAX, &dead, &err) == 0, "no connection");
    close(ends[0]);
    xport_abort(dead);
    return dead;
}

/* A thread that has begun to look at a connection may go on for a while: it takes no
 * lock for that, because in a worker the connection stays. */
static void
conn_free_later(struct xport_conn *conn)
{
    static struct xport_conn *ended[64];
    static unsigned next;
    struct xport_conn **place = &ended[next++ % ARRAY_SIZE(ended)];

    xport_free(*place);
    *place = conn;
}

static void
conn_replace(struct wrk_priv *p, struct xport_conn *conn)
{
    struct xport_conn *old = p->conn;

    gp_lock_take(&p->send_lock);
    p->conn = conn;
    gp_lock_release(&p->send_lock);
    if (old != conn_dead())
        conn_free_later(old);
}

static void
serve_client(struct wrk *w, const uint8_t *frames, size_t size)
{
    struct wrk_priv *p = w->priv;
    struct gp_err err = {0};
    struct xport_conn *conn;
    struct client client;
    pthread_t sender, reader;
    int ends[2];

    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
    client = (struct client){ends[0], frames, size};
    must(xport_tcp_new(ends[1], WIRE_FRAME_MAX, &conn, &err) == 0, "no connection");
    conn_replace(p, conn);
    if (!p->ring) /* threads of the worker use it longer than a client is there */
        must(wrk_ring_new(p->conn, &p->ring) == 0, "no memory");
    atomic_store(&p->seq, 0);
    atomic_store(&p->stopping, false);
    p->bad = NULL;
    pthread_create(&sender, NULL, client_send, &client);
    pthread_create(&reader, NULL, client_read, &client);
    wrk_loop_run(w);
    xport_abort(p->conn);
    pthread_join(sender, NULL);
    pthread_join(reader, NULL);
    close(ends[0]);
    conn_replace(p, conn_dead());
}

/* The same frames over a control connection, whose dispatch is its own. */
static void
control_serve_frames(struct wrk *w, const uint8_t *frames, size_t size)
{
    struct wire_req req;

    for (size_t at = 0; at < size; at += req.size) {
        memcpy(&req, frames + at, sizeof(req));
        wrk_control_execute(w, conn_dead(), frames + at, req.size, req.seq);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t frames[INPUT_MAX + 64];
    struct wrk *w = &the_worker;

    if (!w->priv->desks)
        worker_make(w);
    size = frames_make(frames, data, gp_min(size, (size_t)INPUT_MAX));
    guard_begin(frames, size);
    serve_client(w, frames, size);
    control_serve_frames(w, frames, size);
    guard_end(w);
    wrk_handles_fini(&w->handles);
    w->ctx_index = 0;
    return 0;
}
