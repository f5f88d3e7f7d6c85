/* SPDX-License-Identifier: Apache-2.0 */
/* Raw TCP ping-pong and bulk between two processes; see raw_link.h. */
#include "raw_link.h"

#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
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
serve(int fd, size_t bulk_max)
{
    char *bulk = bench_memory(bulk_max);
    struct raw_message message;

    while (read_all(fd, &message, sizeof(message))) {
        if (message.what == RAW_DOWN) {
            write_all(fd, bulk, message.size);
            continue;
        }
        if (message.what == RAW_UP && !read_all(fd, bulk, message.size))
            break;
        write_all(fd, &message, sizeof(message));
    }
    _exit(0);
}

static void
set_no_delay(int fd)
{
    int one = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
        bench_die("TCP_NODELAY");
}

void
raw_link_open(struct raw_link *link, size_t bulk_max, int peer_core)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 ||
        listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        bench_die("raw link: listen");

    link->peer = fork();
    if (link->peer < 0)
        bench_die("fork");
    if (link->peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bench_pin(peer_core);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
            bench_die("raw link: accept");
        set_no_delay(fd);
        serve(fd, bulk_max);
    }
    link->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, length) < 0)
        bench_die("raw link: connect");
    set_no_delay(link->fd);
    close(listener);
}

void
raw_link_close(struct raw_link *link)
{
    close(link->fd);
    waitpid(link->peer, NULL, 0);
}

static void
ask(struct raw_link *link, uint64_t what, uint64_t size)
{
    struct raw_message message = {.what = what, .size = size};

    write_all(link->fd, &message, sizeof(message));
}

static void
acknowledged(struct raw_link *link)
{
    struct raw_message message;

    if (!read_all(link->fd, &message, sizeof(message)))
        bench_die("raw link: the peer is gone");
}

void
raw_link_ping(struct raw_link *link)
{
    ask(link, RAW_PING, 0);
    acknowledged(link);
}

void
raw_link_up(struct raw_link *link, const void *data, size_t size)
{
    ask(link, RAW_UP, size);
    write_all(link->fd, data, size);
    acknowledged(link);
}

void
raw_link_down(struct raw_link *link, void *data, size_t size)
{
    ask(link, RAW_DOWN, size);
    if (!read_all(link->fd, data, size))
        bench_die("raw link: the peer is gone");
}
