/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for new connections at a small HTTP server (libmicrohttpd): above a mark, the
 * oldest connection ends for each that comes, so that idle clients cannot keep a
 * scraper out until a timeout.
 *
 * Embedded in the object that owns the MHD daemon, zeroed but for @max, and given to it
 * as MHD_OPTION_NOTIFY_CONNECTION.  The thread that runs the daemon.
 */
#ifndef GP_HTTP_ROOM_H
#define GP_HTTP_ROOM_H

#include <microhttpd.h>
#include <stdbool.h>

#define GP_HTTP_ROOM_MAX 64
/* Of a listening socket: a burst of connections must not fill it between two looks. */
#define GP_HTTP_BACKLOG 1024

struct gp_http_room {
    unsigned max; /* at most GP_HTTP_ROOM_MAX */
    unsigned n;
    bool changed; /* connections came or went since gp_http_room_run() looked */
    struct MHD_Connection *oldest_first[GP_HTTP_ROOM_MAX];
};

/* The signature is libmicrohttpd's; @room is a struct gp_http_room. */
void gp_http_room_notify(void *room, struct MHD_Connection *connection, void **context,
                         enum MHD_ConnectionNotificationCode code);

/* MHD_run(), again for as long as connections come and go: a daemon that was at its
 * limit accepts again only in the turn after, and no event announces that. */
void gp_http_room_run(struct gp_http_room *room, struct MHD_Daemon *daemon);

#endif
