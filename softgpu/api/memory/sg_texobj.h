/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects: memory and the way to read it, described once
 * for the executor (sg_tex.h).  Owned by their context.  Lock held.
 */
#ifndef SG_TEXOBJ_H
#define SG_TEXOBJ_H

struct sg_ctx;

/* Nothing of the context runs any more. */
void sg_texobj_detach_ctx(struct sg_ctx *ctx);

#endif
