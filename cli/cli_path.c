/* SPDX-License-Identifier: Apache-2.0 */
/* Where this installation keeps its files, and who calls. */
#include "cli.h"

#include "ctl_limits.h"
#include "gp_str.h"

#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

int
cli_fail(int status, const char *fmt, ...)
{
    char words[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(words, sizeof(words), fmt, ap);
    va_end(ap);
    fprintf(stderr, "gpupool: %s\n", words);
    return status;
}

/* Folder of the running executable, without a trailing slash.  Without /proc, as in
 * many a chroot, by the path that it was started by. */
static bool
own_folder(char folder[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    const char *started = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    char *slash;

    folder[n > 0 ? n : 0] = 0;
    if (n <= 0 && (!started || !realpath(started, folder)))
        return false;
    slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = 0;
    return true;
}

char *
cli_path_bin(const char *name)
{
    char folder[PATH_MAX];
    CLEANUP_FREE char *path = NULL;

    if (!own_folder(folder))
        return NULL;
    path = gp_str_printf("%s/%s", folder, name);
    return path && !access(path, X_OK) ? TAKE_PTR(path) : NULL;
}

/* A build tree has bin/ and lib/; an installation may keep its libraries in a folder of
 * their own, so that no other program finds our libcuda.so.1 by accident. */
char *
cli_path_lib(void)
{
    static const char *const places[] = {"../lib/gpupool", "../lib"};
    char folder[PATH_MAX];

    if (!own_folder(folder))
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        CLEANUP_FREE char *dir = gp_str_printf("%s/%s", folder, places[i]);
        CLEANUP_FREE char *file = dir ? gp_str_printf("%s/libcuda.so.1", dir) : NULL;

        if (file && !access(file, R_OK))
            return realpath(dir, NULL);
    }
    return NULL;
}

const char *
cli_owner(void)
{
    static char owner[CTL_OWNER_MAX];
    const struct passwd *pw = getpwuid(getuid());
    char host[64] = "";

    gethostname(host, sizeof(host) - 1);
    if (pw)
        snprintf(owner, sizeof(owner), "%.60s@%s", pw->pw_name, host);
    else
        snprintf(owner, sizeof(owner), "%u@%s", (unsigned)getuid(), host);
    return owner;
}
