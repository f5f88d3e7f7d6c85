/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported objects: driver objects that processes of one session share by descriptor.
 *
 * The supervisor keeps the descriptor (srv_export.h); the client's processes pass a
 * token.  Offering and fetching send a request to the supervisor and wait for its
 * reply: receive thread only.  Dropping does not wait: any thread.
 */
#ifndef WRK_EXPORT_H
#define WRK_EXPORT_H

#include "gp_base.h"
#include "wrk_request.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

struct wrk_export {
    uint64_t token[WRK_SHARE_TOKEN / 8];
    uint32_t kind; /* enum wrk_share_kind */
    uint32_t slice;
    uint64_t bytes;
};

/* Have @share, whose token is written, known in the session; @fd stays the caller's.
 * We hold it then.  -EDQUOT: no more of them.  Else -errno: the supervisor is silent.
 */
int wrk_export_offer(struct wrk *w, struct wrk_export *share, int fd);

/* What has the token and kind in @share, the rest of which is written; *ret_fd is the
 * caller's.  We hold it once more then.  -ENOENT: the session has none. */
int wrk_export_fetch(struct wrk *w, struct wrk_export *share, int *ret_fd);

/* Give back one hold of @share; the supervisor is told and not waited for. */
void wrk_export_drop(const struct wrk_export *share);

static inline bool
wrk_export_same(const struct wrk_export *a, const struct wrk_export *b)
{
    return a->token[0] == b->token[0] && a->token[1] == b->token[1];
}

#endif
