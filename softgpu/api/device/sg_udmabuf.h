/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's device that makes dma-bufs of ordinary pages, if there is one and this
 * process may use it.  Opened once per process; any thread.
 */
#ifndef SG_UDMABUF_H
#define SG_UDMABUF_H

/* Its descriptor, or -1. */
int sg_udmabuf(void);

#endif
