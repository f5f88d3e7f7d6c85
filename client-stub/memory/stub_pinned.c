/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_pinned.h"

#include "gp_base.h"
#include "gp_fsize.h"
#include "gp_lock.h"
#include "stub_call.h"
#include "stub_link.h"
#include "stub_memory.h"
#include "stub_unified.h"
#include "wire_api.h"
#include "xport.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define NUMBERS 4096u /* the worker's cap */

_Atomic uint32_t stub_pinned_count;

/* Numbers in use, of each link; and descriptors go over in the order of the calls. */
static struct gp_lock lock;
static bool used[STUB_LINKS_MAX][NUMBERS];

/* Nobody can take pages away from under the other. */
static int
file_new(size_t size)
{
    static const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    CLEANUP_FD int fd = memfd_create("gpupool-pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || gp_fsize_resize(fd, size) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
        return -1;
    return TAKE_FD(fd);
}

static bool
pin_call(uint32_t id, uint64_t size)
{
    struct wire_gp_pin_rep_view rep = {0};
    struct stub_call c;
    bool taken;

    if (stub_call_begin(&c, WIRE_CALL_gp_pin, sizeof(struct wire_gp_pin_req)) !=
        CUDA_SUCCESS)
        return false;
    *(struct wire_gp_pin_req *)c.body =
        (struct wire_gp_pin_req){.size = size, .id = id};
    taken = stub_call_wait(&c) == CUDA_SUCCESS &&
            wire_gp_pin_rep_open(&rep, c.reply, c.reply_size, 0) && rep.f->taken;
    stub_call_end(&c);
    return taken;
}

static bool
pin_at_call(uint32_t id, uint64_t size, uint64_t addr, bool file)
{
    struct wire_gp_pin_at_rep_view rep = {0};
    struct stub_call c;
    bool taken;

    if (stub_call_begin(&c, WIRE_CALL_gp_pin_at, sizeof(struct wire_gp_pin_at_req)) !=
        CUDA_SUCCESS)
        return false;
    *(struct wire_gp_pin_at_req *)c.body =
        (struct wire_gp_pin_at_req){.addr = addr, .size = size, .id = id, .file = file};
    taken = stub_call_wait(&c) == CUDA_SUCCESS &&
            wire_gp_pin_at_rep_open(&rep, c.reply, c.reply_size, 0) && rep.f->taken;
    stub_call_end(&c);
    return taken;
}

/* Its number, or 0. */
static uint32_t
hand_over(struct stub_link *link, int fd, uint64_t size, uint64_t addr)
{
    bool *numbers = used[link->number];
    uint32_t id = 0;
    bool taken;

    gp_lock_take(&lock);
    while (id < NUMBERS && numbers[id])
        id++;
    taken = id < NUMBERS && (fd < 0 || xport_give_fd(link->conn, fd) >= 0) &&
            (addr ? pin_at_call(id, size, addr, fd >= 0) : pin_call(id, size));
    if (taken)
        numbers[id] = true;
    gp_lock_release(&lock);
    return taken ? id + 1 : 0;
}

/* Page-locked memory is present from the start, so the pages are charged to this
 * process and not to the worker. */
static void *
pages_map(size_t size, int fd, bool unified)
{
    void *mem;

    if (unified)
        return stub_unified_map(size, fd);
    mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    return mem == MAP_FAILED ? NULL : mem;
}

static void
pages_unmap(void *mem, size_t size, bool unified)
{
    if (unified)
        stub_unified_release((uintptr_t)mem, size);
    else
        munmap(mem, size);
}

/* With several servers the memory here is the common copy of all of them, and the
 * worker on this host only copies from and to it. */
void *
stub_pinned_new(size_t size, uint32_t *ret_number, enum stub_memory_reach *ret_reach)
{
    struct stub_link *link = stub_link_here();
    bool unified = stub_unified_any(), shared = unified && stub_links_n == 1;
    CLEANUP_FD int fd = -1;
    void *mem;

    if (!xport_can(link->conn, XPORT_CAN_SHARE) || !stub_link_can(link, "pinned") ||
        (!shared && size < STUB_PINNED_MIN))
        return NULL;
    fd = file_new(size);
    if (fd < 0)
        return NULL;
    mem = pages_map(size, fd, unified);
    if (!mem)
        return NULL;
    *ret_number = hand_over(link, fd, size, shared ? (uintptr_t)mem : 0);
    if (!*ret_number) {
        pages_unmap(mem, size, unified);
        return NULL;
    }
    *ret_reach = shared    ? STUB_REACH_SHARED
                 : unified ? STUB_REACH_WAITING
                           : STUB_REACH_NONE;
    atomic_fetch_add(&stub_pinned_count, 1);
    return mem;
}

uint32_t
stub_pinned_place(uint64_t addr, uint64_t size)
{
    return stub_unified_any() ? hand_over(stub_link_here(), -1, size, addr) : 0;
}

bool
stub_pinned_place_again(uint32_t number, uint64_t addr, uint64_t size)
{
    return pin_at_call(number - 1, size, addr, false);
}

void
stub_pinned_drop(uint32_t link, uint32_t number)
{
    atomic_fetch_sub(&stub_pinned_count, 1);
    stub_pinned_leave(link, number);
}

void
stub_pinned_leave(uint32_t link, uint32_t number)
{
    struct stub_call c;

    gp_lock_take(&lock);
    if (stub_call_begin_on(&c, &stub_links[link], WIRE_CALL_gp_unpin,
                           sizeof(struct wire_gp_unpin_req)) == CUDA_SUCCESS) {
        *(struct wire_gp_unpin_req *)c.body =
            (struct wire_gp_unpin_req){.id = number - 1};
        stub_call_post(&c);
    }
    used[link][number - 1] = false;
    gp_lock_release(&lock);
}
