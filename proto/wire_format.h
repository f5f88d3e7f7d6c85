/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of one attachment after the attach handshake: frames both ways.
 *
 * A request frame is a struct wire_req, the call's fixed part (a generated
 * struct wire_<call>_req), then its variable parts, each 8-aligned.  An answer
 * is a struct wire_rep, the fixed part (struct wire_<call>_rep) and the variable
 * parts.  All integers are little-endian, which every machine we build for is.
 *
 * The layouts here are for ever within one WIRE_MAJOR; call numbers and bodies
 * are kept by wire.lock.  No function here touches a connection.
 */
#ifndef WIRE_FORMAT_H
#define WIRE_FORMAT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* A server refuses another major; a higher minor only adds calls. */
#define WIRE_MAJOR 1u
#define WIRE_MINOR 0u

/*
 * The largest frame, header and inline data together.  Kernel parameters end at
 * 32764 bytes and the largest fixed part is under 1 KiB, so that four times the
 * former leaves room for arrays; whatever is larger travels as bulk.
 */
#define WIRE_FRAME_MAX (128u * 1024u)

/* Calls from here on are between stub and worker (proto/api/internal.api). */
#define WIRE_CALL_INTERNAL 0xe000u
#define WIRE_ALIGN 8u

/*
 * The largest bulk payload of one frame: no card has more memory, and a sum of
 * two such lengths cannot wrap.
 */
#define WIRE_BULK_MAX (UINT64_C(1) << 46)

/* Bits of wire_req.flags and wire_rep.flags. */
#define WIRE_F_BULK                                                                    \
    0x0001u                  /* raw bytes follow; their count is the last fixed field  \
                              */
#define WIRE_F_REPLY 0x0002u /* request: the client waits for an answer */
#define WIRE_F_EVENT                                                                   \
    0x0004u /* from the worker, unsolicited: call is an enum wire_event                \
             */
#define WIRE_F_ERROR 0x0008u /* answer: result failed, so that no body follows */
#define WIRE_F_D2H_ASYNC                                                               \
    0x0010u /* request: a copy to the host that nobody waits for; instead of an answer \
               its bytes come as WIRE_EVENT_D2H_DONE, whatever becomes of it; no other \
               flag beside it */

/* Request: the driver may not refuse the call because a stream is being captured.  All
 * captures are one thread's there; the client knows whose they are. */
#define WIRE_F_RELAXED 0x0100u

/* Client to worker. */
struct wire_req {
    uint32_t size;  /* whole frame without bulk; multiple of WIRE_ALIGN */
    uint16_t call;  /* number in proto/api */
    uint16_t flags; /* WIRE_F_* */
    uint32_t seq;   /* previous frame's + 1, else the attachment ends; a run of launches
                       has as many as launches, and this is the first */
    uint32_t ctx;   /* handle index of the thread's current context, 0 = none */
    /* the call's fixed part and variable parts follow */
};

/* Worker to client. */
struct wire_rep {
    uint32_t size;  /* whole frame without bulk; multiple of WIRE_ALIGN */
    uint16_t call;  /* of the request, or an enum wire_event */
    uint16_t flags; /* WIRE_F_* */
    uint32_t seq;   /* of the request */
    int32_t result; /* a CUresult */
    /* the fixed part and variable parts follow, unless WIRE_F_ERROR */
};

static_assert(sizeof(struct wire_req) == 16, "wire layout");
static_assert(sizeof(struct wire_rep) == 16, "wire layout");

/* Unsolicited messages of a worker (wire_rep.call with WIRE_F_EVENT). */
enum wire_event {
    WIRE_EVENT_HOST_FUNC = 0xf001, /* struct wire_event_host_func */
    WIRE_EVENT_OUTPUT = 0xf002,    /* struct wire_event_output, then its bytes */
    WIRE_EVENT_CREDIT = 0xf003,    /* struct wire_event_credit */
    WIRE_EVENT_LOST = 0xf004,      /* struct wire_event_lost, then its words */
    WIRE_EVENT_D2H_DONE = 0xf005,  /* struct wire_event_d2h_done, then its bytes */
    WIRE_EVENT_CALLBACK = 0xf006,  /* struct wire_event_callback, then its words */
    WIRE_EVENT_HOST_GONE = 0xf007, /* struct wire_event_host_gone */
    WIRE_EVENT_CAUSE = 0xf008,     /* struct wire_event_cause, then its words */
    /* struct wire_event_host_urgent, over the control connection; may come again over
     * it, and as WIRE_EVENT_HOST_FUNC. */
    WIRE_EVENT_HOST_URGENT = 0xf009,
    WIRE_EVENT_DEFERRED = 0xf00a,    /* struct wire_event_deferred */
    WIRE_EVENT_GRAPH_ENDED = 0xf00b, /* struct wire_event_graph_ended, then its ids */
};

