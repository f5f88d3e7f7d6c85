/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_folder.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static char *
folder_name(void)
{
    const char *own = getenv("GPUPOOL_RUN_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");

    if (own && *own)
        return gp_str_printf("%s", own);
    if (xdg && *xdg)
        return gp_str_printf("%s/gpupool", xdg);
    return gp_str_printf("/tmp/gpupool-%u", (unsigned)getuid());
}

int
cli_folder(char **ret_path, struct gp_err *err)
{
    CLEANUP_FREE char *path = folder_name();
    struct stat st;
    int r;

    if (!path)
        return -ENOMEM;
    r = gp_file_mkdirs(path, 0700, err);
    if (r < 0)
        return r;
    if (lstat(path, &st) < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != getuid() ||
        st.st_mode & (S_IWGRP | S_IWOTH))
        return gp_err_set(err, -EPERM,
                          "%s: not a folder of your own that only you can write; set "
                          "GPUPOOL_RUN_DIR to one",
                          path);
    *ret_path = TAKE_PTR(path);
    return 0;
}

int
cli_folder_file(const char *name, char **ret_path, struct gp_err *err)
{
    CLEANUP_FREE char *folder = NULL;
    char *path;
    int r = cli_folder(&folder, err);

    if (r < 0)
        return r;
    path = gp_str_printf("%s/%s", folder, name);
    if (!path)
        return -ENOMEM;
    *ret_path = path;
    return 0;
}
