/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_door.h"

#include "gp_log.h"
#include "gp_net.h"
#include "gp_time.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* More are served than there may be, of sockets that do not wait. */
#define OVER 64
/* An address that has so many of the places gives some to those that have less than a
 * quarter of that.  Of 512 addresses no more than four are taken for the same. */
#define MANY 8u
/* An address of which no more than so many wait is no flood.  Of SCHED_DOOR_MAX
 * addresses up to eight are taken for the same. */
#define FEW 12u

/* So many are let in at once; handshakes of those that are served go on in between. */
#define BATCH 32
/* Then, and when who should go was not heard yet, after so long. */
#define LATE_NS (1 * GP_NS_PER_MS)

/* Between two that have had their time, so that those that came at once do not go at
 * once: they may be about to answer. */
#define PACE_NS (SCHED_UNPROVEN_NS / SCHED_UNPROVEN_MAX)

/* It waits. */
struct guest {
    struct sched_link link;
    uint64_t from;
    int fd;
};

static void arm(struct sched *sched, uint64_t at_ns);

static size_t
bucket_of(uint64_t from)
{
    return from % SCHED_CROWD_BUCKETS;
}

static size_t
fullest(const uint16_t counts[SCHED_CROWD_BUCKETS])
{
    size_t best = 0;

    for (size_t i = 1; i < SCHED_CROWD_BUCKETS; i++)
        if (counts[i] > counts[best])
            best = i;
    return best;
}

