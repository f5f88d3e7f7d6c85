/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_tokens.h"

#include "ctl_limits.h"
#include "ctl_rights.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct sched_tokens {
    struct sched_token *list;
    unsigned n;
};

static const unsigned RIGHTS[CTL_RIGHTS] = {
    [CTL_RIGHT_OPEN] = SCHED_MAY_OPEN,       [CTL_RIGHT_READ] = SCHED_MAY_READ,
    [CTL_RIGHT_END] = SCHED_MAY_END,         [CTL_RIGHT_DRAIN] = SCHED_MAY_DRAIN,
    [CTL_RIGHT_FORWARD] = SCHED_MAY_FORWARD,
};

const char *
sched_role_name(enum sched_role role)
{
    static const char *const names[SCHED_ROLES] = {"server", "client", "admin"};

    return names[role];
}

unsigned
sched_role_rights(enum sched_role role)
{
    static const unsigned rights[SCHED_ROLES] = {
        SCHED_MAY_SERVE,
        SCHED_MAY_OPEN | SCHED_MAY_READ,
        SCHED_MAY_OPEN | SCHED_MAY_READ | SCHED_MAY_END | SCHED_MAY_DRAIN,
    };

    return rights[role];
}

/* ------------------------------------------------------------------- a set -- */

static void
token_fini(struct sched_token *token)
{
    if (token->text)
        explicit_bzero(token->text, strlen(token->text));
    free(token->text);
    free(token->server);
    free(token->user);
}

static int
add(struct sched_tokens *tokens, const char *text, unsigned rights, const char *server,
    const char *user)
{
    struct sched_token one = {.text = strdup(text), .rights = rights}, *grown;
    bool whole = one.text;

    if (server)
        whole &= !!(one.server = strdup(server));
    if (user)
        whole &= !!(one.user = strdup(user));
    grown = reallocarray(tokens->list, tokens->n + 1, sizeof(*grown));
    if (grown)
        tokens->list = grown;
    if (!grown || !whole) {
        token_fini(&one);
        return -ENOMEM;
    }
    grown[tokens->n++] = one;
    return 0;
}

void
sched_tokens_free(struct sched_tokens *tokens)
{
    if (!tokens)
        return;
    for (unsigned i = 0; i < tokens->n; i++)
        token_fini(&tokens->list[i]);
    free(tokens->list);
    free(tokens);
}
DEFINE_CLEANUP(struct sched_tokens, sched_tokens_free)

/* ------------------------------------------------------------------- files -- */

struct source {
    struct sched_tokens *tokens;
    const char *path;
    enum sched_role role; /* of a role's file */
    unsigned line;        /* that is read, from 1 */
    unsigned n;           /* lines that counted */
};

typedef int take_line(struct source *source, char *line, struct gp_err *err);

static int
take_role(struct source *source, char *line, struct gp_err *err)
{
    if (source->n == SCHED_ROLE_TOKENS_MAX)
        return gp_err_set(err, -E2BIG, "more than %d tokens", SCHED_ROLE_TOKENS_MAX);
    if (strlen(line) >= CTL_TOKEN_MAX)
        return gp_err_set(err, -EINVAL, "a token has at most %d characters",
                          CTL_TOKEN_MAX - 1);
    return add(source->tokens, line, sched_role_rights(source->role), NULL, NULL);
}

static int
take_server(struct source *source, char *line, struct gp_err *err)
{
    char *colon = strchr(line, ':');

    if (!colon || colon == line || !colon[1] || colon - line >= CTL_NAME_MAX ||
        strlen(colon + 1) >= CTL_TOKEN_MAX)
        return gp_err_set(err, -EINVAL, "NAME:TOKEN is wanted");
    if (source->n == SCHED_SERVER_TOKENS_MAX)
        return gp_err_set(err, -E2BIG, "more than %d servers", SCHED_SERVER_TOKENS_MAX);
    *colon = '\0';
    return add(source->tokens, colon + 1, SCHED_MAY_SERVE, line, NULL);
}

