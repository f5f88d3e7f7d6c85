/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay in front of a server that cuts every connection again and again.
 *
 *     cutter HOST PORT EVERY_MS EVERY_KIB SEED
 *
 * Listens on 127.0.0.1 and prints the port.  Every EVERY_MS milliseconds, and every
 * EVERY_KIB KiB that it has read, half of that more or less, all connections end, each
 * end with a reset or with an orderly end as the seed says; bytes that the relay holds,
 * and those in the kernel behind it, are lost.  0: not because of that.
 *
 * Lines on standard input: "cut" cuts now, "count" asks how often it has cut so far,
 * "every MS" changes that time; each is answered with the number of cuts.  "busy" is
 * answered with how many of the connections that live have carried a mebibyte one way.
 * The end of standard input ends the relay.
 *
 * One thread, one poll loop.
 */
#include "gp_base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX 256
#define CHUNK (64u << 10)
#define BUSY (1u << 20)

/* One direction of a connection. */
struct way {
    size_t at, end; /* bytes of buf that were read and not written */
    uint64_t carried;
    bool ended; /* nothing more will be read */
    bool shut;  /* and the other side knows */
    char buf[CHUNK];
};

struct pair {
    int fd[2]; /* way[i] leads from fd[i] to fd[!i] */
    struct way *way[2];
};

static struct {
    struct sockaddr_in target;
    int listener;
    uint32_t seed;
    uint64_t every_ms, next_ms; /* 0: never */
    uint64_t every_kib;
    int64_t left; /* bytes until the next cut */
    unsigned long cuts;
    struct pair pair[PAIRS_MAX];
    unsigned n;
} relay;

