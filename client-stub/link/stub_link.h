/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attachments of this process, one per server of its session: phase, connection,
 * snapshot.
 *
 * Most sessions have one server.  All links are made ready together, by the first call
 * that needs a server, and never torn down: runtimes call into the driver from their
 * own exit handlers, after ours would have run.  A link that died stays dead; the
 * others go on.
 *
 * `send` guards all state of writing, `wait` all state of reading.  send is taken
 * before wait, never after, and no thread holds locks of two links.  A call goes to the
 * link of the thread's current context, stub_link_here(); stub_link_switch.h makes that
 * the right one for arguments of another server.  The meaning of CUDA calls is not
 * known here.
 */
#ifndef STUB_LINK_H
#define STUB_LINK_H

#include "attach_proof.h"
#include "cuda_abi.h"
#include "gp_lock.h"
#include "stub_secure.h"
#include "stub_spare_ranges.h"
#include "stub_tls.h"
#include "wire_format.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Gpupool__AttachReply;
struct stub_call;
struct xport_conn;

enum stub_phase {
    STUB_COLD,   /* no server asked yet */
    STUB_LINKED, /* attached, cuInit not called (cuDriverGetVersion was) */
    STUB_READY,  /* cuInit succeeded */
    STUB_FAILED, /* no server; every cuInit fails */
    STUB_FORKED, /* a child of the process that attached */
    STUB_LOST,   /* the connection or the worker died */
    STUB_GONE,   /* the library's destructor ran */
};

/* Reasons for a call to do more than send its frame.  Features set all bits but the
 * first, for all links (stub_hooks.h says what each makes the core do). */
enum stub_attend {
    STUB_ATTEND_NOT_READY = 1, /* the phase is not STUB_READY */
    STUB_ATTEND_CALL = 2,      /* before_call, after_wait */
    STUB_ATTEND_FLAGS = 4,     /* frame_flags */
    STUB_ATTEND_CONTENT = 8,   /* needs, provide */
    STUB_ATTEND_REPLY = 16,    /* wants_reply; set for this link alone */
    STUB_ATTEND_FLUSH = 32,    /* every frame leaves at once */
    STUB_ATTEND_WATCH = 64,    /* the flusher sleeps without a limit (stub_flush.c) */
    STUB_ATTEND_SPARE = 128,   /* spare_before, spare_named; set for this link alone */
    STUB_ATTEND_COUNT = 256,   /* threads count their frames; set for this link alone */
};

/* Frames that other threads post while one of them sends: stub_send_overflow.h.
 * Under send. */
struct stub_send_overflow {
    _Atomic uint32_t busy; /* futex word: 0, 1 somebody sends, 2 and somebody sleeps */
    uint32_t used;
    uint8_t *room; /* by the first who needs it; never freed */
};

/* As many as handles can number, and as a session can have devices. */
#define STUB_LINKS_MAX WIRE_LINKS_MAX

/* Contexts of a link whose releases are counted apart.  When two meet in one place, the
 * one that takes it over waits for its release. */
#define STUB_RELEASES 16u

struct stub_link {
    /* What every call touches, in one cache line. */
    _Alignas(64) struct xport_conn *conn;
    _Atomic(struct stub_call *) waiting; /* calls without their reply; under wait */
    _Atomic uint32_t phase;
    struct gp_lock send;
    _Atomic uint32_t seq;       /* of the last frame; written under send */
    _Atomic uint32_t queued;    /* bytes in the send buffer; written under send */
    _Atomic uint32_t flushes;   /* how often it was emptied; written under send */
    _Atomic uint32_t attention; /* enum stub_attend; 0: an ordinary call */
    /* stub_send_overflow.h: what gathers while somebody sends */
    struct stub_send_overflow overflow;
    struct gp_lock wait;
    atomic_bool leading; /* somebody reads the connection, or is about to */

