/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link that breaks and is replaced: how long a call takes that finds it broken.
 *
 * The program shuts its own TCP sockets down, as a network that resets them would, and
 * makes a call; beside it the time of calls that find the link whole.
 */
#include "bench.h"

#include <sys/socket.h>

#define DESCRIPTORS 1024

static void
call(void)
{
    size_t free_bytes, total;

    CU(cuMemGetInfo(&free_bytes, &total)); /* a round trip, see fast.c */
}

/* How many there were. */
static int
cut(void)
{
    int n = 0;

    for (int fd = 3; fd < DESCRIPTORS; fd++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);

        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
            n += shutdown(fd, SHUT_RDWR) == 0;
    }
    return n;
}

int
main(int argc, char **argv)
{
    long cuts = bench_option(argc, argv, "--cuts", 50);
    struct bench_times whole = {0}, broken = {0};
    CUcontext context;
    CUdevice device;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    for (long i = 0; i < 20 * cuts; i++) {
        uint64_t start = bench_now_ns();

        if (i % 20 == 19 && cut() == 0) {
            fprintf(stderr, "resume: no TCP connection\n");
            return 1;
        }
        call();
        bench_times_add(i % 20 == 19 ? &broken : &whole, bench_now_ns() - start);
    }
    bench_say("resume_call_us", bench_times_percentile(&whole, 50) / 1e3);
    bench_say("resume_ms", bench_times_percentile(&broken, 50) / 1e6);
    bench_say("resume_p90_ms", bench_times_percentile(&broken, 90) / 1e6);
    bench_times_free(&whole);
    bench_times_free(&broken);
    CU(cuCtxDestroy(context));
    return 0;
}
