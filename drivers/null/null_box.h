/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills of boxes, which calls and the nodes of graphs have in common. */
#ifndef NULL_BOX_H
#define NULL_BOX_H

#include "cuda_api.h"

CUresult null_box_copy(const CUDA_MEMCPY3D *box);
CUresult null_box_fill(const CUDA_MEMSET_NODE_PARAMS_v2 *fill);

#endif
