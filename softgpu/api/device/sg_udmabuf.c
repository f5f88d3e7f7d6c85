/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_udmabuf.h"

#include "gp_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#define DEVICE "/dev/udmabuf"

static struct {
    pthread_once_t once;
    int fd; /* -1: not here, or not for us */
} udmabuf = {PTHREAD_ONCE_INIT, -1};

static void
udmabuf_open(void)
{
    udmabuf.fd = open(DEVICE, O_RDWR | O_CLOEXEC);
    if (udmabuf.fd < 0)
        gp_log_info("softgpu", "no dma-bufs of device memory: %s: %s", DEVICE,
                    strerror(errno));
}

int
sg_udmabuf(void)
{
    pthread_once(&udmabuf.once, udmabuf_open);
    return udmabuf.fd;
}
