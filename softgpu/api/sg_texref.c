/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references.
 */
#include "sg_texref.h"

#include "sg_handle.h"

void
sg_texref_drop(uint64_t handle)
{
    sg_handle_drop(handle);
}
