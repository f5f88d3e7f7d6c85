/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_adopt.h"

#include "gp_err.h"
#include "gp_hash.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_arbiter.h"
#include "srv_export.h"
#include "srv_images.h"
#include "srv_keeper.h"
#include "srv_session.h"
#include "srv_worker.h"

#include <errno.h>
#include <string.h>

struct adopt_item {
    struct srv_keep_msg msg;
    struct srv_keep_fds fds;
};

struct srv_adopt {
    struct adopt_item **items; /* oldest first */
    size_t n, room;
};

static int
item_add(struct srv_adopt *adopt, const struct srv_keep_msg *msg,
         const struct srv_keep_fds *fds)
{
    struct adopt_item *item;

    if (adopt->n == adopt->room) {
        size_t room = adopt->room * 2 + 64;
        void *more = realloc(adopt->items, room * sizeof(struct adopt_item *));

        if (!more)
            return -ENOMEM;
        adopt->items = more;
        adopt->room = room;
    }
    item = malloc(sizeof(*item));
    if (!item)
        return -ENOMEM;
    *item = (struct adopt_item){.msg = *msg, .fds = *fds};
    adopt->items[adopt->n++] = item;
    return 0;
}

int
srv_adopt_load(struct srv *srv, struct srv_adopt **ret, struct gp_err *err)
{
    CLEANUP(srv_adopt_freep) struct srv_adopt *adopt = calloc(1, sizeof(*adopt));
    struct srv_keep_msg msg = {0};
    struct srv_keep_fds fds;
    int r = adopt ? 0 : -ENOMEM;

    while (r == 0) {
        r = srv_keeper_next(srv->keeper, &msg, &fds);
        if (r < 0 || !msg.kind)
            break;
        r = item_add(adopt, &msg, &fds);
        if (r < 0)
            srv_keep_fds_close(&fds);
    }
    if (r < 0)
        return gp_err_set(err, r, "what the keeper has: %s", strerror(-r));
    *ret = adopt->n ? TAKE_PTR(adopt) : NULL;
    return 0;
}

void
srv_adopt_free(struct srv_adopt *adopt)
{
    if (!adopt)
        return;
    for (size_t i = 0; i < adopt->n; i++) {
        srv_keep_fds_close(&adopt->items[i]->fds);
        free(adopt->items[i]);
    }
    free(adopt->items);
    free(adopt);
}

const struct srv_keep_fds *
srv_adopt_find(const struct srv_adopt *adopt, enum srv_keep_kind kind)
{
    for (size_t i = 0; adopt && i < adopt->n; i++)
        if (adopt->items[i]->msg.kind == kind && adopt->items[i]->fds.n)
            return &adopt->items[i]->fds;
    return NULL;
}

uint64_t
srv_adopt_address(const char *address)
{
    static const struct gp_hash_key fixed = {{0, 0}};

    return gp_hash_bytes(&fixed, address, strlen(address));
}

/* Also when the address was given otherwise, as with port 0: nobody else could listen
 * there while the keeper has the socket. */
static bool
listens_at(const struct adopt_item *item, const char *address)
{
    char name[GP_NET_NAME_MAX];

    return item->msg.sub == srv_adopt_address(address) ||
           strcmp(gp_net_own_name(item->fds.fd[0], name, sizeof(name)), address) == 0;
}

int
srv_adopt_listener(struct srv_adopt *adopt, struct srv_keeper *keeper, uint64_t key,
                   const char *address)
{
    for (size_t i = 0; adopt && i < adopt->n; i++) {
        struct adopt_item *item = adopt->items[i];
        CLEANUP_FD int fd = -1;

        if (item->msg.kind != SRV_KEEP_LISTENER || item->msg.key != key ||
            item->fds.n != 1)
            continue;
        if (item->msg.sub != srv_adopt_address(address))
            srv_keeper_drop(keeper, item->msg.kind, item->msg.key, item->msg.sub);
        if (listens_at(item, address))
            return TAKE_FD(item->fds.fd[0]);
        fd = TAKE_FD(item->fds.fd[0]); /* this supervisor listens elsewhere */
    }
    return -1;
}

/* ---- taking ---- */

static void
take_exports(struct srv *srv, struct adopt_item *item)
{
    struct srv_session *s = srv_session_find(srv, item->msg.key);
    int r = s && item->fds.n == 1 ? 0 : -EPROTO;

    if (r == 0 && item->msg.kind == SRV_KEEP_EXPORTS)
        r = srv_export_adopt_table(s, item->fds.fd[0]);
    else if (r == 0)
        r = srv_export_adopt(s, item->msg.sub, item->fds.fd[0]);
    if (r == 0 && item->msg.kind == SRV_KEEP_EXPORT)
        item->fds.fd[0] = -1;
    if (r < 0)
        srv_keeper_drop(srv->keeper, item->msg.kind, item->msg.key, item->msg.sub);
}

static void
take_item(struct srv *srv, struct adopt_item *item)
{
    const struct srv_keep_msg *msg = &item->msg;
    struct gp_err err = {0};
    int r = 0;

    switch (msg->kind) {
    case SRV_KEEP_SESSION:
        r = srv_session_adopt(srv, msg->key, &item->fds, &err);
        break;
    case SRV_KEEP_WORKER:
        r = srv_worker_adopt(srv, msg, &item->fds, &err);
        break;
    case SRV_KEEP_EXPORTS:
    case SRV_KEEP_EXPORT:
        take_exports(srv, item);
        break;
    case SRV_KEEP_IMAGE:
        srv_images_adopt(srv->images, msg->key, &item->fds);
        break;
    default:
        break;
    }
    if (r < 0)
        gp_log_warn("server", "not taken over: %s", gp_err_msg(&err, r));
}

void
srv_adopt_take(struct srv *srv, struct srv_adopt *adopt)
{
    uint64_t begin = gp_now_ns();

    for (size_t i = 0; adopt && i < adopt->n; i++)
        take_item(srv, adopt->items[i]);
    srv_worker_adopted(srv);
    srv_arbiter_mend(srv->arbiter);
    if (adopt)
        gp_log_info("server", "took over %u %s and %u %s in %u us", srv->n_sessions,
                    gp_plural(srv->n_sessions, "session", "sessions"), srv->n_workers,
                    gp_plural(srv->n_workers, "worker", "workers"),
                    (unsigned)((gp_now_ns() - begin) / 1000));
}
