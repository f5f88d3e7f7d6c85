/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only place that maps failures of our own to a CUresult.
 *
 * Results of the driver are returned verbatim and never come here.  No state.
 */
#ifndef STUB_RESULT_H
#define STUB_RESULT_H

#include "cuda_abi.h"

/* Why no attachment came about (-errno of connect, handshake or configuration): what
 * cuInit returns. */
CUresult stub_result_attach(int err);

/* The server's refusal (enum AttachStatus): what cuInit returns. */
CUresult stub_result_refused(int status);

/* What every call returns once the link is dead. */
CUresult stub_result_lost(void);

/* The server has sent the reason before it ends the attachment.  Any thread. */
void stub_result_lost_as(CUresult result);

/* A failing system call behind a local call (-errno). */
CUresult stub_result_errno(int err);

#endif
