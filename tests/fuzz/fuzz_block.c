/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer sends where payloads travel in blocks: received in pieces of any length,
 * with frames between them.  The first byte says where pieces end and whether there are
 * further connections, which carry the second half of the input.
 */
#include "xport.h"

#include "gp_time.h"

#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAME_MAX 4096u
#define GUARD 0x5a

static int
pair_with(const uint8_t *data, size_t size)
{
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0 ||
        (size && write(fd[1], data, size) != (ssize_t)size))
        __builtin_trap();
    close(fd[1]);
    return fd[0];
}

static void
add_lanes(struct xport_conn *conn, const uint8_t *data, size_t size)
{
    int lanes[2] = {pair_with(data, size / 2),
                    pair_with(data + size / 2, size - size / 2)};

    if (xport_stripes_add(conn, lanes, NULL, 2, 0, NULL) < 0)
        __builtin_trap();
}

/* Not a byte behind the piece may be written. */
static int
take(struct xport_conn *conn, size_t len)
{
    static uint8_t piece[300000 + 1];
    int r;

    piece[len] = GUARD;
    r = xport_recv_bulk(conn, piece, len);
    if (piece[len] != GUARD)
        __builtin_trap();
    return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t lens[] = {1, 8, 100, 4096, 70000, 131072, 131073, 300000};
    struct xport_conn *conn = NULL;
    const void *frame;
    uint32_t frame_size;
    size_t main_size;
    int r = 0;

    if (size < 2)
        return 0;
    main_size = data[0] & 0x80 ? (size - 1) / 2 : size - 1;
    if (xport_tcp_new(pair_with(data + 1, main_size), FRAME_MAX, &conn, NULL) < 0 ||
        xport_blocks_start(conn, XPORT_PACK_AUTO, NULL) < 0)
        __builtin_trap();
    if (data[0] & 0x80)
        add_lanes(conn, data + 1 + main_size, size - 1 - main_size);
    for (unsigned i = 0; r == 0; i++) {
        r = take(conn, lens[(data[0] + i) % 8]);
        if (r == 0 && (data[0] >> (i % 4) & 8))
            r = xport_recv(conn, &frame, &frame_size, GP_FOREVER);
    }
    xport_free(conn);
    return 0;
}
