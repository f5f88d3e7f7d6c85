/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_pod.h"

#include "ctl_addresses.h"
#include "ctl_call.h"
#include "ctl_limits.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_time.h"
#include "gp_x25519.h"
#include "tls_policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TOKEN_MAX (16u * 1024u)
/* A scheduler that restarts is back in a few seconds. */
#define PATIENCE_NS (20 * GP_NS_PER_S)
#define PAUSE_US (250 * 1000)
/* Of that, for one of several schedulers. */
#define PART_NS (5 * GP_NS_PER_S)

bool
stub_pod_named(void)
{
    const char *path = getenv("GPUPOOL_POD_TOKEN_FILE");

    return path && *path;
}

static char *
session_text(const Gpupool__Ctl__CtlGrant *grant, const uint8_t secret[GP_X25519_SIZE])
{
    CLEANUP_FREE char *bound = gp_b64_encode(secret, GP_X25519_SIZE);
    char *text = NULL;
    size_t size;
    FILE *f = bound ? open_memstream(&text, &size) : NULL;

    if (!f)
        return NULL;
    fprintf(f, "gpupool-session 1\nsession %s\nsecret %s\n", grant->session, bound);
    explicit_bzero(bound, strlen(bound));
    for (size_t i = 0; i < grant->n_tickets; i++) {
        const Gpupool__Ctl__CtlTicket *t = grant->tickets[i];

        fprintf(f, "server %s\n", t->endpoint);
        if (*t->local)
            fprintf(f, "local %s\n", t->local);
        if (t->server_key.len) {
            CLEANUP_FREE char *key =
                gp_b64_encode(t->server_key.data, t->server_key.len);

            fprintf(f, "server-key %s\n", key ? key : "");
        }
        fprintf(f, "ticket %s\n", t->text);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* The token cannot be taken back, so it goes in clear text only where that is required
 * by GPUPOOL_TLS=off, never where TLS is merely preferred. */
static int
pod_link(struct ctl_link *ret, const char *address, uint64_t deadline,
         struct gp_err *err)
{
    const struct tls_api *tls = NULL;
    struct ctl_pins pins;
    enum tls_policy policy;
    int r = tls_policy_parse(getenv(TLS_POLICY_ENV), TLS_POLICY_ENV, &policy, err);

    if (r == 0)
        r = ctl_link_pins(&pins, err);
    if (r < 0)
        return r;
    if (policy == TLS_OFF)
        gp_log_warn("stub",
                    TLS_POLICY_ENV "=off: the pod's token goes to %s in clear "
                                   "text",
                    address);
    else if (!(tls = tls_found(err)))
        return -ENOENT;
    r = ctl_link_open(ret, address, tls, &pins, deadline, true, err);
    if (r < 0)
        gp_err_wrap(err, r, "scheduler not reachable");
    return r < 0 && r != -EKEYREJECTED ? -EAGAIN : r;
}

/* What a refusal means for the pod.  -ESTALE: the leader, which is known, is asked
 * next. */
static int
refused(struct ctl_route *route, const Gpupool__Ctl__CtlError *error)
{
    switch (error->code) {
    case GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER:
        return ctl_route_follow(route, error->leader) ? -ESTALE : -EAGAIN;
    case GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT:
    case GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL:
        return -EAGAIN;
    default:
        return -EACCES;
    }
}

/* One question, with a key of this process that the tickets are bound to.  -EAGAIN: it
 * may go better soon; -ESTALE: at once, since @route goes elsewhere now.  *ret_why:
 * what a scheduler said is in the way. */
static int
ask(struct ctl_route *route, char *token, const char *claim, uint64_t deadline,
    char **ret_text, struct gp_err *ret_why, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlPodSession body = GPUPOOL__CTL__CTL_POD_SESSION__INIT;
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    uint8_t secret[GP_X25519_SIZE], key[GP_X25519_SIZE];
    CLEANUP(ctl_link_close) struct ctl_link link = {.fd = -1};
    char address[CTL_ENDPOINT_MAX];
    int r;

    if (ctl_addresses_count(route->list) > 1)
        deadline = gp_min(deadline, gp_now_ns() + PART_NS);
    ctl_route_address(route, address);
    r = pod_link(&link, address, deadline, err);
    if (r == -EAGAIN)
        ctl_route_next(route);
    if (r < 0)
        return r;
    if (gp_x25519_new(secret) < 0)
        return gp_err_set(err, -EIO, "no random bytes");
    gp_x25519_public(secret, key);
    body.client_key.data = key;
    body.client_key.len = sizeof(key);
    body.major = CTL_MAJOR;
    body.token = token;
    body.claim = (char *)claim;
    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_POD_SESSION;
    req.pod_session = &body;
    r = ctl_call(&link, &req, deadline, &reply, err);
    if (r == -EREMOTE) {
        r = refused(route, reply->error);
        if (r == -EAGAIN)
            *ret_why = *err;
        return r;
    }
    if (r < 0) {
        ctl_route_next(route);
        return -EAGAIN;
    }
    if (reply->body_case != GPUPOOL__CTL__CTL_REPLY__BODY_GRANT ||
        !reply->grant->n_tickets)
        return gp_err_set(err, -EPROTO, "the scheduler answered something else");
    *ret_text = session_text(reply->grant, secret);
    explicit_bzero(secret, sizeof(secret));
    return *ret_text ? 0 : -ENOMEM;
}

int
stub_pod_session(char **ret_text, struct gp_err *err)
{
    struct ctl_route route = {.list = getenv("GPUPOOL_SCHEDULER")};
    const char *claim = getenv("GPUPOOL_CLAIM");
    uint64_t deadline = gp_now_ns() + PATIENCE_NS;
    CLEANUP_FREE char *token = NULL;
    struct gp_err why = {0};
    bool named = false;
    size_t len;
    int r;

    if (!route.list || !*route.list || !claim || !*claim)
        return gp_err_set(
            err, -EINVAL,
            "GPUPOOL_POD_TOKEN_FILE is set, but not GPUPOOL_SCHEDULER and "
            "GPUPOOL_CLAIM");
    for (;;) { /* the token is read again: the kubelet renews it */
        free(token);
        token = NULL;
        r = gp_file_read(getenv("GPUPOOL_POD_TOKEN_FILE"), TOKEN_MAX, &token, &len,
                         err);
        if (r < 0)
            return r;
        token[strcspn(token, "\r\n")] = '\0';
        r = ask(&route, token, claim, deadline, ret_text, &why, err);
        explicit_bzero(token, len);
        if ((r != -EAGAIN && r != -ESTALE) || gp_now_ns() + PAUSE_US * 1000 > deadline)
            break;
        if (r == -EAGAIN || named) /* two may name each other */
            usleep(PAUSE_US);
        named = r == -ESTALE;
    }
    if (r == -EAGAIN && *why.msg && err) /* more than that the time is over */
        *err = why;
    return r < 0 ? gp_err_wrap(err, r == -EAGAIN || r == -ESTALE ? -ETIMEDOUT : r,
                               "claim %s", claim)
                 : 0;
}
