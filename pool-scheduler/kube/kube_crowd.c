/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_crowd.h"

#include "gp_net.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static struct kube_crowd_peer *
find(struct kube_crowd *crowd, const void *connection)
{
    for (unsigned i = 0; i < crowd->n; i++)
        if (crowd->oldest_first[i].connection == connection)
            return &crowd->oldest_first[i];
    return NULL;
}

static void
forget(struct kube_crowd *crowd, struct kube_crowd_peer *peer)
{
    crowd->n--;
    memmove(peer, peer + 1,
            (size_t)(&crowd->oldest_first[crowd->n] - peer) * sizeof(*peer));
}

/* Its socket reports the end, and the library then closes it. */
static void
end_peer(struct kube_crowd *crowd, struct kube_crowd_peer *peer)
{
    shutdown(peer->fd, SHUT_RDWR);
    forget(crowd, peer);
}

static unsigned
count_from(const struct kube_crowd *crowd, uint64_t from)
{
    unsigned n = 0;

    for (unsigned i = 0; i < crowd->n; i++)
        n += crowd->oldest_first[i].from == from;
    return n;
}

/* Whom the arrival of one from @from ends. */
static struct kube_crowd_peer *
most_crowded(struct kube_crowd *crowd, uint64_t from)
{
    struct kube_crowd_peer *found = &crowd->oldest_first[0];
    unsigned most = 0;

    for (unsigned i = 0; i < crowd->n; i++) {
        struct kube_crowd_peer *peer = &crowd->oldest_first[i];
        unsigned n = count_from(crowd, peer->from) + (peer->from == from);

        if (n > most && peer->deadline_ns != UINT64_MAX) {
            found = peer;
            most = n;
        }
    }
    return found;
}

/* The next deadline, or UINT64_MAX. */
static uint64_t
end_overdue(struct kube_crowd *crowd, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    for (unsigned i = crowd->n; i-- > 0;) {
        uint64_t deadline = crowd->oldest_first[i].deadline_ns;

        if (now >= deadline)
            end_peer(crowd, &crowd->oldest_first[i]);
        else
            next = gp_min(next, deadline);
    }
    return next;
}

static void
wait_for(struct kube_crowd *crowd, uint64_t ns)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ns / GP_NS_PER_S) + 1;
    pthread_cond_timedwait(&crowd->changed, &crowd->lock, &until);
}

/* It sleeps until the next deadline, or until there is one: nothing is polled. */
static void *
run(void *arg)
{
    struct kube_crowd *crowd = arg;

    pthread_mutex_lock(&crowd->lock);
    while (!crowd->stopping) {
        uint64_t now = gp_now_ns(), next = end_overdue(crowd, now);

        if (next == UINT64_MAX)
            pthread_cond_wait(&crowd->changed, &crowd->lock);
        else
            wait_for(crowd, next - now);
    }
    pthread_mutex_unlock(&crowd->lock);
    return NULL;
}

int
kube_crowd_init(struct kube_crowd *crowd)
{
    pthread_mutex_init(&crowd->lock, NULL);
    pthread_cond_init(&crowd->changed, NULL);
    crowd->started = true;
    if (pthread_create(&crowd->thread, NULL, run, crowd) == 0)
        return 0;
    pthread_cond_destroy(&crowd->changed);
    pthread_mutex_destroy(&crowd->lock);
    crowd->started = false;
    return -EAGAIN;
}

void
kube_crowd_fini(struct kube_crowd *crowd)
{
    if (!crowd->started)
        return;
    pthread_mutex_lock(&crowd->lock);
    crowd->stopping = true;
    pthread_cond_signal(&crowd->changed);
    pthread_mutex_unlock(&crowd->lock);
    pthread_join(crowd->thread, NULL);
    pthread_cond_destroy(&crowd->changed);
    pthread_mutex_destroy(&crowd->lock);
    crowd->started = false;
}

void
kube_crowd_add(struct kube_crowd *crowd, const void *connection, int fd)
{
    struct kube_crowd_peer peer = {connection, fd, gp_net_peer_hash(fd),
                                   gp_now_ns() + KUBE_CROWD_REQUEST_NS};

    pthread_mutex_lock(&crowd->lock);
    if (crowd->n == KUBE_CROWD_MAX)
        end_peer(crowd, most_crowded(crowd, peer.from));
    crowd->oldest_first[crowd->n++] = peer;
    pthread_cond_signal(&crowd->changed);
    pthread_mutex_unlock(&crowd->lock);
}

void
kube_crowd_remove(struct kube_crowd *crowd, const void *connection)
{
    struct kube_crowd_peer *peer;

    pthread_mutex_lock(&crowd->lock);
    peer = find(crowd, connection);
    if (peer)
        forget(crowd, peer);
    pthread_mutex_unlock(&crowd->lock);
}

void
kube_crowd_answering(struct kube_crowd *crowd, const void *connection)
{
    struct kube_crowd_peer *peer;

    pthread_mutex_lock(&crowd->lock);
    peer = find(crowd, connection);
    if (peer)
        peer->deadline_ns = UINT64_MAX;
    pthread_mutex_unlock(&crowd->lock);
}

/* It is the youngest again, so that who only holds connections is ended first. */
void
kube_crowd_answered(struct kube_crowd *crowd, const void *connection)
{
    struct kube_crowd_peer *peer, copy;

    pthread_mutex_lock(&crowd->lock);
    peer = find(crowd, connection);
    if (peer) {
        copy = *peer;
        copy.deadline_ns = gp_now_ns() + KUBE_CROWD_IDLE_NS + KUBE_CROWD_REQUEST_NS;
        forget(crowd, peer);
        crowd->oldest_first[crowd->n++] = copy;
        pthread_cond_signal(&crowd->changed);
    }
    pthread_mutex_unlock(&crowd->lock);
}
