/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory that a driver opens by name: shm_open() and shm_unlink() of a worker.
 *
 * NVIDIA's driver keeps events that processes share (CU_EVENT_INTERPROCESS) in memory
 * that each of them opens with shm_open().  A confined worker makes no file, and in
 * /dev/shm everybody would see its name and could fill the room that all have.  So the
 * driver finds the functions of this program before the C library's: the memory has no
 * name in any file system, and the supervisor keeps its descriptor for the session's
 * other workers, under the hash of the name (wrk_export.h).
 *
 * A name is there until the worker that made it unlinks it or ends.
 */
#ifndef WRK_SHM_H
#define WRK_SHM_H

struct wrk;

/* The calling thread, which is the receive thread, may open memory from here on; on
 * others, and before, shm_open() fails with EACCES. */
void wrk_shm_start(struct wrk *w);

#endif
