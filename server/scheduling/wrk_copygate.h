/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting of copies between the client and a GPU, which also delays them while the
 * session is ahead of others that copy too (gov_copy.h).  One call per chunk.  Any
 * thread.
 */
#ifndef WRK_COPYGATE_H
#define WRK_COPYGATE_H

#include <stdint.h>

struct wrk;

/* Count @bytes to the card of slice @slice; the time until which to wait before
 * they are moved, 0: now. */
uint64_t wrk_copygate_take(struct wrk *w, uint32_t slice, uint64_t bytes);

/* Wait until then, or until the others have had their part, or the worker stops. */
void wrk_copygate_wait(struct wrk *w, uint32_t slice, uint64_t until_ns);

#endif
