/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP connection over loopback, for tests of sockets that are near each other. */
#ifndef UT_LOOPBACK_H
#define UT_LOOPBACK_H

#include "ut.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

/* Both of its ends. */
static inline void
loopback(int fd[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(addr);

    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &size), 0);
    assert_int_equal(connect(fd[0], (struct sockaddr *)&addr, size), 0);
    fd[1] = accept(listener, NULL, NULL);
    close(listener);
}

#endif
