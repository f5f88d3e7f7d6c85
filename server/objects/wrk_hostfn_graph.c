/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_hostfn_graph.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_hostfn.h"
#include "wrk_hostfn_own.h"

#include <pthread.h>
#include <stdlib.h>

/* The newest function that each node of an executable graph was given. */
GP_TABLE_TYPE(given_table, struct wrk_hostfn *);

/* One executable graph, as long as its handle, the driver, or a function needs it. */
struct wrk_hostfn_exec {
    struct wrk *w;
    CUgraphExec exec;
    CUuserObject object;

    /* Under wrk_hostfns.lock. */
    struct given_table given;
    uint64_t launches; /* counted while functions are given to anything */
    unsigned refs;     /* the handle's, the driver's */
    bool leaving;      /* destroyed, or updated: its launches end it */
    bool captured;     /* a launch was captured: who runs it is not known */
};

static inline bool
given_table_used(struct wrk_hostfn *const *e)
{
    return *e != NULL;
}

static inline uint32_t
given_table_hash(CUgraphNode node)
{
    return (uint32_t)((uintptr_t)node >> 4);
}

static inline uint32_t
given_table_hash_of(struct wrk_hostfn *const *e)
{
    return given_table_hash((*e)->node);
}

static inline bool
given_table_is(struct wrk_hostfn *const *e, CUgraphNode node)
{
    return (*e)->node == node;
}

GP_TABLE(given_table, struct wrk_hostfn *, CUgraphNode)

/* ---- nodes of graphs --------------------------------------------------------------
 */

static struct wrk_hostfn *
node_host(struct wrk *w, CUgraphNode node)
{
    CUDA_HOST_NODE_PARAMS params = {0};

    if (WRK_CALL(w, cuGraphHostNodeGetParams, node, &params) != CUDA_SUCCESS ||
        params.fn != wrk_hostfn_run)
        return NULL;
    return params.userData;
}

/* Child graphs deeper than this are not searched; programs nest them once or twice. */
#define CHILDREN_MAX 16u

static CUgraph graph_of_node(struct wrk *w, CUgraph graph, CUgraphNode node,
                             unsigned depth);

/* The graph of @node among the child graphs of @nodes; NULL: it is in none. */
static CUgraph
child_of_node(struct wrk *w, const CUgraphNode *nodes, size_t n, CUgraphNode node,
              unsigned depth)
{
    CUgraph child, found = NULL;
    CUgraphNodeType type;

    for (size_t i = 0; i < n && !found; i++)
        if (WRK_CALL(w, cuGraphNodeGetType, nodes[i], &type) == CUDA_SUCCESS &&
            type == CU_GRAPH_NODE_TYPE_GRAPH &&
            WRK_CALL(w, cuGraphChildGraphNodeGetGraph, nodes[i], &child) ==
                CUDA_SUCCESS)
            found = graph_of_node(w, child, node, depth);
    return found;
}

/* @graph, or the one of its child graphs, that @node is in; NULL: none is. */
static CUgraph
graph_of_node(struct wrk *w, CUgraph graph, CUgraphNode node, unsigned depth)
{
    CLEANUP_FREE CUgraphNode *nodes = NULL;
    size_t n = 0;

    if (!graph || depth > CHILDREN_MAX ||
        WRK_CALL(w, cuGraphGetNodes, graph, NULL, &n) != CUDA_SUCCESS || !n)
        return NULL;
    nodes = calloc(n, sizeof(*nodes));
    if (!nodes || WRK_CALL(w, cuGraphGetNodes, graph, nodes, &n) != CUDA_SUCCESS)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (nodes[i] == node)
            return graph;
    return child_of_node(w, nodes, n, node, depth + 1);
}

/* Among the graphs that the client has made itself, whose handles are gone when the
 * graphs are, and their child graphs, which the driver made.  The driver does not tell
 * to which graph a node belongs. */
static CUgraph
node_graph(struct wrk *w, CUgraphNode node)
{
    const struct wrk_handle_array *graphs = &w->handles.client[WIRE_KIND_GRAPH];
    uint32_t *hint = &w->priv->hosts->graph_hint;
    CUgraph found = NULL;

    if (*hint < graphs->cap)
        found = graph_of_node(w, graphs->slots[*hint].obj, node, 0);
    for (uint32_t i = 0; i < graphs->cap && !found; i++) {
        if (i == *hint)
            continue;
        found = graph_of_node(w, graphs->slots[i].obj, node, 0);
        if (found)
            *hint = i;
    }
    return found;
}

