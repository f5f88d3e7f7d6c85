/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_auth.h"

#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_net.h"
#include "gp_str.h"
#include "sched_conn.h"

#include <errno.h>
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

static const struct sched_server_token *
find_server_token(const struct sched_config *config, const char *token)
{
    const struct sched_server_token *found = NULL;

    /* All of them, so that the time tells nothing of where it is. */
    for (unsigned i = 0; i < config->n_server_tokens; i++)
        if (is_token(token, config->server_tokens[i].token))
            found = &config->server_tokens[i];
    return found;
}

const char *
sched_auth_find(const struct sched_config *config, enum sched_role role,
                const char *server, bool (*is_it)(const char *, void *), void *arg,
                const struct sched_server_token **ret_own)
{
    const char *admin = config->tokens[SCHED_ROLE_ADMIN], *own = config->tokens[role];

    *ret_own = NULL;
    if (role == SCHED_ROLE_SERVER && server)
        for (unsigned i = 0; i < config->n_server_tokens; i++)
            if (!strcmp(config->server_tokens[i].name, server) &&
                is_it(config->server_tokens[i].token, arg)) {
                *ret_own = &config->server_tokens[i];
                return (*ret_own)->token;
            }
    if (own && is_it(own, arg))
        return own;
    return role == SCHED_ROLE_CLIENT && admin && is_it(admin, arg) ? admin : NULL;
}

bool
sched_auth_server_name(const struct sched_conn *conn, const char *name)
{
    const struct sched_config *config = &conn->sched->config;

    if (conn->own_user)
        return true;
    if (conn->server_token)
        return !strcmp(conn->server_token->name, name);
    for (unsigned i = 0; i < config->n_server_tokens; i++)
        if (!strcmp(config->server_tokens[i].name, name))
            return false;
    return true;
}

static int
add_server_token(struct sched_config *config, const char *name, const char *token)
{
    struct sched_server_token one = {strdup(name), strdup(token)}, *grown;

    grown = reallocarray(config->server_tokens, config->n_server_tokens + 1,
                         sizeof(*grown));
    if (grown)
        config->server_tokens = grown;
    if (!grown || !one.name || !one.token) {
        free(one.name);
        free(one.token);
        return -ENOMEM;
    }
    grown[config->n_server_tokens++] = one;
    return 0;
}

int
sched_auth_load_server_tokens(struct sched_config *config, const char *path,
                              struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;
    char *save = NULL, *line;
    size_t len;
    int r = gp_file_read(path, (CTL_NAME_MAX + CTL_TOKEN_MAX) * SCHED_SERVER_TOKENS_MAX,
                         &text, &len, err);

    if (r < 0)
        return r;
    for (line = strtok_r(text, "\r\n", &save); line;
         line = strtok_r(NULL, "\r\n", &save)) {
        char *colon = strchr(line, ':');

        if (line[0] == '#')
            continue;
        if (!colon || colon == line || !colon[1] || colon - line >= CTL_NAME_MAX ||
            strlen(colon + 1) >= CTL_TOKEN_MAX)
            return gp_err_set(err, -EINVAL, "%s: a line is not NAME:TOKEN", path);
        if (config->n_server_tokens == SCHED_SERVER_TOKENS_MAX)
            return gp_err_set(err, -E2BIG, "%s: more than %d servers", path,
                              SCHED_SERVER_TOKENS_MAX);
        *colon = '\0';
        r = add_server_token(config, line, colon + 1);
        if (r < 0)
            return gp_err_set(err, r, "out of memory");
    }
    explicit_bzero(text, len);
    return 0;
}

void
sched_auth_free_server_tokens(struct sched_config *config)
{
    for (unsigned i = 0; i < config->n_server_tokens; i++) {
        free(config->server_tokens[i].name);
        free(config->server_tokens[i].token);
    }
    free(config->server_tokens);
    config->server_tokens = NULL;
    config->n_server_tokens = 0;
}

bool
sched_auth_allowed(struct sched_conn *conn, enum sched_role role, const char *token)
{
    const struct sched_config *config = &conn->sched->config;
    bool allowed = conn->own_user || config->anonymous[role] || conn->proven[role] ||
                   is_token(token, config->tokens[role]) ||
                   (role == SCHED_ROLE_CLIENT &&
                    is_token(token, config->tokens[SCHED_ROLE_ADMIN]));

    if (role == SCHED_ROLE_SERVER && config->n_server_tokens && !conn->proven[role]) {
        conn->server_token = find_server_token(config, token);
        allowed |= !!conn->server_token;
    }
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
    if (conn->sched->config.tokens[role] ||
        (role == SCHED_ROLE_SERVER && conn->sched->config.n_server_tokens))
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
