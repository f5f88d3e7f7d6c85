/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed and page-locked memory of which host and card change a little: the result,
 * and what it costs on the network.
 *
 * Every change is made in a model as well, and after each turn the whole memory has to
 * be what the model is.  The program's TCP connections are asked how many bytes and
 * data segments went over them; a run without any has cost nothing.  A segment that
 * arrives is at least a part of an answer, so no turn has more round trips than these.
 * With the argument "figures" the least that a turn cost is printed; with "whole" it
 * may be anything; with "digests" only what managed memory costs counts, and not behind
 * a prefetch.
 */
#include "prog.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PAGE 4096u
#define VALUES (PAGE / 4)
#define LARGE (256u << 20)
#define MIDDLE (32u << 20)
#define MANY 1500u
#define TURNS 5

PROG_EMBED(features_ptx, "features.ptx");

static const uint32_t factors[4] = {2, 3, 5, 7};

struct traffic {
    uint64_t bytes, sent, received; /* the last two in data segments */
    uint64_t segment;               /* bytes of the longest that may come */
};

/* Shared memory and what it should be. */
struct memory {
    CUdeviceptr ptr;
    uint32_t *model;
    uint32_t pages;
};

static struct prog prog;
static CUfunction scale;
static uint64_t chance = 1;
static bool figures, whole;
static bool locked; /* new memory is page-locked; else managed */

/* ---- the network ------------------------------------------------------------ */

static struct traffic
traffic_now(void)
{
    struct traffic sum = {0};

    for (int fd = 0; fd < 1024; fd++) {
        struct tcp_info info;
        socklen_t len = sizeof(info);

        memset(&info, 0, sizeof(info));
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
            continue;
        sum.bytes += info.tcpi_bytes_acked + info.tcpi_bytes_received;
        sum.sent += info.tcpi_data_segs_out;
        /* Acknowledgements of the journal, 8 bytes each on a connection of their own,
         * come when there is nothing else to do. */
        if (info.tcpi_bytes_received > 16 * (uint64_t)info.tcpi_data_segs_in)
            sum.received += info.tcpi_data_segs_in;
        if (info.tcpi_advmss > sum.segment)
            sum.segment = info.tcpi_advmss;
    }
    return sum;
}

/* ---- changes ---------------------------------------------------------------- */

static struct memory
memory_new_as_it_is(uint32_t pages)
{
    struct memory m = {.pages = pages, .model = util_alloc(pages, PAGE)};

    if (locked)
        CU(cuMemHostAlloc((void **)&m.ptr, (size_t)pages * PAGE,
                          CU_MEMHOSTALLOC_DEVICEMAP));
    else
        CU(cuMemAllocManaged(&m.ptr, (size_t)pages * PAGE, CU_MEM_ATTACH_GLOBAL));
    return m;
}

static struct memory
memory_new(uint32_t pages)
{
    struct memory m = memory_new_as_it_is(pages);

    memset((void *)(uintptr_t)m.ptr, 0, (size_t)pages * PAGE);
    return m;
}

static void
memory_free(struct memory *m)
{
    if (locked)
        CU(cuMemFreeHost((void *)(uintptr_t)m->ptr));
    else
        CU(cuMemFree(m->ptr));
    free(m->model);
}

static uint32_t *
host_page(const struct memory *m, uint32_t page)
{
    return (uint32_t *)(uintptr_t)m->ptr + (size_t)page * VALUES;
}

static uint32_t *
model_page(const struct memory *m, uint32_t page)
{
    return m->model + (size_t)page * VALUES;
}

static void
host_writes(const struct memory *m, uint32_t page)
{
    const uint32_t value = util_random(&chance), at = util_random(&chance) % VALUES;

    host_page(m, page)[at] = value;
    model_page(m, page)[at] = value;
}

