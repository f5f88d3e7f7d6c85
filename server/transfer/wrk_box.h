/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy descriptions (CUDA_MEMCPY2D and its kin) as a client sent them: which fields may
 * reach the driver.
 *
 * A description names each side three times, as a host pointer, a device address and an
 * array, and its memory type says which one counts.  The driver runs in this process,
 * so a host pointer from the client would address the worker's memory.  Functions
 * without state; the descriptions are the caller's.
 */
#ifndef WRK_BOX_H
#define WRK_BOX_H

#include "cuda_abi.h"

/* Clear in @box every name of a side that its memory type does not use, and both host
 * pointers.  (The peer form has the same layout, and its contexts are left alone.) */
void wrk_box_clear(CUDA_MEMCPY3D *box);
void wrk_box_clear_peer(CUDA_MEMCPY3D_PEER *box);

/* For copies within the card: cleared, and unified addresses become device addresses,
 * because the client has told its own host memory apart already.
 * CUDA_ERROR_INVALID_VALUE: a side is host memory. */
CUresult wrk_box_on_card(CUDA_MEMCPY3D *box);

#endif
