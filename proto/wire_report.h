/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong in a program, and how often it waited for the server, for `gpupool
 * doctor -- PROGRAM`: a file in memory that doctor makes, the client libraries of the
 * program's processes map, and doctor reads when the program has ended, however it
 * ended.
 *
 * A table of (call, result) with counters: entries are claimed with one
 * compare-and-swap and never given up.  Beside it a table of round trips with one entry
 * for each number of a call, of which few have memory.  Doctor believes nothing in it
 * but numbers.
 */
#ifndef WIRE_REPORT_H
#define WIRE_REPORT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WIRE_REPORT_MAGIC 0x32727067u /* "gpr2" */
/* There are about 640 calls and 100 results; programs meet a few dozen pairs. */
#define WIRE_REPORT_SLOTS 4096u
/* The numbers of proto/api that programs use are below. */
#define WIRE_REPORT_CALLS 0x8000u

/* With a result: the call had returned when it failed, and the next one that waited for
 * its reply returned the error instead. */
#define WIRE_REPORT_DEFERRED 0x8000u

struct wire_report_slot {
    _Atomic uint32_t what; /* call << 16 | result, 0: free */
    _Atomic uint32_t count;
};

/* Exported calls of that number that the program made, and round trips to a server
 * that it waited for in them, whichever frames they were. */
struct wire_report_call {
    _Atomic uint64_t calls;
    _Atomic uint64_t trips;
};

struct wire_report {
    uint32_t magic;
    _Atomic uint32_t processes; /* that mapped it */
    _Atomic uint32_t left_out;  /* results that found the table full */
    uint32_t zero;
    struct wire_report_slot slot[WIRE_REPORT_SLOTS];
    struct wire_report_call call[WIRE_REPORT_CALLS];
};

static_assert(sizeof(struct wire_report) ==
                  16 + 8 * WIRE_REPORT_SLOTS + 16 * WIRE_REPORT_CALLS,
              "the same for both sides");

static inline void
wire_report_call_made(struct wire_report *report, uint16_t call, uint32_t trips)
{
    struct wire_report_call *entry = &report->call[call % WIRE_REPORT_CALLS];

    atomic_fetch_add_explicit(&entry->calls, 1, memory_order_relaxed);
    if (trips)
        atomic_fetch_add_explicit(&entry->trips, trips, memory_order_relaxed);
}

static inline void
wire_report_add(struct wire_report *report, uint16_t call, uint16_t result)
{
    uint32_t what = (uint32_t)call << 16 | result;
    uint32_t at = what * 2654435761u >> 20;

    for (uint32_t i = 0; i < WIRE_REPORT_SLOTS; i++) {
        struct wire_report_slot *slot = &report->slot[(at + i) % WIRE_REPORT_SLOTS];
        uint32_t there = atomic_load(&slot->what);

        if (there == 0 && atomic_compare_exchange_strong(&slot->what, &there, what))
            there = what;
        if (there == what) {
            atomic_fetch_add(&slot->count, 1);
            return;
        }
    }
    atomic_fetch_add(&report->left_out, 1);
}

#endif
