/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and pools that one process exports by descriptor and another imports.
 *
 * Two processes: the parent exports, its child (which exists before either starts the
 * driver) imports, and they take turns, so that what they print has one order.
 *
 *     shareable [strict]    all parts
 *     shareable give PATH   export to two processes, one after the other, that connect
 *                           to this socket
 *     shareable take PATH   import what comes from there; then copies of its message,
 *                           if it is one, with something wrong in each
 *     shareable lend PATH   export to one process, and end
 *     shareable keep PATH   import, and hold it until a line comes in
 */
#include "parts.h"
#include "strict.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE (2u << 20)
#define WORDS (SIZE / 4)
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUcontext ctx;
static int peer; /* the other process */
static bool strict;

/* ---- between the processes ----------------------------------------------------------
 */

static void
die(const char *what)
{
    perror(what);
    exit(3);
}

static void
send_fd(int to, int fd, const void *data, size_t size)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)data, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    }
    if (sendmsg(to, &msg, MSG_NOSIGNAL) != (ssize_t)size)
        die("sendmsg");
}

static int
recv_fd(int from, void *data, size_t size)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {data, size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    int fd = -1;

    if (recvmsg(from, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)size)
        die("recvmsg");
    if (msg.msg_controllen >= CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
    return fd;
}

static void
say(void)
{
    send_fd(peer, -1, "", 1);
}

static void
hear(void)
{
    char c;

    recv_fd(peer, &c, 1);
}

/* ---- memory -------------------------------------------------------------------------
 */

static CUmemAllocationProp
prop_of(int types)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes =
                                     (CUmemAllocationHandleType)types,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
}

static CUresult
create(CUmemGenericAllocationHandle *handle, int types)
{
    const CUmemAllocationProp prop = prop_of(types);

    return cuMemCreate(handle, SIZE, &prop, 0);
}

static CUresult
map(CUmemGenericAllocationHandle handle, CUdeviceptr *at)
{
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult r = cuMemAddressReserve(at, SIZE, 0, 0, 0);

    if (r == CUDA_SUCCESS)
        r = cuMemMap(*at, SIZE, 0, handle, 0);
    return r == CUDA_SUCCESS ? cuMemSetAccess(*at, SIZE, &access, 1) : r;
}

static CUresult
unmap(CUdeviceptr at)
{
    CUresult r = cuMemUnmap(at, SIZE);

    return r == CUDA_SUCCESS ? cuMemAddressFree(at, SIZE) : r;
}

static CUresult
fill(CUdeviceptr at, uint32_t value)
{
    CUresult r = cuMemsetD32_v2(at, value, WORDS);

    return r == CUDA_SUCCESS ? cuCtxSynchronize() : r;
}

/* How many words are not @value; the number of all when the copy fails. */
static size_t
differ(CUdeviceptr at, uint32_t value)
{
    static uint32_t words[WORDS];
    size_t n = 0;

    if (cuMemcpyDtoH_v2(words, at, SIZE) != CUDA_SUCCESS)
        return WORDS;
    for (size_t i = 0; i < WORDS; i++)
        n += words[i] != value;
    return n;
}

static CUresult
import(CUmemGenericAllocationHandle *handle, int fd)
{
    return cuMemImportFromShareableHandle(handle, (void *)(intptr_t)fd, FD);
}

/* What the card has free again, once everybody has let go, is what it had at first. */
static int
free_again(size_t before)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    size_t now = 0, total;

    if (!strict) /* others may use the card */
        return 0;
    for (int i = 0; i < 20000 && now != before; i++) {
        TRY(cuMemGetInfo_v2(&now, &total));
        nanosleep(&pause, NULL);
    }
    SAME(now, before);
    return 0;
}

/* ---- parts: what the parent does, and its child -------------------------------------
 */

