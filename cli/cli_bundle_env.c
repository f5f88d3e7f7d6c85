/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_bundle_env.h"

#include "cli.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Words of a line; those that `gpupool init` writes have 16. */
#define WORDS_MAX 256

/* The daemon says what is wrong with its options and ends; see gp_option.c. */
#define CHECK "--check-options"

struct arguments {
    char *words[WORDS_MAX + 1]; /* NULL at the end */
    size_t n;
};

static void
arguments_fini(struct arguments *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->words[i]);
}

static int
add(struct arguments *a, char *word, struct gp_err *err)
{
    if (word && a->n < WORDS_MAX) {
        a->words[a->n++] = word;
        return 0;
    }
    free(word);
    return word ? gp_err_set(err, -E2BIG, "more than %d words", WORDS_MAX) : -ENOMEM;
}

/* A file that is in the folder is read there: it need not be in its place yet. */
static char *
here(const char *folder, const char *word)
{
    const char *last = *word == '/' ? strrchr(word, '/') + 1 : "";
    CLEANUP_FREE char *path = *last ? gp_str_printf("%s/%s", folder, last) : NULL;

    return path && access(path, F_OK) == 0 ? TAKE_PTR(path) : strdup(word);
}

/* The flags of a line with the unit's variable, as systemd takes them apart. */
static int
add_flags(struct arguments *a, const char *folder, const char *flags,
          struct gp_err *err)
{
    CLEANUP_FREE char *text = strdup(flags);
    char *save = NULL;
    int r = text ? 0 : -ENOMEM;

    for (char *word = text ? strtok_r(text, " \t", &save) : NULL; word && !r;
         word = strtok_r(NULL, " \t", &save))
        r = add(a, here(folder, word), err);
    return r;
}

static void
child(const char *path, char **argv, const char *variable, int out)
{
    const char *env[] = {variable, NULL};

    if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
        _exit(126);
    execve(path, argv, (char **)(uintptr_t)env);
    _exit(126);
}

/* What the daemon said, without its name. */
static int
words_of(int fd, const char *program, struct gp_err *err)
{
    char text[sizeof(err->msg)] = "";
    size_t len = strlen(program);
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (!strncmp(text, program, len) && !strncmp(text + len, ": ", 2))
        len += 2;
    else
        len = 0;
    if (strstr(text, CHECK)) /* an older one */
        return gp_err_set(err, -ENOENT, "%s cannot check its options", program);
    return gp_err_set(err, -EINVAL, "%s", text[len] ? text + len : "it does not start");
}

static int
ask(const char *program, char **argv, const char *variable, struct gp_err *err)
{
    CLEANUP_FREE char *path = cli_path_bin(program);
    CLEANUP_FD int out = path ? memfd_create("words", MFD_CLOEXEC) : -1;
    int status;
    pid_t pid;

    if (!path)
        return gp_err_set(err, -ENOENT, "%s is not installed here", program);
    if (out < 0)
        return gp_err_set(err, -errno, "no temporary file: %s", strerror(errno));
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        child(path, argv, variable, out);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return gp_err_set(err, -errno, "%s: %s", program, strerror(errno));
    return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : words_of(out, program, err);
}

/* "VALUE" and 'VALUE' are VALUE. */
static char *
without_quotes(const char *line)
{
    const char *value = strchr(line, '=') + 1;
    size_t len = strlen(value);

    if (len > 1 && (*value == '"' || *value == '\'') && value[len - 1] == *value)
        return gp_str_printf("%.*s%.*s", (int)(value - line), line, (int)len - 2,
                             value + 1);
    return strdup(line);
}

/* The value of a variable that a unit of deploy/systemd takes flags from, or NULL. */
static const char *
flags_of(const char *variable)
{
    static const char *const names[] = {
        "GPUPOOL_SCHEDULER_FLAGS=", "GPUPOOL_SERVER_FLAGS=",
        "GPUPOOL_SERVER_OWN_FLAGS="};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!strncmp(variable, names[i], strlen(names[i])))
            return variable + strlen(names[i]);
    return NULL;
}

int
cli_bundle_env_line(const char *program, const char *folder, const char *line,
                    struct gp_err *err)
{
    CLEANUP(arguments_fini) struct arguments a = {.n = 0};
    CLEANUP_FREE char *variable = strchr(line, '=') ? without_quotes(line) : NULL;
    const char *flags = variable ? flags_of(variable) : NULL;
    int r;

    if (!strchr(line, '='))
        return gp_err_set(err, -EINVAL, "NAME=VALUE is wanted");
    r = variable ? add(&a, strdup(program), err) : -ENOMEM;
    if (!r)
        r = add(&a, strdup(CHECK), err);
    if (!r && flags)
        r = add_flags(&a, folder, flags, err);
    return r < 0 ? r : ask(program, a.words, flags ? NULL : variable, err);
}
