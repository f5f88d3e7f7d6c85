/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a shared store from being used, until it is over.
 *
 * The log has each cause once, and again each minute while it lasts: it is tried
 * several times a second, and what curl says has another number of milliseconds each
 * time.  Who owns it and what it is about is the owner's.  Any thread.
 */
#ifndef STORE_TROUBLE_H
#define STORE_TROUBLE_H

#include "gp_err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct store_trouble {
    pthread_mutex_t lock;
    char words[sizeof(((struct gp_err *)NULL)->msg)];  /* empty: there is none */
    char logged[sizeof(((struct gp_err *)NULL)->msg)]; /* the last in the log */
    uint64_t logged_ns;
    bool shown; /* the trouble of now is in the log, so its end is news */
};

#define STORE_TROUBLE_INIT                                                             \
    {                                                                                  \
        .lock = PTHREAD_MUTEX_INITIALIZER                                              \
    }

/* @words keeps it from being used. */
void store_trouble_set(struct store_trouble *trouble, const char *words);
/* It is over, if there was any. */
void store_trouble_clear(struct store_trouble *trouble);
/* The words of now; empty when all is well. */
void store_trouble_words(struct store_trouble *trouble, char *ret, size_t size);

#endif
