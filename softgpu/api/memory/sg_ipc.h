/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory shared between processes on one card.
 *
 * An exported allocation moves into a file beside the card's own, under a name
 * made of the exporter's slot and a number; the handle carries both.  Whoever
 * may open the card may open it.  The exporter removes the file when it frees
 * the memory; when it dies, whoever takes its slot back does.  Mappings of
 * others stay valid until they close them.  Lock held for all functions.
 */
#ifndef SG_IPC_H
#define SG_IPC_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>

struct sg_alloc;
struct sg_ctx;

/* A handle that another process can open: CUipcMemHandle, and what memory pools hand
 * over.  @pool: memory of an exportable pool, else of a context.  May drop the lock. */
CUresult sg_ipc_export(CUdeviceptr dptr, bool pool, void *ret_handle);
CUresult sg_ipc_open(struct sg_ctx *ctx, const void *handle, CUdeviceptr *ret_dptr);

#endif
