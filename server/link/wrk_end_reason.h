/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's last word: why the attachment ends, for the program's stderr.
 *
 * Said once, by whoever is first; a client that reads has it before the connection
 * ends. Any thread that does not hold the sender's lock; not a place where an
 * attachment ends because the client is gone.
 */
#ifndef WRK_END_REASON_H
#define WRK_END_REASON_H

#include "cuda_abi.h"

struct wrk;

/* Returns after the time that the words have to leave; the caller ends the attachment.
 */
void wrk_end_reason_send(struct wrk *w, CUresult result, const char *words);

#endif