void
wrk_hostfn_change_begin(struct wrk *w, struct wrk_hostfn_change *ch, CUgraphNode node,
                        struct wrk_hostfn *host)
{
    *ch = (struct wrk_hostfn_change){.host = host};
    if (wrk_hostfns_none(w->priv->hosts))
        return;
    ch->old = node_host(w, node);
    if (ch->old || host)
        ch->graph = node_graph(w, node);
    if (host && ch->graph)
        wrk_hostfn_tie(host, ch->graph);
}

void
wrk_hostfn_change_end(struct wrk *w, const struct wrk_hostfn_change *ch, CUresult r)
{
    if (r == CUDA_SUCCESS) {
        if (ch->graph && ch->old && ch->old->object)
            WRK_CALL(w, cuGraphReleaseUserObject, ch->graph, ch->old->object, 1);
    } else if (ch->host && ch->graph) {
        wrk_hostfn_untie(ch->host, ch->graph);
    } else if (ch->host) {
        wrk_hostfn_refuse(ch->host);
    }
}

/* ---- executable graphs ------------------------------------------------------------
 */

static inline bool
wrk_hostfn_execs_used(struct wrk_hostfn_exec *const *e)
{
    return *e != NULL;
}

static inline uint32_t
wrk_hostfn_execs_hash(CUgraphExec exec)
{
    return (uint32_t)((uintptr_t)exec >> 4);
}

static inline uint32_t
wrk_hostfn_execs_hash_of(struct wrk_hostfn_exec *const *e)
{
    return wrk_hostfn_execs_hash((*e)->exec);
}

static inline bool
wrk_hostfn_execs_is(struct wrk_hostfn_exec *const *e, CUgraphExec exec)
{
    return (*e)->exec == exec;
}

GP_TABLE(wrk_hostfn_execs, struct wrk_hostfn_exec *, CUgraphExec)

static struct wrk_hostfn_exec *
exec_find(const struct wrk_hostfns *hosts, CUgraphExec exec)
{
    struct wrk_hostfn_exec **at = wrk_hostfn_execs_find(&hosts->execs, exec);

    return at ? *at : NULL;
}

/* Not under the lock, because a message is sent to the client. */
static void
give_back(struct wrk_hostfns *hosts, struct wrk_hostfn *list)
{
    struct wrk_hostfn *host;

    while ((host = list)) {
        list = host->older;
        atomic_fetch_sub(&hosts->given, 1);
        wrk_hostfn_refuse(host);
    }
}

/* Functions that still are its keep it: one of them may run. */
static void
exec_unref(struct wrk_hostfns *hosts, struct wrk_hostfn_exec *e)
{
    bool last;

    pthread_mutex_lock(&hosts->lock);
    last = --e->refs == 0 && !e->given.count;
    pthread_mutex_unlock(&hosts->lock);
    if (last)
        free(e);
}

/* All that were given to its nodes, as one list; under the lock. */
static struct wrk_hostfn *
take_given(struct wrk_hostfn_exec *e)
{
    struct wrk_hostfn *list = NULL, **last = &list;

    for (uint32_t i = 0; i < e->given.cap; i++)
        for (*last = e->given.slots[i]; *last; last = &(*last)->older)
            ;
    given_table_fini(&e->given);
    return list;
}

/* Called by the driver, where it may not be called back: nothing of the executable
 * graph will run any more, unless it lets go of the object while the graph exists. Then
 * its functions stay until the attachment ends. */
static void
exec_over(void *arg)
{
    struct wrk_hostfn_exec *e = arg;
    struct wrk_hostfns *hosts = e->w->priv->hosts;
    struct wrk_hostfn *list = NULL;

    pthread_mutex_lock(&hosts->lock);
    if (e->leaving && !e->captured)
        list = take_given(e);
    pthread_mutex_unlock(&hosts->lock);
    give_back(hosts, list);
    exec_unref(hosts, e);
}

