/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_successor.h"

#include "gp_err.h"
#include "gp_log.h"
#include "wrk_conf.h"
#include "wrk_desk.h"
#include "wrk_request.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
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

/* Who receives also maps: nobody sees a message gone whose memory is not there yet. */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

/* All that has come.  -EAGAIN, or why nothing more will. */
static int
take_all(struct wrk_desks *desks)
{
    struct wrk_request msg;
    int fd, r;

    pthread_mutex_lock(&taking);
    while ((r = wrk_request_recv(WRK_FD_ADOPT, &msg, &fd, MSG_DONTWAIT)) == 0) {
        int taken = fd < 0 ? -EPROTO : take(desks, &msg, fd);

        if (taken < 0)
            gp_log_error("worker", "memory of another supervisor: %s",
                         strerror(-taken));
    }
    pthread_mutex_unlock(&taking);
    return r;
}

static void *
successor_main(void *arg)
{
    struct pollfd adopt = {.fd = WRK_FD_ADOPT, .events = POLLIN};

    do
        poll(&adopt, 1, -1);
    while (take_all(arg) == -EAGAIN);
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

void
wrk_successor_catch_up(struct wrk_desks *desks)
{
    if (desks->window_s) /* else there is no such thread, and no WRK_FD_ADOPT */
        take_all(desks);
}
