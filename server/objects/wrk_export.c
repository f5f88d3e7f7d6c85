/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_export.h"

#include "gp_log.h"
#include "wrk.h"
#include "wrk_supervisor_channel.h"

#include <errno.h>
#include <string.h>

static struct wrk_request
share_ask(enum wrk_ask_kind kind, const struct wrk_export *share)
{
    struct wrk_request ask = {
        .kind = kind, .own = share->kind, .slice = share->slice, .bytes = share->bytes};

    memcpy(ask.secret, share->token, sizeof(share->token));
    return ask;
}

/* Ask with @fd, or without; the answer is in @ask. */
static int
share_talk(struct wrk_request *ask, int fd, int *ret_fd)
{
    uint32_t kind = ask->kind;
    int r = wrk_supervisor_ask(ask, fd, ret_fd);

    if (r == 0 && ask->kind != kind)
        r = -EPROTO;
    if (r < 0)
        gp_log_warn("worker", "nothing is shared, the supervisor does not answer: %s",
                    strerror(-r));
    return r;
}

int
wrk_export_offer(struct wrk *w, struct wrk_export *share, int fd)
{
    struct wrk_request ask = share_ask(WRK_REQUEST_SHARE, share);
    CLEANUP_FD int none = -1;
    int r = share_talk(&ask, fd, &none);

    (void)w;
    if (r < 0)
        return r;
    memcpy(share->token, ask.secret, sizeof(share->token));
    return ask.own ? 0 : -EDQUOT;
}

int
wrk_export_fetch(struct wrk *w, struct wrk_export *share, int *ret_fd)
{
    struct wrk_request ask = share_ask(WRK_REQUEST_SHARED, share);
    CLEANUP_FD int fd = -1;
    int r = share_talk(&ask, -1, &fd);

    if (r < 0)
        return r;
    if (fd < 0 || ask.slice >= w->priv->cards.n)
        return -ENOENT;
    share->slice = ask.slice;
    share->bytes = ask.bytes;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

void
wrk_export_drop(const struct wrk_export *share)
{
    struct wrk_request ask = share_ask(WRK_REQUEST_UNSHARE, share);

    wrk_request_send(WRK_FD_REQUEST, &ask, -1, 0);
}