static void
kernel_writes(const struct memory *m, uint32_t page, uint32_t pages)
{
    CUdeviceptr data = m->ptr + (CUdeviceptr)page * PAGE;
    unsigned count = pages * VALUES;
    void *params[] = {&data, &count};
    uint32_t *model = model_page(m, page);

    CU(cuLaunchKernel(scale, (count + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params,
                      NULL));
    for (uint32_t i = 0; i < count; i++)
        model[i] *= factors[i % 4];
}

static void
fill_writes(const struct memory *m, uint32_t page)
{
    const uint32_t value = util_random(&chance);

    CU(cuMemsetD32Async(m->ptr + (CUdeviceptr)page * PAGE + 16, value, 100, NULL));
    for (uint32_t i = 0; i < 100; i++)
        model_page(m, page)[4 + i] = value;
}

static void
copy_writes(const struct memory *m, uint32_t to, uint32_t from)
{
    CU(cuMemcpyDtoDAsync(m->ptr + (CUdeviceptr)to * PAGE,
                         m->ptr + (CUdeviceptr)from * PAGE, PAGE, NULL));
    memmove(model_page(m, to), model_page(m, from), PAGE);
}

/* Values of streams cannot be written to managed memory. */
static size_t
stream_writes(const struct memory *m, uint32_t page)
{
    CUresult r =
        cuStreamWriteValue32_v2(NULL, m->ptr + (CUdeviceptr)page * PAGE + 64, 7, 0);

    if (locked)
        model_page(m, page)[16] = 7;
    return r != (locked ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static uint32_t
any_page(const struct memory *m)
{
    return util_random(&chance) % m->pages;
}

static size_t
turn_ends(const struct memory *m)
{
    CU(cuCtxSynchronize());
    return memcmp((void *)(uintptr_t)m->ptr, m->model, (size_t)m->pages * PAGE) != 0;
}

/* ---- promises --------------------------------------------------------------- */

static size_t
check_one_page(void)
{
    struct memory m = memory_new(LARGE / PAGE);
    struct traffic least = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
    size_t wrong = 0;

    for (uint32_t page = 0; page < m.pages; page++)
        host_writes(&m, page);
    kernel_writes(&m, 0, 1);
    wrong += turn_ends(&m);
    for (int turn = 0; turn < TURNS; turn++) {
        struct traffic before = traffic_now(), after;

        host_writes(&m, any_page(&m));
        kernel_writes(&m, any_page(&m), 1);
        wrong += turn_ends(&m);
        after = traffic_now();
        if (after.bytes - before.bytes < least.bytes)
            least.bytes = after.bytes - before.bytes;
        if (after.sent - before.sent < least.sent)
            least.sent = after.sent - before.sent;
        if (after.received - before.received < least.received)
            least.received = after.received - before.received;
        least.segment = after.segment;
    }
    if (figures)
        printf("one page%s: %llu bytes, %llu segments sent, %llu received\n",
               locked ? ", page-locked" : "", (unsigned long long)least.bytes,
               (unsigned long long)least.sent, (unsigned long long)least.received);
    memory_free(&m);
    if (least.segment) /* an answer may be longer than a segment */
        least.received -= least.bytes / least.segment;
    return wrong + (!whole && (least.bytes > LARGE / 100 || least.received > 2));
}

static size_t
check_scattered(void)
{
    struct memory m = memory_new(MIDDLE / PAGE);
    size_t wrong = 0;

    for (uint32_t count = 1; count <= 1000; count *= 10) {
        for (uint32_t i = 0; i < count; i++)
            host_writes(&m, any_page(&m));
        for (uint32_t i = 0; i < count; i++)
            fill_writes(&m, any_page(&m));
        for (uint32_t i = 0; i < count / 10; i++)
            kernel_writes(&m, any_page(&m), 1);
        for (uint32_t i = 0; i < count / 10; i++)
            copy_writes(&m, any_page(&m), any_page(&m));
        for (uint32_t i = 0; i < count / 10; i++)
            wrong += stream_writes(&m, any_page(&m));
        wrong += turn_ends(&m);
    }
    memory_free(&m);
    return wrong;
}

static size_t
check_all_of_it(void)
{
    struct memory m = memory_new(MIDDLE / PAGE);
    size_t wrong = 0;

    for (uint32_t page = 0; page < m.pages; page++)
        host_writes(&m, page);
    kernel_writes(&m, 0, m.pages);
    wrong += turn_ends(&m);
    for (uint32_t page = 0; page < m.pages; page += 2)
        fill_writes(&m, page);
    wrong += turn_ends(&m);
    kernel_writes(&m, 100, m.pages / 2);
    host_writes(&m, m.pages - 1); /* the card writes other pages */
    wrong += turn_ends(&m);
    memory_free(&m);
    return wrong;
}

/* More of them than one question names. */
static size_t
check_many(void)
{
    struct memory *all = util_alloc(MANY, sizeof(*all));
    size_t wrong = 0;

    for (uint32_t i = 0; i < MANY; i++)
        all[i] = memory_new(2);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < MANY; i += turn ? 7 : 1) {
            host_writes(&all[i], 0);
            fill_writes(&all[i], 1);
        }
        for (uint32_t i = 0; i < MANY; i++)
            wrong += turn_ends(&all[i]);
    }
    for (uint32_t i = 0; i < MANY; i++)
        memory_free(&all[i]);
    free(all);
    return wrong;
}

/* The card writes in one turn, and the host's change of the next turn is in the same
 * page; then the other way round. */
static size_t
check_same_page(void)
{
    struct memory m = memory_new(16);
    size_t wrong = 0;

    for (int turn = 0; turn < TURNS; turn++) {
        fill_writes(&m, 3);
        wrong += turn_ends(&m);
        host_writes(&m, 3);
        kernel_writes(&m, 3, 1);
        wrong += turn_ends(&m);
        kernel_writes(&m, 3, 2);
        wrong += turn_ends(&m);
        host_writes(&m, 4);
        fill_writes(&m, 5);
        wrong += turn_ends(&m);
    }
    memory_free(&m);
    return wrong;
}

/* The kernel tells which pages of private memory exist since Linux 6.7. */
static bool
kernel_tells(void)
{
    unsigned major, minor;
    struct utsname system;

    return uname(&system) == 0 &&
           sscanf(system.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 7));
}

