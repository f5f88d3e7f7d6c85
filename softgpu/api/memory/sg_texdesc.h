/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a texture or surface reads: shared by objects and references.
 *
 * Lock held for all functions.  Nothing is registered here.
 */
#ifndef SG_TEXDESC_H
#define SG_TEXDESC_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>

struct sg_tex;

/* @tex NULL: a surface.  @view may be NULL. */
CUresult sg_texdesc_make(const CUDA_RESOURCE_DESC *res, const CUDA_TEXTURE_DESC *tex,
                         const CUDA_RESOURCE_VIEW_DESC *view, struct sg_tex *ret_tex);
#endif
