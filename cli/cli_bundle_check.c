/* SPDX-License-Identifier: Apache-2.0 */
/* Are the folders of `gpupool init` whole, private, and of one pool? */
#include "cli_bundle.h"
#include "cli_bundle_env.h"
#include "ctl_limits.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "ticket_keys.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (512u * 1024u)
#define TOKEN_MIN 16

struct check {
    const char *dir;
    unsigned folders;
    int faults;
    char *known;                  /* the scheduler's tokens, if its folder is here */
    uint8_t pub[TICKET_PUB_SIZE]; /* of the pool */
    char pub_from[CTL_WORD_MAX];  /* the file that said so; "": none yet */
};

static void GP_PRINTF(2, 3) fault(struct check *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("BAD   ", stdout);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
    c->faults++;
}

/* The text of a file; NULL: it cannot be read, which is a fault if it is @needed. */
static char *
text_of(struct check *c, const char *folder, const char *name, bool needed)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/%s/%s", c->dir, folder, name);
    struct gp_err err = {0};
    char *text = NULL;
    size_t len;
    int r = path ? gp_file_read(path, FILE_MAX, &text, &len, &err) : -ENOMEM;

    if (r < 0 && (needed || r != -ENOENT))
        fault(c, "%s", gp_err_msg(&err, r));
    return r < 0 ? NULL : text;
}

/* @group: the scheduler's unit reads it by its group. */
static void
check_private(struct check *c, const char *folder, const char *name, bool group)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/%s/%s", c->dir, folder, name);
    mode_t forbidden = S_IRWXO | S_IWGRP | S_IXGRP | (group ? 0 : S_IRGRP);
    struct stat st;

    if (path && stat(path, &st) == 0 && (st.st_mode & forbidden))
        fault(c, "%s: mode %04o lets others read a secret (chmod %s)", path,
              (unsigned)(st.st_mode & 07777), group ? "640" : "600");
}

/* Files that were copied from another host may have lost the group by which the unit of
 * this host reads them, and root, who asks, reads them all the same. */
static void
check_group(struct check *c, const char *name, const struct group *group)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/scheduler%s", c->dir, name);
    mode_t wanted = *name ? S_IRGRP : S_IRGRP | S_IXGRP;
    struct stat st;

    if (!path || stat(path, &st) < 0 || st.st_uid != 0 ||
        (st.st_mode & wanted >> 3) == wanted >> 3 ||
        (st.st_gid == group->gr_gid && (st.st_mode & wanted) == wanted))
        return;
    fault(c,
          "%s: the group %s, as which the scheduler's unit runs, cannot read it "
          "(chgrp %s, chmod %s)",
          path, group->gr_name, group->gr_name, *name ? "640" : "750");
}

static void
check_groups(struct check *c)
{
    static const char *const files[] = {
        "",       "/ticket-key.pem", "/server-token", "/server-tokens", "/client-token",
        "/users", "/admin-token"};
    const struct group *group = geteuid() == 0 && !strcmp(c->dir, CLI_BUNDLE_DIR)
                                    ? getgrnam(CLI_BUNDLE_GROUP)
                                    : NULL;

    for (size_t i = 0; group && i < ARRAY_SIZE(files); i++)
        check_group(c, files[i], group);
}

/* All folders have the key of one scheduler. */
static void
check_pub(struct check *c, const char *folder, const uint8_t *pub, const char *file)
{
    if (!c->pub_from[0]) {
        memcpy(c->pub, pub, TICKET_PUB_SIZE);
        snprintf(c->pub_from, sizeof(c->pub_from), "%.60s/%.60s", folder, file);
    } else if (memcmp(c->pub, pub, TICKET_PUB_SIZE) != 0) {
        fault(c, "%s/%s/%s: the key of another scheduler than %s", c->dir, folder, file,
              c->pub_from);
    }
}

static void
check_pub_file(struct check *c, const char *folder)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/%s/scheduler-key.pub", c->dir, folder);
    CLEANUP(ticket_keys_freep) struct ticket_keys *keys = NULL;
    struct gp_err err = {0};
    int r = path ? ticket_keys_load(path, &keys, &err) : -ENOMEM;

    if (r < 0)
        fault(c, "%s", gp_err_msg(&err, r));
    else if (c->pub_from[0] && ticket_keys_have(keys, c->pub))
        return; /* perhaps beside another, during a change */
    else
        check_pub(c, folder, ticket_key_pub(ticket_keys_first(keys)),
                  "scheduler-key.pub");
}

/* What follows the word @before in an environment, if that takes an address. */
static void
check_address(struct check *c, const char *folder, const char *name, const char *before,
              const char *word)
{
    bool listens = !strcmp(before, "--listen");
    struct gp_err err = {0};

    if ((listens || !strcmp(before, "--scheduler") ||
         !strcmp(before, "GPUPOOL_SCHEDULER")) &&
        cli_bundle_check_address(word, listens, &err) < 0)
        fault(c, "%s/%s/%s: %s %s", c->dir, folder, name, before, err.msg);
}

/* The files that an environment names, by their last part, are in the folder. */
static void
check_env(struct check *c, const char *folder, const char *name)
{
    CLEANUP_FREE char *text = text_of(c, folder, name, true);
    const char *before = "";
    char *save = NULL;

    for (char *word = text ? strtok_r(text, " =\n", &save) : NULL; word;
         word = strtok_r(NULL, " =\n", &save)) {
        const char *last = *word == '/' ? strrchr(word, '/') + 1 : NULL;
        CLEANUP_FREE char *path =
            last ? gp_str_printf("%s/%s/%s", c->dir, folder, last) : NULL;

        if (path && access(path, F_OK) < 0)
            fault(c, "%s/%s/%s names %s, which is not in the folder", c->dir, folder,
                  name, word);
        check_address(c, folder, name, before, word);
        before = word;
    }
}

