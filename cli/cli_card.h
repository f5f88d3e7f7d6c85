/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards as users name them: by uuid, by the beginning of one as CUDA takes it
 * ("GPU-5ad3"), or by number and server ("0@local-1", "local-1/0"); after a server's
 * name also by uuid ("local-1/GPU-5ad3").  Blocks; one thread.
 */
#ifndef CLI_CARD_H
#define CLI_CARD_H

#include "ctl_limits.h"
#include "gp_base.h"
#include "ticket.h"

struct cli_list;
struct gp_err;

#define CLI_CARD_FORMS                                                                 \
    "a uuid like GPU-01234567-..., its beginning, NUMBER@SERVER or SERVER/NUMBER"

struct cli_card_name {
    char server[CTL_NAME_MAX]; /* "": any */
    const char *uuid;          /* or its beginning; NULL: named by number */
    uint64_t number;
};

/* Has @name one of these forms?  *@ret points into @name. */
bool cli_card_parse(const char *name, struct cli_card_name *ret);

/* The uuid of the card; a scheduler is asked unless @name is a whole uuid.  -EINVAL:
 * none is meant, or several; the words say which there are. */
int cli_card_find(const char *name, const char *scheduler, const char *token,
                  uint8_t ret_uuid[TICKET_UUID_SIZE], struct gp_err *err);

/* The same over @list, which is open, with the server that has the card. */
int cli_card_find_over(struct cli_list *list, const struct cli_card_name *name,
                       uint8_t ret_uuid[TICKET_UUID_SIZE],
                       char ret_server[CTL_NAME_MAX], struct gp_err *err);

#endif
