/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events of one process in another one, one line per promise: results, error
 * codes and lifetimes of the cuIpc* calls.
 *
 * Prints the same on a driver and on a remote slice of it.  Two processes, made before
 * either knows CUDA, take turns by bytes through a pair of sockets; the parent exports,
 * the child imports.
 */
#include "prog.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)3 << 20)

static int peer;
static CUcontext ctx;
static CUdevice dev;

static void
line(const char *what, CUresult r)
{
    printf("%s: %d\n", what, (int)r);
}

/* ---- turns ------------------------------------------------------------------------
 */

static void
tell(const void *data, size_t n)
{
    fflush(stdout);
    if (write(peer, data, n) != (ssize_t)n)
        exit(3);
}

static void
hear(void *data, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t r = read(peer, (char *)data + at, n - at);

        if (r <= 0)
            exit(4); /* the other one has said why */
        at += (size_t)r;
    }
}

/* The other one's turn, until it gives it back. */
static void
pass(void)
{
    char byte = 0;

    tell(&byte, 1);
    hear(&byte, 1);
}

static void
begin(void)
{
    CU(cuInit(0));
    CU(cuDeviceGet(&dev, 0));
    CU(cuDevicePrimaryCtxRetain(&ctx, dev));
    CU(cuCtxSetCurrent(ctx));
}

static void
show(const char *what, CUdeviceptr p)
{
    uint32_t word[2] = {0};
    CUresult r = cuMemcpyDtoH(&word[0], p, 4);

    if (r == CUDA_SUCCESS)
        r = cuMemcpyDtoH(&word[1], p + BYTES - 4, 4);
    printf("%s: %d, %08x %08x\n", what, (int)r, word[0], word[1]);
}

/* ---- the one that exports ---------------------------------------------------------
 */

static void
export_memory(void)
{
    CUipcMemHandle handle, again, inner;
    CUdeviceptr p, opened;
    CUresult r;

    CU(cuMemAlloc(&p, BYTES));
    CU(cuMemsetD32(p, 0x11111111, BYTES / 4));
    CU(cuCtxSynchronize());
    line("export", cuIpcGetMemHandle(&handle, p));
    line("export again", cuIpcGetMemHandle(&again, p));
    printf("the same handle: %s\n",
           memcmp(&handle, &again, sizeof(handle)) ? "no" : "yes");
    r = cuIpcGetMemHandle(&inner, p + 4096);
    printf("an address inside: %d, %s\n", (int)r,
           r == CUDA_SUCCESS && !memcmp(&handle, &inner, sizeof(handle)) ? "the same"
                                                                         : "none");
    line("open one's own",
         cuIpcOpenMemHandle_v2(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    tell(&handle, sizeof(handle));
    pass();
    show("written by the other", p);
    CU(cuMemsetD32(p, 0x33333333, BYTES / 4));
    CU(cuCtxSynchronize());
    pass(); /* it looks, and closes */
    line("free", cuMemFree(p));
    pass(); /* the handle is stale */
}

static void
export_wrong_things(void)
{
    CUipcMemHandle handle;
    CUdeviceptr p;
    CUmemoryPool pool;
    void *host;

    line("export nothing", cuIpcGetMemHandle(&handle, 0));
    line("export garbage", cuIpcGetMemHandle(&handle, 0x1234567));
    CU(cuMemAlloc(&p, 100));
    line("export to nowhere", cuIpcGetMemHandle(NULL, p));
    CU(cuMemFree(p));
    line("export freed memory", cuIpcGetMemHandle(&handle, p));
    CU(cuMemAllocManaged(&p, 100, CU_MEM_ATTACH_GLOBAL));
    line("export managed memory", cuIpcGetMemHandle(&handle, p));
    CU(cuMemFree(p));
    CU(cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_DEVICEMAP));
    line("export host memory",
         cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)host));
    CU(cuMemFreeHost(host));
    CU(cuDeviceGetDefaultMemPool(&pool, dev));
    CU(cuMemAllocAsync(&p, 4096, NULL));
    CU(cuCtxSynchronize());
    line("export a pool's memory", cuIpcGetMemHandle(&handle, p));
    CU(cuMemFreeAsync(p, NULL));
    line("close what was never opened", cuIpcCloseMemHandle(0x1000));
    line("close nothing", cuIpcCloseMemHandle(0));
}

