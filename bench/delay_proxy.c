/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A longer network: runs a program whose connection to the pool server takes a
 * fixed time each way.
 *
 *     gpupool run ... -- delay_proxy ONE_WAY_US [--rate=MB/S] [--window=KIB] PROGRAM...
 *
 * The server and the ticket are taken from the session that `gpupool run` opened;
 * the program is pointed at the proxy instead.  Every byte leaves ONE_WAY_US after
 * it came in; order is kept.  --rate limits each direction, all connections together,
 * as a line does.  --window is how much of each connection may be under way, counted
 * until its acknowledgement would be back: what limits one connection on a long line.
 * One thread, one poll loop; the proxy ends with the program and passes on its exit
 * status.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINKS_MAX 32
#define CHUNK (256u * 1024u)
/* With a rate: as much is read ahead as the line takes in this time. */
#define QUEUE_NS 5000000u
/* And kernels take little, so that a full line is felt at its ends. */
#define SOCKET_BUFFER (64 * 1024)
/* More than a 10 ms round trip of anything loopback can carry. */
#define IN_FLIGHT_MAX (128u * 1024u * 1024u)

struct chunk {
    struct chunk *next;
    uint64_t due_ns;
    size_t size, sent;
    char data[];
};

/* One direction of one connection: bytes read from @from, due later at @to. */
struct lane {
    int from, to;
    struct chunk *first, **last;   /* due later */
    struct chunk *unacked, **tail; /* sent, their acknowledgement due later */
    size_t in_flight;
    int ended; /* nothing more will come from @from */
    int shut;  /* and @to was told so */
};

struct link {
    struct lane lane[2];
};

struct proxy {
    int listener, signals;
    struct sockaddr_storage target;
    socklen_t target_size;
    uint64_t delay_ns;
    double ns_per_byte; /* 0: no limit */
    size_t window;
    uint64_t free_ns[2]; /* when each direction of the line is free again */
    struct link links[LINKS_MAX];
    size_t n_links;
    pid_t child;
};

static void
lane_init(struct lane *lane, int from, int to)
{
    *lane = (struct lane){.from = from, .to = to};
    lane->last = &lane->first;
    lane->tail = &lane->unacked;
}

