/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_auth.h"

#include "gp_net.h"
#include "gp_str.h"
#include "sched_conn.h"
#include "sched_peer.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static enum sched_role
role_of(enum sched_right right)
{
    if (right == SCHED_MAY_SERVE)
        return SCHED_ROLE_SERVER;
    return right == SCHED_MAY_OPEN || right == SCHED_MAY_READ ? SCHED_ROLE_CLIENT
                                                              : SCHED_ROLE_ADMIN;
}

static bool
is_token(const char *text, void *arg)
{
    const char *given = arg;
    size_t len = strlen(text);

    return strlen(given) == len && !CRYPTO_memcmp(given, text, len);
}

bool
sched_auth_allowed(struct sched_conn *conn, enum sched_right right, const char *token)
{
    const struct sched_token *found;
    bool allowed;

    if (*token && !conn->shown[role_of(right)]) {
        found = sched_tokens_find(conn->sched->tokens, right, NULL, is_token,
                                  (void *)(uintptr_t)token);
        if (found)
            sched_peer_shown(conn, role_of(right), found);
    }
    allowed = sched_peer_may(conn, right);
    conn->known |= allowed;
    return allowed;
}

void
sched_auth_words(const struct sched_conn *conn, enum sched_role role, char *text,
                 size_t size)
{
    static const char *const wrong[SCHED_ROLES] = {
        "wrong server token (gpupool-server --token-file)",
        "wrong client token (GPUPOOL_TOKEN_FILE or --token-file)",
        "this needs the admin token (--token-file), or the scheduler's own user or "
        "root over its Unix socket",
    };
    const char *name = sched_role_name(role);

    if (conn->sched->config.anonymous[role]) {
        snprintf(text, size,
                 "this scheduler is open to every %s (--allow-anonymous) and cannot "
                 "prove itself by a token; name no token file to use it so",
                 name);
        return;
    }
    if (sched_tokens_give(conn->sched->tokens, sched_role_rights(role)))
        gp_str_copy(text, size, wrong[role]);
    else
        snprintf(text, size,
                 "the scheduler has no %s token, so only its own user and root may, "
                 "over its Unix socket (--scheduler unix:PATH); start it with "
                 "--%s-token-file FILE, or open it to all with --allow-anonymous %s",
                 name, name, name);
}

void
sched_auth_right_words(const struct sched_conn *conn, enum sched_right right,
                       char *text, size_t size)
{
    const char *user = sched_peer_user(conn), *name = "open";

    if (right == SCHED_MAY_READ)
        name = "read";
    else if (right == SCHED_MAY_END)
        name = "end";
    else if (right == SCHED_MAY_DRAIN)
        name = "drain";
    if (user)
        snprintf(text, size,
                 "user %.100s does not have the right to %s (--users-file of the "
                 "scheduler)",
                 user, name);
    else
        sched_auth_words(conn, role_of(right), text, size);
}

bool
sched_auth_check(struct sched_conn *conn, uint32_t id, enum sched_right right,
                 const char *token)
{
    char words[256];

    if (sched_auth_allowed(conn, right, token))
        return true;
    sched_auth_right_words(conn, right, words, sizeof(words));
    sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, words, NULL);
    return false;
}

bool
sched_auth_peer(int fd, char *name, size_t size)
{
    char address[GP_NET_NAME_MAX];
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int family = 0;
    socklen_t family_len = sizeof(family);

    /* The credentials of a TCP socket would read as those of nobody. */
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_len) < 0 ||
        family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
        gp_str_copy(name, size, gp_net_peer_name(fd, address, sizeof(address)));
        return false;
    }
    snprintf(name, size, "local uid %u pid %d", (unsigned)cred.uid, (int)cred.pid);
    return cred.uid == 0 || cred.uid == geteuid();
}
