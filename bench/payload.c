/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a payload costs over RDMA by each way that it can take, and what it costs to
 * make the better way possible: where a registration begins to pay is read off these
 * lines.
 *
 *   payload ADDRESS      of an RDMA port of this host, where both ends are
 *
 * For each size: through the ring; fetched from memory that is registered already;
 * registering and giving that up; having it watched for its end.  Knows the insides of
 * transport/, as its unit tests do.
 */
#include "bench.h"

#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "xport.h"
#include "xport_rdma.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define KIB 1024u
#define SIZE_MAX_HERE (4096 * KIB)
#define REPEATS 20
#define FRAME_MAX 4096u
/* Below what is ever offered: goes through the ring. */
#define RING_PIECE (RDMA_OFFER_MIN / 2)

static const uint8_t cookie[XPORT_RDMA_COOKIE] = "bench/payload";

struct ends {
    struct xport_conn *client, *worker;
    struct xport_rdma_listener *listener;
    int worker_fd;
    /* of the payloads that come now */
    uint8_t *from, *to;
    size_t size, piece;
};

static void
check(int r, const char *what, const struct gp_err *err)
{
    if (r >= 0)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, gp_err_msg(err, r));
    exit(1);
}

static void *
accept_main(void *arg)
{
    struct gp_err err = {0};
    struct ends *e = arg;
    uint64_t deadline = gp_now_ns() + 20 * GP_NS_PER_S;

    check(xport_rdma_accept(e->listener, e->worker_fd, cookie, FRAME_MAX, deadline,
                            &e->worker, &err),
          "accept", &err);
    return NULL;
}

static void
ends_open(struct ends *e, const char *host)
{
    uint64_t deadline = gp_now_ns() + 20 * GP_NS_PER_S;
    struct xport_rdma_port port = {0};
    struct gp_err err = {0};
    pthread_t thread;
    int fd[2];

    gp_str_copy(port.host, sizeof(port.host), host);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        bench_die("socketpair");
    check(xport_rdma_listen(&port, 1, &e->listener, &err), "listen", &err);
    e->worker_fd = fd[1];
    if (pthread_create(&thread, NULL, accept_main, e) != 0)
        bench_die("pthread_create");
    check(xport_rdma_connect(fd[0], &port, 1, cookie, FRAME_MAX, deadline, &e->client,
                             &err),
          "connect", &err);
    pthread_join(thread, NULL);
    xport_rdma_listener_free(e->listener);
}

static void *
receive_main(void *arg)
{
    struct ends *e = arg;

    for (int i = 0; i < REPEATS; i++)
        for (size_t at = 0; at < e->size; at += e->piece)
            check(xport_recv_bulk(e->worker, e->to + at, e->piece), "receive", NULL);
    return NULL;
}

/* Microseconds for each payload of e->size that travels in such pieces. */
static double
time_payloads(struct ends *e, size_t piece)
{
    uint64_t start = bench_now_ns();
    pthread_t thread;

    e->piece = piece;
    if (pthread_create(&thread, NULL, receive_main, e) != 0)
        bench_die("pthread_create");
    for (int i = 0; i < REPEATS; i++)
        for (size_t at = 0; at < e->size; at += piece)
            check(xport_send_bulk(e->client, e->from + at, piece), "send", NULL);
    pthread_join(thread, NULL);
    return (double)(bench_now_ns() - start) / 1e3 / REPEATS;
}

/* Of memory that was never registered before, as a program's is. */
static double
time_registrations(const struct rdma_conn *rdma, size_t size)
{
    uint64_t total = 0;

    for (int i = 0; i < REPEATS; i++) {
        void *memory = bench_memory(size);
        uint64_t start = bench_now_ns();
        struct ibv_mr *mr = rdma->v->reg_mr(rdma->pd, memory, size, (uintptr_t)memory,
                                            IBV_ACCESS_REMOTE_READ);

        if (!mr)
            bench_die("registering");
        rdma->v->dereg_mr(mr);
        total += bench_now_ns() - start;
        munmap(memory, size);
    }
    return (double)total / 1e3 / REPEATS;
}

static double
time_guards(size_t size)
{
    uint64_t total = 0;

    for (int i = 0; i < REPEATS; i++) {
        void *memory = bench_memory(size);
        uint64_t start = bench_now_ns();
        struct xport_guard guard;

        check(xport_guard_add(&guard, memory, size), "watching", NULL);
        xport_guard_sound(&guard);
        xport_guard_remove(&guard);
        total += bench_now_ns() - start;
        munmap(memory, size);
    }
    return (double)total / 1e3 / REPEATS;
}

static void
say(const char *what, size_t size, double us)
{
    char key[64];

    snprintf(key, sizeof(key), "payload_%s_%zukib_us", what, size / KIB);
    bench_say(key, us);
}

int
main(int argc, char **argv)
{
    struct ends e = {0};

    if (argc != 2) {
        fprintf(stderr, "usage: payload ADDRESS\n");
        return 2;
    }
    ends_open(&e, argv[1]);
    e.from = bench_memory(SIZE_MAX_HERE);
    e.to = bench_memory(SIZE_MAX_HERE);
    xport_pin(e.client, e.from, SIZE_MAX_HERE);
    xport_pin(e.worker, e.to, SIZE_MAX_HERE);
    for (e.size = RDMA_OFFER_MIN; e.size <= SIZE_MAX_HERE; e.size *= 2) {
        say("ring", e.size, time_payloads(&e, RING_PIECE));
        say("kept", e.size, time_payloads(&e, e.size));
        say("register", e.size, time_registrations(rdma_of(e.client), e.size));
        if (xport_guard_usable())
            say("watch", e.size, time_guards(e.size));
    }
    xport_free(e.client);
    xport_free(e.worker);
    return 0;
}