static void
prepare_socket(const struct proxy *proxy, int fd)
{
    int one = 1, small = SOCKET_BUFFER;

    if (proxy->ns_per_byte > 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        bench_die("O_NONBLOCK");
}

/* Before connecting or listening, when it still counts. */
static void
small_receive_buffer(const struct proxy *proxy, int fd)
{
    int small = SOCKET_BUFFER;

    if (proxy->ns_per_byte > 0 || proxy->window < IN_FLIGHT_MAX)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
}

static void
proxy_accept(struct proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    int server;
    struct link *link = &proxy->links[proxy->n_links];

    if (client < 0)
        return;
    if (proxy->n_links == LINKS_MAX) {
        close(client);
        return;
    }
    server = socket(proxy->target.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    small_receive_buffer(proxy, server);
    if (server < 0 ||
        connect(server, (struct sockaddr *)&proxy->target, proxy->target_size) < 0)
        bench_die("delay proxy: connect");
    prepare_socket(proxy, client);
    prepare_socket(proxy, server);
    lane_init(&link->lane[0], client, server);
    lane_init(&link->lane[1], server, client);
    proxy->n_links++;
}

/* The end of @size bytes' way over the line in that direction. */
static uint64_t
line_takes(struct proxy *proxy, int direction, size_t size)
{
    uint64_t now = bench_now_ns();
    uint64_t *free_ns = &proxy->free_ns[direction];

    *free_ns = (*free_ns > now ? *free_ns : now) +
               (uint64_t)((double)size * proxy->ns_per_byte);
    return *free_ns + proxy->delay_ns;
}

static void
lane_read(struct proxy *proxy, struct lane *lane, int direction)
{
    size_t most = proxy->window - lane->in_flight;
    struct chunk *chunk;
    ssize_t size;

    if (most > CHUNK)
        most = CHUNK;
    if (proxy->ns_per_byte > 0 && most > SOCKET_BUFFER)
        most = SOCKET_BUFFER;
    chunk = malloc(sizeof(*chunk) + most);
    if (!chunk)
        bench_die("delay proxy: malloc");
    size = read(lane->from, chunk->data, most);
    if (size <= 0) {
        lane->ended = size == 0 || (errno != EAGAIN && errno != EINTR);
        free(chunk);
        return;
    }
    chunk->next = NULL;
    chunk->due_ns = line_takes(proxy, direction, (size_t)size);
    chunk->size = (size_t)size;
    chunk->sent = 0;
    *lane->last = chunk;
    lane->last = &chunk->next;
    lane->in_flight += chunk->size;
}

/* Acknowledgements that are back make room in the window. */
static void
lane_acked(struct lane *lane, uint64_t now)
{
    while (lane->unacked && lane->unacked->due_ns <= now) {
        struct chunk *chunk = lane->unacked;

        lane->unacked = chunk->next;
        if (!lane->unacked)
            lane->tail = &lane->unacked;
        lane->in_flight -= chunk->size;
        free(chunk);
    }
}

static void
lane_write(struct lane *lane, uint64_t now, uint64_t delay_ns)
{
    lane_acked(lane, now);
    while (lane->first && lane->first->due_ns <= now) {
        struct chunk *chunk = lane->first;
        ssize_t done = send(lane->to, chunk->data + chunk->sent,
                            chunk->size - chunk->sent, MSG_NOSIGNAL);

        if (done < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        chunk->sent = done < 0 ? chunk->size : chunk->sent + (size_t)done;
        if (chunk->sent < chunk->size)
            return;
        lane->first = chunk->next;
        if (!lane->first)
            lane->last = &lane->first;
        chunk->next = NULL;
        chunk->due_ns = now + delay_ns;
        *lane->tail = chunk;
        lane->tail = &chunk->next;
    }
    if (lane->ended && !lane->first && !lane->shut) {
        shutdown(lane->to, SHUT_WR);
        lane->shut = 1;
    }
}

/* What to wait for: input where there is room, output only where it is due and
 * did not fit; @wake_ns shrinks to the next due time. */
static short
lane_events(const struct lane *lane, uint64_t now, uint64_t *wake_ns)
{
    if (lane->unacked && lane->unacked->due_ns < *wake_ns)
        *wake_ns = lane->unacked->due_ns;
    if (!lane->first)
        return 0;
    if (lane->first->due_ns <= now)
        return POLLOUT;
    if (lane->first->due_ns < *wake_ns)
        *wake_ns = lane->first->due_ns;
    return 0;
}

/* Whether more may be read; if the line is busy, when. */
static int
lane_takes(const struct proxy *proxy, const struct lane *lane, int direction,
           uint64_t now, uint64_t *wake_ns)
{
    uint64_t free_ns = proxy->free_ns[direction];

    if (lane->ended || lane->in_flight >= proxy->window)
        return 0;
    if (free_ns <= now + QUEUE_NS)
        return 1;
    if (free_ns - QUEUE_NS < *wake_ns)
        *wake_ns = free_ns - QUEUE_NS;
    return 0;
}

static void
proxy_round(struct proxy *proxy)
{
    struct pollfd polls[2 + 2 * LINKS_MAX];
    uint64_t now = bench_now_ns();
    uint64_t wake = now + 1000000000u;
    size_t links = proxy->n_links;
    struct timespec timeout;

    polls[0] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = proxy->signals, .events = POLLIN};
    for (size_t i = 0; i < 2 * links; i++) {
        struct lane *in = &proxy->links[i / 2].lane[i % 2];
        struct lane *out = &proxy->links[i / 2].lane[1 - i % 2];
        short events = lane_events(out, now, &wake);

        if (lane_takes(proxy, in, (int)(i % 2), now, &wake))
            events |= POLLIN;
        polls[2 + i] = (struct pollfd){.fd = events ? in->from : -1, .events = events};
    }
    wake = wake > now ? wake : now;
    timeout.tv_sec = (time_t)((wake - now) / 1000000000u);
    timeout.tv_nsec = (long)((wake - now) % 1000000000u);
    if (ppoll(polls, 2 + 2 * links, &timeout, NULL) < 0 && errno != EINTR)
        bench_die("ppoll");

    now = bench_now_ns();
    for (size_t i = 0; i < 2 * links; i++) {
        struct lane *in = &proxy->links[i / 2].lane[i % 2];

        if (polls[2 + i].revents & (POLLIN | POLLHUP | POLLERR) && !in->ended &&
            in->in_flight < proxy->window)
            lane_read(proxy, in, (int)(i % 2));
        lane_write(in, now, proxy->delay_ns);
    }
    if (polls[0].revents)
        proxy_accept(proxy);
}

/* "host:port" or "[v6]:port" of the session's server. */
static void
proxy_find_target(struct proxy *proxy, char *address)
{
    char *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char *host = address;

    if (!colon) {
        fprintf(stderr, "delay proxy: no port in '%s'\n", address);
        exit(2);
    }
    *colon = 0;
    if (host[0] == '[') {
        host++;
        host[strcspn(host, "]")] = 0;
    }
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0 || !found) {
        fprintf(stderr, "delay proxy: cannot resolve '%s'\n", host);
        exit(2);
    }
    memcpy(&proxy->target, found->ai_addr, found->ai_addrlen);
    proxy->target_size = found->ai_addrlen;
    freeaddrinfo(found);
}

/* What the ticket is bound to, in a file that only the program inherits. */
static void
proxy_give_secret(const char *secret)
{
    int fd = memfd_create("ticket secret", 0);
    char path[64];

    if (fd < 0 || dprintf(fd, "%s\n", secret) < 0) {
        perror("delay proxy: ticket secret");
        exit(2);
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    setenv("GPUPOOL_TICKET_SECRET_FILE", path, 1);
}

/* Read the session file, and let the environment name the proxy instead. */
static void
proxy_take_session(struct proxy *proxy)
{
    const char *path = getenv("GPUPOOL_SESSION_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[65536];

    if (!file) {
        fprintf(stderr, "delay proxy: run it under `gpupool run`\n");
        exit(2);
    }
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "server ", 7) == 0 && proxy->target_size == 0)
            proxy_find_target(proxy, line + 7);
        else if (strncmp(line, "ticket ", 7) == 0)
            setenv("GPUPOOL_TICKET", line + 7, 1);
        else if (strncmp(line, "secret ", 7) == 0)
            proxy_give_secret(line + 7);
    }
    fclose(file);
    if (proxy->target_size == 0) {
        fprintf(stderr, "delay proxy: no server in %s\n", path);
        exit(2);
    }
    unsetenv("GPUPOOL_SESSION_FILE");
}

