/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_desk.h"

#include "gp_err.h"
#include "gp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* linux/fcntl.h; since 5.1 */
#endif

int
srv_desk_file(const char *name, size_t size, bool ours, int *ret_fd, void **ret_map)
{
    CLEANUP_FD int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    void *map = NULL;

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        return -errno;
    if (ret_map) {
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            return -errno;
    }
    /* After our own mapping, which alone stays writable. */
    if (fcntl(fd, F_ADD_SEALS, seals | (ours ? F_SEAL_FUTURE_WRITE : 0)) < 0) {
        int r = -errno;

        if (map)
            munmap(map, size);
        return r;
    }
    *ret_fd = TAKE_FD(fd);
    if (ret_map)
        *ret_map = map;
    return 0;
}

int
srv_desk_new(struct srv_desk **ret, struct gp_err *err)
{
    CLEANUP(srv_desk_freep) struct srv_desk *d = calloc(1, sizeof(*d));
    void *map = NULL;
    int r;

    if (!d)
        return gp_err_set(err, -ENOMEM, "no memory for a worker");
    d->desk_fd = d->notice_fd = d->kept_fd = -1;
    d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = d->wake_fd < 0 ? -errno : 0;
    if (r == 0)
        r = srv_kept_new(SRV_KEPT_DESK, sizeof(*d->kept), &d->kept_fd, &map, NULL);
    if (r == 0)
        d->kept = map;
    if (r == 0)
        r = srv_desk_file("gpupool-desk", sizeof(*d->desk) + WRK_DESK_ROOM, false,
                          &d->desk_fd, &map);
    if (r < 0)
        return gp_err_set(err, r, "memory file of a worker: %s", strerror(-r));
    d->desk = map;
    d->room = WRK_DESK_ROOM;
    r = srv_desk_file("gpupool-notice", sizeof(*d->notice), true, &d->notice_fd, &map);
    if (r < 0)
        return gp_err_set(err, r, "memory file of a worker: %s", strerror(-r));
    d->notice = map;
    d->desk->magic = WRK_DESK_MAGIC;
    d->desk->size = sizeof(*d->desk);
    d->notice->magic = WRK_NOTICE_MAGIC;
    d->notice->size = sizeof(*d->notice);
    *ret = TAKE_PTR(d);
    return 0;
}

int
srv_desk_copy(int from, size_t size, void *to)
{
    struct stat st;

    if (fstat(from, &st) < 0 || !gp_file_sealed(from, F_SEAL_FUTURE_WRITE))
        return -EPROTO;
    size = gp_min(size, (size_t)st.st_size);
    return pread(from, to, size, 0) == (ssize_t)size ? 0 : -EPROTO;
}

/* The desk is the worker's to write, its size is not.  One that says that it is kept
 * memory is either that or of a worker that wants to be ended. */
static int
map_desk(struct srv_desk *d, int fd)
{
    uint32_t magic = 0;
    struct stat st;
    void *map;

    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*d->desk) ||
        !gp_file_sealed(fd, F_SEAL_SHRINK) ||
        pread(fd, &magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
        magic == SRV_KEPT_MAGIC)
        return -EPROTO;
    map = mmap(NULL, sizeof(*d->desk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    d->desk = map;
    return 0;
}

/* The arbiter's words are in the kept memory; of the old notice only what is never
 * changed again is taken, and checked by nobody, because only a supervisor wrote it. */
static int
renew_notice(struct srv_desk *d, int old)
{
    void *map = NULL;
    int r =
        srv_desk_file("gpupool-notice", sizeof(*d->notice), true, &d->notice_fd, &map);

    if (r < 0)
        return r;
    d->notice = map;
    r = srv_desk_copy(old, sizeof(*d->notice), d->notice);
    if (r == 0 && d->notice->magic != WRK_NOTICE_MAGIC)
        r = -EPROTO;
    d->notice->size = sizeof(*d->notice);
    for (uint32_t i = 0; r == 0 && i < TICKET_SLICES_MAX; i++)
        atomic_store(&d->notice->turns[i].grant, d->kept->slices[i].grant);
    return r;
}

int
srv_desk_adopt(const struct srv_desk_files *files, struct srv_desk **ret,
               struct gp_err *err)
{
    CLEANUP(srv_desk_freep) struct srv_desk *d = calloc(1, sizeof(*d));
    void *map = NULL;
    int r;

    if (!d)
        return gp_err_set(err, -ENOMEM, "no memory for a worker");
    d->desk_fd = d->notice_fd = d->wake_fd = d->kept_fd = -1;
    r = srv_kept_map(files->kept, SRV_KEPT_DESK, sizeof(*d->kept), &map);
    d->kept = map;
    if (r == 0)
        r = map_desk(d, files->desk);
    if (r == 0)
        r = renew_notice(d, files->notice);
    if (r < 0)
        return gp_err_set(err, r, "memory files of a worker: %s", strerror(-r));
    d->desk_fd = files->desk;
    d->wake_fd = files->wake;
    d->kept_fd = files->kept;
    close(files->notice);
    *ret = TAKE_PTR(d);
    return 0;
}

void
srv_desk_sent(struct srv_desk *d)
{
    close(d->desk_fd);
    close(d->notice_fd);
    close(d->kept_fd);
    d->desk_fd = d->notice_fd = d->kept_fd = -1;
}

void
srv_desk_free(struct srv_desk *d)
{
    if (!d)
        return;
    if (d->desk)
        munmap(d->desk, sizeof(*d->desk) + d->room);
    if (d->notice)
        munmap(d->notice, sizeof(*d->notice));
    srv_kept_unmap(d->kept, sizeof(*d->kept));
    if (d->kept_fd >= 0)
        close(d->kept_fd);
    if (d->desk_fd >= 0)
        close(d->desk_fd);
    if (d->notice_fd >= 0)
        close(d->notice_fd);
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    free(d);
}
