/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to every server of the session, by the first call that needs one.
 *
 * It happens once, under its own lock; threads that call meanwhile wait for the
 * outcome.  The links (stub_link.h) stay until the process ends.  Any thread.
 */
#ifndef STUB_OPEN_H
#define STUB_OPEN_H

#include "cuda_abi.h"

/* Attach to every server if nobody has yet.  On failure one line on stderr, once per
 * process. */
CUresult stub_open(void);

/* After cuInit: calls may be made. */
void stub_open_ready(void);

#endif
