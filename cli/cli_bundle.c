/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_bundle.h"

#include "ctl_addresses.h"
#include "ctl_limits.h"
#include "ctl_rights.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_net.h"
#include "gp_str.h"
#include "ticket_key.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/* A list of all names and their tokens. */
#define LIST_MAX (CLI_BUNDLE_NAMES_MAX * 256)

struct maker {
    const struct cli_bundle *b;
    const struct ticket_key *key;
    char token[64];      /* the last that was made */
    char flags[1024];    /* of the scheduler */
    char list[LIST_MAX]; /* NAME:TOKEN lines, or NAME:RIGHTS:TOKEN */
};

static int
new_token(struct maker *m, struct gp_err *err)
{
    uint8_t secret[CLI_TOKEN_BYTES];
    CLEANUP_FREE char *text = NULL;

    if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
        return gp_err_set(err, -EIO, "no random numbers");
    text = gp_b64_encode(secret, sizeof(secret));
    explicit_bzero(secret, sizeof(secret));
    if (!text)
        return -ENOMEM;
    gp_str_copy(m->token, sizeof(m->token), text);
    explicit_bzero(text, strlen(text));
    return 0;
}

static int
write_file(const struct maker *m, const char *folder, const char *name,
           const char *text, unsigned mode, struct gp_err *err)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/%s/%s", m->b->dir, folder, name);

    return path ? gp_file_replace(path, text, strlen(text), mode, err) : -ENOMEM;
}

static int
write_line(const struct maker *m, const char *folder, const char *name,
           const char *text, struct gp_err *err)
{
    CLEANUP_FREE char *line = gp_str_printf("%s\n", text);
    int r = line ? write_file(m, folder, name, line, 0600, err) : -ENOMEM;

    if (line)
        explicit_bzero(line, strlen(line));
    return r;
}

static int
write_pub(const struct maker *m, const char *folder, struct gp_err *err)
{
    CLEANUP_FREE char *path =
        gp_str_printf("%s/%s/scheduler-key.pub", m->b->dir, folder);

    return path ? ticket_key_save_pub(m->key, NULL, path, err) : -ENOMEM;
}

/* The units' users pass through it; what is in it is private. */
static int
make_top(const char *dir, struct gp_err *err)
{
    int r;

    if (access(dir, F_OK) == 0)
        return 0;
    r = gp_file_mkdirs(dir, 0755, err);
    if (r < 0)
        return r;
    return chmod(dir, 0755) < 0
               ? gp_err_set(err, -errno, "%s: %s", dir, strerror(errno))
               : 0;
}

static int
make_folder(const struct maker *m, const char *folder, struct gp_err *err)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/%s", m->b->dir, folder);

    return path ? gp_file_mkdirs(path, 0700, err) : -ENOMEM;
}

static void
add_flag(struct maker *m, const char *option, const char *file)
{
    size_t len = strlen(m->flags);

    snprintf(m->flags + len, sizeof(m->flags) - len, " %s %s/scheduler/%s", option,
             m->b->target, file);
}

/* -------------------------------------------------------- servers and clients -- */

/* What is in a server's folder: its token is the last one made. */
static int
server_folder(struct maker *m, const char *folder, const char *name, struct gp_err *err)
{
    const struct cli_bundle *b = m->b;
    CLEANUP_FREE char *env = gp_str_printf(
        "GPUPOOL_SERVER_FLAGS=--scheduler %s --token-file %s/server/token "
        "--scheduler-key %s/server/scheduler-key.pub --tls require%s%s\n",
        b->scheduler, b->target, b->target, name ? " --name " : "", name ? name : "");
    int r = env ? make_folder(m, folder, err) : -ENOMEM;

    if (!r)
        r = write_line(m, folder, "token", m->token, err);
    if (!r)
        r = write_pub(m, folder, err);
    return r < 0 ? r : write_file(m, folder, "server.env", env, 0644, err);
}

/* The same for who uses the pool; @place is its folder on the user's host. */
static int
client_folder(struct maker *m, const char *folder, const char *place,
              struct gp_err *err)
{
    const struct cli_bundle *b = m->b;
    CLEANUP_FREE char *env =
        gp_str_printf("GPUPOOL_SCHEDULER=%s\n"
                      "GPUPOOL_TOKEN_FILE=%s/%s/token\n"
                      "GPUPOOL_SCHEDULER_KEY=%s/%s/scheduler-key.pub\n"
                      "GPUPOOL_TLS=require\n",
                      b->scheduler, b->target, place, b->target, place);
    int r = env ? make_folder(m, folder, err) : -ENOMEM;

    if (!r)
        r = write_line(m, folder, "token", m->token, err);
    if (!r)
        r = write_pub(m, folder, err);
    return r < 0 ? r : write_file(m, folder, "client.env", env, 0644, err);
}

static bool
is_name(const char *name)
{
    return *name && *name != '-' && strlen(name) < CTL_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "-_.") == strlen(name) &&
           !strstr(name, "..");
}

/* -------------------------------------------------------------------- checks -- */

