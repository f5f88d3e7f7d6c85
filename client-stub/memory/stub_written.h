/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of its own memory the program has written to: asked of the kernel, so
 * that large memory need not be compared.
 *
 * Linux 6.7 and later say so of memory that is registered with userfaultfd for
 * asynchronous write protection: the first write to a page takes a fault, which the
 * kernel resolves by itself.  Neither signals nor threads take part, and system calls
 * that write are seen as well.  Where a kernel, a container's filter or another user of
 * the memory prevents it, nothing is watched.  What is written past the page tables is
 * not seen by a watch: by a device or io_uring buffer that was registered before.
 *
 * Any thread; the caller's lock covers the range.
 */
#ifndef STUB_WRITTEN_H
#define STUB_WRITTEN_H

#include <stdbool.h>
#include <stdint.h>

/* The size of what is told of. */
#define STUB_WRITTEN_PAGE 4096u

/* The first pages in [*@at, @end), of private anonymous memory, that the program has
 * ever written to, without a watch: all others hold zeros.  Pages that devices or
 * io_uring may write to count as written.  *@at is their address and the result is
 * their size.  0: there are none.  UINT64_MAX: the kernel does not say (it is older
 * than 6.7). */
uint64_t stub_written_ever(uint64_t *at, uint64_t end);

/* Pages of private anonymous memory, which is this process's.  False: it cannot be
 * watched.  Ends when the memory is unmapped or another is mapped there. */
bool stub_written_watch(void *start, uint64_t size);

/* The first pages in [*@at, @end) that may have been written to since they were last
 * told of; the first time, pages that were never touched are told of as well.  *@at is
 * their address and the result is their size.  0: there are none.  UINT64_MAX: nobody
 * knows, the watch is over. */
uint64_t stub_written_take(uint64_t *at, uint64_t end);

#endif
