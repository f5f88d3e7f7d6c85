/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When functions of graphs are given back.
 *
 * A function that a node of a graph was made with goes with the last of that graph and
 * all that is made from it (wrk_hostfn_tie).  A node can be given another function, and
 * can be destroyed: then the graph lets go of the old one at once, and what was made
 * from the graph before keeps it.
 *
 * An executable graph takes no user objects by itself.  So each is made, and updated,
 * from a graph that holds an object of ours for that moment; the driver hands it over,
 * and gives it back when the executable graph and its launches are over.  Functions
 * that nodes of the executable graph are given meanwhile go then.  One that was
 * replaced goes earlier: at once if no launch came in between, else when its successor
 * has run, because launches of an executable graph run one after the other.
 *
 * The reader's, except where it says otherwise.
 */
#ifndef WRK_HOSTFN_GRAPH_H
#define WRK_HOSTFN_GRAPH_H

#include "cuda_abi.h"

struct wrk;
struct wrk_hostfn;
struct wrk_hostfn_exec;

/* --- nodes of graphs -------------------------------------------------------------- */

struct wrk_hostfn_change {
    struct wrk_hostfn *old, *host;
    CUgraph graph; /* of the node; NULL: not known, so @host stays till the end */
};

/* @node is about to be given @host, of kind WRK_HOST_GRAPH, or (NULL) another kind of
 * parameters, or to be destroyed. */
void wrk_hostfn_change_begin(struct wrk *w, struct wrk_hostfn_change *ch,
                             CUgraphNode node, struct wrk_hostfn *host);
/* The driver has answered @r. */
void wrk_hostfn_change_end(struct wrk *w, const struct wrk_hostfn_change *ch,
                           CUresult r);

/* --- executable graphs ------------------------------------------------------------ */

/* Before an executable graph is made from @graph.  NULL: nobody has host functions. */
struct wrk_hostfn_exec *wrk_hostfn_exec_begin(struct wrk *w, CUgraph graph);
/* The driver has made @exec, or (NULL) has not. */
void wrk_hostfn_exec_end(struct wrk *w, struct wrk_hostfn_exec *e, CUgraph graph,
                         CUgraphExec exec);

/* Before @exec is destroyed, or updated: it has its functions no longer.  NULL: none
 * is known. */
struct wrk_hostfn_exec *wrk_hostfn_exec_leave(struct wrk *w, CUgraphExec exec);
/* The driver has returned @r.  After an error @e is @exec's as before. */
void wrk_hostfn_exec_left(struct wrk *w, struct wrk_hostfn_exec *e, CUresult r);

/* @node of @exec has been given @host. */
void wrk_hostfn_exec_given(struct wrk *w, CUgraphExec exec, CUgraphNode node,
                           struct wrk_hostfn *host);

/* @exec is about to be launched: the functions that it has by now may run.  A stream
 * that is being captured keeps them. */
void wrk_hostfn_exec_launch(struct wrk *w, CUgraphExec exec, CUstream stream);

#endif
