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

#include "gp_base.h"

struct sg_alloc;

/* The exporter frees the memory. */
void sg_ipc_unexport(struct sg_alloc *alloc);

#endif
