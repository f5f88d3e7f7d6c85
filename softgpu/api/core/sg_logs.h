/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's log: a line for each call that fails, kept in a ring, and passed to the
 * callbacks of the program on the thread whose call it was.
 *
 * A program can compare two logs: lines hold no times and no addresses.  Lock held for
 * all functions.
 */
#ifndef SG_LOGS_H
#define SG_LOGS_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_LOGS_LINES 128 /* older ones are forgotten */
#define SG_LOGS_BYTES (SG_LOGS_LINES * 160)

/* A call returns @rc, which is an error.  Drops the lock. */
void sg_logs_leave(CUresult rc);

/* False: no memory, or too many callbacks. */
bool sg_logs_add(CUlogsCallback fn, void *data, uint64_t *ret_handle);
/* False: no such callback.  Otherwise no thread is in it any more, except perhaps the
 * caller.  Drops the lock while it waits. */
bool sg_logs_remove(uint64_t handle);

/* Lines ever written, which is the number of the next one. */
uint64_t sg_logs_end(void);
/* Whole lines from number @from on, as many as fit into *@size bytes with a zero behind
 * them; *@size is what they take then.  Returns the number of the next line. */
uint64_t sg_logs_copy(uint64_t from, char *buffer, size_t *size);

#endif
