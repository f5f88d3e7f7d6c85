/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_link.h"

#include "ctl_limits.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_net.h"
#include "gp_wire.h"

#include <errno.h>
#include <string.h>

#define PIN_FILE_MAX 256

static int
secure(struct ctl_link *link, const struct tls_api *tls, const uint8_t *pin,
       uint64_t deadline_ns, struct gp_err *err)
{
    int r = tls->connect_pin(link->fd, pin, deadline_ns, &link->wire, link->key, err);

    /* One of before TLS takes the hello for the beginning of a long message. */
    if (r == -ECONNRESET || r == -EPROTO || r == -ETIMEDOUT)
        return gp_err_wrap(err, r,
                           "the scheduler is older than TLS, or none (GPUPOOL_TLS=off, "
                           "or --tls off of a server, is clear text by choice)");
    return r;
}

int
ctl_link_open(struct ctl_link *ret, const char *address, const struct tls_api *tls,
              const uint8_t *pin, uint64_t deadline_ns, bool blocking,
              struct gp_err *err)
{
    struct ctl_link link = {.fd = -1};
    int r =
        gp_net_connect(address, CTL_DEFAULT_PORT, deadline_ns, blocking, &link.fd, err);

    if (r < 0)
        return r;
    if (tls && strncmp(address, "unix:", 5) != 0)
        r = secure(&link, tls, pin, deadline_ns, err);
    if (r < 0)
        gp_err_wrap(err, r, "%s", address);
    if (r < 0)
        ctl_link_close(&link);
    else
        *ret = link;
    return r;
}

void
ctl_link_close(struct ctl_link *link)
{
    gp_wire_free(TAKE_PTR(link->wire));
    if (link->fd >= 0)
        close(TAKE_FD(link->fd));
}

int
ctl_link_pin(uint8_t key[TLS_PUBLIC_SIZE], const uint8_t **ret, struct gp_err *err)
{
    const char *text = getenv(CTL_PIN_ENV);
    CLEANUP_FREE uint8_t *bytes = NULL;
    CLEANUP_FREE char *file = NULL;
    size_t size = 0;
    int r;

    *ret = NULL;
    if (!text || !*text)
        return 0;
    if (strchr(text, '/')) {
        r = gp_file_read(text, PIN_FILE_MAX, &file, &size, err);
        if (r < 0)
            return r;
        text = file;
    }
    r = gp_b64_decode(text, strcspn(text, " \r\n"), &bytes, &size);
    if (r < 0 || size != TLS_PUBLIC_SIZE)
        return gp_err_set(err, -EINVAL, CTL_PIN_ENV " is no key: %d bytes of base64url",
                          TLS_PUBLIC_SIZE);
    memcpy(key, bytes, TLS_PUBLIC_SIZE);
    *ret = key;
    return 0;
}
