/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames over shared memory, for a client and a worker on one host: two byte rings in a
 * sealed memfd that the worker makes and hands over on their Unix socket.  The socket
 * stays open: its end tells that the peer is gone, however it died.
 */
#include "gp_err.h"
#include "gp_fds.h"
#include "gp_fsize.h"
#include "gp_net.h"
#include "gp_time.h"
#include "xport.h"
#include "xport_ring.h"
#include "xport_stream.h"
#include "xport_wakefd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* A sleeper looks at the socket this often, unless somebody watches it for everybody:
 * how late the death of a peer is noticed.  A timer for each sleep costs more than the
 * rest of it. */
#define SHM_LIVENESS_NS (100 * GP_NS_PER_MS)
/* What is taken out of the ring at a time in search of frames.  More would often be the
 * beginning of a payload, which is then copied once more; a look at a ring costs
 * little, so it need not find much. */
#define SHM_READ (4u << 10)
/* Who waits for room looks again after this time: see xport_ring_drop_of(). */
#define SHM_ROOM_NS (10 * GP_NS_PER_MS)

struct shm_map {
    struct xport_ring_shared ring[2]; /* client to worker, worker to client */
    uint8_t pad[4096 - 2 * sizeof(struct xport_ring_shared)];
    uint8_t bytes[2][XPORT_RING_SIZE];
};

struct shm_conn {
    struct xport_stream stream;
    _Alignas(64) struct xport_ring rx;
    atomic_bool watched; /* xport_look() is called often enough */
    atomic_bool closed;  /* by us, or the peer was found to be gone */
    _Alignas(64) struct xport_ring tx;
    struct xport_spin room_spin; /* for room in it; whoever may send */
    struct shm_map *map;
    int wakefds[2]; /* of the two rings' consumers; -1: none */
};

static struct shm_conn *
shm_of(struct xport_stream *stream)
{
    return container_of(stream, struct shm_conn, stream);
}

/* Whether the peer still holds its end of the socket, and we have not aborted.  A
 * program that has become a daemon may have closed our end, as it closes all
 * descriptors: then the peer is gone or will be. */
static int
liveness(struct xport_conn *conn)
{
    char byte;
    int r = __atomic_load_n(&conn->error, __ATOMIC_RELAXED);
    ssize_t n;

    if (r < 0)
        return r;
    n = recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return -ECONNRESET;
    return 0;
}

/* The program has closed our descriptors: we cannot wake the peer any more, and whoever
 * watches may sleep in poll(), which keeps the socket open, so that neither notices. */
static bool
is_deprived(const struct shm_conn *shm)
{
    return shm->rx.wakefd < 0 && shm->wakefds[0] >= 0;
}

static uint64_t
next_look(const struct shm_conn *shm)
{
    return atomic_load_explicit(&shm->watched, memory_order_relaxed) &&
                   !is_deprived(shm)
               ? GP_FOREVER
               : gp_now_ns() + SHM_LIVENESS_NS;
}

static bool
has_room(struct shm_conn *shm)
{
    return xport_ring_used_by_producer(&shm->tx) <= XPORT_RING_SIZE / 2;
}

static bool
has_data(struct shm_conn *shm)
{
    return !xport_ring_empty(&shm->rx);
}

/* In the middle of a long copy the peer is at work, and what it does next comes sooner
 * than a sleeper wakes, if it has a core of its own.  True: it has come. */
static bool
spin_for(struct shm_conn *shm, struct xport_spin *spin,
         bool (*came)(struct shm_conn *shm))
{
    if (xport_spin_skips(spin))
        return false;
    xport_spin_begin(spin);
    do {
        for (int i = 0; i < XPORT_SPIN_BATCH; i++) {
            if (came(shm)) {
                xport_spin_won(spin);
                return true;
            }
            gp_cpu_relax();
        }
    } while (xport_spin_again(spin));
    return false;
}