/* So many launch shapes a worker keeps for its client: kernel, grid, block, shared
 * memory and stream (gp_launch_shape), which gp_launch_run names by their number. */
#define WIRE_LAUNCH_SHAPES 256u

/* The most bytes of parameters that a launch takes. */
#define WIRE_LAUNCH_PARAMS_MAX 32768u

/* What the parameters of one launch of a run take; @n_params up to that. */
static inline uint32_t
wire_launch_stride(uint32_t n_params)
{
    return n_params ? (n_params + 7u) & ~7u : 8u;
}

/* What gp_wait_elapsed waits for. */
enum wire_wait {
    WIRE_WAIT_STREAM,
    WIRE_WAIT_EVENT, /* the second event */
    WIRE_WAIT_CTX,
};

/* What gp_graph_list lists: of a graph, or of a node. */
enum wire_graph_list {
    WIRE_GRAPH_NODES,
    WIRE_GRAPH_ROOTS,
    WIRE_GRAPH_EDGES,
    WIRE_GRAPH_EDGES_V2,
    WIRE_GRAPH_DEPENDENCIES,
    WIRE_GRAPH_DEPENDENCIES_V2,
    WIRE_GRAPH_DEPENDENTS,
    WIRE_GRAPH_DEPENDENTS_V2,
};

/* The arrays that are asked for: nodes (of edges, where they begin), where edges end,
 * and what belongs to edges. */
#define WIRE_GRAPH_LIST_NODES 1u
#define WIRE_GRAPH_LIST_TO 2u
#define WIRE_GRAPH_LIST_DATA 4u

/* So many entries of each a frame holds. */
#define WIRE_GRAPH_LIST_MAX 4096u

/* A call may name more nodes than its frame holds, up to so many.  They come in front
 * of it, in frames of gp_graph_nodes, and the call itself names WIRE_GRAPH_AHEAD times
 * no node (0) in their place. */
#define WIRE_GRAPH_NODES_MAX (1u << 20)
#define WIRE_GRAPH_AHEAD 2u

/* A host function, stream callback or user-object destructor is due. */
struct wire_event_host_func {
    uint64_t token;  /* as the client registered it */
    uint64_t ticket; /* to be named by gp_host_done, 0 = nobody waits */
    uint64_t stream; /* handle of the stream, 0 = none */
    int32_t status;  /* CUresult for stream callbacks */
    uint32_t once;   /* 1: the token will not be used again */
};

/* The same over the control connection, where it may overtake what the main one
 * carries. Copies to the host that the worker had sent before the function was due come
 * first in the stream's order, or may, so the client runs the function behind them.
 * Workers of earlier versions send the first field alone. */
struct wire_event_host_urgent {
    struct wire_event_host_func func;
    uint32_t arrived; /* WIRE_EVENT_D2H_DONE before it, since the attachment */
    uint32_t reserved;
};

/* No more events of this token will come: what held its function is gone, or the call
 * that gave it has failed.  A token that the client has forgotten is no mistake. */
struct wire_event_host_gone {
    uint64_t token;
};

/* These handles of nodes and graphs ended with the graph that they were in.  Clients
 * that do not know this message leave it alone, and use their indices no more. */
struct wire_event_graph_ended {
    uint32_t n_ids; /* 64 bits each */
    uint32_t zero;
};

/* Releases (frees, unloads) in one context that the client posts before it waits for
 * one of them.  The worker queues what a busy context holds up, in the order of the
 * frames, so an answered release says that the context's earlier ones are done, and
 * nothing about other contexts.  Both sides' memory is bounded. */
#define WIRE_RELEASES_POSTED 4096u

/*
 * How many functions may be registered.  Both sides count.
 *
 * The client counts one more before it sends the frame that registers, and one less
 * when it has taken the event which says that the function has run for the last time.
 *
 * The worker counts one more when it executes that frame, and one less before it sends
 * that event.
 *
 * So the worker never counts more than the client, which refuses more by itself.
 */
