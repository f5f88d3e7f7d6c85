/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One software card and several processes: shared memory size, shared
 * multiprocessors, and what happens when one of them is killed.
 *
 * The other process is this program again, started with a role as argument.  It
 * writes one character when it is ready and ends with its standard input.
 */
#include "ut_sgapi.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

struct peer {
    pid_t pid;
    int to, from;
};

/* ------------------------------------------------------------- the other process */

static void
tell(char c)
{
    if (write(1, &c, 1) != 1)
        _exit(3);
}

static void
wait_for_end(void)
{
    char c;

    while (read(0, &c, 1) > 0)
        ;
}

static int
role_hold(size_t bytes)
{
    CUcontext ctx;
    CUdeviceptr p;

    if (cuInit(0) || cuCtxCreate_v2(&ctx, 0, 0))
        return 2;
    tell(cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS ? 'y' : 'n');
    wait_for_end();
    return 0;
}

/* Keeps every multiprocessor of the card busy, for ever. */
static int
role_spin(void)
{
    struct ut_sg sg;
    CUdeviceptr p;
    unsigned started = 0;

    ut_sg_open(&sg, 0);
    if (cuMemAllocManaged(&p, 8, CU_MEM_ATTACH_GLOBAL))
        return 2;
    memset((void *)(uintptr_t)p, 0, 8);
    if (ut_sg_run(sg.spin, 64, 64, 0, p, 0))
        return 2;
    while (!started) /* a block of it runs: the kernel cannot end by itself */
        started = cuStreamQuery(0) == CUDA_ERROR_NOT_READY;
    tell('y');
    wait_for_end();
    return 0;
}

/* Runs equal pieces of work and says so after each. */
static int
role_work(void)
{
    struct ut_sg sg;
    CUdeviceptr p;

    ut_sg_open(&sg, 0);
    if (cuMemAlloc_v2(&p, 4))
        return 2;
    for (;;) {
        if (ut_sg_run(sg.busy, 8, 32, 0, p, 30000) || cuCtxSynchronize())
            return 2;
        tell('w');
    }
}

/* Records, or with @wait waits, as the only node of a graph that is launched. */
static CUresult
event_in_graph(CUevent event, bool wait, CUstream stream)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;
    CUresult r = cuGraphCreate(&graph, 0);

    if (r == CUDA_SUCCESS)
        r = wait ? cuGraphAddEventWaitNode(&node, graph, NULL, 0, event)
                 : cuGraphAddEventRecordNode(&node, graph, NULL, 0, event);
    if (r == CUDA_SUCCESS)
        r = cuGraphInstantiateWithFlags(&exec, graph, 0);
    if (r == CUDA_SUCCESS)
        r = cuGraphLaunch(exec, stream);
    if (r == CUDA_SUCCESS)
        r = cuGraphExecDestroy(exec);
    return r == CUDA_SUCCESS ? cuGraphDestroy(graph) : r;
}

/* Shares an event that is recorded behind a kernel which only input lets end. */
static int
role_event(bool graph)
{
    struct ut_sg sg;
    CUipcEventHandle handle;
    CUevent event;
    CUdeviceptr p;

    ut_sg_open(&sg, 0);
    if (cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ||
        cuIpcGetEventHandle(&handle, event) ||
        cuMemAllocManaged(&p, 8, CU_MEM_ATTACH_GLOBAL))
        return 2;
    memset((void *)(uintptr_t)p, 0, 8);
    if (ut_sg_run(sg.spin, 1, 1, 0, p, 0) ||
        (graph ? event_in_graph(event, false, 0) : cuEventRecord(event, 0)) ||
        write(1, &handle, sizeof(handle)) != sizeof(handle))
        return 2;
    wait_for_end();
    __atomic_store_n((unsigned *)(uintptr_t)p, 1, __ATOMIC_SEQ_CST);
    return cuEventSynchronize(event);
}

/* Shares a word that is 5, and says at the end whether it became 6. */
static int
role_share(void)
{
    struct ut_sg sg;
    CUipcMemHandle handle;
    CUdeviceptr p, q;
    unsigned v = 5;

    ut_sg_open(&sg, 0);
    if (cuMemAlloc_v2(&p, 4096) || cuMemcpyHtoD_v2(p, &v, 4) ||
        cuIpcGetMemHandle(&handle, p) ||
        cuIpcOpenMemHandle_v2(&q, handle, 1) != CUDA_ERROR_INVALID_CONTEXT ||
        write(1, &handle, sizeof(handle)) != sizeof(handle))
        return 2;
    wait_for_end();
    return cuMemcpyDtoH_v2(&v, p, 4) || v != 6;
}

