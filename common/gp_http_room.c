/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_http_room.h"

#include <string.h>
#include <sys/socket.h>

static void
forget(struct gp_http_room *room, unsigned at)
{
    room->n--;
    memmove(&room->oldest_first[at], &room->oldest_first[at + 1],
            (room->n - at) * sizeof(room->oldest_first[0]));
}

/* Its socket reports the end, and the daemon then closes it. */
static void
end_oldest(struct gp_http_room *room)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        room->oldest_first[0], MHD_CONNECTION_INFO_CONNECTION_FD);

    if (info)
        shutdown(info->connect_fd, SHUT_RDWR);
    forget(room, 0);
}

void
gp_http_room_notify(void *arg, struct MHD_Connection *connection, void **context,
                    enum MHD_ConnectionNotificationCode code)
{
    struct gp_http_room *room = arg;

    room->changed = true;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (room->n >= room->max)
            end_oldest(room);
        room->oldest_first[room->n++] = connection;
        return;
    }
    for (unsigned i = 0; i < room->n; i++)
        if (room->oldest_first[i] == connection) {
            forget(room, i);
            return;
        }
}

void
gp_http_room_run(struct gp_http_room *room, struct MHD_Daemon *daemon)
{
    /* Bounded, so that a flood of connections does not hold the loop. */
    for (unsigned turn = 0; turn < 64; turn++) {
        room->changed = false;
        MHD_run(daemon);
        if (!room->changed)
            return;
    }
}
