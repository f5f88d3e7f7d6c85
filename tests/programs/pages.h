/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs about page-locked memory share: such memory, the card's and what
 * should be in both, two streams, and a kernel that holds one of them by spinning until
 * a word is overwritten through the other.
 */
#ifndef PROGRAMS_PAGES_H
#define PROGRAMS_PAGES_H

#include "prog.h"

#include <pthread.h>

#define PAGES_THREADS 4u

struct pages {
    struct prog prog;
    CUstream stream, other;
    CUdeviceptr word; /* held while it is 7 */
    CUdeviceptr data; /* @size bytes, as in `want` */
    uint8_t *want;    /* @size bytes that tell every place */
    uint8_t *host;    /* @size bytes, page-locked */
    size_t size;
};

struct pages_worker {
    struct pages *pages;
    unsigned number;
    size_t wrong;
    pthread_t thread;
};

struct pages_promise {
    const char *name;
    size_t (*check)(struct pages *pages);
};

/* @ptx has the kernel "spin". */
void pages_begin(struct pages *pages, int argc, char **argv, const char *name,
                 const char *ptx, size_t size);
void pages_end(struct pages *pages);

/* A line for each of @n promises; the exit status. */
int pages_check(struct pages *pages, const struct pages_promise *promises, size_t n);

void pages_hold(struct pages *pages, CUstream stream);
void pages_let_go(struct pages *pages);

/* Run @run in PAGES_THREADS threads, each with a struct pages_worker and the context
 * current; the sum of what was wrong. */
size_t pages_in_threads(struct pages *pages, void *(*run)(void *worker));

#endif
