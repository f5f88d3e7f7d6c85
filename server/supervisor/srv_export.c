/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_export.h"

#include "srv.h"
#include "srv_ledger.h"
#include "srv_types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

struct srv_export {
    struct srv_export *next;
    uint8_t token[WRK_SHARE_TOKEN];
    int fd;
    uint32_t kind; /* enum wrk_share_kind */
    uint32_t slice;
    uint64_t bytes;
    uint32_t payer; /* a slot */
    bool moved;     /* the payer is not the exporter: we count on its slot */
    uint32_t total; /* of holds */
    uint16_t holds[WRK_SLOTS_MAX];
};

/* A server with many sessions keeps most of its descriptors for other things. */
static bool
descriptor_to_spare(const struct srv *srv)
{
    struct rlimit files;

    return getrlimit(RLIMIT_NOFILE, &files) == 0 && srv->n_shares < files.rlim_cur / 4;
}

int
srv_export_new(struct srv_session *s, uint32_t slot, struct wrk_request *ask, int fd)
{
    CLEANUP_FD int own = fd;
    struct srv_export *share;

    if (s->n_shares >= SRV_SHARES_MAX || !descriptor_to_spare(s->srv))
        return -EDQUOT;
    if (ask->slice >= s->claims.n_slices ||
        ask->bytes > s->claims.slices[ask->slice].memory)
        return -EINVAL;
    share = calloc(1, sizeof(*share));
    if (!share)
        return -ENOMEM;
    if (getrandom(share->token, sizeof(share->token), 0) != sizeof(share->token)) {
        free(share);
        return -EIO;
    }
    share->kind = ask->own;
    share->slice = ask->slice;
    share->bytes = ask->bytes;
    share->payer = slot;
    share->holds[slot] = 1;
    share->total = 1;
    share->fd = TAKE_FD(own);
    share->next = s->shares;
    s->shares = share;
    s->n_shares++;
    s->srv->n_shares++;
    memcpy(ask->secret, share->token, sizeof(share->token));
    return 0;
}

static struct srv_export **
share_at(struct srv_session *s, const struct wrk_request *ask)
{
    struct srv_export **at = &s->shares;

    while (*at && memcmp((*at)->token, ask->secret, WRK_SHARE_TOKEN) != 0)
        at = &(*at)->next;
    return at;
}

int
srv_export_find(struct srv_session *s, uint32_t slot, struct wrk_request *ask)
{
    struct srv_export *share = *share_at(s, ask);

    if (!share || share->kind != ask->own || share->holds[slot] == UINT16_MAX)
        return -1;
    share->holds[slot]++;
    share->total++;
    ask->slice = share->slice;
    ask->bytes = share->bytes;
    return share->fd;
}

static void
share_remove(struct srv_session *s, struct srv_export **at)
{
    struct srv_export *share = *at;

    *at = share->next;
    s->n_shares--;
    s->srv->n_shares--;
    close(share->fd);
    free(share);
}

/* The holder that was charged has dropped the object: the next holder is charged.  The
 * exporter has given back what it counted, or its slot has been cleared. */
static void
share_move(struct srv_session *s, struct srv_export *share)
{
    uint32_t slot = 0;

    while (!share->holds[slot])
        slot++;
    share->payer = slot;
    share->moved = true;
    srv_ledger_move(s->ledger, slot, share->slice, share->bytes);
}

/* @slot no longer holds it; @cleared: nothing is counted there any more.  True when
 * that was the last holder. */
static bool
share_let_go(struct srv_session *s, struct srv_export **at, uint32_t slot, bool cleared)
{
    struct srv_export *share = *at;
    bool paid = share->payer == slot && share->bytes;

    if (paid && share->moved && !cleared)
        srv_ledger_unmove(s->ledger, slot, share->slice, share->bytes);
    if (share->total == 0) {
        share_remove(s, at);
        return true;
    }
    if (paid)
        share_move(s, share);
    return false;
}

void
srv_export_drop(struct srv_session *s, uint32_t slot, const struct wrk_request *ask)
{
    struct srv_export **at = share_at(s, ask);

    if (!*at || !(*at)->holds[slot])
        return;
    (*at)->total--;
    if (--(*at)->holds[slot] == 0)
        share_let_go(s, at, slot, false);
}

void
srv_export_leave(struct srv_session *s, uint32_t slot)
{
    for (struct srv_export **at = &s->shares; *at;) {
        struct srv_export *share = *at;
        bool held = share->holds[slot] != 0;

        share->total -= share->holds[slot];
        share->holds[slot] = 0;
        if (!held || !share_let_go(s, at, slot, true))
            at = &share->next;
    }
}

void
srv_export_free_all(struct srv_session *s)
{
    while (s->shares)
        share_remove(s, &s->shares);
}
