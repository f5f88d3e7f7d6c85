/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scheduler answers, as the command line reads it.  Plain values, any thread.
 */
#ifndef CLI_REPLY_H
#define CLI_REPLY_H

#include "control.pb-c.h"
#include "gp_base.h"

#include <stddef.h>

/* The reply in @data, or NULL: it is none, or there is no memory; the caller frees it.
 *
 * Texts have no control characters: names and words come from other users and, through
 * a pool of pools, from other people's schedulers, and may not move the terminal's
 * cursor or worse. */
Gpupool__Ctl__CtlReply *cli_reply_unpack(const void *data, size_t len);
void cli_reply_free(Gpupool__Ctl__CtlReply *reply); /* NULL is a no-op */
DEFINE_CLEANUP(Gpupool__Ctl__CtlReply, cli_reply_free)

#endif
