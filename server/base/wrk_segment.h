/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the supervisor and the workers of a session share.
 *
 * - struct wrk_segment, one per session: its limits and sums, and the IPC handles that
 *   its workers have handed out.  Written by the supervisor; read-only for workers.
 * - struct wrk_notice, one per worker: its turns, and replies to its calls.  Written by
 *   the supervisor; read-only for the worker.
 * - struct wrk_desk, one per worker: its requests, its running work and its use.
 *   Written by the worker; read by the supervisor only.
 *
 * Read-only files are sealed (F_SEAL_FUTURE_WRITE) after the supervisor has mapped
 * them, so neither mprotect() nor opening them again makes them writable.  The
 * supervisor treats a desk as claims of that session about itself: each word is read
 * once, bounded, and added to accounting of its own (srv_ledger.h).
 */
#ifndef WRK_SEGMENT_H
#define WRK_SEGMENT_H

#include "gov_desk.h"
#include "gp_base.h"
#include "ticket.h"

#include <stdatomic.h>
#include <stdint.h>

#define WRK_SEGMENT_MAGIC 0x67707334u /* "gps4" */
#define WRK_DESK_MAGIC 0x67706431u    /* "gpd1" */
#define WRK_NOTICE_MAGIC 0x67706e31u  /* "gpn1" */

/* Attachments of one session on one server.  A data loader forks a few dozen
 * processes; each needs a worker process here, so more would only hurt. */
#define WRK_SLOTS_MAX 256

/* A one-byte allocation takes 512 bytes of a card and an entry in the worker; so a
 * session may have as many allocations as its memory has pages of this size, and some
 * more.  Frameworks were seen to keep some ten thousand on a whole card. */
#define WRK_PIECE_BYTES 4096u
#define WRK_PIECES_MIN 16384u

static inline uint64_t
wrk_physmem_max(uint64_t limit)
{
    return WRK_PIECES_MIN + limit / WRK_PIECE_BYTES;
}

/* IPC handles of memory and events that processes of a session may have passed to each
 * other and still use (h_ipc.c).  At one exported block a second this lasts a day. */
#define WRK_EXPORTS_MAX 65536u

/* Words for the program, cut at so many bytes. */
#define WRK_ENDING_MAX 160u

/* What only ever grows. */
enum wrk_spent {
    WRK_SPENT_GPU_NS,   /* card time charged */
    WRK_SPENT_LAUNCHES, /* kernels and graphs */
    WRK_SPENT_WAIT_NS,  /* time that launches waited for the governor */
    WRK_SPENT_MOVED,    /* bytes copied to and from the client */
    /* Of the session, on its first slice. */
    WRK_SPENT_PACKED,      /* bytes that were compressed to travel */
    WRK_SPENT_PACKED_WIRE, /* what was left of them */
    WRK_SPENT_KINDS,
};

/* What an attachment goes over. */
enum wrk_transport {
    WRK_TRANSPORT_NONE,
    WRK_TRANSPORT_TCP,
    WRK_TRANSPORT_SHM,
    WRK_TRANSPORT_RDMA,
    WRK_TRANSPORTS,
};

/* How an RDMA adapter gets at the cards' memory: wrk_window.h. */
enum wrk_gdr_mode {
    WRK_GDR_NONE, /* not asked for yet, or no RDMA */
    WRK_GDR_STAGED,
    WRK_GDR_DMABUF,
    WRK_GDR_PEERMEM,
    WRK_GDR_MAPPED,
    WRK_GDR_MODES,
};

/* For people. */
static inline const char *
wrk_transport_name(uint32_t transport)
{
    static const char *const names[WRK_TRANSPORTS] = {"", "tcp", "shm", "rdma"};

    return transport < WRK_TRANSPORTS ? names[transport] : "";
}

static inline const char *
wrk_gdr_mode_name(uint32_t gdr_mode)
{
    static const char *const names[WRK_GDR_MODES] = {"", "slots", "dmabuf", "peermem",
                                                     "mapped"};

    return gdr_mode < WRK_GDR_MODES ? names[gdr_mode] : "";
}

/* What an attachment reports as its usage. */
struct wrk_usage {
    _Atomic uint32_t transport; /* enum wrk_transport */
    _Atomic uint32_t gdr_mode;  /* enum wrk_gdr_mode (wrk_window.h) */
    /* Totals of bytes and allocations: taken without the supervisor while this worker
     * was alone in its session; and given back. */
    _Atomic uint64_t took[TICKET_SLICES_MAX], took_n[TICKET_SLICES_MAX];
    _Atomic uint64_t gave[TICKET_SLICES_MAX], gave_n[TICKET_SLICES_MAX];
    _Atomic uint64_t high[TICKET_SLICES_MAX]; /* most bytes at a time, while alone */
    _Atomic uint64_t spent[WRK_SPENT_KINDS][TICKET_SLICES_MAX];
};

