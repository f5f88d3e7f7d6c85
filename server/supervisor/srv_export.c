/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_export.h"

#include "gp_err.h"
#include "srv.h"
#include "srv_disposal.h"
#include "srv_keeper.h"
#include "srv_kept.h"
#include "srv_ledger.h"
#include "srv_types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

/* What outlives the supervisor of one object; its descriptor is with the keeper. */
struct export_kept {
    uint32_t used; /* 1: it is */
    uint32_t kind; /* enum wrk_share_kind */
    uint32_t slice;
    uint32_t payer; /* a slot */
    uint32_t moved; /* the payer is not the exporter: we count on its slot */
    uint32_t total; /* of holds */
    uint64_t bytes;
    uint8_t token[WRK_SHARE_TOKEN];
    uint16_t holds[WRK_SLOTS_MAX];
};

struct srv_exports_kept {
    struct srv_kept_head head;
    struct export_kept of[SRV_SHARES_MAX];
};
SRV_KEPT_SIZE(struct srv_exports_kept, 2293776);

struct srv_export {
    struct srv_export *next;
    struct export_kept *kept;
    int fd;
};

static uint64_t
shares_of_owner(const struct srv_session *s)
{
    uint64_t n = 0;

    for (const struct srv_session *other = s->srv->sessions; other; other = other->next)
        if (strcmp(other->claims.owner, s->claims.owner) == 0)
            n += other->n_shares;
    return n;
}

/* Room for one more. */
static int
quota_check(const struct srv_session *s, struct gp_err *err)
{
    struct rlimit files;
    const char *whose = NULL;

    if (s->n_shares >= SRV_SHARES_MAX)
        return gp_err_set(err, -EDQUOT, "its session shares %u objects, the limit",
                          s->n_shares);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return gp_err_set(err, -errno, "limit of open files: %s", strerror(errno));
    if (s->n_shares >= files.rlim_cur / SRV_SHARES_SESSION)
        whose = "its session";
    else if (shares_of_owner(s) >= files.rlim_cur / SRV_SHARES_OWNER)
        whose = "its owner";
    else if (s->srv->n_shares >= files.rlim_cur / SRV_SHARES_FILES)
        whose = "all sessions";
    if (!whose)
        return 0;
    return gp_err_set(err, -EDQUOT,
                      "the objects that %s may share are as many as the server's limit "
                      "of open files (%llu) allows: raise it (LimitNOFILE=, ulimit -n)",
                      whose, (unsigned long long)files.rlim_cur);
}

/* The session's table, made with its first object. */
static int
table_get(struct srv_session *s)
{
    CLEANUP_FD int fd = -1;
    void *map = NULL;
    int r;

    if (s->exports)
        return 0;
    r = srv_kept_new(SRV_KEPT_EXPORTS, sizeof(*s->exports), &fd, &map, NULL);
    if (r < 0)
        return r;
    s->exports = map;
    srv_keeper_put(s->srv->keeper, SRV_KEEP_EXPORTS, s->claims.session_id, 0, &fd, 1);
    return 0;
}

static uint64_t
entry_number(const struct srv_session *s, const struct export_kept *kept)
{
    return (uint64_t)(kept - s->exports->of);
}

static void
share_enter(struct srv_session *s, struct srv_export *share, struct export_kept *kept,
            int fd)
{
    share->kept = kept;
    share->fd = fd;
    share->next = s->shares;
    s->shares = share;
    s->n_shares++;
    s->srv->n_shares++;
}

static struct srv_export **
share_at(struct srv_session *s, const struct wrk_request *ask)
{
    struct srv_export **at = &s->shares;

    while (*at && memcmp((*at)->kept->token, ask->secret, WRK_SHARE_TOKEN) != 0)
        at = &(*at)->next;
    return at;
}

int
srv_export_new(struct srv_session *s, uint32_t slot, struct wrk_request *ask, int fd,
               struct gp_err *err)
{
    CLEANUP_FD int own = fd;
    struct export_kept *kept;
    struct srv_export *share;
    int r = quota_check(s, err);

    if (r < 0)
        return r;
    if (ask->slice >= s->claims.n_slices ||
        ask->bytes > s->claims.slices[ask->slice].memory)
        return -EINVAL;
    if (ask->own == WRK_SHARE_FILE && *share_at(s, ask))
        return -EEXIST;
    r = table_get(s);
    if (r < 0)
        return r;
    for (kept = s->exports->of; kept->used;) /* fewer than SRV_SHARES_MAX are */
        kept++;
    *kept = (struct export_kept){.kind = ask->own,
                                 .slice = ask->slice,
                                 .bytes = ask->bytes,
                                 .payer = slot,
                                 .total = 1};
    kept->holds[slot] = 1;
    if (ask->own == WRK_SHARE_FILE)
        memcpy(kept->token, ask->secret, sizeof(kept->token));
    else if (getrandom(kept->token, sizeof(kept->token), 0) != sizeof(kept->token))
        return -EIO;
    share = calloc(1, sizeof(*share));
    if (!share)
        return -ENOMEM;
    kept->used = 1;
    share_enter(s, share, kept, TAKE_FD(own));
    srv_keeper_put(s->srv->keeper, SRV_KEEP_EXPORT, s->claims.session_id,
                   entry_number(s, kept), &share->fd, 1);
    memcpy(ask->secret, kept->token, sizeof(kept->token));
    return 0;
}

