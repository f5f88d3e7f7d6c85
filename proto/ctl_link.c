/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_link.h"

#include "ctl_limits.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_net.h"
#include "gp_wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PIN_FILE_MAX 512
#define BETWEEN " \t\r\n,"

static bool
is_pinned(const struct ctl_pins *pins, const uint8_t *key)
{
    for (unsigned i = 0; i < pins->n; i++)
        if (!memcmp(pins->keys[i], key, TLS_PUBLIC_SIZE))
            return true;
    return false;
}

static int
secure(struct ctl_link *link, const struct tls_api *tls, const struct ctl_pins *pins,
       uint64_t deadline_ns, struct gp_err *err)
{
    int r = tls->connect_pin(link->fd, NULL, deadline_ns, &link->wire, link->key, err);

    if (r == 0 && pins && pins->n && !is_pinned(pins, link->key))
        r = gp_err_set(err, -EKEYREJECTED,
                       "TLS handshake: the other side is not the pool's scheduler: its "
                       "key is another (" CTL_PIN_ENV ")");

    /* One of before TLS takes the hello for the beginning of a long message. */
    if (r == -ECONNRESET || r == -EPROTO || r == -ETIMEDOUT)
        return gp_err_wrap(
            err, r,
            "the scheduler %sis older than TLS, or none (GPUPOOL_TLS=off, "
            "or --tls off of a server, is clear text by choice)",
            r == -ETIMEDOUT ? "hangs, " : "");
    return r;
}

int
ctl_link_open(struct ctl_link *ret, const char *address, const struct tls_api *tls,
              const struct ctl_pins *pins, uint64_t deadline_ns, bool blocking,
              struct gp_err *err)
{
    struct ctl_link link = {.fd = -1};
    int r =
        gp_net_connect(address, CTL_DEFAULT_PORT, deadline_ns, blocking, &link.fd, err);

    if (r < 0)
        return r;
    if (tls && strncmp(address, "unix:", 5) != 0)
        r = secure(&link, tls, pins, deadline_ns, err);
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

static int
parse_pin(const char *text, size_t len, struct ctl_pins *pins, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size = 0;

    if (pins->n == CTL_PINS_MAX)
        return gp_err_set(err, -E2BIG, "more than %d keys of the scheduler",
                          CTL_PINS_MAX);
    if (gp_b64_decode(text, len, &bytes, &size) < 0 || size != TLS_PUBLIC_SIZE)
        return gp_err_set(
            err, -EINVAL,
            "no key of a scheduler: %d bytes of base64url (a path has a / in it)",
            TLS_PUBLIC_SIZE);
    memcpy(pins->keys[pins->n++], bytes, TLS_PUBLIC_SIZE);
    return 0;
}

int
ctl_pins_read(const char *text, struct ctl_pins *ret, struct gp_err *err)
{
    CLEANUP_FREE char *file = NULL;
    const char *at = text;
    size_t size = 0;
    int r = 0;

    ret->n = 0;
    if (strchr(text, '/')) {
        r = gp_file_read(text, PIN_FILE_MAX, &file, &size, err);
        if (r < 0)
            return r;
        at = file;
    }
    for (at += strspn(at, BETWEEN); !r && *at; at += strspn(at, BETWEEN)) {
        size_t len = strcspn(at, BETWEEN);

        r = parse_pin(at, len, ret, err);
        at += len;
    }
    if (!r && !ret->n)
        r = gp_err_set(err, -EINVAL, "no key of the scheduler");
    return r < 0 && file ? gp_err_wrap(err, r, "%s", text) : r;
}

int
ctl_link_pins(struct ctl_pins *ret, struct gp_err *err)
{
    const char *text = getenv(CTL_PIN_ENV);
    int r;

    ret->n = 0;
    if (!text || !*text)
        return 0;
    r = ctl_pins_read(text, ret, err);
    return r < 0 ? gp_err_wrap(err, r, CTL_PIN_ENV) : 0;
}

int
ctl_pins_text(const struct ctl_pins *pins, char text[CTL_PINS_TEXT])
{
    size_t len = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < pins->n; i++) {
        CLEANUP_FREE char *one = gp_b64_encode(pins->keys[i], TLS_PUBLIC_SIZE);

        if (!one)
            return -ENOMEM;
        len += (size_t)snprintf(text + len, CTL_PINS_TEXT - len, "%s%s", i ? "," : "",
                                one);
    }
    return 0;
}
