/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels print: from the driver to the client's own stdout and stderr.
 *
 * Drivers print when the host synchronises, on the thread that does; the text leaves as
 * an event, in front of that thread's answer.  softgpu hands it to a hook.  Other
 * drivers print to the stdout and stderr of the C library, which lead here; what one
 * writes past them, to the descriptor of stdout, comes by way of a pipe and may arrive
 * a little after the answer.  The worker itself prints nothing: its log goes to
 * descriptor 2.
 */
#ifndef WRK_OUTPUT_H
#define WRK_OUTPUT_H

struct wrk;

/* After the driver is open, before the first frame.  A worker that cannot do it goes on
 * without: what kernels print is lost, and the log says so. */
void wrk_output_start(struct wrk *w);

/* A word of ours on the client's stderr, for what its user alone can mend; at most a
 * few hundred characters.  Any thread. */
void wrk_output_say(struct wrk *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
