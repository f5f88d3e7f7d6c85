/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards as users name them: by uuid, by the beginning of one as CUDA takes it
 * ("GPU-5ad3"), or by number and server ("0@local-1").  Blocks; one thread.
 */
#ifndef CLI_CARD_H
#define CLI_CARD_H

#include "gp_base.h"
#include "ticket.h"

struct gp_err;

/* Has @name one of these forms? */
bool cli_card_is_name(const char *name);

/* The uuid of the card; a scheduler is asked unless @name is a whole uuid.  -EINVAL:
 * none is meant, or several; the words say which there are. */
int cli_card_find(const char *name, const char *scheduler, const char *token,
                  uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err);

#endif
