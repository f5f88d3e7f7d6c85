/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the bytes of a socket.  Private to transport/.
 *
 * Where it begins within its page decides how fast the kernel copies, on processors
 * whose "rep movsb" is slow for targets closely ahead of their source modulo a page
 * (gp_copy.h).  A socket's own pages are filled from their start when everything before
 * has been read, so bytes mostly lie there at 0, and behind a header of 8 to 48 bytes.
 * The start of a page is never ahead of them: there is what was received.  What is sent
 * starts XPORT_BUFFER_OUT bytes later, so that they are never ahead of it, and a
 * program's memory, which begins at 0, 16 or 64, is far from being ahead of the frame
 * that it is copied to.  docs/transfers.md has the whole of it.
 */
#ifndef XPORT_BUFFER_H
#define XPORT_BUFFER_H

#include "gp_base.h"

#include <stdint.h>
#include <stdlib.h>

#define XPORT_BUFFER_PAGE 4096u
#define XPORT_BUFFER_OUT 128u

/* @size bytes that begin @ahead bytes behind the start of a page; NULL: no memory. */
static inline uint8_t *
xport_buffer_new(size_t size, size_t ahead)
{
    uint8_t *page =
        aligned_alloc(XPORT_BUFFER_PAGE, GP_ALIGN_UP(size + ahead, XPORT_BUFFER_PAGE));

    return page ? page + ahead : NULL;
}

/* NULL is a no-op. */
static inline void
xport_buffer_free(uint8_t *buffer, size_t ahead)
{
    if (buffer)
        free(buffer - ahead);
}

#endif