static int
read_rights(char *text, unsigned *ret, struct gp_err *err)
{
    char *save = NULL;

    *ret = 0;
    for (char *word = strtok_r(text, ",", &save); word;
         word = strtok_r(NULL, ",", &save)) {
        int right = ctl_right_parse(word);

        if (right < 0)
            return gp_err_set(err, -EINVAL, "%.20s: a right is " CTL_RIGHT_WORDS, word);
        *ret |= RIGHTS[right];
    }
    return 0;
}

static bool
is_user_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isgraph((unsigned char)*p) || strchr("\"\\@/", *p))
            return false;
    return *name && strlen(name) < CTL_OWNER_MAX;
}

/* A token says who its holder is only if nobody else has it. */
static bool
is_taken(const struct sched_tokens *tokens, const char *text, const char *user)
{
    for (unsigned i = 0; i < tokens->n; i++) {
        const struct sched_token *t = &tokens->list[i];

        if (!strcmp(t->text, text) && (!t->user || strcmp(t->user, user) != 0))
            return true;
    }
    return false;
}

static int
take_user(struct source *source, char *line, struct gp_err *err)
{
    char *rights = strchr(line, ':'), *text = rights ? strchr(rights + 1, ':') : NULL;
    unsigned bits;
    int r;

    if (!text)
        return gp_err_set(err, -EINVAL, "NAME:RIGHT,...:TOKEN is wanted");
    *rights++ = '\0';
    *text++ = '\0';
    if (!is_user_name(line))
        return gp_err_set(err, -EINVAL,
                          "a user's name has 1 to %d characters, "
                          "without blanks, quotes, / and @",
                          CTL_OWNER_MAX - 1);
    if (strlen(text) < SCHED_USER_TOKEN_MIN || strlen(text) >= CTL_TOKEN_MAX)
        return gp_err_set(err, -EINVAL,
                          "the token of %s has not %d to %d characters (openssl "
                          "rand -base64 32 makes one)",
                          line, SCHED_USER_TOKEN_MIN, CTL_TOKEN_MAX - 1);
    if (is_taken(source->tokens, text, line))
        return gp_err_set(err, -EEXIST, "the token of %s is somebody else's as well",
                          line);
    if (source->n == SCHED_USERS_MAX)
        return gp_err_set(err, -E2BIG, "more than %d users", SCHED_USERS_MAX);
    r = read_rights(rights, &bits, err);
    return r < 0 ? r : add(source->tokens, text, bits, NULL, line);
}

/* A line that begins with # is a comment in every file: as a token of a role it would
 * be one that can be guessed. */
static int
take_lines(struct source *source, char *text, take_line *take, struct gp_err *err)
{
    for (char *line; (line = strsep(&text, "\n"));) {
        unsigned before = source->tokens->n;
        size_t len = strlen(line);
        int r;

        source->line++;
        if (len && line[len - 1] == '\r')
            line[len - 1] = '\0';
        if (!*line || *line == '#')
            continue;
        r = take(source, line, err);
        if (r < 0)
            return gp_err_wrap(err, r, "%s:%u", source->path, source->line);
        source->n += source->tokens->n - before;
    }
    return 0;
}

/* @path NULL: no such file was named. */
static int
load(struct source *source, const char *path, size_t max, take_line *take,
     struct gp_err *err)
{
    char *text;
    size_t len;
    int r;

    if (!path)
        return 0;
    source->path = path;
    source->line = source->n = 0;
    r = gp_file_read(path, max, &text, &len, err);
    if (r < 0)
        return r;
    r = take_lines(source, text, take, err);
    explicit_bzero(text, len);
    free(text);
    return r;
}

static int
load_role(struct source *source, enum sched_role role, const char *path,
          struct gp_err *err)
{
    int r;

    source->role = role;
    r = load(source, path, (size_t)SCHED_ROLE_TOKENS_MAX * CTL_TOKEN_MAX, take_role,
             err);
    return !r && path && !source->n ? gp_err_set(err, -EINVAL, "%s: no token", path)
                                    : r;
}

/* The mode of a file that everybody can read, else 0. */
static unsigned
open_mode(const char *path)
{
    struct stat st;

    return path && stat(path, &st) == 0 && (st.st_mode & S_IRWXO)
               ? (unsigned)(st.st_mode & 07777)
               : 0;
}

