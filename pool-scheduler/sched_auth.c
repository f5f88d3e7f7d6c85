/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_auth.h"

#include "gp_net.h"
#include "gp_str.h"
#include "sched_conn.h"
#include "sched_daemon.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

const char *
sched_role_name(enum sched_role role)
{
    static const char *const names[SCHED_ROLES] = {"server", "client", "admin"};

    return names[role];
}

static bool
is_token(const char *given, const char *wanted)
{
    size_t len = wanted ? strlen(wanted) : 0;

    return wanted && strlen(given) == len && !CRYPTO_memcmp(given, wanted, len);
}

bool
sched_auth_allowed(struct sched_conn *conn, enum sched_role role, const char *token)
{
    const struct sched_config *config = &conn->sched->config;
    bool allowed = conn->own_user || config->anonymous[role] ||
                   is_token(token, config->tokens[role]) ||
                   (role == SCHED_ROLE_CLIENT &&
                    is_token(token, config->tokens[SCHED_ROLE_ADMIN]));

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

    if (conn->sched->config.tokens[role])
        gp_str_copy(text, size, wrong[role]);
    else
        snprintf(text, size,
                 "the scheduler has no %s token, so only its own user and root may, "
                 "over its Unix socket (--scheduler unix:PATH); start it with "
                 "--%s-token-file FILE, or open it to all with --allow-anonymous %s",
                 name, name, name);
}

bool
sched_auth_check(struct sched_conn *conn, uint32_t id, enum sched_role role,
                 const char *token)
{
    char words[256];

    if (sched_auth_allowed(conn, role, token))
        return true;
    sched_auth_words(conn, role, words, sizeof(words));
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
