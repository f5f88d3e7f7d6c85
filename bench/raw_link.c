/* SPDX-License-Identifier: Apache-2.0 */
/* Raw ping-pong and bulk between two processes; see raw_link.h. */
#include "raw_link.h"

#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__GLIBC__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

/* RAW_SET is the first request of a TCP link, which a setting follows, and the last one
 * of a ring. */
enum { RAW_MOVE = 1, RAW_MOVE_SHARED, RAW_SET, RAW_REST };

/* A request; the first RAW_ANSWER bytes of one are an answer. */
struct raw_message {
    uint64_t what;
    uint64_t up, down;
    uint8_t rest[RAW_ANSWER - 24];
};
_Static_assert(sizeof(struct raw_message) == RAW_ANSWER, "as long as a ping");

/* What a thread of the peer works on. */
struct serving {
    struct raw_link link;
    struct raw_setting setting;
    char *card;  /* what copies go to and come from */
    char *stage; /* TCP: what a socket is read into and written from */
    char *shared;
};

/* --- moving bytes ------------------------------------------------------------------
 */

static void
iov_advance(struct iovec **iov, int *n, size_t done)
{
    while (*n > 0 && done >= (*iov)->iov_len) {
        done -= (*iov)->iov_len;
        (*iov)++;
        (*n)--;
    }
    if (*n > 0) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + done;
        (*iov)->iov_len -= done;
    }
}

