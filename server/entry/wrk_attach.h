/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's answer to the AttachRequest: the snapshot of all that never
 * changes, or why there is none.
 */
#ifndef WRK_ATTACH_H
#define WRK_ATTACH_H

#include "wrk_conf.h"

struct gp_err;
struct wrk;
struct wrk_link;

/* Send the AttachReply on the client's socket, with what @link offers. */
int wrk_attach_reply(struct wrk *w, const struct wrk_link *link, int fd,
                     struct gp_err *err);

/* Send a refusal instead; @words are for the user. */
void wrk_attach_refuse(const struct wrk_conf *conf, const struct wrk_link *link, int fd,
                       const char *words);

#endif
