/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_zstd.h"

#include "gp_base.h"
#include "xport_conn.h"

#include <dlfcn.h>
#include <pthread.h>

static struct xport_zstd zstd;
static bool zstd_found;
static pthread_once_t zstd_once = PTHREAD_ONCE_INIT;

static const struct {
    size_t offset;
    const char *name;
} symbols[] = {
    {offsetof(struct xport_zstd, cctx_new), "ZSTD_createCCtx"},
    {offsetof(struct xport_zstd, cctx_free), "ZSTD_freeCCtx"},
    {offsetof(struct xport_zstd, compress), "ZSTD_compressCCtx"},
    {offsetof(struct xport_zstd, dctx_new), "ZSTD_createDCtx"},
    {offsetof(struct xport_zstd, dctx_free), "ZSTD_freeDCtx"},
    {offsetof(struct xport_zstd, decompress), "ZSTD_decompressDCtx"},
    {offsetof(struct xport_zstd, is_error), "ZSTD_isError"},
};

static void
zstd_load(void)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void *symbol = dlsym(library, symbols[i].name);

        if (!symbol)
            return;
        *(void **)((char *)&zstd + symbols[i].offset) = symbol;
    }
    zstd_found = true;
}

const struct xport_zstd *
xport_zstd_get(void)
{
    pthread_once(&zstd_once, zstd_load);
    return zstd_found ? &zstd : NULL;
}

bool
xport_pack_usable(void)
{
    return xport_zstd_get() != NULL;
}
