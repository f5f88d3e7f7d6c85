/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC server of the node plug-in against a peer that breaks off. */
#include "ut.h"

#include "gp_base.h"
#include "gp_time.h"
#include "kube_grpc.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* What HTTP/2 begins with, and the head of a request on the last stream that there is;
 * its body never comes. */
static const char HELLO[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                            "\0\0\0\4\0\0\0\0\0"
                            "\0\0\4\1\4\x7f\xff\xff\xff"
                            "\x83\x86\x84\x81";

struct world {
    struct gp_loop *loop;
    struct kube_grpc grpc;
    struct gp_loop_timer timer;
    int peer;
    unsigned turns;
};

static int
answer(void *arg, const char *path, const uint8_t *msg, size_t len, uint8_t **ret_reply,
       size_t *ret_len)
{
    fail_msg("%s was answered", path);
    return KUBE_GRPC_OK;
}

/* The peer goes once the server has read what it sent. */
static void
on_timer(struct gp_loop_timer *timer)
{
    struct world *w = container_of(timer, struct world, timer);

    if (++w->turns == 20)
        close(w->peer);
    if (w->turns > 20 && !w->grpc.n_conns)
        gp_loop_stop(w->loop, 0);
    else
        gp_loop_timer_set(w->loop, timer, gp_now_ns() + GP_NS_PER_MS, on_timer);
}

static void
request_that_breaks_off_on_the_last_stream_costs_no_more(void **state)
{
    struct world w = {.grpc.answer = answer};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/ut-grpc-XXXXXX";

    alarm(20); /* a look at each of a billion streams takes longer */
    assert_non_null(mkdtemp(dir));
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/sock", dir);
    assert_int_equal(gp_loop_new(&w.loop, NULL), 0);
    assert_int_equal(kube_grpc_start(&w.grpc, w.loop, addr.sun_path, NULL), 0);
    w.peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(w.peer, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(write(w.peer, HELLO, sizeof(HELLO) - 1), sizeof(HELLO) - 1);
    gp_loop_timer_set(w.loop, &w.timer, gp_now_ns(), on_timer);
    assert_int_equal(gp_loop_run(w.loop), 0);
    kube_grpc_stop(&w.grpc);
    gp_loop_free(w.loop);
    unlink(addr.sun_path);
    rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_that_breaks_off_on_the_last_stream_costs_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
