/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing the files of cards that nobody uses any more.
 *
 * A process that ends by itself removes its cards' files when it was the last; one
 * that is killed cannot, so whoever starts next looks for files without a lock.  A file
 * is removed only under a lock of all of it, and whoever has opened it meanwhile finds
 * that its name is gone and opens again.
 */
#include "sg_card.h"

#include "gp_base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* Of one visit: a start must not take long because others were killed. */
    MAX_REMOVED = 256,
};

/* Locks the whole file against everybody; false when a process uses the card. */
static bool
lock_all(int fd)
{
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_SETLK, &fl) == 0;
}

/* "softgpu-UID-...-cardN" of this user, not what a card exports. */
static bool
is_card(const char *name)
{
    const char *card = strstr(name, "-card");
    char start[32];
    int n = snprintf(start, sizeof(start), "softgpu-%u-", (unsigned)geteuid());

    return card && strncmp(name, start, (size_t)n) == 0 && card[5] &&
           card[5 + strspn(card + 5, "0123456789")] == '\0';
}

/* What processes of a card exported and could not remove. */
static void
remove_exports(int dir, const char *card)
{
    CLEANUP_FREE char *start = NULL;
    struct dirent *e;
    DIR *d;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (asprintf(&start, "%s-ipc", card) < 0)
        start = NULL;
    d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        close(fd);
    while (start && d && (e = readdir(d)))
        if (strncmp(e->d_name, start, strlen(start)) == 0)
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
}

static bool
remove_if_unused(int dir, const char *name)
{
    CLEANUP_FD int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_uid != geteuid() || !lock_all(fd))
        return false;
    remove_exports(dir, name);
    return unlinkat(dir, name, 0) == 0;
}

void
sg_card_tidy(void)
{
    const char *where = getenv("SOFTGPU_DIR");
    DIR *d = opendir(where && *where ? where : "/dev/shm");
    unsigned removed = 0;
    struct dirent *e;

    while (d && removed < MAX_REMOVED && (e = readdir(d)))
        if (is_card(e->d_name) && remove_if_unused(dirfd(d), e->d_name))
            removed++;
    if (d)
        closedir(d);
}

void
sg_card_unlink_if_last(int fd, const char *path)
{
    const char *slash = strrchr(path, '/');
    CLEANUP_FREE char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    CLEANUP_FD int at = -1;
    struct stat ours, named;

    if (!dir || !lock_all(fd))
        return;
    at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0 || fstat(fd, &ours) < 0 || stat(path, &named) < 0 ||
        ours.st_ino != named.st_ino || ours.st_dev != named.st_dev)
        return;
    remove_exports(at, slash + 1);
    unlinkat(at, slash + 1, 0);
}