/* The header together with the first piece of what follows it. */
static void
tcp_send(struct raw_link *link, const struct raw_message *head, const void *data,
         size_t size)
{
    struct iovec both[2] = {{(void *)(uintptr_t)head, head ? sizeof(*head) : 0},
                            {(void *)(uintptr_t)data, size}};
    struct iovec *iov = both;
    int n = 2;

    iov_advance(&iov, &n, 0);
    while (n > 0) {
        struct iovec now[2] = {iov[0], n > 1 ? iov[1] : (struct iovec){0}};
        struct msghdr msg = {.msg_iov = now, .msg_iovlen = (size_t)n};
        ssize_t done;

        if (link->piece && now[n - 1].iov_len > link->piece)
            now[n - 1].iov_len = link->piece;
        done = sendmsg(link->fd, &msg,
                       MSG_NOSIGNAL | (link->wait == RAW_WAIT_POLL ? MSG_DONTWAIT : 0));
        if (done < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (done <= 0)
            bench_die("raw link: send");
        iov_advance(&iov, &n, (size_t)done);
    }
}

/* What is there, into both places; 0 at the end of the stream. */
static size_t
tcp_read(struct raw_link *link, struct iovec *iov, int n)
{
    int flags = link->wait == RAW_WAIT_POLL ? MSG_DONTWAIT : 0;
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
    ssize_t done;

    do
        done = recvmsg(link->fd, &msg, flags);
    while (done < 0 && (errno == EINTR || errno == EAGAIN));
    if (done < 0)
        bench_die("raw link: receive");
    return (size_t)done;
}

static int
tcp_receive(struct raw_link *link, void *data, size_t size)
{
    struct iovec one = {data, size}, *iov = &one;
    int n = 1;

    iov_advance(&iov, &n, 0);
    while (n > 0) {
        size_t done = tcp_read(link, iov, n);

        if (done == 0)
            return 0;
        iov_advance(&iov, &n, done);
    }
    return 1;
}

static void
link_send(struct raw_link *link, const struct raw_message *head, const void *data,
          size_t size)
{
    if (link->fd >= 0) {
        tcp_send(link, head, data, size);
        return;
    }
    if (head)
        raw_ring_send(&link->out, head, sizeof(*head));
    raw_ring_send(&link->out, data, size);
}

static int
link_receive(struct raw_link *link, void *data, size_t size)
{
    if (link->fd >= 0)
        return tcp_receive(link, data, size);
    raw_ring_receive(&link->in, data, size);
    return 1;
}

/* Into the card's memory through a buffer that stays in a cache, of which @had bytes
 * are filled. */
static int
receive_to_card(struct serving *s, size_t size, size_t had)
{
    size_t piece = (size_t)s->setting.card_kib << 10;

    for (size_t at = 0; at < size; at += piece, had = 0) {
        size_t n = size - at < piece ? size - at : piece;

        if (had < n && !tcp_receive(&s->link, s->stage + had, n - had))
            return 0;
        memcpy(s->card + at, s->stage, n);
    }
    return 1;
}

static void
send_from_card(struct serving *s, size_t size)
{
    size_t piece = (size_t)s->setting.card_kib << 10;

    for (size_t at = 0; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;

        memcpy(s->stage, s->card + at, n);
        tcp_send(&s->link, NULL, s->stage, n);
    }
}

/* A request and, with it, what has come of its payload: one call of the kernel for a
 * small copy.  Nothing follows before it is answered, so what comes is its own. */
static int
receive_request(struct serving *s, struct raw_message *message)
{
    struct iovec both[2] = {{message, sizeof(*message)},
                            {s->stage, (size_t)s->setting.card_kib << 10}};
    struct iovec *iov = both;
    size_t had = 0;
    int n = 2;

    if (s->link.fd < 0) {
        raw_ring_receive(&s->link.in, message, sizeof(*message));
        if (message->what == RAW_MOVE)
            raw_ring_receive(&s->link.in, s->card, message->up);
        return 1;
    }
    while (had < sizeof(*message)) {
        size_t done = tcp_read(&s->link, iov, n);

        if (done == 0)
            return 0;
        had += done;
        iov_advance(&iov, &n, done);
    }
    return message->what != RAW_MOVE ||
           receive_to_card(s, message->up, had - sizeof(*message));
}

/* --- the peer ----------------------------------------------------------------------
 */

/* For the kernel, whose header and the C library's exclude each other. */
static void
ask_for_slice(uint32_t us)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof(attr)};

    if (!us || syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
        return;
    attr.size = sizeof(attr);
    attr.runtime = us * UINT64_C(1000);
    attr.flags = 0;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void
leave_rseq(void)
{
#if defined(__GLIBC__) && __has_include(<sys/rseq.h>)
    if (__rseq_size)
        syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset,
                (uint32_t)sizeof(struct rseq), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
}

static void
answer_request(struct serving *s, const struct raw_message *message)
{
    if (message->what == RAW_MOVE_SHARED) {
        memcpy(s->card, s->shared, message->up);
        memcpy(s->shared, s->card, message->down);
        link_send(&s->link, message, NULL, 0);
    } else if (message->down && s->link.fd < 0) {
        link_send(&s->link, NULL, s->card, message->down);
    } else if (message->down) {
        send_from_card(s, message->down);
    } else {
        link_send(&s->link, message, NULL, 0);
    }
}

static void
link_fini(struct raw_link *link)
{
    if (link->fd >= 0) {
        close(link->fd);
        return;
    }
    munmap(link->rings[0], link->mapped);
    for (int i = 0; i < 4; i++)
        close(link->events[i]);
}

static void *
serve(void *argument)
{
    struct serving *s = argument;
    struct raw_message message;

    ask_for_slice(s->setting.slice_us);
    if (!s->setting.rseq)
        leave_rseq();
    while (receive_request(s, &message) && message.what != RAW_SET) {
        s->link.wait = s->link.in.wait =
            message.what == RAW_REST ? RAW_WAIT_BLOCK : s->setting.wait;
        answer_request(s, &message);
    }
    link_fini(&s->link);
    munmap(s->stage, RAW_CARD_KIB_MAX * 1024);
    free(s);
    return NULL;
}

static void
start_serving(const struct serving *of)
{
    struct serving *s = malloc(sizeof(*s));
    pthread_t thread;

    if (!s)
        bench_die("malloc");
    *s = *of;
    s->stage = bench_memory(RAW_CARD_KIB_MAX * 1024);
    if (pthread_create(&thread, NULL, serve, s) != 0)
        bench_die("pthread_create");
    pthread_detach(thread);
}

static void
set_socket(int fd, const struct raw_setting *setting)
{
    int one = 1, send = (int)setting->send_kib << 10;
    int receive = (int)setting->receive_kib << 10;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
        bench_die("TCP_NODELAY");
    if (setting->unpaced &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno")) < 0)
        bench_die("TCP_CONGESTION");
    if (send && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof(send)) < 0)
        bench_die("SO_SNDBUF");
    if (receive && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive)) < 0)
        bench_die("SO_RCVBUF");
}

static void
apply(struct raw_link *link, const struct raw_setting *setting)
{
    link->wait = setting->wait;
    link->piece = (size_t)setting->piece_kib << 10;
    if (link->fd >= 0)
        set_socket(link->fd, setting);
}