/* Would @program start with each line of an environment?  Where it is not installed
 * nobody can say.  @folder "": that of all folders. */
static void
check_lines(struct check *c, const char *folder, const char *name, const char *program)
{
    CLEANUP_FREE char *text = text_of(c, folder, name, false);
    CLEANUP_FREE char *path =
        gp_str_printf("%s%s%s", c->dir, *folder ? "/" : "", folder);
    char *rest = text;
    int r = path ? 0 : -ENOMEM;

    for (unsigned n = 1; rest && r != -ENOENT; n++) {
        char *line = gp_str_trim(strsep(&rest, "\n"));
        struct gp_err err = {0};

        if (!*line || *line == '#' || *line == ';') /* comments of systemd */
            continue;
        r = cli_bundle_env_line(program, path, line, &err);
        if (r < 0 && r != -ENOENT)
            fault(c, "%s/%s:%u: %s", path, name, n, gp_err_msg(&err, r));
    }
}

/* Does the scheduler know this token, if its folder is here? */
static void
check_token(struct check *c, const char *folder)
{
    CLEANUP_FREE char *token = text_of(c, folder, "token", true);

    if (!token)
        return;
    token[strcspn(token, "\r\n")] = '\0';
    if (strlen(token) < TOKEN_MIN)
        fault(c, "%s/%s/token: shorter than %d characters", c->dir, folder, TOKEN_MIN);
    else if (c->known && !strstr(c->known, token))
        fault(c, "%s/%s/token: %s/scheduler does not know it", c->dir, folder, c->dir);
    explicit_bzero(token, strlen(token));
    check_private(c, folder, "token", false);
}

/* The lines of @file: NAME:TOKEN, or those of users, with rights in the middle.  A name
 * may be there twice, with its old and its new token. */
static void
check_list(struct check *c, const char *file, bool users)
{
    CLEANUP_FREE char *text = text_of(c, "scheduler", file, false);
    char *rest = text;

    for (unsigned n = 1; rest; n++) {
        char *line = strsep(&rest, "\n");
        char *rights = strchr(line, ':');
        char *token = rights && users ? strchr(rights + 1, ':') : rights;
        struct gp_err err = {0};

        if (!line[strspn(line, "\r")] || *line == '#')
            continue;
        if (!token) {
            fault(c, "%s/scheduler/%s:%u: NAME:%sTOKEN is wanted", c->dir, file, n,
                  users ? "RIGHT,...:" : "");
            continue;
        }
        *rights = *token = '\0';
        if (users && cli_bundle_check_rights(rights + 1, &err) < 0)
            fault(c, "%s/scheduler/%s:%u: %s: %s", c->dir, file, n, line, err.msg);
    }
    if (text)
        explicit_bzero(text, strlen(text));
}

static void
check_scheduler(struct check *c)
{
    static const char *const secrets[] = {"server-token", "server-tokens",
                                          "client-token", "users", "admin-token"};
    CLEANUP_FREE char *path = gp_str_printf("%s/scheduler/ticket-key.pem", c->dir);
    CLEANUP(ticket_key_freep) struct ticket_key *key = NULL;
    struct gp_err err = {0};
    int r = path ? ticket_key_open(path, &key, &err) : -ENOMEM;

    if (r < 0)
        fault(c, "%s", gp_err_msg(&err, r));
    else
        check_pub(c, "scheduler", ticket_key_pub(key), "ticket-key.pem");
    c->known = strdup("");
    for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
        CLEANUP_FREE char *text = text_of(c, "scheduler", secrets[i], false);
        char *both = text && c->known ? gp_str_printf("%s%s", c->known, text) : NULL;

        if (both) {
            free(c->known);
            c->known = both;
        }
        check_private(c, "scheduler", secrets[i], true);
    }
    check_groups(c);
    check_list(c, "server-tokens", false);
    check_list(c, "users", true);
    check_pub_file(c, "scheduler");
    check_env(c, "scheduler", "scheduler.env");
    check_lines(c, "scheduler", "scheduler.env", "gpupool-scheduler");
    c->folders++;
}

static void
check_folder(struct check *c, const char *folder)
{
    bool server = !strcmp(folder, "server") || !strncmp(folder, "server-", 7);
    bool client = !strcmp(folder, "client") || !strncmp(folder, "client-", 7) ||
                  !strcmp(folder, "admin");

    if (!server && !client)
        return;
    check_pub_file(c, folder);
    check_token(c, folder);
    check_env(c, folder, server ? "server.env" : "client.env");
    if (server)
        check_lines(c, folder, "server.env", "gpupool-server");
    c->folders++;
}

int
cli_bundle_check(const char *dir, struct gp_err *err)
{
    struct check c = {.dir = dir};
    CLEANUP_FREE char *scheduler = gp_str_printf("%s/scheduler", dir);
    struct dirent *entry;
    DIR *folders = opendir(dir);

    if (!folders)
        return gp_err_set(err, -errno, "%s: %s", dir, strerror(errno));
    if (scheduler && access(scheduler, F_OK) == 0)
        check_scheduler(&c); /* first: the others are compared with it */
    while ((entry = readdir(folders)))
        check_folder(&c, entry->d_name);
    closedir(folders);
    check_lines(&c, "", "server.env", "gpupool-server"); /* this host's own flags */
    if (c.known)
        explicit_bzero(c.known, strlen(c.known));
    free(c.known);
    if (!c.folders)
        return gp_err_set(err, -ENOENT,
                          "%s: no folder of a pool (gpupool init makes them)", dir);
    printf("%s: %u folders, %d faults\n", dir, c.folders, c.faults);
    return c.faults;
}
