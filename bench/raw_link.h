/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw transport that ratios are taken against: two processes and either one TCP
 * connection over loopback with blocking reads and writes, or two rings in shared
 * memory; nothing else.
 *
 * The other end is a child process that inherits the pinning.  One thread.  It
 * checks no data; it is the limit, not a peer.
 */
#ifndef RAW_LINK_H
#define RAW_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct raw_ring;

struct raw_link {
    int fd;               /* TCP, or -1 */
    struct raw_ring *out; /* shared memory, or NULL */
    struct raw_ring *in;
    pid_t peer;
};

#define RAW_MESSAGE 64u /* bytes of a ping and of a pong */

/* @peer_core: where the other end runs; -1 leaves it where this process is. */
void raw_link_open_tcp(struct raw_link *link, size_t bulk_max, int peer_core);
void raw_link_open_shm(struct raw_link *link, size_t bulk_max, int peer_core);
void raw_link_close(struct raw_link *link);

/* One round trip of RAW_MESSAGE bytes each way. */
void raw_link_ping(struct raw_link *link);

/* @size bytes there and one acknowledgement back; a request there and @size bytes
 * back.  @size is at most the bulk_max of the opening call. */
void raw_link_up(struct raw_link *link, const void *data, size_t size);
void raw_link_down(struct raw_link *link, void *data, size_t size);

#endif