/* Limited although somebody may watch: the consumer can miss that we sleep. */
static int
room_wait(struct shm_conn *shm)
{
    int r;

    if (atomic_load_explicit(&shm->closed, memory_order_relaxed))
        return -ECONNRESET;
    /* xport_ring_push_bulk() may have left the consumer asleep. */
    xport_ring_wake(&shm->tx.shared->data_wanted, shm->tx.wakefd);
    if (spin_for(shm, &shm->room_spin, has_room))
        return 0;
    r = xport_ring_wait_room(&shm->tx, gp_now_ns() + SHM_ROOM_NS);
    return r == -ETIMEDOUT ? liveness(&shm->stream.conn) : r;
}

static int
write_pieces(struct shm_conn *shm, const struct iovec *iov, size_t n_iov, size_t *ret_n)
{
    int64_t n = xport_ring_put_all(&shm->tx, iov, n_iov);

    *ret_n = (size_t)gp_max(n, (int64_t)0);
    return n < 0 ? (int)n : n ? 0 : room_wait(shm);
}

static int
shm_write(struct xport_stream *stream, struct iovec *iov, size_t n_iov)
{
    struct xport_conn *conn = &stream->conn;

    while (n_iov) {
        size_t n = 0;
        int r = __atomic_load_n(&conn->error, __ATOMIC_RELAXED);

        if (!r)
            r = write_pieces(shm_of(stream), iov, n_iov, &n);
        if (r < 0)
            return r;
        conn->stats.tx_writes++;
        conn->stats.tx_bytes += n;
        xport_iov_advance(&iov, &n_iov, n);
    }
    return 0;
}

static GP_INLINE int
flush_now(struct xport_conn *conn)
{
    struct xport_stream *stream = xport_stream_of(conn);
    int64_t n = xport_ring_put(&shm_of(stream)->tx, conn->tx.base, xport_pending(conn));

    return unlikely(n < 0) ? (int)n : xport_stream_gone(stream, (size_t)n);
}

GP_HOT static int
shm_flush_now(struct xport_conn *conn)
{
    return flush_now(conn);
}

/* Calls and answers go in one piece nearly always. */
GP_HOT static int
shm_flush(struct xport_conn *conn, const void *bulk, size_t len)
{
    int r = unlikely(len) ? -EAGAIN : flush_now(conn);

    return unlikely(r == -EAGAIN) ? xport_stream_flush(conn, bulk, len) : r;
}

static int
shm_read(struct xport_stream *stream, void *buf, size_t len, size_t *ret_n)
{
    int64_t n = xport_ring_get(&shm_of(stream)->rx, buf, len);

    stream->conn.stats.rx_reads++;
    *ret_n = (size_t)gp_max(n, (int64_t)0);
    return n > 0 ? 0 : n < 0 ? (int)n : -EAGAIN;
}

static bool
shm_readable(struct xport_stream *stream)
{
    return has_data(shm_of(stream));
}

/* The peer is gone, or we have closed.  What it sent before is still to be read: only
 * an empty ring ends. */
static int
closed_wait(struct shm_conn *shm)
{
    int r = __atomic_load_n(&shm->stream.conn.error, __ATOMIC_RELAXED);

    if (r < 0)
        return r;
    return xport_ring_empty(&shm->rx) ? -ECONNRESET : 0;
}

static int
shm_wait(struct xport_stream *stream, uint64_t deadline_ns)
{
    struct shm_conn *shm = shm_of(stream);
    uint64_t look = gp_min(deadline_ns, next_look(shm));
    int r = xport_ring_wait_data(&shm->rx, look);

    if (r < 0 && r != -ETIMEDOUT)
        return r;
    if (r == -ETIMEDOUT && liveness(&stream->conn) < 0)
        atomic_store(&shm->closed, true);
    if (atomic_load_explicit(&shm->closed, memory_order_relaxed))
        return closed_wait(shm);
    return r == -ETIMEDOUT && look == deadline_ns ? r : 0;
}

/* Nothing is there, and spinning does not pay.  Who is watched and has a wakefd needs
 * neither the clock nor a look at the socket. */
