/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker for what stands above its core: calls, transfers, accounting.  The core
 * itself (wrk_call.c, wrk_ctx.c, wrk_object.c, wrk_evpool.c) includes what it needs.
 */
#ifndef WRK_H
#define WRK_H

#include "wrk_call.h"
#include "wrk_priv.h"

#endif
