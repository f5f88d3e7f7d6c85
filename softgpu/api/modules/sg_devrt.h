/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What linked PTX expects of the device runtime library: synchronising a grid.
 *
 * On a card these come with the toolkit's library as machine code; here they are PTX of
 * our own, weak, so that anyone's definition wins.  Constant text; any thread.  It does
 * not launch kernels from kernels.
 */
#ifndef SG_DEVRT_H
#define SG_DEVRT_H

#include <stddef.h>

/* PTX to be linked with @inputs; NULL: they name nothing of it. */
const char *sg_devrt_text(char *const *inputs, const size_t *lens, size_t n);

#endif
