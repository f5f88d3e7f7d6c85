/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_kept.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Nobody can make it shorter below a mapping. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int
map_file(int fd, size_t size, void **ret)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED)
        return -errno;
    *ret = map;
    return 0;
}

static int
make_file(size_t size, int *ret_fd, void **ret_map)
{
    CLEANUP_FD int fd = memfd_create("gpupool-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t whole = GP_ALIGN_UP(size, (size_t)SRV_KEPT_ROOM) + SRV_KEPT_ROOM;
    int r;

    if (fd < 0 || ftruncate(fd, (off_t)whole) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        return -errno;
    r = map_file(fd, size, ret_map);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

int
srv_kept_new(enum srv_kept_kind kind, size_t size, int *ret_fd, void **ret_map,
             struct gp_err *err)
{
    struct srv_kept_head *head;
    void *map = NULL;
    int r = make_file(size, ret_fd, &map);

    if (r < 0)
        return gp_err_set(err, r, "memory file of the supervisor: %s", strerror(-r));
    head = map;
    *head = (struct srv_kept_head){.magic = SRV_KEPT_MAGIC,
                                   .version = SRV_KEPT_VERSION,
                                   .kind = kind,
                                   .size = (uint32_t)size};
    *ret_map = map;
    return 0;
}

/* Of a version that we read, of that kind, and as long as it says? */
static int
head_check(const struct srv_kept_head *head, enum srv_kept_kind kind, size_t file_size)
{
    uint32_t version = head->version, size = head->size;

    if (head->magic != SRV_KEPT_MAGIC || head->kind != (uint32_t)kind)
        return -EPROTO;
    if (version < SRV_KEPT_OLDEST || version > SRV_KEPT_VERSION) {
        gp_log_warn(
            "server",
            "what a supervisor before this one kept (kind %u) is of form %u, and "
            "this one reads %u to %u",
            (unsigned)kind, version, SRV_KEPT_OLDEST, SRV_KEPT_VERSION);
        return -EPROTO;
    }
    return size < sizeof(*head) || size > file_size ? -EPROTO : 0;
}

/* What its writer did not know is zero; what we do not know will be to the next who
 * does.  Whoever dies in between has only made more of it zero. */
static void
head_agree(struct srv_kept_head *head, size_t size)
{
    if (head->size < size)
        memset((char *)head + head->size, 0, size - head->size);
    __atomic_store_n(&head->size, (uint32_t)size, __ATOMIC_RELEASE);
}

int
srv_kept_map(int fd, enum srv_kept_kind kind, size_t size, void **ret_map)
{
    struct stat st;
    void *map = NULL;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < (off_t)size ||
        !gp_file_sealed(fd, SEALS))
        return -EPROTO;
    r = map_file(fd, size, &map);
    if (r < 0)
        return r;
    r = head_check(map, kind, (size_t)st.st_size);
    if (r < 0) {
        munmap(map, size);
        return r;
    }
    head_agree(map, size);
    *ret_map = map;
    return 0;
}

void
srv_kept_unmap(void *map, size_t size)
{
    if (map)
        munmap(map, size);
}