static _Noreturn void
accept_links(struct serving *s, int listener)
{
    for (;;) {
        struct raw_message message;

        s->link = (struct raw_link){.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
        if (s->link.fd < 0)
            bench_die("raw link: accept");
        if (!tcp_receive(&s->link, &message, sizeof(message)) ||
            !tcp_receive(&s->link, &s->setting, sizeof(s->setting))) {
            close(s->link.fd);
            continue;
        }
        if (!s->setting.card_kib || s->setting.card_kib > RAW_CARD_KIB_MAX)
            bench_die("raw link: card_kib");
        apply(&s->link, &s->setting);
        tcp_send(&s->link, &message, NULL, 0);
        start_serving(s);
    }
}

/* Memory for two rings and two eventfds for each, of which the sender of the first
 * ring is the process that made them. */
struct ring_offer {
    struct raw_setting setting;
};

enum { OFFER_FDS = 5 };

static size_t
ring_bytes(const struct raw_setting *setting)
{
    return sizeof(struct raw_ring_shared) +
           ((size_t)setting->slots * setting->piece_kib << 10);
}

static void
map_rings(struct raw_link *link, const struct raw_setting *setting, int memory)
{
    size_t size = ring_bytes(setting);
    char *at = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    memory, 0);

    if (at == MAP_FAILED)
        bench_die("raw link: mmap");
    link->rings[0] = (void *)at;
    link->rings[1] = (void *)(at + size);
    link->mapped = 2 * size;
}

static void
use_rings(struct raw_link *link, const struct raw_setting *setting, int out)
{
    link->out = raw_ring_of(link->rings[out], setting, &link->events[out ? 2 : 0]);
    link->in = raw_ring_of(link->rings[!out], setting, &link->events[out ? 0 : 2]);
}

static _Noreturn void
accept_rings(struct serving *s, int control)
{
    for (;;) {
        struct ring_offer offer;
        struct iovec iov = {&offer, sizeof(offer)};
        char space[CMSG_SPACE(OFFER_FDS * sizeof(int))];
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = space,
                             .msg_controllen = sizeof(space)};
        int fds[OFFER_FDS];

        if (recvmsg(control, &msg, MSG_CMSG_CLOEXEC) != sizeof(offer))
            _exit(0); /* whoever asks is gone */
        memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fds));
        s->link = (struct raw_link){.fd = -1};
        memcpy(s->link.events, fds + 1, sizeof(s->link.events));
        map_rings(&s->link, &offer.setting, fds[0]);
        close(fds[0]);
        s->setting = offer.setting;
        use_rings(&s->link, &s->setting, 1);
        start_serving(s);
    }
}

static int
listen_there(const struct raw_place *place, struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int fd;

    if (place->netns) {
        int ns = open(place->netns, O_RDONLY | O_CLOEXEC);

        if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
            bench_die(place->netns);
        close(ns);
    }
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    if (inet_pton(AF_INET, place->host ? place->host : "127.0.0.1",
                  &address->sin_addr) != 1)
        bench_die(place->host);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)address, length) < 0 ||
        listen(fd, 16) < 0 || getsockname(fd, (struct sockaddr *)address, &length) < 0)
        bench_die("raw link: listen");
    return fd;
}

static _Noreturn void
peer_main(const struct raw_peer *peer, const struct raw_place *place, int control)
{
    struct serving s = {.shared = peer->shared};
    struct sockaddr_in address;
    int listener;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(place->core);
    s.card = bench_memory(peer->bulk_max);
    if (place->shm)
        accept_rings(&s, control);
    listener = listen_there(place, &address);
    if (write(control, &address, sizeof(address)) != sizeof(address))
        bench_die("raw link: address");
    accept_links(&s, listener);
}

