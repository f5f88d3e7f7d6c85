/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-copy DIR: copy the client libraries of this image into a pod's volume.
 *
 * The only program of the client image, linked statically so that the image needs
 * nothing else.  It runs as the pod's init container, without privileges.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const FILES[][2] = {
    {"libcuda.so.1", "libcuda.so"},
    {"libnvidia-ml.so.1", "libnvidia-ml.so"},
    {"libgpupool-tls.so.1", "libgpupool-tls.so"},
};

static int
fail(const char *what)
{
    fprintf(stderr, "gpupool-copy: %s: %s\n", what, strerror(errno));
    return -1;
}

static int
copy_bytes(int from, int to)
{
    ssize_t n;

    while ((n = sendfile(to, from, NULL, 1 << 20)) > 0)
        ;
    return (int)n;
}

/* Under another name first: a container that starts early sees a whole file or none. */
static int
copy_file(const char *name, const char *link, const char *dir)
{
    char from[256], temp[4096], to[4096], alias[4096];
    int in, out, r;

    snprintf(from, sizeof(from), "/lib/gpupool/%s", name);
    snprintf(temp, sizeof(temp), "%s/.%s.new", dir, name);
    snprintf(to, sizeof(to), "%s/%s", dir, name);
    snprintf(alias, sizeof(alias), "%s/%s", dir, link);
    in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return fail(from);
    out = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (out < 0) {
        close(in);
        return fail(temp);
    }
    r = copy_bytes(in, out);
    if (fchmod(out, 0755) < 0)
        r = -1;
    close(in);
    if (close(out) < 0 || r < 0 || rename(temp, to) < 0)
        return fail(to);
    if (symlink(name, alias) < 0 && errno != EEXIST)
        return fail(alias);
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("Usage: gpupool-copy DIR\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof(FILES) / sizeof(FILES[0]); i++)
        if (copy_file(FILES[i][0], FILES[i][1], argv[1]) < 0)
            return 1;
    return 0;
}
