/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that writes: one batch at a time, while the event loop goes on collecting
 * the next one.
 *
 * It exists because a write takes as long as a disk's flush, or a majority of etcd's
 * members, and heartbeats and renewals do not wait for either.  Its functions are
 * called on the event loop's thread.
 */
#ifndef STORE_WRITER_H
#define STORE_WRITER_H

#include "gp_base.h"

struct gp_err;
struct gp_loop;
struct store;
struct store_batch;
struct store_writer;

/* @done is called on @loop when a batch has been written, or not (@r < 0, and then its
 * first @written changes have been all the same). */
int store_writer_new(struct store *store, struct gp_loop *loop,
                     void (*done)(void *arg, int r, size_t written,
                                  const struct gp_err *err),
                     void *arg, struct store_writer **ret_writer, struct gp_err *err);
/* Waits for what is being written; @done is not called any more. */
void store_writer_free(struct store_writer *writer); /* NULL is a no-op */

/* Write @batch, which stays untouched until it is done.  Only while not busy. */
void store_writer_start(struct store_writer *writer, const struct store_batch *batch);
bool store_writer_busy(const struct store_writer *writer);
/* Wait for what is being written; @done is called before this returns. */
void store_writer_wait(struct store_writer *writer);

/* The same without a thread, for those that have no loop. */
int store_write_batch(struct store *store, const struct store_batch *batch,
                      size_t *ret_written, struct gp_err *err);

#endif