/* What the supervisor does for a worker that waits: wrk_desks_call(). */
enum wrk_call_kind {
    WRK_CALL_TAKE = 1, /* count @bytes on @slice if the session's limit allows it */
    WRK_CALL_LOOK,     /* bring the sums of the segment up to date */
    WRK_CALL_NAME,     /* note @bytes, the name of an IPC handle, in the segment */
};

/* What WRK_CALL_TAKE answers.  The last three go only to workers that know them
 * (struct wrk_desk.knows_room): the bytes do not fit now, and would if other processes
 * of the session gave back what they hold. */
enum wrk_take {
    WRK_TAKE_REFUSED,
    WRK_TAKE_GRANTED,
    WRK_TAKE_QUIET,   /* none of them is known to be doing so */
    WRK_TAKE_BUSY,    /* the worker of one has calls to carry out, perhaps frees */
    WRK_TAKE_FREEING, /* one ends, or has frees that wait for the card */
};

struct wrk_call {
    _Atomic uint32_t seq; /* of the call; written last */
    _Atomic uint32_t kind;
    _Atomic uint32_t slice;
    _Atomic uint64_t bytes;
};

struct wrk_desk {
    uint32_t magic;
    uint32_t size;
    _Atomic uint32_t joined; /* 1: gov_want.pieces are written, the worker can run */
    struct wrk_call call;
    struct gov_want wants[TICKET_SLICES_MAX];
    struct wrk_usage usage;
    /* The worker's last word to its client (wrk_end_reason.h).  1: it has been sent,
     * which does not say that it arrived. */
    char last_word[WRK_ENDING_MAX];
    _Atomic uint32_t last_told;
    _Atomic uint32_t hardware_error; /* 1: a call failed as on a broken card */
    /* What a process that finds no room wants to know of the others (enum wrk_take). */
    _Atomic uint32_t knows_room; /* 1: the worker knows all answers of that kind */
    _Atomic uint32_t busy;       /* 1: there are calls that it has not carried out */
    _Atomic uint32_t releases;   /* that wait for the card */
};

struct wrk_notice {
    uint32_t magic;
    uint32_t size;
    _Atomic uint32_t seq; /* futex: of the call that was answered last */
    _Atomic uint32_t answer;
    _Atomic uint32_t joined; /* futex: 0, 1, or an errno: no place at a card */
    struct gov_turn turns[TICKET_SLICES_MAX];
};

/* An attachment as the others of its session see it. */
struct wrk_member {
    _Atomic uint32_t client_pid; /* as the client itself knows it; 0: no attachment */
    _Atomic uint64_t used[TICKET_SLICES_MAX];
};

struct wrk_segment {
    uint32_t magic;
    uint32_t size;
    uint32_t n_slices;
    _Atomic uint64_t limits[TICKET_SLICES_MAX]; /* bytes */
    _Atomic uint32_t slots_high; /* no slot from here on was ever taken */
    /* Why the supervisor ends the attachments: written before they get SIGTERM, ended
     * by a zero or the end of the array. */
    char ending[WRK_ENDING_MAX];
    /* As of the last WRK_CALL_LOOK: */
    _Atomic uint64_t used[TICKET_SLICES_MAX];
    _Atomic uint64_t gpu_ns[TICKET_SLICES_MAX];
    struct wrk_member members[WRK_SLOTS_MAX];
    _Atomic uint64_t n_exports; /* ever noted */
    _Atomic uint64_t exports[WRK_EXPORTS_MAX];
};

/* What a supervisor and workers of another build agree on when this number is the same:
 * the form of these structures, of gov_desk.h and of wrk_request.h, as the sizes below
 * have it.  Fields may be appended to each (not to elements of arrays) and are zero for
 * who does not know them; then the size changes and the number does not.  Anything else
 * needs another number, and whoever raises it says which before that it still serves.
 * Files of desks have WRK_DESK_ROOM bytes behind them for that; the others are made
 * anew by each supervisor. */
#define WRK_SHARED_FORM 3u
/* The same structures; desks without room. */
#define WRK_SHARED_FORM_BEFORE 10409986u
#define WRK_DESK_ROOM 4096u
static_assert(sizeof(struct wrk_desk) == 2688 && sizeof(struct wrk_notice) == 1088 &&
                  sizeof(struct wrk_segment) == 559680,
              "workers of other builds share these: see above");

#endif
