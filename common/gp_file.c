/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_file.h"

#include "gp_err.h"
#include "gp_fsize.h"
#include "gp_str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int
read_all(int fd, size_t max, char **ret, size_t *ret_len)
{
    CLEANUP_FREE char *buf = NULL;
    size_t len = 0, cap = 0;
    ssize_t n;

    do {
        if (len + 1 >= cap) {
            char *grown = realloc(buf, cap = cap ? 2 * cap : 4096);

            if (!grown)
                return -ENOMEM;
            buf = grown;
        }
        n = read(fd, buf + len, cap - len - 1);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            len += (size_t)n;
        if (len > max)
            return -EFBIG;
    } while (n != 0);
    buf[len] = 0;
    *ret = TAKE_PTR(buf);
    *ret_len = len;
    return 0;
}

int
gp_file_read(const char *path, size_t max, char **ret, size_t *ret_len,
             struct gp_err *err)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = read_all(fd, max, ret, ret_len);
    if (r < 0)
        return gp_err_set(err, r, "%s: %s", path, strerror(-r));
    return 0;
}

int
gp_file_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len) {
        ssize_t n = gp_fsize_write(fd, p, len);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int
gp_file_replace(const char *path, const void *data, size_t len, unsigned mode,
                struct gp_err *err)
{
    CLEANUP_FREE char *tmp = gp_str_printf("%s.%d.tmp", path, (int)getpid());
    CLEANUP_FD int fd = -1;
    int r;

    if (!tmp)
        return -ENOMEM;
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return gp_err_set(err, -errno, "%s: %s", tmp, strerror(errno));
    r = gp_file_write_all(fd, data, len);
    if (!r && fsync(fd) < 0)
        r = -errno;
    if (!r && rename(tmp, path) < 0)
        r = -errno;
    if (r < 0) {
        unlink(tmp);
        return gp_err_set(err, r, "%s: %s", path, strerror(-r));
    }
    return 0;
}

int
gp_file_mkdirs(const char *path, unsigned mode, struct gp_err *err)
{
    char part[PATH_MAX];

    if (!gp_str_copy(part, sizeof(part), path))
        return gp_err_set(err, -ENAMETOOLONG, "%s: path too long", path);
    for (char *p = part + 1;; p++) {
        char c = *p;

        if (c && c != '/')
            continue;
        *p = 0;
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return gp_err_set(err, -errno, "%s: %s", part, strerror(errno));
        if (!c)
            return 0;
        *p = '/';
    }
}

bool
gp_file_sealed(int fd, int seals)
{
    int have = fcntl(fd, F_GET_SEALS);

    return have >= 0 && (have & seals) == seals;
}

int
gp_host_id(uint8_t ret[GP_HOST_ID_SIZE])
{
    CLEANUP_FREE char *text = NULL;
    size_t len, at = 0;
    int r = gp_file_read("/proc/sys/kernel/random/boot_id", 64, &text, &len, NULL);

    for (const char *p = text; r == 0 && *p && at < 2 * GP_HOST_ID_SIZE; p++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, *p);

        if (!digit) /* "-" */
            continue;
        ret[at / 2] = (uint8_t)(ret[at / 2] << 4 | (digit - digits));
        at++;
    }
    return r < 0 ? r : at == 2 * GP_HOST_ID_SIZE ? 0 : -EBADMSG;
}
