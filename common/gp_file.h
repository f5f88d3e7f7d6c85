/* SPDX-License-Identifier: Apache-2.0 */
/* Whole small files, read and replaced atomically.  No state, any thread. */
#ifndef GP_FILE_H
#define GP_FILE_H

#include "gp_base.h"

struct gp_err;

/* All of @path in a malloc'ed, NUL-terminated buffer.  -EFBIG past @max bytes. */
int gp_file_read(const char *path, size_t max, char **ret, size_t *ret_len,
                 struct gp_err *err);

/* Write @len bytes to a temporary beside @path, sync it, and rename it into place: a
 * reader sees the old or the new content, never half. */
int gp_file_replace(const char *path, const void *data, size_t len, unsigned mode,
                    struct gp_err *err);

/* mkdir -p with @mode for the folders it makes. */
int gp_file_mkdirs(const char *path, unsigned mode, struct gp_err *err);

/* All of @len bytes, through short writes and EINTR; 0 or -errno. */
int gp_file_write_all(int fd, const void *data, size_t len);

/* Whether @fd is a memory file that has all of @seals.  It may have more: where
 * vm.memfd_noexec is set, the kernel adds F_SEAL_EXEC to every memory file. */
bool gp_file_sealed(int fd, int seals);

/* The running kernel's own id: the same for all processes of a host, containers
 * included, until it starts again.  -errno: unknown. */
#define GP_HOST_ID_SIZE 16
int gp_host_id(uint8_t ret[GP_HOST_ID_SIZE]);

#endif
