/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a daemon's unit: would the daemon start with it?
 *
 * The daemon itself is asked, so that what is said is what it would say.  Plain values,
 * one thread.
 */
#ifndef CLI_BUNDLE_ENV_H
#define CLI_BUNDLE_ENV_H

#include "gp_base.h"

struct gp_err;

/* Look at one line NAME=VALUE of the environment of @program, "gpupool-server", whose
 * files are in @folder, wherever the line says that they are.  -EINVAL: the words are
 * the daemon's; -ENOENT: the program is not installed here. */
int cli_bundle_env_line(const char *program, const char *folder, const char *line,
                        struct gp_err *err);

#endif
