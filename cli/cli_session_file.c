/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_session_file.h"

#include "cli_folder.h"
#include "ctl_limits.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "gp_utf8.h"
#include "wire_format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define END_SUFFIX ".end"
/* More than several lines of the stub, of which the longest have some 700 characters;
 * what further processes of the program have left is not read. */
#define END_LINES_MAX 4096

/* "s7.1234", "s7.1234.end" -> 1234, 0 when it is not one of ours. */
static pid_t
owner_of(const char *file)
{
    size_t len = strlen(file), end = strlen(END_SUFFIX);
    char name[NAME_MAX + 1];
    const char *dot;
    uint64_t pid;

    gp_str_copy(name, sizeof(name), file);
    if (len > end && strcmp(file + len - end, END_SUFFIX) == 0)
        name[len - end] = '\0';
    dot = strrchr(name, '.');
    if (name[0] != 's' || !dot || gp_str_u64(dot + 1, 2, INT32_MAX, &pid) < 0)
        return 0;
    return (pid_t)pid;
}

static void
sweep(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        pid_t pid = owner_of(entry->d_name);

        if (pid && kill(pid, 0) < 0 && errno == ESRCH)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
}

/* "s" and digits, which is what schedulers give: the name becomes part of a path, and a
 * false scheduler must not choose the folder. */
static bool
name_ok(const char *name)
{
    uint64_t number;

    return name[0] == 's' && strlen(name) < CTL_NAME_MAX &&
           gp_str_u64(name + 1, 0, UINT64_MAX, &number) == 0;
}

int
cli_session_file_path(const char *name, char **ret_path, struct gp_err *err)
{
    CLEANUP_FREE char *folder = NULL;
    char *path;
    int r;

    if (!name_ok(name))
        return gp_err_set(err, -EPROTO,
                          "the scheduler's name for the session is not like s7");
    r = cli_folder_file("sessions", &folder, err);
    if (!r)
        r = gp_file_mkdirs(folder, 0700, err);
    if (r < 0)
        return r;
    sweep(folder);
    path = gp_str_printf("%s/%s.%d", folder, name, (int)getpid());
    if (!path)
        return -ENOMEM;
    *ret_path = path;
    return 0;
}

int
cli_session_file_await_end(const char *path, struct gp_err *err)
{
    CLEANUP_FREE char *end = gp_str_printf("%s" END_SUFFIX, path);

    return end ? gp_file_replace(end, "", 0, 0600, err) : -ENOMEM;
}

/* The program may have written it. */
static char *
printable(char *line)
{
    gp_utf8_mask(line);
    return strdup(line);
}

char *
cli_session_file_take_end(const char *path, bool failed, bool *ret_found)
{
    CLEANUP_FREE char *end = gp_str_printf("%s" END_SUFFIX, path);
    CLEANUP_FD int fd = end ? open(end, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    char text[END_LINES_MAX], *lost = NULL, *cause = NULL, *rest = NULL;
    const size_t prefix = strlen(WIRE_ENDING_CAUSE);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    *ret_found = false;
    if (fd >= 0)
        unlink(end);
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, WIRE_ENDING_CHECK, strlen(WIRE_ENDING_CHECK)) == 0)
            *ret_found = true;
        else if (strncmp(line, WIRE_ENDING_CAUSE, prefix) != 0)
            lost = lost ? lost : line;
        else if (!cause)
            cause = line + prefix;
    }
    if (lost)
        return printable(lost);
    return cause && failed ? printable(cause) : NULL;
}

int
cli_session_file_write(const char *path, const Gpupool__Ctl__CtlGrant *grant,
                       const uint8_t *secret, struct gp_err *err)
{
    CLEANUP_FREE char *bound = secret ? gp_b64_encode(secret, GP_X25519_SIZE) : NULL;
    CLEANUP_FREE char *text = NULL;
    size_t size;
    FILE *f;

    if (secret && !bound)
        return -ENOMEM;
    f = open_memstream(&text, &size);
    if (!f)
        return -ENOMEM;
    fprintf(f, "gpupool-session 1\nsession %s\n", grant->session);
    if (bound)
        fprintf(f, "secret %s\n", bound);
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
    if (fclose(f) != 0)
        return -ENOMEM;
    return gp_file_replace(path, text, size, 0600, err);
}
