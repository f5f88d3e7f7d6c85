/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_shm.h"

#include "gp_base.h"
#include "gp_blake3.h"
#include "wrk_export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The C library's header declares them with a default visibility of ours. */
__attribute__((visibility("default"))) int shm_open(const char *name, int flags,
                                                    mode_t mode);
__attribute__((visibility("default"))) int shm_unlink(const char *name);

static _Thread_local struct wrk *asks; /* of the receive thread */
static atomic_bool started;

void
wrk_shm_start(struct wrk *w)
{
    asks = w;
    atomic_store(&started, true);
}

static struct wrk_export
share_of(const char *name)
{
    struct wrk_export share = {.kind = WRK_SHARE_FILE};
    uint8_t hash[GP_BLAKE3_SIZE];

    gp_blake3(name, strlen(name), hash);
    memcpy(share.token, hash, sizeof(share.token));
    return share;
}

/* -EDQUOT also when another worker has made one of that name just now, and when the
 * supervisor is of a version that does not know names. */
static int
share_make(struct wrk *w, const struct wrk_export *named, int *ret_fd)
{
    struct wrk_export share = *named;
    CLEANUP_FD int fd = memfd_create("driver", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : wrk_export_offer(w, &share, fd);

    if (r == 0 && !wrk_export_same(&share, named)) {
        wrk_export_drop(&share);
        r = -EDQUOT;
    }
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

static int
share_open(struct wrk *w, const char *name, int flags, int *ret_fd)
{
    struct wrk_export share = share_of(name);
    CLEANUP_FD int fd = -1;
    int r = wrk_export_fetch(w, &share, &fd);

    if (r == 0) {
        wrk_export_drop(&share); /* the name is its maker's */
        if ((flags & O_CREAT) && (flags & O_EXCL))
            r = -EEXIST;
    } else if (r == -ENOENT && (flags & O_CREAT)) {
        r = share_make(w, &share, &fd);
    }
    if (r == 0 && (flags & O_TRUNC) && ftruncate(fd, 0) < 0)
        r = -errno;
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

int
shm_open(const char *name, int flags, mode_t mode)
{
    int fd = -1;
    int r = asks ? share_open(asks, name, flags, &fd) : -EACCES;

    (void)mode; /* all of the session's workers are one user */
    if (r < 0)
        errno = -r;
    return fd;
}

int
shm_unlink(const char *name)
{
    struct wrk_export share = share_of(name);

    if (!atomic_load(&started)) {
        errno = ENOENT;
        return -1;
    }
    wrk_export_drop(&share);
    return 0;
}