int
cli_bundle_check_address(const char *text, bool listens, struct gp_err *err)
{
    char one[GP_NET_NAME_MAX];
    struct gp_net_addr addr;
    int r = strcspn(text, " \t\n") != strlen(text) ? -EINVAL : 0;

    for (unsigned i = 0; !r && i < ctl_addresses_count(text); i++) {
        ctl_addresses_nth(text, i, one, sizeof(one));
        r = gp_net_parse(one, 0, &addr, NULL);
        if (!r && ((!listens && !addr.host[0]) || !strcmp(addr.port, "0")))
            r = -EINVAL;
    }
    return r < 0 ? gp_err_set(err, -EINVAL,
                              "%s: HOST:PORT is wanted, with a port from 1 to 65535",
                              text)
                 : 0;
}

int
cli_bundle_check_rights(const char *rights, struct gp_err *err)
{
    CLEANUP_FREE char *copy = strdup(rights);
    char *save = NULL;

    if (!copy)
        return -ENOMEM;
    for (char *word = strtok_r(copy, ",", &save); word;
         word = strtok_r(NULL, ",", &save))
        if (ctl_right_parse(word) < 0)
            return gp_err_set(err, -EINVAL, "%.20s: a right is " CTL_RIGHT_WORDS, word);
    return 0;
}

/* "+" stands for the comma of the users' file.  *@ret_rights is within @text, whose
 * name is left. */
static int
split_user(char *text, char **ret_rights, struct gp_err *err)
{
    char *rights = strchr(text, ':');
    int r;

    if (rights)
        *rights++ = '\0';
    if (!is_name(text) || !rights || !*rights)
        return gp_err_set(err, -EINVAL,
                          "--users %s: NAME:RIGHT+RIGHT,... is wanted, with the rights "
                          "open, read, end, drain and forward",
                          text);
    for (char *p = rights; *p; p++)
        if (*p == '+')
            *p = ',';
    r = cli_bundle_check_rights(rights, err);
    if (r < 0)
        return gp_err_wrap(err, r, "--users %s", text);
    *ret_rights = rights;
    return 0;
}

static int
check_name(char *text, bool users, struct gp_err *err)
{
    char *rights;

    if (users)
        return split_user(text, &rights, err);
    return is_name(text)
               ? 0
               : gp_err_set(err, -EINVAL, "--servers %s: not a name of a server", text);
}

/* The names of a list, which no two have in common. */
static int
check_names(const char *list, bool users, struct gp_err *err)
{
    CLEANUP_FREE char *copy = strdup(list);
    const char *names[CLI_BUNDLE_NAMES_MAX];
    char *save = NULL;
    size_t n = 0;

    if (!copy)
        return -ENOMEM;
    for (char *one = strtok_r(copy, ",", &save); one;
         one = strtok_r(NULL, ",", &save)) {
        int r = check_name(one, users, err);

        if (r < 0)
            return r;
        if (n == CLI_BUNDLE_NAMES_MAX)
            return gp_err_set(err, -EINVAL, "--%s: more than %d names",
                              users ? "users" : "servers", CLI_BUNDLE_NAMES_MAX);
        for (size_t i = 0; i < n; i++)
            if (!strcmp(names[i], one))
                return gp_err_set(err, -EINVAL, "--%s: %s is there twice",
                                  users ? "users" : "servers", one);
        names[n++] = one;
    }
    return n ? 0
             : gp_err_set(err, -EINVAL, "--%s: no name in \"%s\"",
                          users ? "users" : "servers", list);
}

/* All that was given, before anything is made of it. */
static int
check_bundle(const struct cli_bundle *b, struct gp_err *err)
{
    int r = cli_bundle_check_address(b->scheduler, false, err);

    if (r < 0)
        return gp_err_wrap(err, r, "--scheduler");
    if (b->servers)
        r = check_names(b->servers, false, err);
    return !r && b->users ? check_names(b->users, true, err) : r;
}

/* ---------------------------------------------------------------------- names -- */

/* A line of the list for the scheduler: @rights is NULL for a server. */
static int
add_name(struct maker *m, const char *name, const char *rights, struct gp_err *err)
{
    size_t len = strlen(m->list);
    int n = snprintf(m->list + len, sizeof(m->list) - len, "%s:%s%s%s\n", name,
                     rights ? rights : "", rights ? ":" : "", m->token);

    return n < 0 || (size_t)n >= sizeof(m->list) - len
               ? gp_err_set(err, -E2BIG, "too many names")
               : 0;
}

static int
one_server(struct maker *m, char *name, struct gp_err *err)
{
    CLEANUP_FREE char *folder = gp_str_printf("server-%s", name);
    int r = folder ? new_token(m, err) : -ENOMEM;

    if (!r)
        r = server_folder(m, folder, name, err);
    return r < 0 ? r : add_name(m, name, NULL, err);
}

static int
one_user(struct maker *m, char *text, struct gp_err *err)
{
    CLEANUP_FREE char *folder = NULL;
    char *rights;
    int r = split_user(text, &rights, err);

    if (r < 0)
        return r;
    folder = gp_str_printf("client-%s", text);
    r = folder ? new_token(m, err) : -ENOMEM;
    if (!r)
        r = client_folder(m, folder, "client", err);
    return r < 0 ? r : add_name(m, text, rights, err);
}

