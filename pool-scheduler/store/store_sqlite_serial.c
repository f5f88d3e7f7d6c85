/* SPDX-License-Identifier: Apache-2.0 */
#include "store_sqlite_serial.h"

#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Always as long, so that a write never leaves digits of an earlier one. */
#define TEXT 21

static int
parse(const char *text, ssize_t len, uint64_t *ret)
{
    int end = 0;

    *ret = 0;
    if (!len)
        return 0;
    return len == TEXT && sscanf(text, "%20" SCNu64 "%n", ret, &end) == 1 &&
                   end == TEXT - 1 && text[end] == '\n'
               ? 0
               : -EBADMSG;
}

int
store_sqlite_serial_open(const char *db, int *ret_fd, uint64_t *ret_serial,
                         struct gp_err *err)
{
    CLEANUP_FREE char *path = gp_str_printf("%s-serial", db);
    CLEANUP_FD int fd = -1;
    char text[TEXT + 2] = "";
    ssize_t len;
    int r;

    if (!path)
        return -ENOMEM;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    len = fd < 0 ? -1 : pread(fd, text, TEXT + 1, 0);
    if (len < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = parse(text, len, ret_serial);
    if (r < 0)
        return gp_err_set(err, r,
                          "%s holds no number; without this file the scheduler starts, "
                          "but cannot tell whether the last changes are missing",
                          path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

void
store_sqlite_serial_write(int fd, uint64_t serial)
{
    char text[TEXT + 1];

    snprintf(text, sizeof(text), "%020" PRIu64 "\n", serial);
    /* One that could not be written is too small, which is allowed. */
    if (pwrite(fd, text, TEXT, 0) < 0)
        return;
}
