/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor sends the worker: answers, and between them, at any time, further
 * connections of the client, which are kept until the client says how many there are.
 * Reader only.
 */
#ifndef WRK_LANES_H
#define WRK_LANES_H

struct wrk_ask;

/* The next answer; *ret_fd is -1 or the caller's.  0 or -errno: the supervisor does not
 * answer, and is not to be asked again. */
int wrk_lanes_answer(struct wrk_ask *ret, int *ret_fd);

/* Take what has come without being asked for. */
void wrk_lanes_collect(void);

#endif
