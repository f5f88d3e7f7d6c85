/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references: a module's names that the host binds to
 * memory before a launch.
 *
 * Owned by their module, or by the caller of cuTexRefCreate.  Lock held.
 */
#ifndef SG_TEXREF_H
#define SG_TEXREF_H

#include <stdint.h>

void sg_texref_drop(uint64_t handle); /* 0 is a no-op */

#endif