void
raw_peer_start(struct raw_peer *peer, const struct raw_place *place, size_t bulk_max)
{
    int control[2];

    *peer = (struct raw_peer){.shm = place->shm, .bulk_max = bulk_max};
    if (place->shm) {
        peer->shared = mmap(NULL, bulk_max, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (peer->shared == MAP_FAILED)
            bench_die("raw link: mmap");
        bench_noise(peer->shared, bulk_max);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
        bench_die("socketpair");
    peer->pid = fork();
    if (peer->pid < 0)
        bench_die("fork");
    if (peer->pid == 0) {
        close(control[0]);
        /* As every server is: where the kernel groups tasks by session (or by control
         * group), a switch to another group costs more than one within it. */
        if (setsid() < 0)
            bench_die("setsid");
        peer_main(peer, place, control[1]);
    }
    close(control[1]);
    peer->control = control[0];
    if (!place->shm && read(peer->control, &peer->address, sizeof(peer->address)) !=
                           sizeof(peer->address)) {
        fprintf(stderr, "raw link: the peer did not start\n");
        exit(2);
    }
}

void
raw_peer_stop(struct raw_peer *peer)
{
    kill(peer->pid, SIGKILL);
    waitpid(peer->pid, NULL, 0);
    close(peer->control);
    if (peer->shared)
        munmap(peer->shared, peer->bulk_max);
}

uint64_t
raw_peer_cpu_ns(const struct raw_peer *peer)
{
    return bench_cpu_of_ns(peer->pid);
}

/* --- this end ----------------------------------------------------------------------
 */

static void
open_tcp(struct raw_link *link, const struct raw_peer *peer,
         const struct raw_setting *setting)
{
    struct raw_message message = {.what = RAW_SET};

    link->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->fd < 0)
        bench_die("raw link: socket");
    apply(link, setting);
    if (connect(link->fd, (const struct sockaddr *)&peer->address,
                sizeof(peer->address)) < 0)
        bench_die("raw link: connect");
    tcp_send(link, &message, setting, sizeof(*setting));
    if (!tcp_receive(link, &message, sizeof(message)))
        bench_die("raw link: the peer is gone");
}

static void
open_rings(struct raw_link *link, const struct raw_peer *peer,
           const struct raw_setting *setting)
{
    struct ring_offer offer = {.setting = *setting};
    struct iovec iov = {&offer, sizeof(offer)};
    char space[CMSG_SPACE(OFFER_FDS * sizeof(int))] = {0};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = space,
                         .msg_controllen = sizeof(space)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    int fds[OFFER_FDS] = {memfd_create("raw", MFD_CLOEXEC)};

    if (fds[0] < 0 || ftruncate(fds[0], 2 * (off_t)ring_bytes(setting)) < 0)
        bench_die("raw link: memfd");
    for (int i = 0; i < 4; i++) {
        link->events[i] = fds[i + 1] = eventfd(0, EFD_CLOEXEC);
        if (link->events[i] < 0)
            bench_die("eventfd");
    }
    map_rings(link, setting, fds[0]);
    use_rings(link, setting, 0);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(fds)),
                             .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    if (sendmsg(peer->control, &msg, 0) != sizeof(offer))
        bench_die("raw link: offer");
    close(fds[0]);
}

void
raw_link_open(struct raw_link *link, const struct raw_peer *peer,
              const struct raw_setting *setting)
{
    *link = (struct raw_link){.fd = -1};
    if (peer->shm)
        open_rings(link, peer, setting);
    else
        open_tcp(link, peer, setting);
    if (peer->shm)
        apply(link, setting);
}

void
raw_link_close(struct raw_link *link)
{
    if (link->fd < 0) /* what ends the peer's thread; there is no end of a stream */
        link_send(link, &(struct raw_message){.what = RAW_SET}, NULL, 0);
    link_fini(link);
}

static void
answer(struct raw_link *link, void *data, size_t size)
{
    if (!link_receive(link, data, size))
        bench_die("raw link: the peer is gone");
}

static void
request(struct raw_link *link, const struct raw_message *message, const void *data,
        size_t size)
{
    link_send(link, message, data, size);
    if (link->resting)
        link->out.wait = link->wait;
    link->resting = 0;
}

void
raw_link_move(struct raw_link *link, const void *data, size_t up, void *back,
              size_t down)
{
    struct raw_message message = {.what = RAW_MOVE, .up = up, .down = down};

    request(link, &message, data, up);
    if (down)
        answer(link, back, down);
    else
        answer(link, &message, sizeof(message));
}

void
raw_link_rest(struct raw_link *link)
{
    struct raw_message message = {.what = RAW_REST};

    if (link->wait != RAW_WAIT_POLL || link->resting)
        return;
    link_send(link, &message, NULL, 0);
    answer(link, &message, sizeof(message));
    link->resting = 1;
    link->out.wait = RAW_WAIT_BLOCK; /* the next request wakes a sleeper */
}

void
raw_link_ping(struct raw_link *link)
{
    raw_link_move(link, NULL, 0, NULL, 0);
}

void
raw_link_move_shared(struct raw_link *link, size_t up, size_t down)
{
    struct raw_message message = {.what = RAW_MOVE_SHARED, .up = up, .down = down};

    request(link, &message, NULL, 0);
    answer(link, &message, sizeof(message));
}