struct wrk_hostfn_exec *
wrk_hostfn_exec_begin(struct wrk *w, CUgraph graph)
{
    struct wrk_hostfn_exec *e;

    if (wrk_hostfns_none(w->priv->hosts))
        return NULL;
    e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->w = w;
    e->refs = 2;
    if (WRK_CALL(w, cuUserObjectCreate, &e->object, e, exec_over, 1,
                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) != CUDA_SUCCESS) {
        free(e);
        return NULL;
    }
    if (WRK_CALL(w, cuGraphRetainUserObject, graph, e->object, 1,
                 CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS)
        return e;
    WRK_CALL(w, cuUserObjectRelease, e->object, 1);
    exec_unref(w->priv->hosts, e);
    return NULL;
}

/* False: no memory. */
static bool
exec_enter(struct wrk_hostfns *hosts, struct wrk_hostfn_exec *e, CUgraphExec exec)
{
    struct wrk_hostfn_exec **at = wrk_hostfn_execs_enter(&hosts->execs, exec);

    if (!at)
        return false;
    /* The one before ended with its context, and the driver uses its address again. */
    if (*at)
        exec_unref(hosts, *at);
    e->exec = exec;
    *at = e;
    return true;
}

void
wrk_hostfn_exec_end(struct wrk *w, struct wrk_hostfn_exec *e, CUgraph graph,
                    CUgraphExec exec)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    bool known;

    if (!e)
        return;
    known = exec && exec_enter(hosts, e, exec);
    WRK_CALL(w, cuGraphReleaseUserObject, graph, e->object, 1);
    if (!known)
        exec_unref(hosts, e);
}

static void
exec_set_leaving(struct wrk_hostfns *hosts, struct wrk_hostfn_exec *e, bool leaving)
{
    pthread_mutex_lock(&hosts->lock);
    e->leaving = leaving;
    pthread_mutex_unlock(&hosts->lock);
}

struct wrk_hostfn_exec *
wrk_hostfn_exec_leave(struct wrk *w, CUgraphExec exec)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    struct wrk_hostfn_exec *e = exec_find(hosts, exec);

    if (e) {
        wrk_hostfn_execs_remove(&hosts->execs,
                                wrk_hostfn_execs_find(&hosts->execs, exec));
        exec_set_leaving(hosts, e, true);
    }
    return e;
}

void
wrk_hostfn_exec_left(struct wrk *w, struct wrk_hostfn_exec *e, CUresult r)
{
    struct wrk_hostfns *hosts = w->priv->hosts;

    if (!e)
        return;
    if (r == CUDA_SUCCESS) {
        exec_unref(hosts, e);
        return;
    }
    exec_set_leaving(hosts, e, false);
    (void)exec_enter(hosts, e, e->exec); /* it left room behind */
}

/* Those that its node had before; under the lock. */
static struct wrk_hostfn *
take_older(struct wrk_hostfn *host)
{
    struct wrk_hostfn *list = host->older;

    host->older = NULL;
    return list;
}

/* Of what its node had before, the one that no launch has taken, which nothing will
 * run any more; NULL: there is none.  There is one at most, because each that is
 * replaced goes this way.  Under the lock. */
static struct wrk_hostfn *
take_never_launched(struct wrk_hostfn *host)
{
    struct wrk_hostfn *before = host->older;

    if (!before || before->launches != host->launches)
        return NULL;
    host->older = before->older;
    before->older = NULL;
    return before;
}

static void
host_returned(struct wrk_hostfn *host)
{
    struct wrk_hostfns *hosts = host->w->priv->hosts;
    struct wrk_hostfn *list = NULL;

    if (host->ran)
        return;
    host->ran = true;
    pthread_mutex_lock(&hosts->lock);
    if (!host->exec->captured)
        list = take_older(host);
    pthread_mutex_unlock(&hosts->lock);
    give_back(hosts, list);
}

void
wrk_hostfn_exec_given(struct wrk *w, CUgraphExec exec, CUgraphNode node,
                      struct wrk_hostfn *host)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    struct wrk_hostfn_exec *e = exec_find(hosts, exec);
    struct wrk_hostfn **newest, *replaced = NULL;

    if (!e)
        return;
    atomic_fetch_add(&hosts->given, 1);
    pthread_mutex_lock(&hosts->lock);
    host->node = node;
    newest = given_table_enter(&e->given, node);
    if (newest) {
        host->exec = e;
        host->launches = e->launches;
        host->returned = host_returned;
        host->older = *newest;
        *newest = host;
        replaced = take_never_launched(host);
    }
    pthread_mutex_unlock(&hosts->lock);
    give_back(hosts, replaced);
}

void
wrk_hostfn_exec_launch(struct wrk *w, CUgraphExec exec, CUstream stream)
{
    struct wrk_hostfns *hosts = w->priv->hosts;
    struct wrk_hostfn_exec *e;
    bool captures;

    if (atomic_load_explicit(&hosts->given, memory_order_relaxed) == 0)
        return;
    e = exec_find(hosts, exec);
    if (!e)
        return;
    captures = wrk_capturing(w, stream) != CUDA_SUCCESS;
    pthread_mutex_lock(&hosts->lock);
    e->launches++;
    e->captured |= captures;
    pthread_mutex_unlock(&hosts->lock);
}