/* What a process says of a pool that it shares. */
struct pool_offer {
    int fd;
    CUmemPoolPtrExportData pointer;
};

/* Shares a pool and a word of it that is 5, and says whether it became 6. */
static int
role_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    struct pool_offer offer;
    CUmemoryPool pool;
    CUdeviceptr p;
    struct ut_sg sg;
    unsigned v = 5;

    ut_sg_open(&sg, 0);
    if (cuMemPoolCreate(&pool, &props) || cuMemAllocFromPoolAsync(&p, 4096, pool, 0) ||
        cuMemcpyHtoD_v2(p, &v, 4) ||
        cuMemPoolExportToShareableHandle(&offer.fd, pool,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ||
        cuMemPoolExportPointer(&offer.pointer, p) ||
        write(1, &offer, sizeof(offer)) != sizeof(offer))
        return 2;
    wait_for_end();
    return cuMemcpyDtoH_v2(&v, p, 4) || v != 6 || cuMemFreeAsync(p, 0) ||
           cuCtxSynchronize();
}

static int
role_uuid(void)
{
    CUuuid id;

    if (cuInit(0) || cuDeviceGetUuid(&id, 0) || write(1, &id, 16) != 16)
        return 2;
    return 0;
}

/* Stores behind 64 bytes and says whether that was a fault. */
static int
role_past(void)
{
    struct ut_sg sg;
    CUdeviceptr p;
    char c;

    ut_sg_open(&sg, 0);
    if (cuMemAlloc_v2(&p, 64) || ut_sg_run(sg.store, 1, 1, 0, p + 64, 1))
        return 2;
    c = cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 'f' : 'y';
    return write(1, &c, 1) != 1;
}

/* A block with 8 bytes of shared memory reads a word at byte @at of it: 'y', or 'f' for
 * a fault. */
static int
role_shared(unsigned at)
{
    static const char text[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".extern .shared .align 4 .b8 sh[];\n"
        ".visible .entry k(.param .u32 at)\n{\n.reg .b32 %r<4>;\n"
        "ld.param.u32 %r1, [at]; mov.u32 %r2, sh; add.u32 %r2, %r2, %r1;\n"
        "ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r2], %r3; ret;\n}\n";
    void *params[] = {&at};
    struct ut_sg sg;
    CUmodule mod;
    CUfunction k;
    char c;

    ut_sg_open(&sg, 0);
    if (cuModuleLoadData(&mod, text) || cuModuleGetFunction(&k, mod, "k") ||
        cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 8, NULL, params, NULL))
        return 2;
    c = cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 'f' : 'y';
    return write(1, &c, 1) != 1;
}

static int
play(int argc, char **argv)
{
    if (!strcmp(argv[1], "hold"))
        return role_hold(strtoull(argv[2], NULL, 10));
    if (!strcmp(argv[1], "event"))
        return role_event(false);
    if (!strcmp(argv[1], "graphevent"))
        return role_event(true);
    if (!strcmp(argv[1], "share"))
        return role_share();
    if (!strcmp(argv[1], "pool"))
        return role_pool();
    if (!strcmp(argv[1], "spin"))
        return role_spin();
    if (!strcmp(argv[1], "work"))
        return role_work();
    if (!strcmp(argv[1], "past"))
        return role_past();
    if (!strcmp(argv[1], "shared"))
        return role_shared((unsigned)strtoul(argv[2], NULL, 10));
    return role_uuid();
}

/* ------------------------------------------------------------------ its handling */

static struct peer
peer_start(const char *role, const char *arg)
{
    struct peer peer;
    int in[2], out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    peer.pid = fork();
    if (peer.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        ut_exec_self(role, arg);
    }
    close(in[0]);
    close(out[1]);
    peer.to = in[1];
    peer.from = out[0];
    return peer;
}

static char
peer_hear(const struct peer *peer)
{
    char c = 0;

    assert_int_equal(read(peer->from, &c, 1), 1);
    return c;
}

static void
peer_end(struct peer *peer, int sig)
{
    if (sig)
        kill(peer->pid, sig);
    close(peer->to);
    close(peer->from);
    waitpid(peer->pid, NULL, 0);
}

