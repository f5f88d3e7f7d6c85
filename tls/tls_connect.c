/* SPDX-License-Identifier: Apache-2.0 */
/* A client's handshakes with a deadline, and the table of what others may use. */
#include "gp_err.h"
#include "gp_net.h"
#include "tls_handshake.h"
#include "tls_record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The socket does not block meanwhile, so that the deadline counts. */
static int
shake(struct tls_handshake *hs, int fd, uint64_t deadline_ns, struct gp_err *err)
{
    int flags = fcntl(fd, F_GETFL), r;
    short events = 0;

    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while ((r = tls_handshake_step(hs, &events, err)) == -EAGAIN) {
        r = gp_net_wait(fd, events, deadline_ns);
        if (r < 0) {
            gp_err_set(err, r, "TLS handshake: no answer: %s", strerror(-r));
            break;
        }
    }
    fcntl(fd, F_SETFL, flags);
    return r;
}

static int
layer_of(const struct tls_handshake *hs, struct gp_wire **ret, struct gp_err *err)
{
    struct tls_keys keys;
    int r;

    tls_handshake_keys(hs, &keys);
    r = tls_record_new(&keys, ret, err);
    explicit_bzero(&keys, sizeof(keys));
    return r;
}

static int
connect_psk(int fd, const struct tls_psk *psk, uint64_t deadline_ns,
            struct gp_wire **ret, struct gp_err *err)
{
    CLEANUP(tls_handshake_freep) struct tls_handshake *hs = NULL;
    int r = tls_handshake_client(psk, fd, &hs, err);

    if (r == 0)
        r = shake(hs, fd, deadline_ns, err);
    return r < 0 ? r : layer_of(hs, ret, err);
}

static int
connect_pin(int fd, const uint8_t *pin, uint64_t deadline_ns, struct gp_wire **ret,
            uint8_t ret_public[TLS_PUBLIC_SIZE], struct gp_err *err)
{
    CLEANUP(tls_handshake_freep) struct tls_handshake *hs = NULL;
    int r = tls_handshake_client(NULL, fd, &hs, err);

    if (r == 0)
        r = shake(hs, fd, deadline_ns, err);
    if (r < 0)
        return r;
    if (tls_handshake_public(hs, ret_public) < 0 ||
        (pin && memcmp(pin, ret_public, TLS_PUBLIC_SIZE) != 0))
        return gp_err_set(err, -EKEYREJECTED,
                          "TLS handshake: the other side is not the pool's scheduler: "
                          "its key is another");
    return layer_of(hs, ret, err);
}

static const struct tls_api api = {
    .version = TLS_API_VERSION,
    .connect_psk = connect_psk,
    .connect_pin = connect_pin,
    .wire_new = tls_record_new,
};

const struct tls_api *
tls_linked(void)
{
    return &api;
}