static void
append(struct sched_link *head, struct sched_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static void
take_out(struct sched_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

static struct sched_conn *
conn_of(struct sched_link *link)
{
    return container_of(link, struct sched_conn, unproven);
}

static struct guest *
guest_of(struct sched_link *link)
{
    return container_of(link, struct guest, link);
}

/* ------------------------------------------------------------------- served -- */

/* When it has had its time to speak. */
static uint64_t
time_end(const struct sched_conn *conn)
{
    return conn->since_ns + SCHED_UNPROVEN_NS;
}

/* Some are served. */
static struct sched_conn *
oldest(const struct sched *sched)
{
    return conn_of(sched->door.served.next);
}

/* NULL: none is served from there. */
static struct sched_conn *
oldest_of(const struct sched *sched, size_t bucket)
{
    for (struct sched_link *at = sched->door.served.next; at != &sched->door.served;
         at = at->next)
        if (bucket_of(conn_of(at)->from) == bucket)
            return conn_of(at);
    return NULL;
}

static struct sched_conn *
youngest_of(const struct sched *sched, size_t bucket)
{
    for (struct sched_link *at = sched->door.served.prev; at != &sched->door.served;
         at = at->prev)
        if (bucket_of(conn_of(at)->from) == bucket)
            return conn_of(at);
    return NULL;
}

/* Who has to go for one more from @from: the oldest of the same address when a quarter
 * are, else the oldest of all. */
static struct sched_conn *
least(const struct sched *sched, uint64_t from)
{
    size_t bucket = bucket_of(from);
    struct sched_conn *own = sched->door.served_of[bucket] >= SCHED_UNPROVEN_MAX / 4
                                 ? oldest_of(sched, bucket)
                                 : NULL;

    return own ? own : oldest(sched);
}

/* The youngest of an address that has many places, if @from has hardly any; or NULL. */
static struct sched_conn *
of_a_crowd(const struct sched *sched, uint64_t from)
{
    const uint16_t *of = sched->door.served_of;
    size_t most = fullest(of);

    return of[most] >= gp_max(MANY, 4u * (of[bucket_of(from)] + 1u))
               ? youngest_of(sched, most)
               : NULL;
}

/* It has spoken, and it is us who are late. */
static bool
is_unheard(const struct sched_conn *conn)
{
    int bytes = 0;

    return !ioctl(conn->msg.src.fd, FIONREAD, &bytes) && bytes > 0;
}

/* Make room for one from @from.  False: there is none, before *ret_ns. */
static bool
make_room(struct sched *sched, uint64_t from, uint64_t now, uint64_t *ret_ns)
{
    struct sched_conn *end;

    if (sched->door.n_served < SCHED_UNPROVEN_MAX)
        return true;
    end = least(sched, from);
    *ret_ns = gp_max(time_end(end), sched->door.next_end_ns);
    if (*ret_ns <= now && is_unheard(end))
        *ret_ns = now + LATE_NS;
    if (*ret_ns > now)
        end = of_a_crowd(sched, from);
    else
        sched->door.next_end_ns = now + PACE_NS;
    if (end)
        sched->door.end(end);
    return end;
}

void
sched_door_enter(struct sched_conn *conn)
{
    struct sched *sched = conn->sched;

    conn->since_ns = gp_now_ns();
    if (sched->door.n_served >= SCHED_UNPROVEN_MAX + OVER)
        sched->door.end(least(sched, conn->from));
    append(&sched->door.served, &conn->unproven);
    sched->door.n_served++;
    sched->door.served_of[bucket_of(conn->from)]++;
}

void
sched_door_leave(struct sched_conn *conn)
{
    struct sched *sched = conn->sched;

    if (!conn->unproven.next)
        return;
    take_out(&conn->unproven);
    sched->door.n_served--;
    sched->door.served_of[bucket_of(conn->from)]--;
    if (sched->door.n_waiting && sched->door.n_served < SCHED_UNPROVEN_MAX)
        arm(sched, 0);
}

/* ------------------------------------------------------------------ waiting -- */

/* @guest waits no longer.  Its descriptor is the caller's. */
static int
guest_free(struct sched *sched, struct guest *guest)
{
    int fd = guest->fd;

    take_out(&guest->link);
    sched->door.n_waiting--;
    sched->door.waiting_of[bucket_of(guest->from)]--;
    free(guest);
    gp_listener_resume(&sched->listener);
    return fd;
}

/* The oldest of the address of which fewest are served; some wait. */
static struct guest *
next_guest(const struct sched *sched)
{
    const uint16_t *of = sched->door.served_of;
    struct guest *best = NULL;

    for (struct sched_link *at = sched->door.waiting.next; at != &sched->door.waiting;
         at = at->next) {
        struct guest *guest = guest_of(at);

        if (!best || of[bucket_of(guest->from)] < of[bucket_of(best->from)])
            best = guest;
        if (!of[bucket_of(best->from)])
            break;
    }
    return best;
}

static void
let_in(struct gp_loop_timer *timer)
{
    struct sched *sched = container_of(timer, struct sched, door.timer);
    uint64_t now = gp_now_ns(), later, again = now + LATE_NS;

    for (unsigned i = 0; sched->door.n_waiting && i < BATCH; i++) {
        struct guest *guest = next_guest(sched);
        uint64_t from = guest->from;

        if (!make_room(sched, from, now, &later)) {
            again = later;
            break;
        }
        sched->door.serve(sched, guest_free(sched, guest), from);
    }
    if (sched->door.n_waiting)
        arm(sched, again);
}

static void
arm(struct sched *sched, uint64_t at_ns)
{
    gp_loop_timer_set(sched->loop, &sched->door.timer, at_ns, let_in);
}

static void
warn(struct sched *sched, const struct guest *guest)
{
    char peer[GP_NET_NAME_MAX];
    uint32_t skipped;

    if (gp_log_limit_ok(&sched->crowd_log, &skipped))
        gp_log_warn("conn",
                    "%u connections that say nothing wait for their turn, the most "
                    "there may be; %s is closed, whose address has the most of them "
                    "(%u such lines left out)",
                    sched->door.n_waiting,
                    gp_net_peer_name(guest->fd, peer, sizeof(peer)), skipped);
}

/* Too many wait: the youngest of the address of which most do goes, which may be the
 * last one that came. */
static void
drop_one(struct sched *sched)
{
    size_t most = fullest(sched->door.waiting_of);

    for (struct sched_link *at = sched->door.waiting.prev; at != &sched->door.waiting;
         at = at->prev) {
        struct guest *guest = guest_of(at);

        if (bucket_of(guest->from) != most)
            continue;
        warn(sched, guest);
        close(guest_free(sched, guest));
        return;
    }
}

static void
wait_for_turn(struct sched *sched, int fd, uint64_t from)
{
    struct guest *guest = malloc(sizeof(*guest));

    if (!guest) {
        close(fd);
        return;
    }
    *guest = (struct guest){.from = from, .fd = fd};
    append(&sched->door.waiting, &guest->link);
    sched->door.waiting_of[bucket_of(from)]++;
    if (!sched->door.n_waiting++)
        arm(sched, time_end(oldest(sched)));
    if (sched->door.n_waiting > SCHED_DOOR_MAX)
        drop_one(sched);
    if (sched->door.n_waiting == SCHED_DOOR_MAX &&
        sched->door.waiting_of[fullest(sched->door.waiting_of)] <= FEW)
        gp_listener_hold(&sched->listener, SCHED_UNPROVEN_NS);
}

void
sched_door_knock(struct sched *sched, int fd, uint64_t from, bool in_turn)
{
    uint64_t later;

    if (!in_turn ||
        ((!sched->door.n_waiting || !sched->door.served_of[bucket_of(from)]) &&
         make_room(sched, from, gp_now_ns(), &later)))
        sched->door.serve(sched, fd, from);
    else
        wait_for_turn(sched, fd, from);
}

void
sched_door_init(struct sched *sched)
{
    sched->door.served.prev = sched->door.served.next = &sched->door.served;
    sched->door.waiting.prev = sched->door.waiting.next = &sched->door.waiting;
}

void
sched_door_fini(struct sched *sched)
{
    while (sched->door.n_waiting)
        close(guest_free(sched, guest_of(sched->door.waiting.next)));
    gp_loop_timer_del(&sched->door.timer);
}
