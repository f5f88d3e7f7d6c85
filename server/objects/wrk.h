/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers that the layers above the objects need: calls, transfers, accounting.
 * The objects themselves (wrk_call.c, wrk_ctx.c, wrk_object.c, wrk_evpool.c) include
 * what they need.
 */
#ifndef WRK_H
#define WRK_H

#include "wrk_call.h"
#include "wrk_priv.h"

#endif
