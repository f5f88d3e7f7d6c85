/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_err.h"
#include "gp_str.h"
#include "tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libgpupool-tls.so.1"
#define ENTRY "gpupool_tls_api"

static const struct tls_api *found_api;
static char found_why[256];
static pthread_once_t found_once = PTHREAD_ONCE_INIT;

/* The path of the file that this code is in.  For the main program the dynamic linker
 * knows only the name that it was started with. */
static bool
own_path(char path[PATH_MAX])
{
    Dl_info info;
    ssize_t n;

    if (dladdr((void *)&found_once, &info) && info.dli_fname &&
        strchr(info.dli_fname, '/'))
        return gp_str_copy(path, PATH_MAX, info.dli_fname);
    n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n > 0)
        path[n] = '\0';
    return n > 0;
}

static void *
open_beside(const char *suffix)
{
    char path[PATH_MAX];
    char *slash = own_path(path) ? strrchr(path, '/') : NULL;
    size_t room = slash ? sizeof(path) - (size_t)(slash - path) : 0;

    if (!slash || !gp_str_copy(slash, room, suffix))
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void
find(void)
{
    const struct tls_api *(*entry)(void);
    static const char *const beside[] = {"/" LIBRARY, "/../lib/" LIBRARY,
                                         "/../lib/gpupool/" LIBRARY};
    void *library = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(beside) && !library; i++)
        library = open_beside(beside[i]);
    if (!library)
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();

        gp_str_copy(found_why, sizeof(found_why), why ? why : LIBRARY);
        return;
    }
    *(void **)&entry = dlsym(library, ENTRY);
    if (!entry || entry()->version != TLS_API_VERSION)
        gp_str_copy(found_why, sizeof(found_why),
                    LIBRARY " is of another version of gpupool");
    else
        found_api = entry();
}

const struct tls_api *
tls_found(struct gp_err *err)
{
    pthread_once(&found_once, find);
    if (!found_api)
        gp_err_set(err, -ENOENT, "no TLS here: %s", found_why);
    return found_api;
}
