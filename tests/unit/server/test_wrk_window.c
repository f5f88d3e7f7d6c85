/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder by which RDMA reaches a card's memory, with every gdr_mode made to hold or
 * to break: the adapter and the driver are functions of this file.
 */
#include "ut.h"

#include "drv.h"
#include "gp_err.h"
#include "wrk.h"
#include "wrk_segment.h"
#include "wrk_window.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* --- an adapter ----------------------------------------------------------------------
 */

static struct {
    bool dmabuf, addresses; /* what it registers */
    unsigned room;          /* windows at a time */
    unsigned open, fd_opens, added;
    uint64_t last_addr, last_len;
} nic;

int
xport_window_probe(struct xport_conn *conn, struct gp_err *err)
{
    return nic.dmabuf ? 0 : gp_err_set(err, -EOPNOTSUPP, "no dma-buf");
}

int
xport_window_add(struct xport_conn *conn, uint64_t addr, size_t len, int dmabuf_fd,
                 struct gp_err *err)
{
    if (dmabuf_fd >= 0 ? !nic.dmabuf : !nic.addresses)
        return gp_err_set(err, -EOPNOTSUPP, "not that way");
    if (nic.open == nic.room)
        return gp_err_set(err, -ENOMEM, "full");
    nic.open++;
    nic.added++;
    nic.fd_opens += dmabuf_fd >= 0;
    nic.last_addr = addr;
    nic.last_len = len;
    return 0;
}

void
xport_window_remove(struct xport_conn *conn, uint64_t addr)
{
    nic.open--;
}

/* --- a driver
 * --------------------------------------------------------------------------- */

static bool driver_gives_dmabuf;
static unsigned flushes;

