/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions: functions of the client that work on the GPU waits for, stream
 * callbacks, and destructors of user objects.
 *
 * The driver calls the worker on a thread of its own.  That thread sends an unsolicited
 * message to the client and blocks until the client reports that its function has
 * returned; the receive thread is never blocked.  When the attachment ends, all threads
 * that wait here are released.
 */
#ifndef WRK_HOSTFN_H
#define WRK_HOSTFN_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_hostfn;
struct wrk_hostfns;
struct wire_event_host_urgent;

/* Functions registered and not run yet: WIRE_HOST_FUNCS_MAX.  A stream of training
 * steps has a few; a client that queues more gets CUDA_ERROR_OUT_OF_MEMORY. */

enum wrk_hostfn_kind {
    WRK_HOST_ONCE,     /* runs once, the client is waited for */
    WRK_HOST_GRAPH,    /* a graph's node: runs any number of times */
    WRK_HOST_NOTIFY,   /* runs once, nobody waits (a user object's end) */
    WRK_HOST_CALLBACK, /* of a stream: runs once with the stream's status, the client is
                        * waited for */
};

/* It lives as long as the process. */
int wrk_hostfns_new(struct wrk *w, struct wrk_hostfns **ret);
/* Let everybody go who waits for the client; from any thread. */
void wrk_hostfns_cancel(struct wrk_hostfns *hosts);

/* What to register with the driver: wrk_hostfn_run(), or wrk_hostfn_stream_run() as a
 * stream callback, with the returned object as its argument.  NULL: the cap. */
struct wrk_hostfn *wrk_hostfn_new(struct wrk *w, enum wrk_hostfn_kind kind,
                                  uint64_t token, uint64_t stream);
/* No function is registered or runs, so no work of the card waits for one. */
bool wrk_hostfns_none(struct wrk_hostfns *hosts);
/* Streams were given functions that have not returned, or one of a graph runs. */
bool wrk_hostfns_of_streams(struct wrk_hostfns *hosts);
/* Nodes of graphs have functions. */
bool wrk_hostfns_of_graphs(struct wrk_hostfns *hosts);

/* The driver refused to take it. */
void wrk_hostfn_drop(struct wrk_hostfn *host);

/* The same, and a message tells the client, which does not wait for the call, that it
 * may forget the token. */
void wrk_hostfn_refuse(struct wrk_hostfn *host);

/* The driver refused a stream's callback with @status, and the client has told the
 * program that it was accepted.  A program that waits for its callback would wait for
 * ever, so it is called with that status, behind the callbacks that were accepted
 * before. */
void wrk_hostfn_refuse_callback(struct wrk_hostfn *host, CUresult status);

/* Have @host, of kind WRK_HOST_GRAPH, go when the last of @graph and all that is made
 * from it is gone: clones, child graphs, executable graphs and their launches.  The
 * client hears of it.  Where the driver has no user objects, it stays until the
 * attachment ends. */
void wrk_hostfn_tie(struct wrk_hostfn *host, CUgraph graph);
/* The driver refused the node of the tied @host. */
void wrk_hostfn_untie(struct wrk_hostfn *host, CUgraph graph);

/* The graph that @stream is being captured into; NULL: it is not. */
CUgraph wrk_hostfn_graph(struct wrk *w, CUstream stream);

/* For the driver to call, with a struct wrk_hostfn: has the client run the function and
 * waits for its end.  A thread of the driver's. */
void wrk_hostfn_run(void *host);
void wrk_hostfn_stream_run(CUstream stream, CUresult status, void *host);

/* The client's function of this ticket has returned.  Any thread; more than once is the
 * same as once. */
void wrk_hostfn_done(struct wrk *w, uint64_t ticket);

/* What the driver did before it called a function whose event has been sent is seen by
 * the calling thread from now on: the client's answer alone orders no memory. */
void wrk_hostfns_see(struct wrk_hostfns *hosts);

/* Have @say called for each function that is due and that the main connection cannot
 * say so of now, once.  The thread of the control connection. */
void wrk_hostfns_say(struct wrk_hostfns *hosts,
                     void (*say)(void *arg, const struct wire_event_host_urgent *event),
                     void *arg);
/* The connection over which they were said has ended: they are said again, over the
 * next one or the main one. */
void wrk_hostfns_unsaid(struct wrk *w);

/* Call @fn with @arg while the function of @ticket, which is @token's, runs: it cannot
 * be done before @fn has returned, which is soon.  False: it does not run.  Any thread.
 */
bool wrk_hostfn_while_running(struct wrk *w, uint64_t ticket, uint64_t token,
                              void (*fn)(void *arg), void *arg);

#endif
