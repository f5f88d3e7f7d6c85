/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody who asks for one page over HTTP/1.1, again and again, on a thread of its
 * own, with a pause behind each answer.
 *
 * The caller owns it; its numbers are read after http_reader_stop().
 */
#ifndef HTTP_READER_H
#define HTTP_READER_H

#include "gp_base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define HTTP_READER_MAX 100000

struct http_reader {
    const char *address, *path;
    uint32_t pause_us;
    pthread_t thread;
    atomic_bool stop;
    uint32_t us[HTTP_READER_MAX]; /* of each page, whole */
    size_t n, bytes;              /* of the last one */
};

/* One page; its size, or 0 when nobody answers with it. */
size_t http_reader_get(const char *address, const char *path);
/* The same @n times, with what each took. */
size_t http_reader_time(const char *address, const char *path, uint32_t *us, size_t n);

int http_reader_start(struct http_reader *reader, const char *address, const char *path,
                      uint32_t pause_us);
void http_reader_stop(struct http_reader *reader);

#endif