#define WIRE_HOST_FUNCS_MAX 65536u

/* Bytes that a kernel printed. */
struct wire_event_output {
    uint32_t fd; /* 1 = stdout, 2 = stderr */
    uint32_t len;
};

/* Why a call will fail that only the program's user can mend.  The same words have been
 * sent as output; `gpupool run` repeats them if the program fails.  Clients that do not
 * know this message leave it alone. */
struct wire_event_cause {
    uint32_t len;
    uint32_t zero;
};

/* Whose the deferred error is that the next call with a reply returns.  Clients that do
 * not know this message leave it alone. */
struct wire_event_deferred {
    uint16_t call; /* of the frame that failed */
    uint16_t zero;
    uint32_t seq;
    int32_t result; /* a CUresult */
    uint32_t zero2;
};

/* How many frames the worker has executed: lets the client trim its journal. */
struct wire_event_credit {
    uint32_t done_seq;
    uint32_t zero;
};

/* A callback for what happens by itself: a line of the driver's log, a notification. */
struct wire_event_callback {
    uint64_t token; /* as the client registered it */
    uint64_t value; /* of a notification: bytes over the budget */
    uint32_t what;  /* CUlogLevel or CUasyncNotificationType */
    uint32_t len;   /* a line of the log follows */
};

/* What a line of the log is cut at. */
#define WIRE_LOG_LINE_MAX 4096u

/* The session is over, and why. */
struct wire_event_lost {
    int32_t result; /* what every later call returns */
    uint32_t len;   /* words for the user follow */
};

/*
 * The bytes of a copy with WIRE_F_D2H_ASYNC, in stream order and in front of every word
 * of the worker that says that its stream got so far.  They stand in the frame, or
 * follow it with WIRE_F_BULK.
 */
struct wire_event_d2h_done {
    uint32_t seq;   /* of the request */
    int32_t result; /* a CUresult; unless it is 0, len is */
    uint64_t len;
};

/*
 * How many such copies may be under way: so much memory the worker keeps for them.  A
 * longer copy goes as several.  Both sides count, small and large ones apart:
 *
 *   the client    one more before it sends the frame, one less once it has taken the
 *                 event with all its bytes
 *   the worker    one more when it executes the frame, one less before anything of it
 *                 learns that the client has the event: under the lock that the event
 *                 was sent under, whoever else still sleeps on the copy
 *
 * So at every moment the worker has counted no more than the client, and the client,
 * which waits at the limit, never exceeds it.  One that does is cut off.
 */
#define WIRE_D2H_SMALL (64u * 1024)   /* up to here a copy is small */
#define WIRE_D2H_LARGE (1024u * 1024) /* the largest */
#define WIRE_D2H_SMALLS 256u          /* 16 MiB */
#define WIRE_D2H_LARGES 64u           /* 64 MiB */
#define WIRE_D2H_INLINE (16u * 1024)  /* up to here it comes inside the frame */

static_assert(sizeof(struct wire_event_d2h_done) == 16, "wire layout");
static_assert(sizeof(struct wire_event_host_func) == 32, "wire layout");
static_assert(sizeof(struct wire_event_host_urgent) == 40, "wire layout");
static_assert(sizeof(struct wire_event_host_gone) == 8, "wire layout");
static_assert(sizeof(struct wire_event_output) == 8, "wire layout");
static_assert(sizeof(struct wire_event_cause) == 8, "wire layout");
static_assert(sizeof(struct wire_event_deferred) == 16, "wire layout");
static_assert(sizeof(struct wire_event_credit) == 8, "wire layout");
static_assert(sizeof(struct wire_event_lost) == 8, "wire layout");
static_assert(sizeof(struct wire_event_callback) == 24, "wire layout");

/*
 * Handles.  The application holds the u64 as its CUstream and so on and never
 * follows it: bit 46 is set, which no user address of a small process and no
 * special value (0, 1, 2) has.
 *
 *     bit 46     always 1
 *     bits 40-45 kind     enum wire_kind
 *     bits 32-39 gen      changes when an index is used again
 *     bits 4-31  index    1 .. 2^28 - 1
 *     bits 0-3   link     which of the client's attachments it belongs to
 *
 * The client allocates indexes below WIRE_INDEX_SERVER.  The worker allocates the rest,
 * for objects that the driver made by itself and only a query reveals: nodes of
 * a captured graph, a default memory pool, the function of a kernel.  Attached to
 * several servers, a client tells each its link, and keeps indexes apart itself.
 */
