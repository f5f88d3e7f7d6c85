/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing files in a process with a limit for their size (RLIMIT_FSIZE).
 *
 * Past the limit the kernel sends SIGXFSZ to the thread, which ends the process, and to
 * memory files as to others.  A library must not end the program that has loaded it:
 * between begin and end the call fails with EFBIG instead, and no handler runs.  Any
 * thread; nothing of the process changes.
 */
#ifndef GP_FSIZE_H
#define GP_FSIZE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_fsize {
    sigset_t mask; /* of the thread, before */
    bool pending;  /* the signal was pending already, and is not ours to take */
};

void gp_fsize_begin(struct gp_fsize *guard);
/* Keeps errno. */
void gp_fsize_end(const struct gp_fsize *guard);

/* write(2), ftruncate(2) and posix_fallocate(3) from the file's start, under that
 * guard.  The last two return 0 or -errno. */
ssize_t gp_fsize_write(int fd, const void *data, size_t len);
int gp_fsize_resize(int fd, uint64_t size);
int gp_fsize_reserve(int fd, uint64_t size);

#endif
