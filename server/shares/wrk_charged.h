/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What occupies a card beside kernels: copies between two places on it, and fills.
 *
 * They are launches to the governor (they wait for the turn, and their time is
 * charged), so their entries of the driver's table are replaced by some that ask it.
 * Also notices that a client captures: what is put into a capturing stream does not
 * run, and the governor leaves it alone from then on.
 *
 * Reader thread, as launches.
 */
#ifndef WRK_CHARGED_H
#define WRK_CHARGED_H

#include "cuda_abi.h"

#include <stdint.h>

struct drv;
struct wrk;
struct wrk_charge;

/* Replace them in @drv, which is @w's, once, before the first frame and before the
 * calls without a stream are (wrk_async.h). */
void wrk_charged_prefer(struct wrk *w, struct drv *drv);

/* Around a copy of @bytes on the card that is in no table. */
void wrk_charged_begin(struct wrk *w, struct wrk_charge *c, CUstream stream,
                       uint64_t bytes);

#endif
