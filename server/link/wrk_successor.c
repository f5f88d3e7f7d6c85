/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_successor.h"

#include "gp_err.h"
#include "gp_log.h"
#include "wrk_conf.h"
#include "wrk_desk.h"
#include "wrk_request.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int
take(struct wrk_desks *desks, const struct wrk_request *msg, int fd)
{
    if (msg->kind == WRK_REQUEST_SEGMENT)
        return wrk_desks_new_segment(desks, fd);
    if (msg->kind == WRK_REQUEST_NOTICE)
        return wrk_desks_new_notice(desks, fd);
    close(fd);
    return -EPROTO;
}

static void *
successor_main(void *arg)
{
    struct wrk_request msg;
    int fd;

    while (wrk_request_recv(WRK_FD_ADOPT, &msg, &fd, 0) == 0) {
        int r = fd < 0 ? -EPROTO : take(arg, &msg, fd);

        if (r < 0)
            gp_log_error("worker", "memory of another supervisor: %s", strerror(-r));
    }
    return NULL;
}

int
wrk_successor_start(struct wrk_desks *desks, struct gp_err *err)
{
    pthread_t thread;
    int r = -pthread_create(&thread, NULL, successor_main, desks);

    if (r < 0)
        return gp_err_set(err, r, "no thread for supervisors");
    pthread_detach(thread);
    return 0;
}