static GP_INLINE int64_t
get_asleep(struct shm_conn *shm, void *buf, size_t len)
{
    int64_t n = 0;

    shm->stream.conn.stats.rx_slept++;
    while (n == 0) {
        int r = 0;

        if (likely(shm->rx.wakefd >= 0 &&
                   atomic_load_explicit(&shm->watched, memory_order_relaxed) &&
                   !atomic_load_explicit(&shm->closed, memory_order_relaxed)))
            xport_ring_wait_wakefd(&shm->rx);
        else
            r = shm_wait(&shm->stream, GP_FOREVER);
        n = unlikely(r < 0) ? r : xport_ring_get(&shm->rx, buf, len);
    }
    return n;
}

/* A frame that has begun is taken as a whole. */
static GP_INLINE size_t
fill_size(const struct xport_conn *conn)
{
    size_t have = (size_t)(conn->rx.end - conn->rx.pos);
    uint32_t size = 0;

    if (unlikely(have >= sizeof(size)))
        memcpy(&size, conn->rx.pos, sizeof(size));
    if (likely(size < have + SHM_READ))
        return SHM_READ;
    return gp_min(size - have, (size_t)XPORT_STREAM_READ);
}

GP_HOT static int
shm_fill(struct xport_conn *conn, uint64_t deadline_ns)
{
    struct xport_stream *stream = xport_stream_of(conn);
    struct shm_conn *shm = shm_of(stream);
    size_t size;
    int64_t n;

    xport_stream_make_room(stream);
    size = fill_size(conn);
    n = xport_ring_get(&shm->rx, conn->rx.end, size);
    conn->stats.rx_reads++;
    if (n == 0 && deadline_ns == GP_FOREVER && xport_spin_skips(&stream->spin))
        n = get_asleep(shm, conn->rx.end, size);
    if (unlikely(n == 0)) {
        size_t got = 0;
        int r = xport_stream_read_later(stream, conn->rx.end, size, &got, deadline_ns);

        n = r < 0 ? r : (int64_t)got;
    }
    if (unlikely(n < 0))
        return (int)n;
    conn->rx.end += n;
    conn->stats.rx_bytes += (uint64_t)n;
    return 0;
}

static void
shm_close(struct shm_conn *shm)
{
    atomic_store(&shm->closed, true);
    xport_ring_kick(&shm->tx);
    xport_ring_kick(&shm->rx);
}

static void
shm_watch(struct xport_conn *conn)
{
    struct shm_conn *shm = shm_of(xport_stream_of(conn));

    atomic_store_explicit(&shm->watched, true, memory_order_relaxed);
}

/* Sleepers find the end of the ring themselves once they are awake. */
static int
shm_look(struct xport_conn *conn, bool *ret_again)
{
    *ret_again = false;
    if (liveness(conn) < 0)
        shm_close(shm_of(xport_stream_of(conn)));
    return 0;
}

static void
shm_abort(struct xport_conn *conn)
{
    struct shm_conn *shm = shm_of(xport_stream_of(conn));

    shutdown(conn->fd, SHUT_RDWR);
    if (shm->map)
        shm_close(shm);
}

static void
shm_free(struct xport_conn *conn)
{
    struct shm_conn *shm = shm_of(xport_stream_of(conn));

    if (conn->fd >= 0) {
        shm_abort(conn);
        close(conn->fd);
    }
    if (shm->map)
        munmap(shm->map, sizeof(*shm->map));
    for (size_t i = 0; i < ARRAY_SIZE(shm->wakefds); i++)
        if (shm->wakefds[i] >= 0)
            close(shm->wakefds[i]);
    xport_stream_fini(&shm->stream);
    free(shm);
}

static void
shm_window(struct xport_conn *conn, struct iovec ret[2])
{
    struct shm_conn *shm = shm_of(xport_stream_of(conn));

    ret[0] = (struct iovec){shm->rx.bytes, XPORT_RING_SIZE};
    ret[1] = (struct iovec){shm->tx.bytes, XPORT_RING_SIZE};
}

static int
shm_peek_bulk(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
              size_t *ret_n)
{
    struct xport_stream *stream = xport_stream_of(conn);
    uint8_t *at;
    int r;

    for (;;) {
        r = xport_ring_peek(&shm_of(stream)->rx, ahead, len, &at, ret_n);
        if (r < 0 || *ret_n || ahead)
            break;
        if (!spin_for(shm_of(stream), &stream->spin, has_data))
            r = shm_wait(stream, GP_FOREVER);
        if (r < 0)
            return r;
    }
    *ret = at;
    return r;
}