/* All of a list with commas, then the scheduler's @file of them. */
static int
all_names(struct maker *m, const char *names,
          int (*one)(struct maker *, char *, struct gp_err *), const char *file,
          const char *option, struct gp_err *err)
{
    CLEANUP_FREE char *copy = strdup(names);
    char *save = NULL;
    int r = copy ? 0 : -ENOMEM;

    m->list[0] = '\0';
    for (char *name = copy ? strtok_r(copy, ",", &save) : NULL; !r && name;
         name = strtok_r(NULL, ",", &save))
        r = one(m, name, err);
    if (!r)
        r = write_file(m, "scheduler", file, m->list, 0600, err);
    explicit_bzero(m->list, sizeof(m->list));
    add_flag(m, option, file);
    return r;
}

/* One token for all of a role. */
static int
one_token(struct maker *m, const char *file, const char *option, struct gp_err *err)
{
    int r = new_token(m, err);

    add_flag(m, option, file);
    return r < 0 ? r : write_line(m, "scheduler", file, m->token, err);
}

static int
make_servers(struct maker *m, struct gp_err *err)
{
    int r;

    if (m->b->servers)
        return all_names(m, m->b->servers, one_server, "server-tokens",
                         "--server-tokens-file", err);
    r = one_token(m, "server-token", "--server-token-file", err);
    return r < 0 ? r : server_folder(m, "server", NULL, err);
}

static int
make_clients(struct maker *m, struct gp_err *err)
{
    int r;

    if (m->b->users)
        return all_names(m, m->b->users, one_user, "users", "--users-file", err);
    r = one_token(m, "client-token", "--client-token-file", err);
    return r < 0 ? r : client_folder(m, "client", "client", err);
}

/* ------------------------------------------------------------------ the rest -- */

static int
make_key(struct maker *m, struct ticket_key **ret, struct gp_err *err)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/scheduler/ticket-key.pem", m->b->dir);
    int r = path ? make_folder(m, "scheduler", err) : -ENOMEM;

    if (r < 0)
        return r;
    unlink(path); /* --force: a new one */
    r = ticket_key_load(path, ret, err);
    m->key = r < 0 ? NULL : *ret;
    add_flag(m, "--key-file", "ticket-key.pem");
    return r < 0 ? r : write_pub(m, "scheduler", err);
}

/* Root's files are for the unit's group as well, if there is one. */
static int
share_folder(const struct maker *m, struct gp_err *err)
{
    static const char *const files[] = {
        "",      "ticket-key.pem", "server-token", "server-tokens", "client-token",
        "users", "admin-token"};
    const struct group *group = geteuid() == 0 ? getgrnam(CLI_BUNDLE_GROUP) : NULL;

    for (size_t i = 0; group && i < ARRAY_SIZE(files); i++) {
        CLEANUP_FREE char *path = gp_str_printf("%s/scheduler/%s", m->b->dir, files[i]);

        if (!path)
            return -ENOMEM;
        if (access(path, F_OK) < 0)
            continue;
        if (chown(path, 0, group->gr_gid) < 0 ||
            chmod(path, *files[i] ? 0640 : 0750) < 0)
            return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    return 0;
}

static int
make_all(struct maker *m, struct ticket_key **ret_key, struct gp_err *err)
{
    const char *port = strrchr(m->b->scheduler, ':');
    CLEANUP_FREE char *env = NULL;
    int r;

    snprintf(m->flags, sizeof(m->flags), "--listen [::]%s --tls require", port);
    r = make_key(m, ret_key, err);
    if (!r)
        r = make_servers(m, err);
    if (!r)
        r = make_clients(m, err);
    if (!r)
        r = one_token(m, "admin-token", "--admin-token-file", err);
    if (!r)
        r = client_folder(m, "admin", "admin", err);
    env = r < 0 ? NULL : gp_str_printf("GPUPOOL_SCHEDULER_FLAGS=%s\n", m->flags);
    if (!r)
        r = env ? write_file(m, "scheduler", "scheduler.env", env, 0644, err) : -ENOMEM;
    return r < 0 ? r : share_folder(m, err);
}

int
cli_bundle_make(const struct cli_bundle *b, bool force, struct gp_err *err)
{
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    CLEANUP_FREE char *scheduler = gp_str_printf("%s/scheduler", b->dir);
    CLEANUP_FREE struct maker *m = calloc(1, sizeof(*m));
    int r = check_bundle(b, err);

    if (r < 0)
        return r;
    if (!m || !scheduler)
        return -ENOMEM;
    if (!force && access(scheduler, F_OK) == 0)
        return gp_err_set(err, -EEXIST,
                          "%s: a pool's keys are there already; --force replaces them, "
                          "and what has the old ones is refused from then on",
                          b->dir);
    m->b = b;
    r = make_top(b->dir, err);
    if (!r)
        r = make_all(m, &key, err);
    explicit_bzero(m, sizeof(*m));
    return r;
}
