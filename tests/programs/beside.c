/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread sends a large payload; what may the others do meanwhile?
 *
 * Whoever runs it stops the worker, so that the payload stands still, and says by lines
 * on stdin when to go on: "send", another thread copies up; "post", fills that nobody
 * waits for, after which "posted" is printed; then more of them than are taken, a
 * payload and a copy down, which can only end once the worker goes on.  Every byte is
 * looked at in the end.
 */
#include "prog.h"

#include <pthread.h>
#include <string.h>

#define LARGE (32u << 20)
#define OTHER (1u << 20)
#define POSTS 300u
#define MORE 5000u

PROG_EMBED(spin_ptx, "spin.ptx");

static struct prog prog;
static CUdeviceptr large, other, word;
static unsigned char *up, *down;

static void
await(const char *expected)
{
    char line[32];

    if (!fgets(line, sizeof(line), stdin) ||
        strncmp(line, expected, strlen(expected)) != 0)
        exit(3);
}

static void *
send_large(void *arg)
{
    CU(cuCtxSetCurrent(prog.context));
    CU(cuMemcpyHtoD(large, up, LARGE));
    return NULL;
}

static void
post(unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last; i++)
        CU(cuMemsetD32Async(word, i, 1, NULL));
}

static void
expect(CUdeviceptr from, const void *bytes, size_t n, const char *what)
{
    CU(cuMemcpyDtoH(down, from, n));
    if (memcmp(down, bytes, n) == 0)
        return;
    fprintf(stderr, "%s: other bytes than were sent\n", what);
    exit(1);
}

int
main(int argc, char **argv)
{
    unsigned last = POSTS + MORE;
    pthread_t thread;

    setvbuf(stdout, NULL, _IOLBF, 0);
    prog_begin(&prog, 1, argv, "beside", spin_ptx);
    up = malloc(LARGE);
    down = malloc(LARGE);
    if (!up || !down)
        return 2;
    for (unsigned i = 0; i < LARGE; i++)
        up[i] = (unsigned char)(i % 251);
    CU(cuMemAlloc(&large, LARGE));
    CU(cuMemAlloc(&other, OTHER));
    CU(cuMemAlloc(&word, 4));
    CU(cuCtxSynchronize());
    printf("ready\n");
    await("send");
    if (pthread_create(&thread, NULL, send_large, NULL) != 0)
        return 2;
    await("post");
    post(1, POSTS);
    printf("posted\n");
    post(POSTS + 1, last);
    CU(cuMemcpyHtoD(other, up + 1, OTHER));
    expect(word, &last, sizeof(last), "fills of this thread");
    expect(other, up + 1, OTHER, "the payload of this thread");
    pthread_join(thread, NULL);
    expect(large, up, LARGE, "the payload of the other thread");
    prog_end(&prog);
    printf("all there\n");
    return 0;
}