static _Noreturn void
die(const char *what)
{
    fprintf(stderr, "cutter: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint32_t
draw(uint32_t below)
{
    relay.seed = relay.seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(relay.seed >> 8) * below >> 24);
}

static uint64_t
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- pairs -------------------------------------------------------------------------
 */

static void
end_close(int fd, bool reset)
{
    struct linger linger = {.l_onoff = reset};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

/* The last pair takes its place. */
static void
pair_drop(struct pair *pair, bool reset_near, bool reset_far)
{
    end_close(pair->fd[0], reset_near);
    end_close(pair->fd[1], reset_far);
    free(pair->way[0]);
    free(pair->way[1]);
    *pair = relay.pair[--relay.n];
}

static void
cut(void)
{
    relay.cuts += relay.n > 0;
    while (relay.n)
        pair_drop(&relay.pair[relay.n - 1], draw(2), draw(2));
}

static void
end_prepare(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void
pair_add(int near, int far)
{
    struct pair *pair = &relay.pair[relay.n++];

    end_prepare(near);
    end_prepare(far);
    *pair =
        (struct pair){.fd = {near, far},
                      .way = {malloc(sizeof(struct way)), malloc(sizeof(struct way))}};
    if (!pair->way[0] || !pair->way[1])
        die("memory");
    for (int i = 0; i < 2; i++) {
        pair->way[i]->at = pair->way[i]->end = pair->way[i]->carried = 0;
        pair->way[i]->ended = pair->way[i]->shut = false;
    }
}

static void
accept_one(void)
{
    int near = accept4(relay.listener, NULL, NULL, SOCK_CLOEXEC), far;

    if (near < 0)
        return;
    far = relay.n == PAIRS_MAX ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (far >= 0 &&
        connect(far, (struct sockaddr *)&relay.target, sizeof(relay.target)) == 0) {
        pair_add(near, far);
        return;
    }
    if (far >= 0)
        close(far);
    close(near);
}

/* False: the connection is broken. */
static bool
way_move(struct pair *pair, int i)
{
    struct way *way = pair->way[i];
    ssize_t n;

    if (way->at == way->end && !way->ended) {
        n = recv(pair->fd[i], way->buf, sizeof(way->buf), 0);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        relay.left -= n;
        way->carried += (uint64_t)n;
        way->at = 0;
        way->end = (size_t)n;
        way->ended = n == 0;
    }
    if (way->at < way->end) {
        n = send(pair->fd[!i], way->buf + way->at, way->end - way->at, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        way->at += (size_t)n;
    }
    if (way->ended && !way->shut && way->at == way->end) {
        shutdown(pair->fd[!i], SHUT_WR);
        way->shut = true;
    }
    return true;
}

/* What end @i of a pair is waited for. */
static short
pair_events(const struct pair *pair, int i)
{
    const struct way *in = pair->way[i], *out = pair->way[!i];

    return (short)((in->at == in->end && !in->ended ? POLLIN : 0) |
                   (out->at < out->end ? POLLOUT : 0));
}

/* ---- orders ------------------------------------------------------------------------
 */

static unsigned long
busy(void)
{
    unsigned long n = 0;

    for (unsigned i = 0; i < relay.n; i++)
        n += relay.pair[i].way[0]->carried >= BUSY ||
             relay.pair[i].way[1]->carried >= BUSY;
    return n;
}

/* False: there will be no more. */
static bool
obey(void)
{
    static char line[64];
    static size_t have;
    ssize_t n = read(STDIN_FILENO, line + have, sizeof(line) - have - 1);
    char *end;

    if (n <= 0)
        return false;
    have += (size_t)n;
    line[have] = '\0';
    while ((end = strchr(line, '\n'))) {
        *end = '\0';
        if (strcmp(line, "cut") == 0)
            cut();
        if (strncmp(line, "every ", 6) == 0)
            relay.every_ms = strtoul(line + 6, NULL, 10);
        printf("%lu\n", strcmp(line, "busy") == 0 ? busy() : relay.cuts);
        have -= (size_t)(end + 1 - line);
        memmove(line, end + 1, have + 1);
    }
    fflush(stdout);
    return have < sizeof(line) - 1;
}

static void
listen_somewhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);

    relay.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (relay.listener < 0 || bind(relay.listener, (struct sockaddr *)&at, size) < 0 ||
        listen(relay.listener, 64) < 0 ||
        getsockname(relay.listener, (struct sockaddr *)&at, &size) < 0)
        die("listen");
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
}

/* Move what can be moved, and drop the pair if that was all. */
static void
pair_serve(struct pair *pair, const struct pollfd fds[2])
{
    bool whole = !((fds[0].revents | fds[1].revents) & POLLNVAL);

    for (int i = 0; i < 2; i++)
        whole = way_move(pair, i) && whole && !(fds[i].revents & POLLERR);
    if (!whole || (pair->way[0]->shut && pair->way[1]->shut))
        pair_drop(pair, !whole, !whole);
}

/* Until something can be moved or the next cut is due. */
static void
turn_wait(struct pollfd *fds)
{
    uint64_t now = now_ms(), left = relay.next_ms > now ? relay.next_ms - now : 0;

    fds[0] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    fds[1] = (struct pollfd){relay.listener, POLLIN, 0};
    for (unsigned i = 0; i < 2 * relay.n; i++)
        fds[2 + i] = (struct pollfd){.fd = relay.pair[i / 2].fd[i % 2],
                                     .events = pair_events(&relay.pair[i / 2], i % 2)};
    if (poll(fds, 2 + 2 * relay.n, relay.every_ms ? (int)left : -1) < 0 &&
        errno != EINTR)
        die("poll");
}

static uint64_t
around(uint64_t n)
{
    return n / 2 + draw((uint32_t)n + 1);
}

static bool
cut_if_due(void)
{
    bool due = relay.every_ms && now_ms() >= relay.next_ms;

    due = due || (relay.every_kib && relay.left < 0);
    if (!due)
        return false;
    cut();
    relay.next_ms = now_ms() + around(relay.every_ms);
    relay.left = (int64_t)around(relay.every_kib) * 1024;
    return true;
}

/* False: the relay ends. */
static bool
turn(void)
{
    struct pollfd fds[2 + 2 * PAIRS_MAX] = {0};

    turn_wait(fds);
    if (cut_if_due())
        return true;
    /* From the end: a pair that is dropped gives its place to the last one, which has
     * been served. */
    for (unsigned i = relay.n; i-- > 0;)
        if (fds[2 + 2 * i].revents || fds[3 + 2 * i].revents)
            pair_serve(&relay.pair[i], &fds[2 + 2 * i]);
    if (fds[1].revents)
        accept_one();
    return !fds[0].revents || obey();
}

int
main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: cutter HOST PORT EVERY_MS EVERY_KIB SEED\n");
        return 2;
    }
    relay.target.sin_family = AF_INET;
    relay.target.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
    if (inet_pton(AF_INET, argv[1], &relay.target.sin_addr) != 1) {
        fprintf(stderr, "cutter: '%s' is no address\n", argv[1]);
        return 2;
    }
    relay.every_ms = strtoul(argv[3], NULL, 10);
    relay.every_kib = strtoul(argv[4], NULL, 10);
    relay.seed = (uint32_t)strtoul(argv[5], NULL, 10);
    relay.next_ms = now_ms() + around(relay.every_ms);
    relay.left = (int64_t)around(relay.every_kib) * 1024;
    listen_somewhere();
    while (turn())
        ;
    while (relay.n)
        pair_drop(&relay.pair[relay.n - 1], false, false);
    return 0;
}