/* Who reads another's token is that user. */
static int
check_private(const char *path, struct gp_err *err)
{
    unsigned mode = open_mode(path);

    return mode ? gp_err_set(err, -EPERM,
                             "%s: mode %04o lets everybody read the users' tokens "
                             "(chmod o= helps)",
                             path, mode)
                : 0;
}

/* Pools have run with such files since before users had tokens, so they still start. */
static void
warn_of_open_file(const char *path)
{
    unsigned mode = open_mode(path);

    if (mode)
        gp_log_warn("sched",
                    "%s: mode %04o lets everybody read the tokens (chmod o= helps)",
                    path, mode);
}

int
sched_tokens_load(const struct sched_config *config, struct sched_tokens **ret,
                  struct gp_err *err)
{
    CLEANUP(sched_tokens_freep)
    struct sched_tokens *tokens = calloc(1, sizeof(*tokens));
    struct source source = {.tokens = tokens};
    int r = tokens ? 0 : -ENOMEM;

    for (int role = 0; !r && role < SCHED_ROLES; role++)
        r = load_role(&source, (enum sched_role)role, config->token_files[role], err);
    if (!r)
        r = load(&source, config->server_tokens_file,
                 (size_t)(CTL_NAME_MAX + CTL_TOKEN_MAX) * SCHED_SERVER_TOKENS_MAX,
                 take_server, err);
    if (!r)
        r = check_private(config->users_file, err);
    if (!r)
        r = load(&source, config->users_file,
                 (size_t)(CTL_OWNER_MAX + CTL_TOKEN_MAX + 32) * SCHED_USERS_MAX,
                 take_user, err);
    if (r < 0)
        return r;
    for (int role = 0; role < SCHED_ROLES; role++)
        warn_of_open_file(config->token_files[role]);
    warn_of_open_file(config->server_tokens_file);
    *ret = TAKE_PTR(tokens);
    return 0;
}

/* ----------------------------------------------------------------- look-up -- */

const struct sched_token *
sched_tokens_find(const struct sched_tokens *tokens, unsigned rights,
                  const char *server, bool (*is_it)(const char *, void *), void *arg)
{
    const struct sched_token *found = NULL;

    /* All of them, so that the time tells nothing of where it is. */
    for (unsigned i = 0; i < tokens->n; i++) {
        const struct sched_token *t = &tokens->list[i];

        if ((t->rights & rights) &&
            (!t->server || !server || !strcmp(t->server, server)) &&
            is_it(t->text, arg) && (!found || t->server))
            found = t;
    }
    return found;
}

static bool
same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

const struct sched_token *
sched_tokens_same(const struct sched_tokens *tokens, const struct sched_token *token)
{
    for (unsigned i = 0; i < tokens->n; i++) {
        const struct sched_token *t = &tokens->list[i];

        if (t->rights == token->rights && same(t->text, token->text) &&
            same(t->server, token->server) && same(t->user, token->user))
            return t;
    }
    return NULL;
}

bool
sched_tokens_give(const struct sched_tokens *tokens, unsigned rights)
{
    for (unsigned i = 0; i < tokens->n; i++)
        if (tokens->list[i].rights & rights)
            return true;
    return false;
}

bool
sched_tokens_has_server(const struct sched_tokens *tokens, const char *name)
{
    for (unsigned i = 0; i < tokens->n; i++)
        if (same(tokens->list[i].server, name))
            return true;
    return false;
}

bool
sched_tokens_has_user(const struct sched_tokens *tokens, const char *owner)
{
    size_t len = strcspn(owner, "@/");

    for (unsigned i = 0; i < tokens->n; i++) {
        const char *user = tokens->list[i].user;

        if (user && strlen(user) == len && !memcmp(user, owner, len))
            return true;
    }
    return false;
}

bool
sched_tokens_user_may(const struct sched_tokens *tokens, const char *user,
                      enum sched_right right)
{
    for (unsigned i = 0; i < tokens->n; i++)
        if (same(tokens->list[i].user, user) && (tokens->list[i].rights & right))
            return true;
    return false;
}
