/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: counted data of the application that graphs keep alive.
 *
 * The destructor is the application's; it runs on a thread of the library,
 * without any lock.  Lock held for all functions.
 */
#ifndef SG_USEROBJ_H
#define SG_USEROBJ_H

#include "cuda_abi.h"
#include "gp_base.h"

struct sg_graph;

/* A clone holds what the original holds. */
CUresult sg_userobj_share(const struct sg_graph *from, struct sg_graph *to);
void sg_userobj_release_all(struct sg_graph *graph);

#endif