#define WIRE_HANDLE_MARK (UINT64_C(1) << 46)
#define WIRE_INDEX_MAX ((1u << 28) - 1)
#define WIRE_INDEX_SERVER (1u << 27)
#define WIRE_LINKS_MAX 16u
#define WIRE_STRIPE_COOKIE 16u /* bytes; see attach.proto */
#define WIRE_PEER_COOKIE 16u   /* bytes; see attach.proto */
#define WIRE_RDMA_COOKIE 16u
#define WIRE_ENDING_COOKIE 16u /* bytes; see attach.proto */

/* In front of a line that a client leaves to `gpupool run` and that tells why a call
 * failed, not why the session ended. */
#define WIRE_ENDING_CAUSE "cause: "
/* The same in front of what a checked card has found. */
#define WIRE_ENDING_CHECK "check: "

enum wire_kind {
    WIRE_KIND_NONE = 0,
    WIRE_KIND_CTX = 1,
    WIRE_KIND_MODULE = 2,
    WIRE_KIND_LIBRARY = 3,
    WIRE_KIND_FUNC = 4, /* CUfunction and CUkernel are interchangeable */
    WIRE_KIND_STREAM = 5,
    WIRE_KIND_EVENT = 6,
    WIRE_KIND_GRAPH = 7,
    WIRE_KIND_GRAPHEXEC = 8,
    WIRE_KIND_GRAPHNODE = 9,
    WIRE_KIND_ARRAY = 10,
    WIRE_KIND_MIPMAP = 11,
    WIRE_KIND_TEXOBJ = 12,
    WIRE_KIND_SURFOBJ = 13,
    WIRE_KIND_TEXREF = 14,
    WIRE_KIND_SURFREF = 15,
    WIRE_KIND_MEMPOOL = 16,
    WIRE_KIND_MEMHANDLE = 17, /* CUmemGenericAllocationHandle */
    WIRE_KIND_LINK = 18,
    WIRE_KIND_USEROBJ = 19,
    WIRE_KIND_EXTMEM = 20,
    WIRE_KIND_EXTSEM = 21,
    WIRE_KIND_GFXRES = 22,
    WIRE_KIND_GREENCTX = 23,
    WIRE_KIND_CONDITION = 24, /* CUgraphConditionalHandle */
    WIRE_KIND_RESDESC = 25,   /* CUdevResourceDesc */
    WIRE_KIND_DEVNODE = 26,   /* CUgraphDeviceNode */
    WIRE_KIND_COUNT = 27,
};

static inline uint64_t
wire_handle_make(enum wire_kind kind, uint32_t gen, uint32_t index)
{
    return WIRE_HANDLE_MARK | (uint64_t)kind << 40 | (uint64_t)(gen & 0xff) << 32 |
           (uint64_t)index << 4;
}

static inline uint32_t
wire_handle_kind(uint64_t h)
{
    return (uint32_t)(h >> 40) & 0x3f;
}

static inline uint32_t
wire_handle_gen(uint64_t h)
{
    return (uint32_t)(h >> 32) & 0xff;
}

static inline uint32_t
wire_handle_index(uint64_t h)
{
    return (uint32_t)h >> 4;
}

static inline uint32_t
wire_handle_link(uint64_t h)
{
    return (uint32_t)h & (WIRE_LINKS_MAX - 1);
}

/* Is @h shaped like a handle of @kind?  Whether it lives, only its table knows. */
static inline bool
wire_handle_is(uint64_t h, enum wire_kind kind)
{
    return h >> 40 == (WIRE_HANDLE_MARK >> 40 | (uint64_t)kind) &&
           wire_handle_index(h) != 0;
}

/* The primary context of a device has a fixed handle, so that it needs no call.
 * @nth counts over all links: the device_base of the attach request and the ordinal on
 * the server. */
static inline uint64_t
wire_primary_ctx(uint32_t link, uint32_t nth)
{
    return wire_handle_make(WIRE_KIND_CTX, 0, 1 + nth) | link;
}

/* Round a length inside a frame up to WIRE_ALIGN; @n is at most WIRE_FRAME_MAX. */
static inline uint32_t
wire_align(uint32_t n)
{
    return (n + (WIRE_ALIGN - 1)) & ~(WIRE_ALIGN - 1);
}

#endif
