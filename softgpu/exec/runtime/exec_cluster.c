/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters: CTAs that see each other's shared memory and have a barrier of their own.
 *
 * All members run on one thread, in turns, so nothing here is atomic.  A lane has
 * arrived in the current phase when its parity is the phase's; the last one turns the
 * phase.  In the shared window, 16 MiB number 1 + r is the member of rank r; number 0
 * is whoever asks.
 */
#include "sg_cta.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t *
cluster_dims(const struct sg_launch *launch)
{
    static const uint32_t one[3] = {1, 1, 1};

    return launch->cluster[0] ? launch->cluster : one;
}

uint64_t
sg_cluster_member(const struct sg_launch *launch, uint64_t number, uint32_t rank)
{
    const uint32_t *d = cluster_dims(launch), *g = launch->grid;
    uint64_t cx = g[0] / d[0], cy = g[1] / d[1];
    uint64_t x = number % cx * d[0] + rank % d[0];
    uint64_t y = number / cx % cy * d[1] + rank / d[0] % d[1];
    uint64_t z = number / cx / cy * d[2] + rank / d[0] / d[1];

    return x + g[0] * (y + g[1] * z);
}

int
sg_cluster_join(struct sg_cta *const *ctas, uint32_t n, struct sg_cluster **ret_cluster)
{
    struct sg_cluster *cluster;

    if (n == 0 || n > SG_MAX_CLUSTER)
        return -EINVAL;
    cluster = calloc(1, sizeof(*cluster));
    if (!cluster)
        return -ENOMEM;
    cluster->n = n;
    for (uint32_t i = 0; i < n; i++) {
        cluster->ctas[i] = ctas[i];
        cluster->pending += ctas[i]->live_threads;
        ctas[i]->cluster = cluster;
        ctas[i]->cluster_rank = i;
    }
    *ret_cluster = cluster;
    return 0;
}

void
sg_cluster_free(struct sg_cluster *cluster)
{
    for (uint32_t i = 0; cluster && i < cluster->n; i++)
        cluster->ctas[i]->cluster = NULL;
    free(cluster);
}

uint8_t *
sg_cluster_shared(struct sg_cta *cta, uint64_t at, uint32_t size)
{
    uint64_t rank = at >> SG_CLUSTER_SHIFT, off = at & (SG_WIN_SIZE - 1);
    struct sg_cta *owner = cta;

    if (rank) {
        if (rank > (cta->cluster ? cta->cluster->n : 1))
            return NULL;
        owner = cta->cluster ? cta->cluster->ctas[rank - 1] : cta;
    }
    if (owner->shared_bytes < size || off > owner->shared_bytes - size)
        return NULL;
    return owner->shared + off;
}

uint32_t
sg_cluster_sreg(const struct sg_cta *cta, unsigned id)
{
    const uint32_t *d = cluster_dims(cta->launch), *at = cta->ctaid;
    unsigned k = (id - SG_SREG_CLUSTERID_X) % 3;

    switch (id) {
    case SG_SREG_CLUSTER_CTARANK:
        return at[0] % d[0] + d[0] * (at[1] % d[1] + d[1] * (at[2] % d[2]));
    case SG_SREG_CLUSTER_NCTARANK:
        return d[0] * d[1] * d[2];
    case SG_SREG_IS_CLUSTER:
        return cta->launch->cluster[0] != 0 || cta->launch->explicit_cluster;
    default:
        break;
    }
    if (id < SG_SREG_NCLUSTERID_X)
        return at[k] / d[k];
    if (id < SG_SREG_CLUSTER_CTAID_X)
        return cta->launch->grid[k] / d[k];
    return id < SG_SREG_CLUSTER_NCTAID_X ? at[k] % d[k] : d[k];
}

/* -------------------------------------------------------------------- the barrier */

/* A CTA outside any cluster is one by itself. */
static struct sg_cluster *
cluster_of(struct sg_cta *cta)
{
    return cta->cluster ? cta->cluster : &cta->alone;
}

static void
count_down(struct sg_cluster *cluster, uint32_t n)
{
    cluster->pending -= n;
    if (cluster->pending)
        return;
    cluster->phase = !cluster->phase;
    for (uint32_t i = 0; i < cluster->n; i++)
        cluster->pending += cluster->ctas[i]->live_threads;
}

/* Lanes of @m that have not arrived in this phase. */
static uint32_t
awaited(const struct sg_cluster *cluster, const struct sg_warp *warp, uint32_t m)
{
    return m & (cluster->phase ? ~warp->cluster_parity : warp->cluster_parity);
}

void
sg_cluster_exit(struct sg_cta *cta, struct sg_warp *warp, uint32_t m)
{
    struct sg_cluster *cluster = cluster_of(cta);

    count_down(cluster, (uint32_t)__builtin_popcount(awaited(cluster, warp, m)));
}

enum sg_stop
sg_op_cluster_arrive(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                     uint32_t m)
{
    struct sg_cluster *cluster = cluster_of(cta);
    uint32_t new = awaited(cluster, warp, m);

    (void)op;
    warp->cluster_parity ^= new;
    if (new)
        count_down(cluster, (uint32_t)__builtin_popcount(new));
    return SG_STOP_NONE;
}

/* Lanes whose phase has ended go on; the others come here again. */
enum sg_stop
sg_op_cluster_wait(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                   uint32_t m)
{
    struct sg_frag *run = &warp->frags[0], *wait;
    uint32_t done = awaited(cluster_of(cta), warp, m);
    enum sg_stop stop;

    (void)op;
    if (done == m)
        return SG_STOP_NONE;
    if (done) {
        wait = &warp->frags[warp->n_frags++];
        *wait = *run;
        wait->mask = m & ~done;
        run->mask = done;
        run->pc++;
        return SG_STOP_PICK;
    }
    stop = sg_op_yield(cta, warp);
    warp->frags[0].pc--;
    return stop;
}