/* How many pages the process has. */
static size_t
pages_present(const struct memory *m)
{
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t *entries = util_alloc(m->pages, sizeof(*entries));
    size_t size = m->pages * sizeof(*entries), n = 0;

    if (pread(fd, entries, size, (off_t)(m->ptr / PAGE * sizeof(*entries))) !=
        (ssize_t)size)
        n = m->pages;
    for (uint32_t i = 0; i < m->pages; i++)
        n += entries[i] >> 63;
    free(entries);
    close(fd);
    return n;
}

/* A large reserve of which little is used: what neither side has ever written to is not
 * looked at. */
static size_t
check_reserve(void)
{
    struct memory m = memory_new_as_it_is(LARGE / PAGE);
    size_t wrong = 0, few = m.pages / 8; /* a page may be one of 2 MiB */

    for (int turn = 0; turn < TURNS; turn++) {
        host_writes(&m, any_page(&m));
        kernel_writes(&m, any_page(&m), 1);
        fill_writes(&m, any_page(&m));
        CU(cuCtxSynchronize());
    }
    if (!whole && traffic_now().bytes && kernel_tells()) /* else both map the pages */
        wrong += pages_present(&m) > few;
    wrong += turn_ends(&m);
    fill_writes(&m, any_page(&m)); /* the test has looked at all of it */
    host_writes(&m, any_page(&m));
    kernel_writes(&m, any_page(&m), 1);
    wrong += turn_ends(&m);
    memory_free(&m);
    return wrong;
}

/* The card brings back what was there before the host's change: what both ends had
 * agreed on last but one.  Of two streams one is waited for first, while the other one
 * may work. */
