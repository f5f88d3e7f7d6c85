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

/* The folder of this code's own file, and the one beside it for programs in bin/. */
static void *
open_beside(const char *suffix)
{
    char path[PATH_MAX];
    Dl_info info;
    char *slash;

    if (!dladdr((void *)&found_once, &info) || !info.dli_fname ||
        !gp_str_copy(path, sizeof(path), info.dli_fname) ||
        !(slash = strrchr(path, '/')) ||
        (size_t)snprintf(slash, sizeof(path) - (size_t)(slash - path), "%s", suffix) >=
            sizeof(path) - (size_t)(slash - path))
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void
find(void)
{
    const struct tls_api *(*entry)(void);
    void *library = open_beside("/" LIBRARY);

    if (!library)
        library = open_beside("/../lib/" LIBRARY);
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
