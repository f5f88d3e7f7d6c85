/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_door.h"

#include "gp_err.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_wire.h"
#include "tls_handshake.h"
#include "tls_record.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

/* What the first bytes say.  They stay in the socket. */
static int
look(struct tls_door *door, struct gp_msg_conn *conn, struct gp_err *err)
{
    uint8_t first[TLS_HELLO_PEEK];
    ssize_t n = gp_wire_result(
        recv(conn->src.fd, first, sizeof(first), MSG_PEEK | MSG_DONTWAIT));

    if (n < 0)
        return (int)n;
    if (n == 0 || door->policy == TLS_OFF || !tls_hello_is(first, (size_t)n)) {
        door->clear = true; /* answered even if it will say no more */
        return 0;
    }
    if (gp_net_hung_up(conn->src.fd)) /* who waits no longer costs no handshake */
        return gp_err_set(err, -ECONNRESET, "it has hung up before it was answered");
    return tls_handshake_server(door->ctx, conn->src.fd, &door->hs, err);
}

static int
finish(struct tls_door *door, struct gp_msg_conn *conn, struct gp_err *err)
{
    struct tls_keys keys;
    const void *identity = tls_handshake_identity(door->hs, &door->identity_size);
    int r;

    door->identity_size = gp_min(door->identity_size, sizeof(door->identity));
    memcpy(door->identity, identity, door->identity_size);
    tls_handshake_keys(door->hs, &keys);
    r = tls_record_new(&keys, &conn->wire, err);
    explicit_bzero(&keys, sizeof(keys));
    tls_door_fini(door);
    return r;
}

int
tls_door_begin(struct tls_door *door, struct gp_msg_conn *conn, uint32_t *ret_events,
               struct gp_err *err)
{
    short events = POLLIN;
    int r = door->hs ? 0 : look(door, conn, err);

    if (r == 0 && door->hs) {
        r = tls_handshake_step(door->hs, &events, err);
        if (r == 0)
            r = finish(door, conn, err);
    }
    *ret_events = events == POLLIN ? EPOLLIN : EPOLLOUT;
    return r;
}

void
tls_door_fini(struct tls_door *door)
{
    tls_handshake_free(TAKE_PTR(door->hs));
}
