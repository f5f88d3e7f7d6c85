/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What JAX needs besides libcuda.so.1: a file in /dev, which it looks for before it
 * looks for cards.  A slice has no device file, and no variable makes JAX do without
 * one, so all that can be done is to say so.
 */
#ifndef CLI_JAX_H
#define CLI_JAX_H

#include <stdbool.h>

#define CLI_JAX_REMEDY "as root, touch /dev/nvidiactl"

/* Whether /dev has one of the files that JAX looks for. */
bool cli_jax_file_there(void);

/* One line on stderr when @program is started by a Python whose packages have JAX with
 * CUDA, /dev has none of the files, and JAX_PLATFORMS does not keep JAX from cards.
 * Looks at names of files only. */
void cli_jax_hint(const char *program);

#endif
