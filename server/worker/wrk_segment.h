/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workers of one session share: the limits of its slices and how much
 * each attachment uses.
 *
 * A memory file made by the supervisor (srv_session.c), mapped by each worker.
 * An attachment sits on one seat and writes only there; a limit holds for the
 * sum over the seats.  Memory is taken under a robust mutex, but a change is one
 * store to the own seat, so that whoever finds the mutex's owner dead finds
 * nothing half done; the supervisor never takes it, it clears the seats of dead
 * workers.  Everything that is counted comes back by clearing a seat: there is
 * no shared total that a killed worker could leave wrong.
 */
#ifndef WRK_SEGMENT_H
#define WRK_SEGMENT_H

#include "gp_base.h"
#include "ticket.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define WRK_SEGMENT_MAGIC 0x67707333u /* "gps3" */

/* Attachments of one session on one server.  A data loader forks a few dozen
 * processes; each needs a worker process here, so more would only hurt. */
#define WRK_SEATS_MAX 256

/* Names for memory and events that a session's processes may have given each other and
 * still use (h_ipc.c).  A process that exports a block a second is at it for a day. */
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
enum wrk_rung {
    WRK_RUNG_NONE, /* not asked for yet, or no RDMA */
    WRK_RUNG_SLOTS,
    WRK_RUNG_DMABUF,
    WRK_RUNG_PEERMEM,
    WRK_RUNG_MAPPED,
    WRK_RUNGS,
};

/* As xport_name() says. */
static inline const char *
wrk_transport_name(uint32_t transport)
{
    static const char *const names[WRK_TRANSPORTS] = {"", "tcp", "shm", "rdma"};

    return transport < WRK_TRANSPORTS ? names[transport] : "";
}

static inline const char *
wrk_rung_name(uint32_t rung)
{
    static const char *const names[WRK_RUNGS] = {"", "slots", "dmabuf", "peermem",
                                                 "mapped"};

    return rung < WRK_RUNGS ? names[rung] : "";
}

struct wrk_seat {
    _Atomic uint32_t pid;                       /* 0: free */
    _Atomic uint32_t client_pid;                /* as the client itself knows it */
    _Atomic uint32_t transport;                 /* enum wrk_transport */
    _Atomic uint32_t rung;                      /* enum wrk_rung (wrk_window.h) */
    _Atomic uint64_t used[TICKET_SLICES_MAX];   /* bytes, now */
    _Atomic uint64_t pieces[TICKET_SLICES_MAX]; /* allocations, now */
    _Atomic uint64_t spent[WRK_SPENT_KINDS][TICKET_SLICES_MAX];
};

struct wrk_segment {
    uint32_t magic;
    uint32_t size;
    uint32_t n_slices;
    uint32_t policy;
    struct ticket_slice slices[TICKET_SLICES_MAX];
    pthread_mutex_t memory_lock; /* robust, process-shared: see above */
    _Atomic uint32_t seats_high; /* no seat from here on was ever taken */
    /* Of seats whose workers ended, kept by the supervisor. */
    _Atomic uint64_t past[WRK_SPENT_KINDS][TICKET_SLICES_MAX];
    _Atomic uint64_t high[TICKET_SLICES_MAX]; /* most bytes ever used at a time */
    /* Why the supervisor ends the attachments: written before they get SIGTERM, ended
     * by a zero or the end of the array. */
    char ending[WRK_ENDING_MAX];
    struct wrk_seat seats[WRK_SEATS_MAX];
    _Atomic uint64_t n_exports; /* ever made */
    _Atomic uint64_t exports[WRK_EXPORTS_MAX];
};

/* Bytes that the session uses on slice @i, summed over its attachments. */
static inline uint64_t
wrk_segment_used(struct wrk_segment *seg, uint32_t i)
{
    uint32_t high = gp_min(atomic_load(&seg->seats_high), (uint32_t)WRK_SEATS_MAX);
    uint64_t sum = 0;

    for (unsigned s = 0; s < high; s++)
        sum += atomic_load_explicit(&seg->seats[s].used[i], memory_order_relaxed);
    return sum;
}

/* How many allocations the session has on slice @i. */
static inline uint64_t
wrk_segment_pieces(struct wrk_segment *seg, uint32_t i)
{
    uint32_t high = gp_min(atomic_load(&seg->seats_high), (uint32_t)WRK_SEATS_MAX);
    uint64_t sum = 0;

    for (unsigned s = 0; s < high; s++)
        sum += atomic_load_explicit(&seg->seats[s].pieces[i], memory_order_relaxed);
    return sum;
}

/* What the session has spent on slice @i since it began here. */
static inline uint64_t
wrk_segment_spent(struct wrk_segment *seg, enum wrk_spent kind, uint32_t i)
{
    uint32_t high = gp_min(atomic_load(&seg->seats_high), (uint32_t)WRK_SEATS_MAX);
    uint64_t sum = atomic_load(&seg->past[kind][i]);

    for (unsigned s = 0; s < high; s++)
        sum +=
            atomic_load_explicit(&seg->seats[s].spent[kind][i], memory_order_relaxed);
    return sum;
}

#endif