static size_t
check_there_and_back(void)
{
    struct memory m = memory_new(600);
    const uint32_t pages[] = {0, 1, 300, 599};
    CUstream one, other;
    size_t wrong = 0;

    CU(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (uint32_t turn = 0; turn < 8 * TURNS; turn++) {
        for (int i = 0; i < 4; i++)
            for (uint32_t k = 0; k < VALUES; k++)
                host_page(&m, pages[i])[k] = 6 + turn;
        for (int i = 0; i < 4; i++)
            CU(cuMemsetD32Async(m.ptr + (uint64_t)pages[i] * PAGE, 5, VALUES, one));
        if (turn % 2)
            CU(cuMemsetD32Async(m.ptr + UINT64_C(10) * PAGE, turn, VALUES, other));
        if (turn % 4 == 1)
            CU(cuStreamSynchronize(other));
        if (turn % 4 != 2)
            CU(cuStreamSynchronize(one));
        CU(cuCtxSynchronize());
        for (int i = 0; i < 4; i++)
            for (uint32_t k = 0; k < VALUES; k++)
                wrong += host_page(&m, pages[i])[k] != 5;
        if (turn % 2)
            wrong += host_page(&m, 10)[VALUES - 1] != turn;
    }
    CU(cuStreamDestroy(one));
    CU(cuStreamDestroy(other));
    memory_free(&m);
    return wrong;
}

/* What was prefetched is there when the kernel wants it, and what the host changes
 * behind that as well. */
static size_t
check_prefetch(void)
{
    struct memory m = memory_new(MIDDLE / PAGE);
    struct traffic before, after;
    size_t wrong = 0;
    int where = -7;

    kernel_writes(&m, 0, 1);
    wrong += turn_ends(&m);
    for (uint32_t page = 0; page < m.pages; page++)
        host_writes(&m, page);
    CU(cuMemPrefetchAsync(m.ptr, MIDDLE / 2, prog.device, NULL));
    CU(cuMemPrefetchAsync(m.ptr + MIDDLE / 2 + 100, MIDDLE / 2 - 100, prog.device,
                          NULL));
    CU(cuMemRangeGetAttribute(&where, sizeof(where),
                              CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, m.ptr,
                              MIDDLE));
    wrong += where != prog.device;
    before = traffic_now();
    host_writes(&m, 3);
    kernel_writes(&m, 2, 3);
    wrong += turn_ends(&m);
    after = traffic_now();
    wrong += !whole && after.bytes - before.bytes > MIDDLE / 100;
    kernel_writes(&m, 7, 2);
    CU(cuMemPrefetchAsync(m.ptr, MIDDLE, CU_DEVICE_CPU, NULL));
    wrong += turn_ends(&m);
    memory_free(&m);
    return wrong;
}

static size_t
check_all(const char *kind)
{
    size_t wrong = 0;

    wrong += util_report(kind, check_one_page(), "one page each");
    wrong += util_report(kind, check_scattered(), "scattered pages");
    wrong += util_report(kind, check_all_of_it(), "all of it");
    wrong += util_report(kind, check_many(), "many ranges");
    wrong += util_report(kind, check_same_page(), "the same page");
    wrong += util_report(kind, check_there_and_back(), "there and back");
    return wrong;
}

int
main(int argc, char **argv)
{
    CUdeviceptr factor;
    size_t wrong = 0;

    figures = argc > 1 && strcmp(argv[1], "figures") == 0;
    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    prog_begin(&prog, 1, argv, "managed_traffic", features_ptx);
    scale = prog_kernel(&prog, "feature_scale");
    CU(cuModuleGetGlobal_v2(&factor, NULL, prog.module, "feature_factor"));
    CU(cuMemcpyHtoD(factor, factors, sizeof(factors)));
    wrong += check_all("managed memory");
    whole |= argc > 1 && strcmp(argv[1], "digests") == 0;
    wrong += util_report("managed memory", check_prefetch(), "prefetched");
    locked = true;
    wrong += check_all("page-locked memory");
    wrong += util_report("page-locked memory", check_reserve(), "a large reserve");
    prog_end(&prog);
    return wrong != 0;
}