static void
proxy_listen(struct proxy *proxy)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    char text[64];

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    small_receive_buffer(proxy, proxy->listener);
    if (proxy->listener < 0 ||
        bind(proxy->listener, (struct sockaddr *)&address, size) < 0 ||
        listen(proxy->listener, 16) < 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &size) < 0)
        bench_die("delay proxy: listen");
    snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(address.sin_port));
    setenv("GPUPOOL_SERVER", text, 1);
}

static void
proxy_start(struct proxy *proxy, char **program)
{
    sigset_t set, old;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    proxy->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (proxy->signals < 0)
        bench_die("signalfd");
    proxy->child = fork();
    if (proxy->child < 0)
        bench_die("fork");
    if (proxy->child == 0) {
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(program[0], program);
        bench_die(program[0]);
    }
}

/* Options between the delay and the program; what follows them. */
static char **
proxy_options(struct proxy *proxy, char **args)
{
    proxy->window = IN_FLIGHT_MAX;
    for (; *args && strncmp(*args, "--", 2) == 0; args++) {
        if (strncmp(*args, "--rate=", 7) == 0)
            proxy->ns_per_byte = 1e3 / strtod(*args + 7, NULL);
        else if (strncmp(*args, "--window=", 9) == 0)
            proxy->window = strtoul(*args + 9, NULL, 10) * 1024;
        else
            break;
    }
    return args;
}

int
main(int argc, char **argv)
{
    static struct proxy proxy;
    char **program;
    int status = 0;

    program = argc < 3 ? NULL : proxy_options(&proxy, argv + 2);
    if (!program || !*program || proxy.window == 0 || !(proxy.ns_per_byte >= 0)) {
        fprintf(stderr, "usage: delay_proxy ONE_WAY_US [--rate=MB/S] [--window=KIB] "
                        "PROGRAM [ARGS]\n");
        return 2;
    }
    proxy.delay_ns = strtoull(argv[1], NULL, 10) * 1000u;
    proxy_take_session(&proxy);
    proxy_listen(&proxy);
    proxy_start(&proxy, program);
    while (waitpid(proxy.child, &status, WNOHANG) == 0)
        proxy_round(&proxy);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
