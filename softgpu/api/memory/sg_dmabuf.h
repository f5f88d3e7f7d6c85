/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory as a dma-buf, for a network card that reads and writes it by itself.
 *
 * The allocation moves into a sealed memfd, of which /dev/udmabuf makes dma-bufs; a
 * kernel without that has a card without the feature.  Such memory cannot be exported
 * to other processes any more: the file that would be has no name.
 */
#ifndef SG_DMABUF_H
#define SG_DMABUF_H

#include <stdbool.h>

/* Asked once per process. */
bool sg_dmabuf_usable(void);

#endif