static CUresult
get_handle(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType type,
           unsigned long long flags)
{
    if (!driver_gives_dmabuf)
        return CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(type, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
    *(int *)handle = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return CUDA_SUCCESS;
}

static CUresult
flush(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
    flushes++;
    return CUDA_SUCCESS;
}

/* --- a worker
 * ------------------------------------------------------------------------------ */

static struct drv driver = {.cuMemGetHandleForAddressRange = get_handle,
                            .cuFlushGPUDirectRDMAWrites = flush};
static const struct xport_ops rdma_ops = {.kind = XPORT_KIND_RDMA,
                                          .can = XPORT_CAN_WINDOWS},
                              broken_ops = {.kind = XPORT_KIND_TCP,
                                            .can = XPORT_CAN_WINDOWS},
                              tcp_ops = {.can = 0};
static struct xport_conn conn;
static struct wrk_priv priv = {.conn = &conn};
static struct wrk worker = {.drv = &driver, .priv = &priv};

static struct wrk_windows *
worker_with(const char *allowed)
{
    struct wrk_windows *ws = NULL;

    conn.ops = &rdma_ops;
    free(priv.usage);
    priv.usage = calloc(1, sizeof(*priv.usage));
    memset(&priv.cards, 0, sizeof(priv.cards));
    nic.room = WRK_WINDOWS_MAX;
    nic.open = nic.fd_opens = nic.added = flushes = 0;
    assert_int_equal(wrk_windows_new(&worker, allowed, &ws), 0);
    return ws;
}

static void
attribute(CUdevice_attribute a, int value)
{
    priv.cards.card[0].attributes[a - 1] = value;
}

static const char *
gdr_mode(void)
{
    return wrk_gdr_mode_name(priv.usage->gdr_mode);
}

/* Memory of this process, and addresses that no processor reads. */
static uint64_t
card_memory(size_t size, int prot)
{
    void *p =
        mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return (uintptr_t)p;
}

static uint64_t
take(struct wrk_windows *ws, uint64_t addr, uint64_t len)
{
    struct wrk_window *window;
    uint64_t n = wrk_window_take(ws, addr, len, &window);

    if (n)
        wrk_window_put(ws, window);
    return n;
}

/* --- cases
 * --------------------------------------------------------------------------------- */

static void
first_mode_that_works_is_taken(void **state)
{
    static const struct {
        bool nic_dmabuf, driver_dmabuf, nic_addresses;
        int prot;
        const char *allowed, *gdr_mode;
    } cases[] = {
        {true, true, true, PROT_NONE, "auto", "dmabuf"},
        {true, false, true, PROT_NONE, "auto", "peermem"},
        {false, true, true, PROT_NONE, "auto", "peermem"},
        {false, true, true, PROT_READ | PROT_WRITE, "auto", "mapped"},
        {false, false, false, PROT_NONE, "auto", "slots"},
        {true, true, true, PROT_NONE, "peermem", "peermem"},
        {false, true, true, PROT_NONE, "dmabuf", "slots"},
        {true, true, false, PROT_NONE, "peermem", "slots"},
        {true, true, true, PROT_NONE, "off", "slots"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t addr = card_memory(4 * MIB, cases[i].prot);
        bool holds = strcmp(cases[i].gdr_mode, "slots") != 0;
        struct wrk_windows *ws;

        nic.dmabuf = cases[i].nic_dmabuf;
        nic.addresses = cases[i].nic_addresses;
        driver_gives_dmabuf = cases[i].driver_dmabuf;
        ws = worker_with(cases[i].allowed);
        wrk_windows_know(ws, addr, 4 * MIB, 1);
        assert_int_equal(take(ws, addr, MIB), holds ? MIB : 0);
        assert_string_equal(gdr_mode(), cases[i].gdr_mode);
        assert_int_equal(nic.fd_opens, strcmp(cases[i].gdr_mode, "dmabuf") == 0);
        assert_int_equal(nic.open, holds);
        wrk_windows_free(ws);
        assert_int_equal(nic.open, 0);
        munmap((void *)(uintptr_t)addr, 4 * MIB);
    }
}

static void
windows_are_pieces_of_known_allocations(void **state)
{
    uint64_t base = card_memory(256 * MIB, PROT_NONE);
    uint64_t addr = GP_ALIGN_UP(base, 64 * MIB) + 100; /* not at a page */
    struct wrk_windows *ws;

    nic.dmabuf = false;
    nic.addresses = true;
    ws = worker_with("auto");
    assert_int_equal(take(ws, addr, MIB), 0); /* nobody said that it is memory */
    wrk_windows_know(ws, addr, 130 * MIB, 1);
    assert_int_equal(take(ws, addr, MIB), 0); /* the part of a page in front */
    assert_int_equal(take(ws, addr + 4096, 100 * MIB), 64 * MIB - 4196);
    assert_int_equal(nic.last_addr, addr - 100 + 4096);
    assert_int_equal(nic.last_len, 64 * MIB - 4096);
    assert_int_equal(take(ws, addr + 8192, MIB), MIB);
    assert_int_equal(nic.added, 1); /* the same one */
    /* The last one ends where the allocation does, at a page. */
    assert_int_equal(take(ws, addr + 129 * MIB, 10 * MIB), MIB - 100);
    assert_int_equal(nic.last_addr + nic.last_len, addr - 100 + 130 * MIB);
    assert_int_equal(take(ws, addr + 131 * MIB, MIB), 0); /* behind it */
    assert_int_equal(take(ws, addr + 8192, 100), 0);      /* too little to bother */
    wrk_windows_free(ws);
    munmap((void *)(uintptr_t)base, 256 * MIB);
}

static void
oldest_window_makes_room(void **state)
{
    uint64_t base = card_memory(4096 * MIB, PROT_NONE);
    uint64_t addr = GP_ALIGN_UP(base, 64 * MIB);
    struct wrk_window *held;
    struct wrk_windows *ws;

    nic.addresses = true;
    nic.dmabuf = false;
    ws = worker_with("auto");
    nic.room = 3; /* as many as this card can map */
    wrk_windows_know(ws, addr, 3200 * MIB, 1);
    assert_int_equal(wrk_window_take(ws, addr, MIB, &held), MIB);
    for (uint64_t i = 1; i < WRK_WINDOWS_MAX + 4; i++)
        assert_int_equal(take(ws, addr + i * 64 * MIB, MIB), MIB);
    assert_int_equal(nic.open, 3);
    assert_int_equal(take(ws, addr + 4096, MIB), MIB);
    assert_true(wrk_windows_busy(ws, addr)); /* what is in use stayed */
    wrk_window_put(ws, held);
    assert_false(wrk_windows_busy(ws, addr));
    wrk_windows_free(ws);
    munmap((void *)(uintptr_t)base, 4096 * MIB);
}

static void *
forgetter(void *arg)
{
    wrk_windows_forget(arg, nic.last_addr);
    return NULL;
}

static void
freed_memory_has_no_window_and_waits_for_transfers(void **state)
{
    uint64_t addr = card_memory(4 * MIB, PROT_NONE);
    struct wrk_window *window;
    struct wrk_windows *ws;
    pthread_t thread;

    nic.addresses = true;
    ws = worker_with("auto");
    wrk_windows_know(ws, addr, 4 * MIB, 1);
    assert_int_equal(wrk_window_take(ws, addr, MIB, &window), MIB);
    pthread_create(&thread, NULL, forgetter, ws);
    assert_int_equal(nic.open, 1); /* it cannot go before the transfer ended */
    wrk_window_put(ws, window);
    pthread_join(thread, NULL);
    assert_int_equal(nic.open, 0);
    assert_int_equal(take(ws, addr, MIB), 0);
    /* A context takes its allocations with it. */
    wrk_windows_know(ws, addr, 4 * MIB, 7);
    assert_int_equal(take(ws, addr, MIB), MIB);
    wrk_windows_forget_ctx(ws, 6);
    assert_int_equal(nic.open, 1);
    wrk_windows_forget_ctx(ws, 7);
    assert_int_equal(nic.open, 0);
    assert_int_equal(take(ws, addr, MIB), 0);
    wrk_windows_free(ws);
    munmap((void *)(uintptr_t)addr, 4 * MIB);
}

static void
card_is_flushed_unless_it_need_not_be(void **state)
{
    uint64_t addr = card_memory(4 * MIB, PROT_NONE);
    struct wrk_windows *ws;

    nic.addresses = true;
    nic.dmabuf = false;
    ws = worker_with("auto");
    wrk_windows_know(ws, addr, 4 * MIB, 1);
    take(ws, addr, MIB);
    /* Neither in order nor flushable: only copies down go straight. */
    assert_false(wrk_windows_writable(ws, 0));
    attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
              CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
    assert_true(wrk_windows_writable(ws, 0));
    assert_int_equal(wrk_windows_flush(ws, 0), CUDA_SUCCESS);
    assert_int_equal(flushes, 1);
    attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
              CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
    assert_int_equal(wrk_windows_flush(ws, 0), CUDA_SUCCESS);
    assert_int_equal(flushes, 1);
    wrk_windows_free(ws);
    munmap((void *)(uintptr_t)addr, 4 * MIB);
}

static void
adapter_that_refuses_again_and_again_is_left_alone(void **state)
{
    uint64_t addr = card_memory(4096 * MIB, PROT_NONE);
    struct wrk_windows *ws;

    nic.addresses = true;
    nic.dmabuf = false;
    ws = worker_with("auto");
    wrk_windows_know(ws, addr, 4096 * MIB, 1);
    assert_int_equal(take(ws, addr, MIB), MIB);
    nic.addresses = false;
    for (uint64_t i = 1; i < 40; i++)
        assert_int_equal(take(ws, addr + i * 64 * MIB, MIB), 0);
    assert_string_equal(gdr_mode(), "slots");
    wrk_windows_free(ws);
    munmap((void *)(uintptr_t)addr, 4096 * MIB);
}

/* Over TCP none is opened, and what a link over RDMA had does not hold for the next. */
static void
windows_are_those_of_one_link(void **state)
{
    uint64_t addr = card_memory(256 * MIB, PROT_NONE);
    struct wrk_window *held;
    struct wrk_windows *ws;

    nic.addresses = true;
    nic.dmabuf = false;
    ws = priv.windows = worker_with("auto");
    wrk_windows_know(ws, addr, 256 * MIB, 1);
    assert_int_equal(wrk_window_take(ws, addr, MIB, &held), MIB);
    assert_int_equal(take(ws, addr + 64 * MIB, MIB), MIB);
    conn.ops = &broken_ops;
    wrk_windows_link_replaced(&worker);
    assert_int_equal(nic.open, 1); /* what is in use ends with its user */
    for (unsigned i = 0; i < 2 * WRK_WINDOWS_MAX; i++)
        assert_int_equal(take(ws, addr, MIB), 0);
    wrk_window_put(ws, held);
    assert_int_equal(nic.open, 0);
    assert_int_equal(nic.added, 2); /* nothing was tried, so nothing was refused */
    conn.ops = &rdma_ops;
    wrk_windows_link_replaced(&worker);
    assert_int_equal(take(ws, addr, MIB), MIB);
    assert_int_equal(nic.added, 3);
    priv.windows = NULL;
    wrk_windows_free(ws);
    munmap((void *)(uintptr_t)addr, 256 * MIB);
}

static void
other_links_have_no_windows(void **state)
{
    struct wrk_windows *ws = NULL;
    struct wrk_window *window;

    conn.ops = &tcp_ops;
    assert_int_equal(wrk_windows_new(&worker, "auto", &ws), -EOPNOTSUPP);
    wrk_windows_know(NULL, 4096, MIB, 1);
    assert_int_equal(wrk_window_take(NULL, 4096, MIB, &window), 0);
    assert_false(wrk_windows_busy(NULL, 4096));
    assert_false(wrk_windows_writable(NULL, 0));
    wrk_windows_forget(NULL, 4096);
    wrk_windows_forget_ctx(NULL, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_mode_that_works_is_taken),
        cmocka_unit_test(windows_are_pieces_of_known_allocations),
        cmocka_unit_test(oldest_window_makes_room),
        cmocka_unit_test(freed_memory_has_no_window_and_waits_for_transfers),
        cmocka_unit_test(card_is_flushed_unless_it_need_not_be),
        cmocka_unit_test(adapter_that_refuses_again_and_again_is_left_alone),
        cmocka_unit_test(windows_are_those_of_one_link),
        cmocka_unit_test(other_links_have_no_windows),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    free(priv.usage);
    return r;
}