static void
export_event(void)
{
    CUipcEventHandle handle;
    CUevent event, plain, opened;
    CUdeviceptr p;

    line("event without timing off", cuEventCreate(&plain, CU_EVENT_INTERPROCESS));
    CU(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    line("export a plain event", cuIpcGetEventHandle(&handle, plain));
    line("export no event", cuIpcGetEventHandle(&handle, NULL));
    CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    line("export to nowhere", cuIpcGetEventHandle(NULL, event));
    line("export event", cuIpcGetEventHandle(&handle, event));
    line("open one's own event", cuIpcOpenEventHandle(&opened, handle));
    CU(cuMemAlloc(&p, 64 << 20));
    for (int i = 0; i < 20; i++)
        CU(cuMemsetD8Async(p, (unsigned char)i, 64 << 20, NULL));
    line("record", cuEventRecord(event, NULL));
    tell(&handle, sizeof(handle));
    pass(); /* it waits for the event, and records it */
    line("wait for the other's record", cuEventSynchronize(event));
    line("query", cuEventQuery(event));
    line("destroy", cuEventDestroy(event));
    pass(); /* it still has the event */
    CU(cuEventDestroy(plain));
    CU(cuMemFree(p));
}

/* Its context ends with memory exported. */
static void
export_and_leave(void)
{
    CUipcMemHandle handle;
    CUdeviceptr p;

    CU(cuMemAlloc(&p, BYTES));
    CU(cuIpcGetMemHandle(&handle, p));
    tell(&handle, sizeof(handle));
    pass();
    CU(cuDevicePrimaryCtxRelease(dev));
}

/* ---- the one that imports ---------------------------------------------------------
 */

static void
import_memory(void)
{
    CUipcMemHandle handle, wrong;
    CUdeviceptr p = 0, again = 0;
    CUresult r;
    char byte;

    hear(&handle, sizeof(handle));
    hear(&byte, 1);
    line("open", cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    r = cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    printf("open twice: %d, %s\n", (int)r, again == p ? "the same" : "another");
    show("opened", p);
    line("free what is the other's", cuMemFree(p));
    line("close inside", cuIpcCloseMemHandle(p + 4096));
    CU(cuMemsetD32(p, 0x22222222, BYTES / 4));
    CU(cuCtxSynchronize());
    line("close once", cuIpcCloseMemHandle(p));
    show("still open", p);
    line("open nowhere",
         cuIpcOpenMemHandle_v2(NULL, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    line("open without flags", cuIpcOpenMemHandle_v2(&again, handle, 0));
    memset(&wrong, 0x5a, sizeof(wrong));
    line("open garbage",
         cuIpcOpenMemHandle_v2(&again, wrong, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    pass();
    show("written by the exporter", p);
    line("close", cuIpcCloseMemHandle(p));
    line("close again", cuIpcCloseMemHandle(p));
    r = cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    line("open again", r);
    show("opened again", p);
    line("close", cuIpcCloseMemHandle(p));
    pass();
    line("open a stale handle",
         cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static void
import_event(void)
{
    CUipcEventHandle handle, wrong;
    CUevent event, timed;
    CUstream stream;
    CUdeviceptr p;
    float ms;
    char byte = 0;

    tell(&byte, 1);
    hear(&handle, sizeof(handle));
    hear(&byte, 1);
    line("open nowhere", cuIpcOpenEventHandle(NULL, handle));
    memset(&wrong, 0x5a, sizeof(wrong));
    line("open garbage", cuIpcOpenEventHandle(&event, wrong));
    line("open event", cuIpcOpenEventHandle(&event, handle));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    line("a stream waits for it", cuStreamWaitEvent(stream, event, 0));
    line("wait", cuStreamSynchronize(stream));
    line("query", cuEventQuery(event));
    line("export it once more", cuIpcGetEventHandle(&wrong, event));
    CU(cuEventCreate(&timed, 0));
    CU(cuEventRecord(timed, stream));
    CU(cuEventSynchronize(timed));
    line("time since it", cuEventElapsedTime(&ms, event, timed));
    CU(cuMemAlloc(&p, 64 << 20));
    for (int i = 0; i < 20; i++)
        CU(cuMemsetD8Async(p, (unsigned char)i, 64 << 20, stream));
    line("record it", cuEventRecord(event, stream));
    pass();
    line("wait for it without its maker", cuEventSynchronize(event));
    line("destroy it", cuEventDestroy(event));
    CU(cuEventDestroy(timed));
    CU(cuMemFree(p));
    CU(cuStreamDestroy(stream));
    tell(&byte, 1);
}

static void
import_from_an_end(void)
{
    CUipcMemHandle handle;
    CUdeviceptr p;
    char byte;

    hear(&handle, sizeof(handle));
    hear(&byte, 1);
    tell(&byte, 1);
    while (read(peer, &byte, 1) > 0) /* until its context has ended */
        ;
    line("open what ended with its context",
         cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

/* ---- a record, told of at once ----------------------------------------------------
 */

static void
wait_for_gate(void *gate)
{
    sem_wait(gate);
}

/* The child records and stands still, so that nothing it has not said goes on its way
 * later; what comes before the record is not over until it stands up again. */
static void
record_and_stop(void)
{
    CUipcEventHandle handle;
    CUstream stream;
    CUevent event;
    sem_t gate;
    char byte;

    sem_init(&gate, 0, 0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CU(cuIpcGetEventHandle(&handle, event));
    tell(&handle, sizeof(handle));
    hear(&byte, 1); /* it has the event */
    CU(cuLaunchHostFunc(stream, wait_for_gate, &gate));
    CU(cuEventRecord(event, stream));
    raise(SIGSTOP);
    sem_post(&gate);
    hear(&byte, 1);
    CU(cuEventDestroy(event));
    CU(cuStreamDestroy(stream));
}

static void
look_at_a_record(pid_t child)
{
    CUipcEventHandle handle;
    CUevent event;
    char byte = 0;
    int status;

    hear(&handle, sizeof(handle));
    CU(cuIpcOpenEventHandle(&event, handle));
    line("an event without a record", cuEventQuery(event));
    tell(&byte, 1);
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        exit(5);
    line("the record of who stands still", cuEventQuery(event));
    kill(child, SIGCONT);
    line("wait for it", cuEventSynchronize(event));
    CU(cuEventDestroy(event));
    tell(&byte, 1);
}

/* The record is on its way when the event gets its handle. */
static void
record_and_export(void)
{
    CUipcEventHandle handle;
    CUstream stream;
    CUevent event;
    sem_t gate;
    char byte;

    sem_init(&gate, 0, 0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CU(cuLaunchHostFunc(stream, wait_for_gate, &gate));
    CU(cuEventRecord(event, stream));
    CU(cuIpcGetEventHandle(&handle, event));
    line("an event that was recorded and then exported", cuEventQuery(event));
    tell(&handle, sizeof(handle));
    hear(&byte, 1); /* it has looked */
    sem_post(&gate);
    CU(cuEventSynchronize(event));
    tell(&byte, 1);
    hear(&byte, 1);
    CU(cuEventDestroy(event));
    CU(cuStreamDestroy(stream));
}

static void
look_at_an_earlier_record(void)
{
    CUipcEventHandle handle;
    CUstream stream;
    CUevent event;
    char byte = 0;

    hear(&handle, sizeof(handle));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuIpcOpenEventHandle(&event, handle));
    line("its record from before the export", cuEventQuery(event));
    CU(cuStreamWaitEvent(stream, event, 0));
    line("a stream behind it", cuStreamQuery(stream));
    tell(&byte, 1);
    hear(&byte, 1);
    line("wait for the stream", cuStreamSynchronize(stream));
    line("query", cuEventQuery(event));
    CU(cuEventDestroy(event));
    CU(cuStreamDestroy(stream));
    tell(&byte, 1);
}

/* A process that records and is killed before the record's turn comes. */
static _Noreturn void
record_and_be_killed(void)
{
    CUipcEventHandle handle;
    CUstream stream;
    CUevent event;
    sem_t gate;

    begin();
    sem_init(&gate, 0, 0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CU(cuIpcGetEventHandle(&handle, event));
    CU(cuLaunchHostFunc(stream, wait_for_gate, &gate));
    CU(cuEventRecord(event, stream));
    CU(cuEventQuery(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    tell(&handle, sizeof(handle));
    for (;;)
        pause();
}

/* Another process, at the end @other, has come to the card since, perhaps in the place
 * of the one that is gone. */
static void
outlive(pid_t pid, int other)
{
    CUipcEventHandle handle;
    CUevent event;
    char byte = 0;

    hear(&handle, sizeof(handle));
    CU(cuIpcOpenEventHandle(&event, handle));
    line("a record whose maker lives", cuEventQuery(event));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (write(other, &byte, 1) != 1 || read(other, &byte, 1) != 1)
        exit(5);
    line("wait for a record whose maker is gone", cuEventSynchronize(event));
    line("query when its maker is gone", cuEventQuery(event));
    CU(cuEventDestroy(event));
}

static int
import_all(void)
{
    char byte;

    hear(&byte, 1);
    begin();
    tell(&byte, 1);
    record_and_stop();
    record_and_export();
    import_memory();
    import_event();
    import_from_an_end();
    CU(cuDevicePrimaryCtxRelease(dev));
    puts("ipc: ok");
    return 0;
}

int
main(void)
{
    int pair[2], doomed[2], status;
    pid_t pid, victim;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, doomed) < 0 || (victim = fork()) < 0) {
        perror("ipc");
        return 2;
    }
    peer = doomed[victim == 0];
    close(doomed[victim != 0]);
    if (victim == 0)
        record_and_be_killed();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || (pid = fork()) < 0) {
        perror("ipc");
        return 2;
    }
    if (pid > 0) {
        begin();
        outlive(victim, pair[0]);
    }
    close(peer);
    peer = pair[pid == 0];
    close(pair[pid != 0]);
    if (pid == 0)
        return import_all();
    look_at_a_record(pid);
    look_at_an_earlier_record();
    export_memory();
    export_wrong_things();
    export_event();
    export_and_leave();
    fflush(stdout);
    close(peer);
    if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return 2;
    return WEXITSTATUS(status);
}