/* ------------------------------------------------------------------------- tests */

static struct ut_sg sg;

static int
open_card(void **state)
{
    ut_sg_open(&sg, 0);
    return 0;
}

static int
close_card(void **state)
{
    ut_sg_close(&sg);
    return 0;
}

static void
memory_of_other_processes_counts(void **state)
{
    size_t before, free_, total;
    struct peer peer, second;
    CUdeviceptr p;

    ok(cuMemGetInfo_v2(&before, &total));
    assert_int_equal(total, 64 * MIB);
    peer = peer_start("hold", "41943040");
    assert_int_equal(peer_hear(&peer), 'y');
    ok(cuMemGetInfo_v2(&free_, &total));
    assert_int_equal(free_, before - 40 * MIB);
    fails(cuMemAlloc_v2(&p, free_ + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAlloc_v2(&p, free_));
    second = peer_start("hold", "1");
    assert_int_equal(peer_hear(&second), 'n');
    ok(cuMemFree_v2(p));
    peer_end(&second, 0);
    peer_end(&peer, 0);
    ok(cuMemGetInfo_v2(&free_, &total));
    assert_int_equal(free_, before);
}

static void
a_killed_process_gives_its_memory_back_at_once(void **state)
{
    size_t before, free_, total;
    struct peer peer;
    CUdeviceptr p;

    ok(cuMemGetInfo_v2(&before, &total));
    peer = peer_start("hold", "60000000");
    assert_int_equal(peer_hear(&peer), 'y');
    fails(cuMemAlloc_v2(&p, 10000000), CUDA_ERROR_OUT_OF_MEMORY);
    peer_end(&peer, SIGKILL);
    ok(cuMemAlloc_v2(&p, before));
    ok(cuMemGetInfo_v2(&free_, &total));
    assert_int_equal(free_, 0);
    ok(cuMemFree_v2(p));
}

static void
a_killed_process_gives_its_multiprocessors_back(void **state)
{
    struct peer peer = peer_start("spin", NULL);
    CUdeviceptr p;

    assert_int_equal(peer_hear(&peer), 'y');
    peer_end(&peer, SIGKILL);
    ok(cuMemAlloc_v2(&p, 4));
    ok(ut_sg_run(sg.busy, 8, 32, 0, p, 1000));
    ok(cuCtxSynchronize());
    ok(cuMemFree_v2(p));
}

static void
an_endless_kernel_elsewhere_does_not_stop_us(void **state)
{
    struct peer peer = peer_start("spin", NULL);
    CUdeviceptr p;

    assert_int_equal(peer_hear(&peer), 'y');
    ok(cuMemAlloc_v2(&p, 4));
    for (int i = 0; i < 10; i++)
        ok(ut_sg_run(sg.busy, 8, 32, 0, p, 1000));
    ok(cuCtxSynchronize());
    ok(cuMemFree_v2(p));
    peer_end(&peer, SIGKILL);
}

/* Pieces that one busy process does while another does @pieces. */
static int
pieces_beside(int pieces)
{
    struct peer a = peer_start("work", NULL), b = peer_start("work", NULL);
    int n = 0;

    peer_hear(&a); /* both have started */
    peer_hear(&b);
    for (int i = 0; i < pieces; i++)
        peer_hear(&a);
    kill(b.pid, SIGSTOP);
    waitpid(b.pid, NULL, WUNTRACED);
    peer_end(&a, SIGKILL);
    kill(b.pid, SIGKILL);
    waitpid(b.pid, NULL, 0);
    for (char c; read(b.from, &c, 1) == 1;)
        n++;
    close(b.to);
    close(b.from);
    return n;
}

static int
by_size(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* What takes minutes in an emulator, and says nothing of the other machine. */
static void
skip_emulated(void)
{
    if (getenv("UT_EMULATOR"))
        skip();
}

/* The host's own scheduler may favour either for a whole round, on a busy machine by
 * any factor; but not always the same one. */
static void
busy_processes_share_fairly(void **state)
{
    enum { ROUNDS = 9, PIECES = 30 };
    int done[ROUNDS];

    skip_emulated();
    for (int i = 0; i < ROUNDS; i++)
        done[i] = pieces_beside(PIECES);
    qsort(done, ROUNDS, sizeof(*done), by_size);
    assert_in_range(done[ROUNDS / 2], PIECES / 4, PIECES * 4);
}

static void
processes_killed_at_any_moment_leave_the_card_whole(void **state)
{
    size_t before, after, total;
    CUdeviceptr p;

    skip_emulated();
    ok(cuMemGetInfo_v2(&before, &total));
    for (int round = 0; round < 30; round++) {
        struct peer a = peer_start("work", NULL), b = peer_start("work", NULL);

        for (int i = 0; i < round % 5; i++) {
            peer_hear(&a);
            peer_hear(&b);
        }
        peer_end(&a, SIGKILL);
        peer_end(&b, SIGKILL);
        ok(cuMemGetInfo_v2(&after, &total));
        assert_int_equal(before, after);
    }
    ok(cuMemAlloc_v2(&p, 4));
    ok(ut_sg_run(sg.busy, 8, 32, 0, p, 1000)); /* on both multiprocessors */
    ok(cuCtxSynchronize());
    ok(cuMemFree_v2(p));
}

static int
count_files(const char *part)
{
    DIR *d = opendir(getenv("SOFTGPU_DIR"));
    struct dirent *e;
    int n = 0;

    while ((e = readdir(d)))
        n += strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

static int
count_exports(void)
{
    return count_files("-ipc");
}

static void
memory_is_shared_between_processes(void **state)
{
    struct peer peer = peer_start("share", NULL);
    CUipcMemHandle handle;
    CUdeviceptr p, again;
    unsigned v = 0;
    int status;

    assert_int_equal(read(peer.from, &handle, sizeof(handle)), sizeof(handle));
    fails(cuIpcOpenMemHandle_v2(&p, handle, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuIpcOpenMemHandle_v2(&p, handle, 1));
    ok(cuIpcOpenMemHandle_v2(&again, handle, 1));
    assert_int_equal(p, again);
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 5);
    ok(ut_sg_run(sg.add_one, 1, 1, 0, p, 1));
    ok(cuCtxSynchronize());
    fails(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    ok(cuIpcCloseMemHandle(p));
    ok(cuIpcCloseMemHandle(p));
    fails(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
    close(peer.to);
    waitpid(peer.pid, &status, 0);
    assert_int_equal(status, 0);
    close(peer.from);
    memset(&handle, 1, sizeof(handle));
    fails(cuIpcOpenMemHandle_v2(&p, handle, 1), CUDA_ERROR_INVALID_VALUE);
}

static void
pools_are_shared_between_processes(void **state)
{
    CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    struct peer peer = peer_start("pool", NULL);
    struct pool_offer offer;
    CUmemoryPool pool, own;
    CUdeviceptr p, again;
    char path[64];
    unsigned v = 0;
    int fd, status, null;

    (void)state;
    assert_int_equal(read(peer.from, &offer, sizeof(offer)), sizeof(offer));
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)peer.pid, offer.fd);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    ok(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, type, 0));
    close(fd);
    null = open("/dev/null", O_RDONLY);
    fails(cuMemPoolImportFromShareableHandle(&own, (void *)(intptr_t)null, type, 0),
          CUDA_ERROR_INVALID_VALUE);
    close(null);
    ok(cuDeviceGetDefaultMemPool(&own, 0));
    fails(cuMemPoolImportPointer(&p, own, &offer.pointer), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPoolExportToShareableHandle(&fd, own, type, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAllocFromPoolAsync(&p, 64, pool, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemPoolImportPointer(&p, pool, &offer.pointer));
    ok(cuMemPoolImportPointer(&again, pool, &offer.pointer));
    assert_int_equal(p, again);
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 5);
    ok(ut_sg_run(sg.add_one, 1, 1, 0, p, 1));
    fails(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFreeAsync(p, 0));
    ok(cuMemFreeAsync(again, 0));
    ok(cuCtxSynchronize());
    fails(cuMemcpyDtoH_v2(&v, p, 4), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemPoolDestroy(pool));
    close(peer.to);
    close(peer.from);
    assert_int_equal(waitpid(peer.pid, &status, 0), peer.pid);
    assert_int_equal(status, 0);
    assert_int_equal(count_exports(), 0);
}

static void
events_order_work_of_two_processes(void **state)
{
    struct peer peer = peer_start("event", NULL);
    CUipcEventHandle handle;
    CUevent event;
    CUstream s;
    CUdeviceptr p;
    int status;

    assert_int_equal(read(peer.from, &handle, sizeof(handle)), sizeof(handle));
    ok(cuIpcOpenEventHandle(&event, handle));
    fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ok(cuMemAlloc_v2(&p, 4));
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuStreamWaitEvent(s, event, 0));
    ok(ut_sg_run(sg.store, 1, 1, s, p, 1));
    fails(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    close(peer.to); /* lets it go on */
    ok(cuEventSynchronize(event));
    ok(cuStreamSynchronize(s));
    waitpid(peer.pid, &status, 0);
    assert_int_equal(status, 0);
    close(peer.from);
    ok(cuEventDestroy_v2(event));

    peer = peer_start("event", NULL); /* and one whose recorder dies */
    assert_int_equal(read(peer.from, &handle, sizeof(handle)), sizeof(handle));
    ok(cuIpcOpenEventHandle(&event, handle));
    ok(cuStreamWaitEvent(s, event, 0));
    fails(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    peer_end(&peer, SIGKILL);
    ok(cuStreamSynchronize(s));
    ok(cuMemFree_v2(p));
}

static void
graphs_record_and_wait_for_shared_events(void **state)
{
    struct peer peer = peer_start("graphevent", NULL);
    CUipcEventHandle handle;
    CUevent event;
    CUstream s;
    int status;

    (void)state;
    assert_int_equal(read(peer.from, &handle, sizeof(handle)), sizeof(handle));
    ok(cuIpcOpenEventHandle(&event, handle));
    fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(event_in_graph(event, true, s));
    fails(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    close(peer.to); /* lets it go on */
    ok(cuStreamSynchronize(s));
    ok(cuEventQuery(event));
    waitpid(peer.pid, &status, 0);
    assert_int_equal(status, 0);
    close(peer.from);
    ok(cuEventDestroy_v2(event));
}

static void
exports_of_a_killed_process_go_away(void **state)
{
    struct peer peer = peer_start("share", NULL);
    CUipcMemHandle handle;
    size_t free_, total;
    CUdeviceptr p;
    unsigned v = 0;

    assert_int_equal(read(peer.from, &handle, sizeof(handle)), sizeof(handle));
    ok(cuIpcOpenMemHandle_v2(&p, handle, 1));
    peer_end(&peer, SIGKILL);
    ok(cuMemGetInfo_v2(&free_, &total)); /* looks for the dead */
    assert_int_equal(count_exports(), 0);
    ok(cuMemcpyDtoH_v2(&v, p, 4)); /* what is open stays */
    assert_int_equal(v, 5);
    ok(cuIpcCloseMemHandle(p));
    fails(cuIpcOpenMemHandle_v2(&p, handle, 1), CUDA_ERROR_INVALID_VALUE);
}

static void
cards_are_the_same_in_every_process(void **state)
{
    struct peer peer = peer_start("uuid", NULL);
    CUuuid mine, theirs;

    ok(cuDeviceGetUuid(&mine, 0));
    assert_int_equal(read(peer.from, &theirs, 16), 16);
    assert_memory_equal(&mine, &theirs, 16);
    peer_end(&peer, 0);

    setenv("SOFTGPU_INSTANCE", "other", 1);
    peer = peer_start("uuid", NULL);
    assert_int_equal(read(peer.from, &theirs, 16), 16);
    assert_memory_not_equal(&mine, &theirs, 16);
    peer_end(&peer, 0);
    unsetenv("SOFTGPU_INSTANCE");
}

static void
other_instances_have_other_memory(void **state)
{
    struct peer peer;
    size_t before, free_, total;

    ok(cuMemGetInfo_v2(&before, &total));
    setenv("SOFTGPU_INSTANCE", "other", 1);
    peer = peer_start("hold", "1000");
    assert_int_equal(peer_hear(&peer), 'y');
    ok(cuMemGetInfo_v2(&free_, &total));
    assert_int_equal(free_, before);
    peer_end(&peer, 0);
    unsetenv("SOFTGPU_INSTANCE");
}

static void
files_of_cards_go_with_their_last_user(void **state)
{
    struct peer first, second;

    setenv("SOFTGPU_INSTANCE", "gone", 1);
    first = peer_start("hold", "1000");
    assert_int_equal(peer_hear(&first), 'y');
    second = peer_start("hold", "1000");
    assert_int_equal(peer_hear(&second), 'y');
    assert_int_equal(count_files("-gone-card"), 2);
    peer_end(&first, 0);
    assert_int_equal(count_files("-gone-card"), 2); /* in use */
    peer_end(&second, 0);
    assert_int_equal(count_files("-gone-card"), 0);
    /* Who is killed leaves them to whoever starts next, on whichever cards. */
    first = peer_start("share", NULL);
    assert_int_equal(peer_hear(&first) != 0, 1);
    assert_int_equal(count_files("-gone-card0-ipc"), 1);
    peer_end(&first, SIGKILL);
    assert_int_equal(count_files("-gone-card"), 3);
    setenv("SOFTGPU_INSTANCE", "next", 1);
    second = peer_start("hold", "1000");
    assert_int_equal(peer_hear(&second), 'y');
    assert_int_equal(count_files("-gone-card"), 0);
    peer_end(&second, 0);
    unsetenv("SOFTGPU_INSTANCE");
}

static void
hidden_cards_are_not_counted(void **state)
{
    struct peer peer;
    CUuuid second, theirs;

    ok(cuDeviceGetUuid(&second, 1));
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    peer = peer_start("uuid", NULL);
    assert_int_equal(read(peer.from, &theirs, 16), 16);
    assert_memory_equal(&second, &theirs, 16);
    peer_end(&peer, 0);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    peer = peer_start("uuid", NULL); /* no card at all: cuInit fails */
    assert_int_equal(read(peer.from, &theirs, 16), 0);
    peer_end(&peer, 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void
exact_cards_end_allocations_at_their_last_byte(void **state)
{
    struct peer peer = peer_start("past", NULL);

    assert_int_equal(peer_hear(&peer), 'y');
    peer_end(&peer, 0);
    setenv("SOFTGPU_EXACT", "1", 1);
    setenv("GPUPOOL_LOG", "*:none", 1);
    peer = peer_start("past", NULL);
    assert_int_equal(peer_hear(&peer), 'f');
    peer_end(&peer, 0);
    unsetenv("GPUPOOL_LOG");
    unsetenv("SOFTGPU_EXACT");
}

static char
shared_word(const char *at)
{
    struct peer peer = peer_start("shared", at);
    const char heard = peer_hear(&peer);

    peer_end(&peer, 0);
    return heard;
}

static void
shared_memory_ends_with_its_unit_of_allocation(void **state)
{
    setenv("GPUPOOL_LOG", "*:none", 1);
    assert_int_equal(shared_word("4"), 'y');
    assert_int_equal(shared_word("124"), 'y');
    assert_int_equal(shared_word("128"), 'f');
    setenv("SOFTGPU_EXACT", "1", 1);
    assert_int_equal(shared_word("4"), 'y');
    assert_int_equal(shared_word("8"), 'f');
    unsetenv("SOFTGPU_EXACT");
    setenv("SOFTGPU_CHECK", "1", 1);
    assert_int_equal(shared_word("8"), 'f');
    unsetenv("SOFTGPU_CHECK");
    unsetenv("GPUPOOL_LOG");
}

static void
a_forked_child_is_refused(void **state)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        CUdeviceptr p;
        int n;

        _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuMemAlloc_v2(&p, 4) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    ok(cuCtxSynchronize()); /* and its end took nothing away from us */
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_card, close_card)
    const struct CMUnitTest tests[] = {
        T(memory_of_other_processes_counts),
        T(a_killed_process_gives_its_memory_back_at_once),
        T(a_killed_process_gives_its_multiprocessors_back),
        T(an_endless_kernel_elsewhere_does_not_stop_us),
        T(busy_processes_share_fairly),
        T(processes_killed_at_any_moment_leave_the_card_whole),
        T(memory_is_shared_between_processes),
        T(pools_are_shared_between_processes),
        T(events_order_work_of_two_processes),
        T(graphs_record_and_wait_for_shared_events),
        T(exports_of_a_killed_process_go_away),
        T(cards_are_the_same_in_every_process),
        T(other_instances_have_other_memory),
        T(files_of_cards_go_with_their_last_user),
        T(hidden_cards_are_not_counted),
        T(exact_cards_end_allocations_at_their_last_byte),
        T(shared_memory_ends_with_its_unit_of_allocation),
        T(a_forked_child_is_refused),
    };
    int rc;

    if (argc > 1)
        return play(argc, argv);
    ut_sg_cards("2", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
