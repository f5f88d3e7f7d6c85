/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_crowd.h"

void
sched_crowd_add(struct sched_conn *conn)
{
    conn->sched->n_clients++;
    conn->sched->crowd[conn->from % SCHED_CROWD_BUCKETS]++;
}

void
sched_crowd_remove(struct sched_conn *conn)
{
    conn->sched->n_clients--;
    conn->sched->crowd[conn->from % SCHED_CROWD_BUCKETS]--;
}

/* How much ends with it: 0 nothing, 1 a place in the queue or an answer, 2 sessions
 * that are held. */
static unsigned
worth(const struct sched_conn *conn)
{
    if (conn->held || conn->opening)
        return 2;
    return conn->waiting || conn->answers || conn->reads || conn->closing ||
           conn->wait.request || conn->pool_watch.request || conn->pod || conn->fed ||
           conn->relayed;
}

/* The list of connections is newest first. */
static struct sched_conn *
least_worth(const struct sched *sched, size_t bucket)
{
    struct sched_conn *found = NULL;

    for (struct sched_conn *conn = sched->conns; conn; conn = conn->next) {
        if (conn->server || conn->from % SCHED_CROWD_BUCKETS != bucket)
            continue;
        if (!found || worth(conn) < worth(found) || !worth(conn))
            found = conn;
    }
    return found;
}

bool
sched_crowd_admits(const struct sched *sched, uint64_t from,
                   struct sched_conn **ret_end)
{
    unsigned most =
        sched->config.clients_max ? sched->config.clients_max : SCHED_CLIENTS_MAX;
    size_t fullest = 0;

    *ret_end = NULL;
    if (sched->n_clients < most)
        return true;
    for (size_t i = 1; i < SCHED_CROWD_BUCKETS; i++)
        if (sched->crowd[i] > sched->crowd[fullest])
            fullest = i;
    if (sched->crowd[from % SCHED_CROWD_BUCKETS] + 1u >= sched->crowd[fullest])
        return false;
    *ret_end = least_worth(sched, fullest);
    return *ret_end;
}
