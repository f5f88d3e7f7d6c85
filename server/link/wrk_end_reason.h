/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message that says why the attachment ends, for the program's stderr.
 *
 * Sent once, by the first thread that has a reason; a client that reads receives it
 * before the connection ends.  Any thread that does not hold the send lock.  Not for
 * attachments that end because the client is gone.
 */
#ifndef WRK_END_REASON_H
#define WRK_END_REASON_H

#include "cuda_abi.h"

struct wrk;

/* Returns when the message has had time to be sent; the caller then ends the
 * attachment. */
void wrk_end_reason_send(struct wrk *w, CUresult result, const char *words);

#endif
