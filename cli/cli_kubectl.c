/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_kubectl.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* `kubectl get elasticgpus -o json` of 10,000 objects is about 30 MiB. */
#define OUTPUT_MAX (256u * 1024u * 1024u)

/* A file without a name: no pipe that fills up while the other is read. */
static int
scratch(const char *text)
{
    int fd = memfd_create("kubectl", MFD_CLOEXEC);

    if (fd >= 0 && text &&
        (gp_file_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static char *
content(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text;

    if (size < 0 || size > (off_t)OUTPUT_MAX)
        return NULL;
    text = calloc(1, (size_t)size + 1);
    if (text && pread(fd, text, (size_t)size, 0) != size)
        text[0] = '\0';
    return text;
}

static void
child(const char *const *args, int in, int out, int error)
{
    const char *argv[CLI_KUBECTL_ARGS_MAX + 2] = {"kubectl"};

    for (size_t i = 0; args[i] && i < CLI_KUBECTL_ARGS_MAX; i++)
        argv[i + 1] = args[i];
    if (dup2(in, 0) < 0 || (out >= 0 && dup2(out, 1) < 0) || dup2(error, 2) < 0)
        _exit(126);
    execvp("kubectl", (char **)argv);
    _exit(127);
}

int
cli_kubectl(const char *const *args, const char *input, char **ret_output,
            struct gp_err *err)
{
    CLEANUP_FD int in = scratch(input), error = scratch(NULL);
    CLEANUP_FD int out = ret_output ? scratch(NULL) : -1;
    CLEANUP_FREE char *words = NULL;
    int status;
    pid_t pid;

    if (in < 0 || error < 0 || (ret_output && out < 0))
        return gp_err_set(err, -errno, "no temporary file: %s", strerror(errno));
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        child(args, in, out, error);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return gp_err_set(err, -errno, "kubectl: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return gp_err_set(err, -ENOENT, "there is no kubectl on the PATH");
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        words = content(error);
        if (words)
            words[strcspn(words, "\n")] = '\0';
        return gp_err_set(err, -EREMOTE, "kubectl %s: %.400s", args[0],
                          words && *words ? words : "failed without a word");
    }
    if (ret_output)
        *ret_output = content(out);
    return ret_output && !*ret_output ? -ENOMEM : 0;
}

int
cli_kubectl_json(const char *const *args, json_t **ret, struct gp_err *err)
{
    const char *more[CLI_KUBECTL_ARGS_MAX] = {NULL};
    CLEANUP_FREE char *text = NULL;
    size_t n = 0;
    int r;

    while (args[n] && n < CLI_KUBECTL_ARGS_MAX - 3) {
        more[n] = args[n];
        n++;
    }
    more[n] = "-o";
    more[n + 1] = "json";
    r = cli_kubectl(more, NULL, &text, err);
    if (r < 0)
        return r;
    if (!*text)
        return gp_err_set(err, -ENODATA, "kubectl %s %s: it is not there", args[0],
                          args[1] ? args[1] : "");
    *ret = json_loads(text, 0, NULL);
    return *ret ? 0 : gp_err_set(err, -EPROTO, "kubectl's answer is no JSON");
}