static void
shm_drop_bulk(struct xport_conn *conn, size_t n)
{
    conn->stats.rx_bytes += n;
    xport_ring_drop(&shm_of(xport_stream_of(conn))->rx, n);
}

static int
shm_room_bulk(struct xport_conn *conn, size_t ahead, size_t len, void **ret,
              size_t *ret_n)
{
    struct shm_conn *shm = shm_of(xport_stream_of(conn));
    uint8_t *at;
    int r;

    for (;;) {
        r = xport_ring_room(&shm->tx, ahead, len, &at, ret_n);
        if (r == 0 && *ret_n == 0 && ahead == 0)
            r = room_wait(shm);
        else
            break;
        if (r == 0)
            r = __atomic_load_n(&conn->error, __ATOMIC_RELAXED);
        if (r < 0)
            return r;
    }
    *ret = at;
    return r;
}

static void
shm_push_bulk(struct xport_conn *conn, size_t n, bool more)
{
    conn->stats.tx_writes++;
    conn->stats.tx_bytes += n;
    xport_ring_push_bulk(&shm_of(xport_stream_of(conn))->tx, n, more);
}

/* A ring and its two wake-up descriptors. */
#define SHM_FDS_MAX 3

static int
send_fds(int sock_fd, const int *fds, size_t n)
{
    char byte = 'm';
    ssize_t sent = gp_fds_send(sock_fd, &byte, 1, fds, (unsigned)n, 0);

    return sent < 0 ? (int)sent : 0;
}

/* Exactly @n of them; others that came are closed.  -EMFILE: this process has no room
 * for them. */
static int
recv_fds(int sock_fd, int *fds, size_t n, uint64_t deadline_ns)
{
    unsigned n_came;
    char byte;
    ssize_t got;
    int r;

    while ((got = gp_fds_recv(sock_fd, &byte, 1, fds, (unsigned)n, &n_came,
                              MSG_DONTWAIT)) != 1) {
        if (got == -EMFILE || got == -EPROTO)
            return (int)got;
        if (got != -EAGAIN)
            return -ECONNRESET;
        r = gp_net_wait(sock_fd, POLLIN, deadline_ns);
        if (r < 0)
            return r;
    }
    if (n_came == n)
        return 0;
    gp_fds_close(fds, n_came);
    return -EPROTO;
}

static int
shm_give_fd(struct xport_conn *conn, int fd)
{
    return send_fds(conn->fd, &fd, 1);
}

static int
shm_take_fd(struct xport_conn *conn)
{
    int fd, r = recv_fds(conn->fd, &fd, 1, 0);

    /* One that is still on its way would be taken for the next. */
    if (r < 0 && r != -EMFILE && r != -EPROTO) {
        xport_fail(conn, r);
        shm_abort(conn);
    }
    return r < 0 ? r : fd;
}

static const struct xport_ops shm_ops = {
    .name = "shm",
    .kind = XPORT_KIND_SHM,
    .can = XPORT_CAN_SHARE,
    .reserve = xport_stream_reserve,
    .flush = shm_flush,
    .flush_now = shm_flush_now,
    .fill = shm_fill,
    .recv_bulk = xport_stream_recv_bulk,
    .realign = xport_stream_to_start,
    .abort = shm_abort,
    .free = shm_free,
    .window = shm_window,
    .peek_bulk = shm_peek_bulk,
    .drop_bulk = shm_drop_bulk,
    .room_bulk = shm_room_bulk,
    .push_bulk = shm_push_bulk,
    .give_fd = shm_give_fd,
    .take_fd = shm_take_fd,
    .watch = shm_watch,
    .look = shm_look,
};

static const struct xport_stream_io shm_io = {
    .write = shm_write,
    .read = shm_read,
    .readable = shm_readable,
    .wait = shm_wait,
};

static int
map_new(int memfd, struct shm_map **ret, struct gp_err *err)
{
    void *p = mmap(NULL, sizeof(struct shm_map), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_POPULATE, memfd, 0);

    if (p == MAP_FAILED)
        return gp_err_set(err, -errno, "mapping the shared ring: %s", strerror(errno));
    *ret = p;
    return 0;
}

