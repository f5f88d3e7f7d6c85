/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_secure.h"

#include "gp_b64.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_x25519.h"
#include "stub_session.h"
#include "tls.h"
#include "tls_policy.h"

#include <errno.h>
#include <string.h>

static int
key_read(const char *text, const char *what, uint8_t ret[ATTACH_KEY_SIZE],
         struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    size_t size = 0;

    if (gp_b64_decode(text, strlen(text), &bytes, &size) < 0 || size != ATTACH_KEY_SIZE)
        return gp_err_set(err, -EINVAL, "%s is not %d bytes of base64url", what,
                          ATTACH_KEY_SIZE);
    memcpy(ret, bytes, ATTACH_KEY_SIZE);
    explicit_bzero(bytes, size);
    return 0;
}

/* A ticket that is bound to nobody needs a key of its own: it proves the server. */
static int
client_secret(const char *text, uint8_t ret[ATTACH_KEY_SIZE], struct gp_err *err)
{
    if (text)
        return key_read(text, "the session's secret", ret, err);
    return gp_x25519_new(ret) < 0 ? gp_err_set(err, -EIO, "no random bytes") : 0;
}

/* The server's key is not known. */
static int
without_key(enum tls_policy policy, const struct stub_server *server,
            struct gp_err *err)
{
    if (policy == TLS_REQUIRE)
        return gp_err_set(
            err, -EPROTONOSUPPORT,
            "%s: " TLS_POLICY_ENV "=require, but the session names no key "
            "of the server: the server or the scheduler is older than TLS, "
            "or the server has --tls off",
            server->address);
    gp_log_info("stub", "%s: clear text over TCP: the session names no key for TLS",
                server->address);
    return 0;
}

int
stub_secure_prepare(struct stub_secure *ret, const struct stub_server *server,
                    const char *secret, struct gp_err *err)
{
    uint8_t own[ATTACH_KEY_SIZE], public[ATTACH_KEY_SIZE];
    enum tls_policy policy;
    int r = tls_policy_parse(getenv(TLS_POLICY_ENV), TLS_POLICY_ENV, &policy, err);

    *ret = (struct stub_secure){0};
    if (r < 0)
        return r;
    if (policy == TLS_OFF) {
        gp_log_info("stub", "clear text over TCP: " TLS_POLICY_ENV "=off");
        return 0;
    }
    if (!server->key)
        return without_key(policy, server, err);
    r = key_read(server->key, "the server's key", ret->server_key, err);
    if (r == 0)
        r = client_secret(secret, own, err);
    if (r < 0)
        return r;
    gp_x25519_public(own, public);
    attach_identity_make(public, ret->server_key, ret->identity);
    r = attach_psk_make(own, ret->server_key, ret->identity, ret->psk);
    explicit_bzero(own, sizeof(own));
    ret->on = true;
    return r < 0 ? gp_err_set(err, -EINVAL, "the server's key is none") : 0;
}

int
stub_secure_connect(const struct stub_secure *tls, int fd, uint64_t deadline,
                    struct gp_wire **ret, struct gp_err *err)
{
    struct tls_psk psk = {.identity = tls->identity,
                          .identity_size = sizeof(tls->identity)};
    const struct tls_api *api;
    int r;

    *ret = NULL;
    if (!tls->on)
        return 0;
    api = tls_found(err);
    if (!api)
        return -ENOENT;
    memcpy(psk.key, tls->psk, sizeof(psk.key));
    r = api->connect_psk(fd, &psk, deadline, ret, err);
    explicit_bzero(&psk, sizeof(psk));
    if (r == -EKEYREJECTED)
        return gp_err_set(
            err, r,
            "TLS: the server does not have the key that the scheduler named "
            "(somebody may pose as the server; or it was restarted with another key, "
            "which the session gets when its lease is renewed, within half a lease)");
    if (r == -ECONNRESET)
        return gp_err_wrap(
            err, r, "if the server is older than TLS, set " TLS_POLICY_ENV "=off");
    return r;
}
