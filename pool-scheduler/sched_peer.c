/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_peer.h"

#include <stdio.h>
#include <string.h>

bool
sched_peer_may(const struct sched_conn *conn, enum sched_right right)
{
    const struct sched_config *config = &conn->sched->config;

    if (conn->own_user || (conn->relays && right == SCHED_MAY_READ))
        return true;
    for (int role = 0; role < SCHED_ROLES; role++)
        if ((conn->shown[role] && (conn->shown[role]->rights & right)) ||
            (config->anonymous[role] &&
             (sched_role_rights((enum sched_role)role) & right)))
            return true;
    return false;
}

void
sched_peer_shown(struct sched_conn *conn, enum sched_role role,
                 const struct sched_token *token)
{
    conn->shown[role] = token;
    conn->known = true;
}

bool
sched_peer_server_name(const struct sched_conn *conn, const char *name)
{
    const struct sched_token *shown = conn->shown[SCHED_ROLE_SERVER];

    if (conn->own_user)
        return true;
    if (shown && shown->server)
        return !strcmp(shown->server, name);
    return !sched_tokens_has_server(conn->sched->tokens, name);
}

const char *
sched_peer_user(const struct sched_conn *conn)
{
    for (int role = 0; role < SCHED_ROLES; role++)
        if (conn->shown[role] && conn->shown[role]->user)
            return conn->shown[role]->user;
    return NULL;
}

bool
sched_peer_is_admin(const struct sched_conn *conn)
{
    const struct sched_token *shown = conn->shown[SCHED_ROLE_ADMIN];

    return conn->own_user || (shown && !shown->user);
}

const char *
sched_peer_owner(const struct sched_conn *conn, const char *claimed)
{
    const char *user = sched_peer_user(conn);

    if (user)
        return user;
    return sched_peer_is_admin(conn) ||
                   !sched_tokens_has_user(conn->sched->tokens, claimed)
               ? claimed
               : NULL;
}

bool
sched_peer_forwards(const struct sched_conn *conn)
{
    for (int role = 0; role < SCHED_ROLES; role++)
        if (conn->shown[role] && (conn->shown[role]->rights & SCHED_MAY_FORWARD))
            return true;
    return false;
}

const char *
sched_peer_owner_of(const struct sched_conn *conn, const char *claimed, char *text,
                    size_t size)
{
    const char *user = sched_peer_user(conn);
    int n = user && sched_peer_forwards(conn)
                ? snprintf(text, size, "%s/%s", user, claimed)
                : -1;

    return n > 0 && (size_t)n < size ? text : NULL;
}

const char *
sched_peer_who(const struct sched_conn *conn)
{
    const char *user = sched_peer_user(conn);

    if (user)
        return user;
    if (conn->server)
        return conn->server->name;
    for (int role = SCHED_ROLES - 1; role >= 0; role--)
        if (conn->shown[role])
            return conn->shown[role]->server ? conn->shown[role]->server
                                             : sched_role_name((enum sched_role)role);
    if (conn->relays)
        return "a scheduler of the pool";
    return conn->own_user ? "own user" : NULL;
}

bool
sched_peer_rebind(struct sched_conn *conn, const struct sched_tokens *tokens)
{
    bool lost = false;

    for (int role = 0; role < SCHED_ROLES; role++) {
        if (!conn->shown[role])
            continue;
        conn->shown[role] = sched_tokens_same(tokens, conn->shown[role]);
        lost |= !conn->shown[role];
    }
    return !lost;
}
