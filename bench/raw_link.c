/* SPDX-License-Identifier: Apache-2.0 */
/* Raw ping-pong and bulk between two processes; see raw_link.h. */
#include "raw_link.h"

#include "bench.h"
#include "raw_ring.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RAW_PING = 1, RAW_UP, RAW_DOWN };

struct raw_message {
    uint64_t what, size;
    uint8_t rest[RAW_MESSAGE - 16];
};

static void
write_all(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t done = write(fd, at, size);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            bench_die("raw link: write");
        at += done;
        size -= (size_t)done;
    }
}

/* False at the end of the stream. */
static int
read_all(int fd, void *data, size_t size)
{
    char *at = data;

    while (size > 0) {
        ssize_t done = read(fd, at, size);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            bench_die("raw link: read");
        if (done == 0)
            return 0;
        at += done;
        size -= (size_t)done;
    }
    return 1;
}

static void
link_send(struct raw_link *link, const void *data, size_t size)
{
    if (link->out)
        raw_ring_send(link->out, data, size);
    else
        write_all(link->fd, data, size);
}

static int
link_receive(struct raw_link *link, void *data, size_t size)
{
    if (!link->in)
        return read_all(link->fd, data, size);
    raw_ring_receive(link->in, data, size);
    return 1;
}

static _Noreturn void
serve(struct raw_link *link, size_t bulk_max)
{
    char *bulk = bench_memory(bulk_max);
    struct raw_message message;

    while (link_receive(link, &message, sizeof(message))) {
        if (message.what == RAW_DOWN) {
            link_send(link, bulk, message.size);
            continue;
        }
        if (message.what == RAW_UP && !link_receive(link, bulk, message.size))
            break;
        link_send(link, &message, sizeof(message));
    }
    _exit(0);
}

/* True in the child, which ends with this process. */
static int
fork_peer(struct raw_link *link, int peer_core)
{
    link->peer = fork();
    if (link->peer < 0)
        bench_die("fork");
    if (link->peer > 0)
        return 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(peer_core);
    return 1;
}

static void
set_no_delay(int fd)
{
    int one = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
        bench_die("TCP_NODELAY");
}

void
raw_link_open_tcp(struct raw_link *link, size_t bulk_max, int peer_core)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 ||
        listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        bench_die("raw link: listen");

    *link = (struct raw_link){.fd = -1};
    if (fork_peer(link, peer_core)) {
        link->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (link->fd < 0)
            bench_die("raw link: accept");
        set_no_delay(link->fd);
        serve(link, bulk_max);
    }
    link->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, length) < 0)
        bench_die("raw link: connect");
    set_no_delay(link->fd);
    close(listener);
}

void
raw_link_open_shm(struct raw_link *link, size_t bulk_max, int peer_core)
{
    struct raw_ring *rings = mmap(NULL, 2 * sizeof(*rings), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (rings == MAP_FAILED)
        bench_die("raw link: mmap");
    *link = (struct raw_link){.fd = -1, .out = &rings[0], .in = &rings[1]};
    if (fork_peer(link, peer_core)) {
        link->out = &rings[1];
        link->in = &rings[0];
        serve(link, bulk_max);
    }
}

void
raw_link_close(struct raw_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    else
        kill(link->peer, SIGKILL);
    waitpid(link->peer, NULL, 0);
}

static void
ask(struct raw_link *link, uint64_t what, uint64_t size)
{
    struct raw_message message = {.what = what, .size = size};

    link_send(link, &message, sizeof(message));
}

static void
answer(struct raw_link *link, void *data, size_t size)
{
    if (!link_receive(link, data, size))
        bench_die("raw link: the peer is gone");
}

void
raw_link_ping(struct raw_link *link)
{
    struct raw_message message;

    ask(link, RAW_PING, 0);
    answer(link, &message, sizeof(message));
}

void
raw_link_up(struct raw_link *link, const void *data, size_t size)
{
    struct raw_message message;

    ask(link, RAW_UP, size);
    link_send(link, data, size);
    answer(link, &message, sizeof(message));
}

void
raw_link_down(struct raw_link *link, void *data, size_t size)
{
    ask(link, RAW_DOWN, size);
    answer(link, data, size);
}
