/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens that the scheduler knows, and what each lets its holder do.
 *
 * They come from files: one for each role, one for single servers, one for users.  A
 * role's file may hold several tokens, one in a line, so that an old and a new one are
 * good at the same time.  A set is immutable; SIGHUP makes another one, and whoever has
 * shown a token that is not in it any more loses what it gave (sched_peer_rebind()).
 *
 * Owned by struct sched.  Event loop thread only.
 */
#ifndef SCHED_TOKENS_H
#define SCHED_TOKENS_H

#include "gp_base.h"
#include "sched_types.h"

struct gp_err;

/* Bits. */
enum sched_right {
    SCHED_MAY_SERVE = 1,   /* register cards */
    SCHED_MAY_OPEN = 2,    /* open sessions */
    SCHED_MAY_READ = 4,    /* see the status and the queue */
    SCHED_MAY_END = 8,     /* close sessions of others, open them for others */
    SCHED_MAY_DRAIN = 16,  /* drain servers */
    SCHED_MAY_FORWARD = 32 /* another pool: open sessions for its own owners */
};

/* Users with tokens of their own.  Each proof of an unauthenticated peer is compared
 * with all of them, a microsecond each. */
#define SCHED_USERS_MAX 1024
/* Tokens of one role at a time: a rotation needs two. */
#define SCHED_ROLE_TOKENS_MAX 8
/* Shorter tokens of users are refused: a listener can try them all. */
#define SCHED_USER_TOKEN_MIN 16

struct sched_token {
    char *text;
    unsigned rights;
    char *server; /* the only server that may use it; NULL: any */
    char *user; /* the owner of all that is opened with it; NULL: as the client says */
};

struct sched_tokens;

/* "server", "client", "admin". */
const char *sched_role_name(enum sched_role role);
/* What the token of @role gives. */
unsigned sched_role_rights(enum sched_role role);

/* Read all files that @config names.  -EINVAL, -EEXIST, -EPERM: words name the line or
 * the file. */
int sched_tokens_load(const struct sched_config *config, struct sched_tokens **ret,
                      struct gp_err *err);
void sched_tokens_free(struct sched_tokens *tokens); /* NULL is a no-op */

/* The token for which @is_it holds, of those that give one of @rights; NULL: none.  All
 * are tried.  @server is the name of a server, or NULL: tokens of other servers are
 * left out. */
const struct sched_token *sched_tokens_find(const struct sched_tokens *tokens,
                                            unsigned rights, const char *server,
                                            bool (*is_it)(const char *text, void *arg),
                                            void *arg);

/* The one that equals @token of another set in everything; NULL: it is gone. */
const struct sched_token *sched_tokens_same(const struct sched_tokens *tokens,
                                            const struct sched_token *token);

bool sched_tokens_give(const struct sched_tokens *tokens, unsigned rights);
/* Does this server, or the owner NAME, NAME@HOST or NAME/OWNER, have a token of its
 * own? */
bool sched_tokens_has_server(const struct sched_tokens *tokens, const char *name);
bool sched_tokens_has_user(const struct sched_tokens *tokens, const char *owner);
/* Has the user of this name a token that gives @right? */
bool sched_tokens_user_may(const struct sched_tokens *tokens, const char *user,
                           enum sched_right right);

#endif