static int
one_sees_what_the_other_writes(void)
{
    CUmemGenericAllocationHandle handle;
    size_t before, total;
    CUdeviceptr at;
    int fd = -1;

    TRY(cuMemGetInfo_v2(&before, &total));
    TRY(create(&handle, FD));
    TRY(map(handle, &at));
    TRY(fill(at, 17));
    TRY(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    send_fd(peer, fd, "", 1);
    close(fd);
    hear();
    SAME(differ(at, 18), 0);
    TRY(unmap(at));
    TRY(cuMemRelease(handle));
    return free_again(before);
}

static int
one_sees_child(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    CUdeviceptr at;
    char c;
    int fd = recv_fd(peer, &c, 1);

    TRY(import(&handle, fd));
    close(fd);
    TRY(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    SAME(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    TRY(map(handle, &at));
    SAME(differ(at, 17), 0);
    TRY(fill(at, 18));
    TRY(unmap(at));
    TRY(cuMemRelease(handle));
    return 0;
}

/* The descriptor alone keeps the memory; then the importer alone does. */
static int
who_is_left_keeps_the_memory(void)
{
    CUmemGenericAllocationHandle handle;
    size_t before, total;
    CUdeviceptr at;
    int fd = -1;

    TRY(cuMemGetInfo_v2(&before, &total));
    TRY(create(&handle, FD));
    TRY(map(handle, &at));
    TRY(fill(at, 23));
    TRY(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    TRY(unmap(at));
    TRY(cuMemRelease(handle));
    send_fd(peer, fd, "", 1);
    hear(); /* the child has imported it */
    close(fd);
    say();
    hear(); /* and let it go */
    return free_again(before);
}

static int
who_is_left_child(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    char c;
    int fd = recv_fd(peer, &c, 1);

    TRY(import(&handle, fd));
    close(fd);
    say();
    hear();
    TRY(map(handle, &at));
    SAME(differ(at, 23), 0);
    TRY(cuMemRelease(handle));
    SAME(differ(at, 23), 0);
    TRY(unmap(at));
    return 0;
}

/* Twice by the importer, from duplicates, and by the exporter itself. */
static int
a_descriptor_is_used_often(void)
{
    CUmemGenericAllocationHandle handle, own;
    size_t before, total;
    CUdeviceptr at, also;
    int fd = -1, second = -1;

    TRY(cuMemGetInfo_v2(&before, &total));
    TRY(create(&handle, FD));
    TRY(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    TRY(cuMemExportToShareableHandle(&second, handle, FD, 0));
    TRY(import(&own, fd));
    close(second);
    TRY(map(handle, &at));
    TRY(map(own, &also));
    TRY(fill(at, 31));
    SAME(differ(also, 31), 0);
    send_fd(peer, fd, "", 1);
    hear();
    close(fd);
    SAME(differ(at, 32), 0);
    TRY(unmap(at));
    TRY(unmap(also));
    TRY(cuMemRelease(own));
    TRY(cuMemRelease(handle));
    return free_again(before);
}

static int
used_often_child(void)
{
    CUmemGenericAllocationHandle one, two;
    CUdeviceptr a, b;
    char c;
    int fd = recv_fd(peer, &c, 1), copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    TRY(import(&one, fd));
    close(fd);
    TRY(import(&two, copy));
    close(copy);
    TRY(map(one, &a));
    TRY(map(two, &b));
    SAME(differ(a, 31), 0);
    TRY(fill(b, 32));
    SAME(differ(a, 32), 0);
    TRY(unmap(a));
    TRY(cuMemRelease(one));
    SAME(differ(b, 32), 0);
    TRY(unmap(b));
    TRY(cuMemRelease(two));
    return 0;
}

static int
a_pool_and_its_memory(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = FD,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUdeviceptr p;
    int fd = -1;

    TRY(cuMemPoolCreate(&pool, &props));
    TRY(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
    TRY(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL));
    TRY(fill(p, 41));
    TRY(cuMemPoolExportPointer(&data, p));
    send_fd(peer, fd, &data, sizeof(data));
    close(fd);
    hear();
    SAME(differ(p, 42), 0);
    TRY(cuMemFreeAsync(p, NULL));
    TRY(cuCtxSynchronize());
    TRY(cuMemPoolDestroy(pool));
    return 0;
}

static int
pool_child(void)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUdeviceptr p;
    int fd = recv_fd(peer, &data, sizeof(data));

    TRY(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, FD, 0));
    close(fd);
    TRY(cuMemPoolImportPointer(&p, pool, &data));
    SAME(differ(p, 41), 0);
    TRY(fill(p, 42));
    TRY(cuMemFreeAsync(p, NULL));
    TRY(cuCtxSynchronize());
    CODE(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    CODE(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemAllocAsync(&p, SIZE, NULL));
    TRY(cuMemFreeAsync(p, NULL));
    TRY(cuMemPoolDestroy(pool));
    return 0;
}

static int
what_cannot_be_exported(void)
{
    CUmemGenericAllocationHandle handle, plain;
    CUmemoryPool pool;
    int fd = -1;

    TRY(create(&handle, FD));
    TRY(create(&plain, CU_MEM_HANDLE_TYPE_NONE));
    CODE(cuMemExportToShareableHandle(&fd, plain, FD, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemExportToShareableHandle(&fd, handle, FD, 1), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemExportToShareableHandle(NULL, handle, FD, 0), CUDA_ERROR_INVALID_VALUE);
    if (strict)
        CODE(cuMemExportToShareableHandle(&fd, 12345, FD, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_WIN32, 0),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cuDeviceGetDefaultMemPool(&pool, 0));
    CODE(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(fd, -1);
    TRY(cuMemRelease(handle));
    TRY(cuMemRelease(plain));
    return 0;
}

static int
what_cannot_be_imported(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = FD,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle, other = 0;
    CUmemoryPool pool, another = NULL;
    int pair[2], memory = -1, of_pool = -1, ends[2];

    if (pipe(ends) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        die("pipe");
    send_fd(pair[0], -1, "a word that nobody knows", 24);
    TRY(create(&handle, FD));
    TRY(cuMemPoolCreate(&pool, &props));
    TRY(cuMemExportToShareableHandle(&memory, handle, FD, 0));
    TRY(cuMemPoolExportToShareableHandle(&of_pool, pool, FD, 0));
    CODE(import(&other, -1), CUDA_ERROR_INVALID_VALUE);
    CODE(import(&other, ends[0]), CUDA_ERROR_INVALID_VALUE);
    CODE(import(&other, pair[0]), CUDA_ERROR_INVALID_VALUE);
    CODE(import(&other, pair[1]), CUDA_ERROR_INVALID_VALUE);
    CODE(import(&other, of_pool), CUDA_ERROR_INVALID_VALUE);
    CODE(import(NULL, memory), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)memory,
                                        CU_MEM_HANDLE_TYPE_WIN32),
         CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemPoolImportFromShareableHandle(&another, (void *)(intptr_t)memory, FD, 0),
         CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemPoolImportFromShareableHandle(&another, (void *)(intptr_t)of_pool, FD, 1),
         CUDA_ERROR_INVALID_VALUE);
    SAME(other, 0);
    SAME((uintptr_t)another, 0);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(pair[i]);
    }
    close(memory);
    close(of_pool);
    TRY(cuMemRelease(handle));
    TRY(cuMemPoolDestroy(pool));
    return 0;
}

static int
the_card_says_that_it_can(void)
{
    int can = 0, pools = 0;

    TRY(cuDeviceGetAttribute(
        &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    TRY(cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
                             0));
    SAME(can, 1);
    SAME(pools & FD, FD); /* a real card may have kinds besides */
    return 0;
}

/* ---- the processes ------------------------------------------------------------------
 */

static const struct part parent[] = {
    {"the card says that it can", the_card_says_that_it_can},
    {"one process sees what another writes", one_sees_what_the_other_writes},
    {"who is left keeps the memory", who_is_left_keeps_the_memory},
    {"a descriptor is used often", a_descriptor_is_used_often},
    {"a pool and its memory", a_pool_and_its_memory},
    {"what cannot be exported", what_cannot_be_exported},
    {"what cannot be imported", what_cannot_be_imported},
};

static int (*const child[])(void) = {one_sees_child, who_is_left_child,
                                     used_often_child, pool_child};

static bool
start(void)
{
    CUresult r = cuInit(0);

    if (r == CUDA_SUCCESS)
        r = cuCtxCreate_v2(&ctx, 0, 0);
    if (r != CUDA_SUCCESS)
        printf("no context: %d\n", (int)r);
    return r == CUDA_SUCCESS;
}

static int
be_child(void)
{
    int wrong = !start();

    for (size_t i = 0; !wrong && i < sizeof(child) / sizeof(child[0]); i++) {
        wrong = child[i]();
        if (!wrong)
            say();
    }
    if (!wrong)
        cuCtxDestroy_v2(ctx);
    fflush(stdout);
    return wrong;
}

static int
both(void)
{
    int pair[2], status = 0, wrong;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    pid = fork();
    if (pid < 0)
        die("fork");
    close(pair[pid == 0 ? 0 : 1]);
    peer = pair[pid == 0 ? 1 : 0];
    if (pid == 0)
        _exit(be_child());
    wrong = !start() || parts_run(parent, sizeof(parent) / sizeof(parent[0]));
    close(peer);
    if (waitpid(pid, &status, 0) != pid || status)
        printf("the child ended with %d\n", status);
    return wrong || status;
}

/* ---- with processes of other sessions -----------------------------------------------
 */

static int
meet(const char *path, bool listens)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    strncpy(at.sun_path, path, sizeof(at.sun_path) - 1);
    if (fd < 0)
        die("socket");
    if (listens ? bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 2)
                : connect(fd, (struct sockaddr *)&at, sizeof(at)))
        die(path);
    return fd;
}

static int
give(const char *path)
{
    int door = meet(path, true), fd = -1;
    CUmemGenericAllocationHandle handle;

    TRY(create(&handle, FD));
    TRY(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    printf("listening\n");
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        peer = accept(door, NULL, NULL);
        if (peer < 0)
            die("accept");
        send_fd(peer, fd, "", 1);
        hear();
        close(peer);
    }
    return 0;
}

/* Import a message that somebody else has written. */
static CUresult
import_copy(const void *message, size_t size)
{
    CUmemGenericAllocationHandle handle;
    CUresult r;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    send_fd(pair[0], -1, message, size);
    r = import(&handle, pair[1]);
    close(pair[0]);
    close(pair[1]);
    if (r == CUDA_SUCCESS)
        cuMemRelease(handle);
    return r;
}

/* Every bit wrong in turn, every length; how many of them were taken. */
static unsigned
import_forged(const uint8_t *message, size_t size)
{
    uint8_t copy[256] = {0};
    unsigned taken = 0;

    memcpy(copy, message, size);
    for (size_t i = 0; i < 8 * size; i++) {
        copy[i / 8] ^= (uint8_t)(1u << i % 8);
        taken += import_copy(copy, size) != CUDA_ERROR_INVALID_VALUE;
        copy[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    for (size_t n = 1; n < size + 8; n++)
        taken += n != size && import_copy(copy, n) != CUDA_ERROR_INVALID_VALUE;
    return taken;
}

static int
take(const char *path)
{
    CUmemGenericAllocationHandle handle;
    uint8_t message[256];
    ssize_t n;
    char c;
    int fd;

    peer = meet(path, false);
    fd = recv_fd(peer, &c, 1);
    printf("imported: %d\n", (int)import(&handle, fd));
    n = recv(fd, message, sizeof(message) - 8, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0)
        printf("a copy: %d, forged and taken: %u\n",
               (int)import_copy(message, (size_t)n), import_forged(message, (size_t)n));
    say();
    return 0;
}

static int
lend(const char *path)
{
    int door = meet(path, true), fd = -1;
    CUmemGenericAllocationHandle handle;

    TRY(create(&handle, FD));
    TRY(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    printf("listening\n");
    fflush(stdout);
    peer = accept(door, NULL, NULL);
    if (peer < 0)
        die("accept");
    send_fd(peer, fd, "", 1);
    hear();
    return 0;
}

static int
keep(const char *path)
{
    CUmemGenericAllocationHandle handle;
    char c;
    int fd;

    peer = meet(path, false);
    fd = recv_fd(peer, &c, 1);
    TRY(import(&handle, fd));
    close(fd);
    say();
    printf("kept\n");
    fflush(stdout);
    getchar();
    TRY(cuMemRelease(handle));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *word;
        int (*run)(const char *path);
    } modes[] = {{"give", give}, {"take", take}, {"lend", lend}, {"keep", keep}};

    strict = strict_asked(argc, argv);
    if (argc == 1 || strict)
        return both();
    for (size_t i = 0; argc == 3 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].word) == 0)
            return start() ? modes[i].run(argv[2]) : 2;
    }
    return 2;
}
