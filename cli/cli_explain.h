/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool explain: where a session would be placed now, and why not elsewhere; also for
 * `gpupool run --dry-run`.  Reserves nothing.  Blocks; one thread.
 */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

struct cli_output;
struct cli_want;

/* Ask and print the answer; @want is finished.  Returns the exit status. */
int cli_explain_want(struct cli_want *want, const struct cli_output *output);

/* Ask whether a request like @want, which is finished, can be made at all: 0, also when
 * nothing fits now, or the exit status, with words of @name. */
int cli_explain_check(struct cli_want *want, const char *name);

#endif
