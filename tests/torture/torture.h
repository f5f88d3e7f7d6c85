/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults on purpose: the page that test_torture.py and the library in the tortured
 * processes share.
 *
 * The test writes what to break and resets the counters while nothing of @program
 * runs calls that it counts; the processes count.  Any number of processes map it.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include <assert.h>
#include <stdint.h>

enum torture_kind {
    TORTURE_MEMORY,  /* malloc and its relatives, mmap, memfd_create: ENOMEM */
    TORTURE_SEND,    /* send, sendmsg, write...: ECONNRESET or EIO */
    TORTURE_RECEIVE, /* recv, recvmsg, read...: ECONNRESET or EIO */
    TORTURE_SYSTEM,  /* descriptors, threads, files: EMFILE, EAGAIN, EIO */
    TORTURE_KINDS,
};

/* The layout is that of STRUCT in tests/e2e/test_torture.py. */
struct torture_page {
    char program[32]; /* the name of the processes */
    uint32_t kind;    /* enum torture_kind: whose calls may fail */
    uint32_t count;   /* how many in a row fail, from @at on */
    uint64_t at;      /* the first one to fail; 0: none */
    uint32_t deadly;  /* it does not fail: its process is killed there */
    uint32_t pad;
    uint64_t calls[TORTURE_KINDS]; /* seen so far */
    uint64_t failed;
};

static_assert(sizeof(struct torture_page) == 96, "known to test_torture.py");

#endif
