/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels print: from the driver to the client's own stdout and stderr.
 *
 * softgpu hands the text to a hook when the host synchronises, on the thread that
 * does; it leaves as an event, in front of that thread's answer.  Other drivers print
 * to the worker's stdout, which is /dev/null.
 */
#ifndef WRK_OUTPUT_H
#define WRK_OUTPUT_H

#include <stdbool.h>

struct wrk;

/* After the driver is open, before the first frame.  False: it has no hook. */
bool wrk_output_start(struct wrk *w);

#endif