int
srv_export_find(struct srv_session *s, uint32_t slot, struct wrk_request *ask)
{
    struct srv_export *share = *share_at(s, ask);

    if (!share || share->kept->kind != ask->own ||
        share->kept->holds[slot] == UINT16_MAX)
        return -1;
    share->kept->holds[slot]++;
    share->kept->total++;
    ask->slice = share->kept->slice;
    ask->bytes = share->kept->bytes;
    return share->fd;
}

static void
share_remove(struct srv_session *s, struct srv_export **at)
{
    struct srv_export *share = *at;

    *at = share->next;
    s->n_shares--;
    s->srv->n_shares--;
    if (!s->srv->leaving) {
        share->kept->used = 0;
        srv_keeper_drop(s->srv->keeper, SRV_KEEP_EXPORT, s->claims.session_id,
                        entry_number(s, share->kept));
    }
    srv_disposal_fd(s->srv->disposal, share->fd); /* may free all of its memory */
    free(share);
}

/* The holder that was charged has dropped the object: the next holder is charged.  The
 * exporter has given back what it counted, or its slot has been cleared. */
static void
share_move(struct srv_session *s, struct srv_export *share)
{
    uint32_t slot = 0;

    while (!share->kept->holds[slot])
        slot++;
    share->kept->payer = slot;
    share->kept->moved = true;
    srv_ledger_move(s->ledger, slot, share->kept->slice, share->kept->bytes);
}

/* @slot no longer holds it; @cleared: nothing is counted there any more.  True when
 * that was the last holder. */
static bool
share_let_go(struct srv_session *s, struct srv_export **at, uint32_t slot, bool cleared)
{
    struct srv_export *share = *at;
    bool paid = share->kept->payer == slot && share->kept->bytes;

    if (paid && share->kept->moved && !cleared)
        srv_ledger_unmove(s->ledger, slot, share->kept->slice, share->kept->bytes);
    if (share->kept->total == 0) {
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

    if (!*at || !(*at)->kept->holds[slot])
        return;
    (*at)->kept->total--;
    if (--(*at)->kept->holds[slot] == 0)
        share_let_go(s, at, slot, false);
}

void
srv_export_leave(struct srv_session *s, uint32_t slot)
{
    for (struct srv_export **at = &s->shares; *at;) {
        struct srv_export *share = *at;
        bool held = share->kept->holds[slot] != 0;

        share->kept->total -= share->kept->holds[slot];
        share->kept->holds[slot] = 0;
        if (!held || !share_let_go(s, at, slot, true))
            at = &share->next;
    }
}

void
srv_export_free_all(struct srv_session *s)
{
    while (s->shares)
        share_remove(s, &s->shares);
    if (s->exports && !s->srv->leaving)
        srv_keeper_drop(s->srv->keeper, SRV_KEEP_EXPORTS, s->claims.session_id, 0);
    srv_kept_unmap(s->exports, sizeof(*s->exports));
    s->exports = NULL;
}

int
srv_export_adopt_table(struct srv_session *s, int fd)
{
    void *map = NULL;
    int r = s->exports ? -EPROTO
                       : srv_kept_map(fd, SRV_KEPT_EXPORTS, sizeof(*s->exports), &map);

    if (r == 0)
        s->exports = map;
    return r;
}

/* The sum may be of before the last hold. */
static bool
entry_mend(const struct srv_session *s, struct export_kept *kept)
{
    kept->total = 0;
    for (uint32_t i = 0; i < WRK_SLOTS_MAX; i++)
        kept->total += kept->holds[i];
    return kept->used && kept->total && kept->slice < s->claims.n_slices &&
           kept->payer < WRK_SLOTS_MAX;
}

int
srv_export_adopt(struct srv_session *s, uint64_t number, int fd)
{
    struct srv_export *share;

    if (!s->exports || number >= SRV_SHARES_MAX ||
        !entry_mend(s, &s->exports->of[number]))
        return -EPROTO;
    share = calloc(1, sizeof(*share));
    if (!share)
        return -ENOMEM;
    share_enter(s, share, &s->exports->of[number], fd);
    return 0;
}

void
srv_export_mend(struct srv_session *s, const bool here[WRK_SLOTS_MAX])
{
    for (uint32_t slot = 0; slot < WRK_SLOTS_MAX; slot++)
        if (!here[slot])
            srv_export_leave(s, slot);
    /* Objects whose descriptor had not reached the keeper. */
    for (uint32_t i = 0; s->exports && i < SRV_SHARES_MAX; i++) {
        const struct srv_export *share = s->shares;

        while (share && share->kept != &s->exports->of[i])
            share = share->next;
        if (!share)
            s->exports->of[i].used = 0;
    }
}