static struct xport_ring
ring_of(const struct shm_conn *shm, int which)
{
    return (struct xport_ring){.shared = &shm->map->ring[which],
                               .bytes = shm->map->bytes[which],
                               .closed = &shm->closed,
                               .wakefd = shm->wakefds[which]};
}

/* The connection over the segment and the wakefds of @fds, which may be -1; the latter
 * are its own from then on.  @side 0: client, 1: worker. */
static int
conn_new(int sock_fd, int fds[SHM_FDS_MAX], int side, uint32_t frame_max,
         struct xport_conn **ret, struct gp_err *err)
{
    struct shm_conn *shm = xport_stream_alloc(sizeof(*shm));
    int r;

    if (!shm)
        return gp_err_set(err, -ENOMEM, "out of memory");
    shm->wakefds[0] = shm->wakefds[1] = -1;
    r = xport_stream_init(&shm->stream, &shm_ops, &shm_io, frame_max, err);
    if (!r)
        r = map_new(fds[0], &shm->map, err);
    if (r < 0) {
        shm_free(&shm->stream.conn);
        return r;
    }
    shm->wakefds[0] = TAKE_FD(fds[1]);
    shm->wakefds[1] = TAKE_FD(fds[2]);
    shm->tx = ring_of(shm, side);
    shm->rx = ring_of(shm, !side);
    fcntl(sock_fd, F_SETFL, fcntl(sock_fd, F_GETFL) | O_NONBLOCK);
    /* Polling memory takes no time worth learning. */
    shm->stream.spin.gap_ns = shm->room_spin.gap_ns = XPORT_SPIN_GAP_NS;
    shm->stream.conn.fd = sock_fd; /* from here on it is ours */
    *ret = &shm->stream.conn;
    return 0;
}

static void
fds_close(int (*fds)[SHM_FDS_MAX])
{
    for (size_t i = 0; i < SHM_FDS_MAX; i++)
        if ((*fds)[i] >= 0)
            close((*fds)[i]);
}

int
xport_shm_offer(int sock_fd, bool wakefds, uint32_t frame_max, struct xport_conn **ret,
                struct gp_err *err)
{
    /* Sealed: a peer that shrank the file would kill us with SIGBUS. */
    static const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    CLEANUP(fds_close) int fds[SHM_FDS_MAX] = {-1, -1, -1};
    int r;

    fds[0] = memfd_create("gpupool-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fds[0] < 0 || gp_fsize_resize(fds[0], sizeof(struct shm_map)) < 0 ||
        fcntl(fds[0], F_ADD_SEALS, seals) < 0)
        return gp_err_set(err, -errno, "memfd for the shared ring: %s",
                          strerror(errno));
    for (size_t i = 1; wakefds && i < SHM_FDS_MAX; i++) {
        fds[i] = xport_wakefd_new();
        if (fds[i] < 0)
            return gp_err_set(err, fds[i],
                              "wake-up descriptors for the shared ring: %s",
                              strerror(-fds[i]));
    }
    r = send_fds(sock_fd, fds, wakefds ? SHM_FDS_MAX : 1);
    if (r < 0)
        return gp_err_set(err, r, "handing over the shared ring: %s", strerror(-r));
    return conn_new(sock_fd, fds, 1, frame_max, ret, err);
}

int
xport_shm_accept(int sock_fd, bool wakefds, uint32_t frame_max, uint64_t deadline_ns,
                 struct xport_conn **ret, struct gp_err *err)
{
    CLEANUP(fds_close) int fds[SHM_FDS_MAX] = {-1, -1, -1};
    int seals, r = recv_fds(sock_fd, fds, wakefds ? SHM_FDS_MAX : 1, deadline_ns);

    if (r < 0)
        return gp_err_set(err, r, "no shared ring arrived: %s", strerror(-r));
    seals = fcntl(fds[0], F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) ||
        lseek(fds[0], 0, SEEK_END) != sizeof(struct shm_map))
        return gp_err_set(err, -EPROTO,
                          "the shared ring is not the sealed file it must be");
    return conn_new(sock_fd, fds, 0, frame_max, ret, err);
}