    uint32_t number;         /* in stub_links, and in the handles of its objects */
    uint32_t device_base;    /* devices of the links before it */
    _Atomic int32_t failure; /* what calls return in FAILED and LOST */
    const struct Gpupool__AttachReply *attach;
    _Atomic uint32_t flush_asleep;  /* stub_flush.h */
    _Atomic uint32_t flush_armed;   /* a frame has entered the empty buffer, since the
                                       flusher looked last */
    _Atomic uint32_t d2h_in_flight; /* copies under way that nobody waits for */
    int wake_fd;                    /* eventfd that ends the flusher's sleep */
    bool hung_up;                   /* the worker is gone; the flusher's */
    struct gp_lock lose;            /* one thread finds out why the link ended */
    char *address;                  /* of the server, as it was reached; may be NULL */
    bool hears;                     /* the worker knows gp_received, */
    bool takes_pieces;              /* and gp_pieces; */
    bool uploads_complete; /* its reply to a blocking copy up comes behind it */

    _Atomic int32_t relay_error; /* stub_relay.h */
    _Atomic uint64_t moved;      /* bytes of payloads, while they are counted */
    _Atomic bool count_payloads; /* somebody wants to hear of them (stub_hooks.h) */
    struct gp_lock stripes;      /* a thread makes them */
    uint32_t stripe_round;       /* the next one that is asked for; under it */
    _Atomic uint32_t stripe_failures; /* for the link in use */

    struct stub_releases {
        uint32_t ctx;          /* index of the context that has the place */
        uint32_t n;            /* posted in it since one was waited for */
    } releases[STUB_RELEASES]; /* by context; under send */

    /* The last frame, while it waits to be sent and may be made longer (stub_post.h);
     * under send. */
    struct stub_open_frame {
        struct wire_req *req;
        uint8_t *end;     /* of it, and of all that waits */
        uint8_t *most;    /* where it must end */
        uint8_t *base;    /* conn->tx.base at its beginning */
        uint32_t seq;     /* link->seq when it was made this long */
        uint32_t partial; /* conn->tx.partial at its beginning */
    } open;

    uint64_t position; /* of the last frame looked at (stub_event.h); under send */
    /* memory that the program has freed: stub_spare.h */
    struct stub_spare_ranges spares;

    bool proven; /* cookies of connections are made from @key: attach_proof.h */
    uint8_t key[ATTACH_KEY_SIZE];
    struct stub_secure tls; /* of its further connections too */
};
static_assert(offsetof(struct stub_link, number) == 64, "one cache line");

extern struct stub_link stub_links[STUB_LINKS_MAX];

/* How many of them the session has; 1 until it is known. */
extern uint32_t stub_links_n;

/* The only way to change the phase of a link that calls may use. */
void stub_link_set_phase(struct stub_link *link, enum stub_phase phase);
/* The same if the phase is @from still. */
bool stub_link_move_phase(struct stub_link *link, enum stub_phase from,
                          enum stub_phase to);

/* Set or clear @bit of @link, or of every link of the process.  Callers that count
 * users of a bit order their calls by a lock of their own. */
void stub_link_attend(struct stub_link *link, enum stub_attend bit, bool on);
void stub_link_attend_all(enum stub_attend bit, bool on);

/* What a call returns when the phase is not READY. */
CUresult stub_link_refusal(const struct stub_link *link);

/* True if the worker has announced this capability when it was attached to. */
bool stub_link_can(const struct stub_link *link, const char *capability);

/* The oldest driver version among the servers. */
int stub_link_driver_version(void);

/* CUDA_SUCCESS if the process can make calls to some server, for calls that concern
 * none in particular. */
CUresult stub_link_enter_any(void);

/* The link of the calling thread's current context; without one, the first. */
static inline struct stub_link *
stub_link_here(void)
{
    return stub_tls.link;
}

/* The bits of enum stub_attend, by one load. */
static inline uint32_t
stub_link_attention(const struct stub_link *link)
{
    return atomic_load_explicit(&link->attention, memory_order_acquire);
}

/* True while contexts of the link have errors that every call returns
 * (stub_sticky.h). */
static inline bool
stub_link_wants_replies(const struct stub_link *link)
{
    return unlikely(stub_link_attention(link) & STUB_ATTEND_REPLY);
}

static inline bool
stub_link_ready(const struct stub_link *link)
{
    return likely(atomic_load_explicit(&link->phase, memory_order_acquire) ==
                  STUB_READY);
}

#endif
