/* SPDX-License-Identifier: Apache-2.0 */
/* What copies of every shape share (stub_copy.c, stub_copy_rect.c).  No state. */
#ifndef STUB_COPY_H
#define STUB_COPY_H

#include <stdbool.h>
#include <stdint.h>

/* Is all of [addr, addr + n) inside one device allocation of ours? */
bool stub_copy_inside(uint64_t addr, uint64_t n);

#endif
