/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a registered function is, for wrk_hostfn.c and wrk_hostfn_graph.c alone.
 *
 * Everything below is under wrk_hostfns.lock unless a comment says otherwise.
 */
#ifndef WRK_HOSTFN_OWN_H
#define WRK_HOSTFN_OWN_H

#include "cuda_abi.h"
#include "gp_table.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct host_wait;
struct wrk;
struct wrk_hostfn_exec;

struct wrk_hostfn {
    struct wrk *w;
    uint32_t kind; /* enum wrk_hostfn_kind */
    uint64_t token;
    uint64_t stream;
    CUuserObject object; /* ties it to a graph; NULL: nothing does */

    /* Given to a node of an executable graph (wrk_hostfn_graph.h); NULL: it was not. */
    struct wrk_hostfn_exec *exec;
    CUgraphNode node;
    struct wrk_hostfn *older; /* what @node was given before */
    uint64_t launches;        /* of @exec, before it was given */
    void (*returned)(
        struct wrk_hostfn *host); /* after each of its runs; NULL: nothing */
    bool ran; /* the driver's thread that runs it; a graph runs once at a time */

    /* Of a refused stream callback. */
    struct wrk_hostfn *next;
    CUresult refusal;
};

GP_TABLE_TYPE(wrk_hostfn_execs, struct wrk_hostfn_exec *);

struct wrk_hostfns {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    struct host_wait *waiting;
    uint64_t last_ticket;
    unsigned count;  /* registered */
    unsigned once;   /* of them, given to streams */
    unsigned graphs; /* of them, given to nodes of graphs */
    bool cancelled;

    unsigned callbacks; /* of streams, whose events have not been sent */
    struct wrk_hostfn *refused, **refused_last; /* to be said when there are none */
    bool saying_refused;

    struct wrk_hostfn_execs execs; /* reader only, no lock */
    _Atomic uint32_t given; /* functions that executable graphs were given later */
    uint32_t graph_hint;    /* reader only: where the last node's graph was found */
};

#endif
