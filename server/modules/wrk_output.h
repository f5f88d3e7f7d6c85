/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of kernels (printf on the device), from the driver to the client's stdout
 * and stderr.
 *
 * Drivers print when the host synchronizes, on the thread that does; the text is sent
 * as an unsolicited message before that thread's reply.  softgpu passes it to a hook.
 * Other drivers print to the C library's stdout and stderr, which are redirected here;
 * what a driver writes directly to the descriptor of stdout passes through a pipe and
 * may arrive a little after the reply.  The worker itself prints nothing: its log goes
 * to descriptor 2.
 */
#ifndef WRK_OUTPUT_H
#define WRK_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* After the driver is open, before the first frame.  A worker that cannot do it goes on
 * without: what kernels print is lost, and the log says so. */
void wrk_output_start(struct wrk *w);

/* A message of the worker on the client's stderr, about something that only its user
 * can mend; at most a few hundred characters.  Any thread. */
void wrk_output_say(struct wrk *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether the driver looks for what is wrong in kernels (SOFTGPU_CHECK). */
bool wrk_output_is_checked(void);
/* The last words about it for the client's stderr, and how many errors and allocations
 * they count.  The client's program ends. */
void wrk_output_check_end(struct wrk *w, uint64_t counts[2]);

#endif
