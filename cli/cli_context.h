/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pools that a user knows by name.
 *
 *   $XDG_CONFIG_HOME/gpupool, else ~/.config/gpupool
 *
 *   contexts/NAME.conf   lines `scheduler = ...`, `token-file = ...`, ...
 *   current-context      the name of the one that is used where no other is named
 *
 * "local" is the pool of `gpupool up` and has no file.  Blocks; one thread.
 */
#ifndef CLI_CONTEXT_H
#define CLI_CONTEXT_H

#include "cli_options.h"
#include "gp_base.h"

#include <stdio.h>

struct gp_err;

#define CLI_CONTEXT_LOCAL "local"

/* Fill in what @where leaves open: from the context that it names, else from the
 * current one.  -EINVAL with words: a context that is not there or has errors, with
 * file and line; or a scheduler is named as well. */
int cli_context_resolve(struct cli_where *where, struct gp_err *err);

/* The current one; malloc'ed, CLI_CONTEXT_LOCAL where none was chosen. */
int cli_context_current(char **ret_name, struct gp_err *err);

/* Call @visit for the name of each, in their order. */
int cli_context_each(void (*visit)(const char *name, void *arg), void *arg,
                     struct gp_err *err);

#endif
