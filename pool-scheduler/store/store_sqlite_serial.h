/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of the last transaction, in a file of its own beside the database:
 * scheduler.db-serial.
 *
 * A write-ahead log that was cut short, or damaged, is read by SQLite as one that ends
 * there; what its later transactions did would be gone without a word.  The number in
 * this file says that there were more.  It is written after a transaction is on the
 * disk and not flushed itself: after a power cut it may be too small, never too large.
 */
#ifndef STORE_SQLITE_SERIAL_H
#define STORE_SQLITE_SERIAL_H

#include "gp_base.h"

#include <stdint.h>

struct gp_err;

/* -1, or a descriptor; made when it is not there.  @ret_serial: 0 when it is new.
 * -EBADMSG: it holds no number. */
int store_sqlite_serial_open(const char *db, int *ret_fd, uint64_t *ret_serial,
                             struct gp_err *err);
void store_sqlite_serial_write(int fd, uint64_t serial);

#endif
