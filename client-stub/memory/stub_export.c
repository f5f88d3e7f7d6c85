/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exported objects, and the four calls: the descriptor that the program gets is one end
 * of a pair of sockets.
 *
 * The socket holds a word with the object's token, which an importer reads without
 * removing it (MSG_PEEK). So the descriptor can be duplicated, inherited, sent to
 * another process, and used as often as a driver's.  The other end stays here: it hangs
 * up when the last duplicate is closed, in whichever process, and this is reported to
 * the server, because such a descriptor keeps the object alive as the driver's would.
 * The token alone gives no access: the server gives the object to processes of the
 * session only.  Any thread.
 */
#include "gp_base.h"
#include "stub_call.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_result.h"
#include "stub_spare.h"
#include "stub_thread.h"
#include "wire_api.h"
#include "wire_result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT_MAGIC UINT64_C(0x64726168732d7067) /* "gp-shard" */

struct export_word {
    uint64_t magic;
    uint64_t token[2];
    uint32_t link; /* which of the session's servers has the object */
    uint32_t kind; /* enum wire_kind */
};

/* The watched end of a pair. */
struct export
{
    struct export *next, **at;
    struct stub_link *link;
    uint64_t token[2];
    int fd;
};

static struct gp_lock lock; /* of starting the thread, and of the list */
static int watch_fd = -1;
static struct export
    *exports; /* the kernel's list of them is not one that we can see */

static void
export_keep(struct export *export)
{
    gp_lock_take(&lock);
    export->next = exports;
    export->at = &exports;
    if (exports)
        exports->at = &export->next;
    exports = export;
    gp_lock_release(&lock);
}

static void
export_forget(struct export *export)
{
    gp_lock_take(&lock);
    *export->at = export->next;
    if (export->next)
        export->next->at = export->at;
    gp_lock_release(&lock);
}

/* ---- the thread ------------------------------------------------------------- */

static void
export_report_closed(const struct export *export)
{
    struct wire_gp_share_closed_req *req;
    struct stub_call c;

    if (stub_call_begin_on(&c, export->link, WIRE_CALL_gp_share_closed, sizeof(*req)) !=
        CUDA_SUCCESS)
        return;
    req = c.body;
    *req = (struct wire_gp_share_closed_req){.token0 = export->token[0],
                                             .token1 = export->token[1]};
    stub_call_post_now(&c);
}

static void
export_thread(void *arg)
{
    struct epoll_event event;

    (void)arg;
    for (;;) {
        struct export *export;

        if (epoll_wait(watch_fd, &event, 1, -1) != 1)
            continue;
        export = event.data.ptr;
        export_forget(export);
        close(export->fd);
        export_report_closed(export);
        free(export);
    }
}

static int
export_watch_start(void)
{
    int r = 0;

    gp_lock_take(&lock);
    if (watch_fd < 0) {
        watch_fd = epoll_create1(EPOLL_CLOEXEC);
        r = watch_fd < 0 ? -errno
                         : stub_thread_start("gpupool-export", export_thread, NULL);
        if (r < 0 && watch_fd >= 0) {
            close(watch_fd);
            watch_fd = -1;
        }
    }
    gp_lock_release(&lock);
    return r;
}

/* ---- descriptors ------------------------------------------------------------ */

/* @fd, the end that stays, is ours also on failure. */
static int
export_watch(struct stub_link *link, const uint64_t token[2], int fd)
{
    CLEANUP_FD int own = fd;
    CLEANUP_FREE struct export *export = malloc(sizeof(*export));
    struct epoll_event event = {.events = 0}; /* a hang-up is always reported */
    int r = export ? export_watch_start() : -ENOMEM;

    if (r < 0)
        return r;
    *export = (struct export){.link = link, .token = {token[0], token[1]}, .fd = fd};
    event.data.ptr = export;
    export_keep(export);
    if (epoll_ctl(watch_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        export_forget(export);
        return -errno;
    }
    (void)TAKE_FD(own);
    (void)TAKE_PTR(export);
    return 0;
}

/* The descriptor for the program; -errno. */
static int
publish(struct stub_link *link, uint32_t kind, const uint64_t token[2], int *ret_fd)
{
    const struct export_word word = {.magic = EXPORT_MAGIC,
                                     .token = {token[0], token[1]},
                                     .link = link->number,
                                     .kind = kind};
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    if (send(pair[0], &word, sizeof(word), MSG_NOSIGNAL) != (ssize_t)sizeof(word)) {
        r = -errno;
        close(pair[0]);
    } else {
        r = export_watch(link, token, pair[0]);
    }
    if (r < 0) {
        close(pair[1]);
        return r;
    }
    *ret_fd = pair[1];
    return 0;
}

/* The export behind a descriptor of the program; -EINVAL: it is not one of ours. */
static int
read_word(int fd, uint32_t kind, struct export_word *ret)
{
    struct iovec iov = {ret, sizeof(*ret)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);

    if (n != (ssize_t)sizeof(*ret) || (msg.msg_flags & MSG_TRUNC) ||
        ret->magic != EXPORT_MAGIC || ret->kind != kind || ret->link >= stub_links_n)
        return -EINVAL;
    return 0;
}

/* ---- the calls -------------------------------------------------------------- */

/* The reply of both exports; the descriptor goes to *@out. */
static CUresult
export_publish(uint32_t kind, uint64_t handle, uint64_t token0, uint64_t token1,
               void *out)
{
    const uint64_t token[2] = {token0, token1};
    int fd = -1, r;

    r = publish(&stub_links[wire_handle_link(handle)], kind, token, &fd);
    if (r < 0)
        return stub_result_errno(r);
    memcpy(out, &fd, sizeof(fd));
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuMemExportToShareableHandle(void *shareableHandle,
                                       CUmemGenericAllocationHandle handle,
                                       CUmemAllocationHandleType handleType,
                                       unsigned long long flags)
{
    struct wire_cuMemExportToShareableHandle_rep_view rep = {0};
    struct wire_cuMemExportToShareableHandle_req *req;
    struct stub_call c;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_handle_ok(WIRE_KIND_MEMHANDLE, handle))
        return wire_handle_error(WIRE_KIND_MEMHANDLE);
    if (!shareableHandle)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuMemExportToShareableHandle, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemExportToShareableHandle_req){
        .handle = handle, .handleType = handleType, .flags = flags};
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuMemExportToShareableHandle_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuMemExportToShareableHandle);
    if (r == CUDA_SUCCESS)
        r = export_publish(WIRE_KIND_MEMHANDLE, handle, rep.f->token0, rep.f->token1,
                           shareableHandle);
    stub_call_end(&c);
    return r;
}

CUresult
stub_impl_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                           CUmemAllocationHandleType handleType,
                                           unsigned long long flags)
{
    struct wire_cuMemPoolExportToShareableHandle_rep_view rep = {0};
    struct wire_cuMemPoolExportToShareableHandle_req *req;
    uint64_t handle = (uintptr_t)pool;
    struct stub_call c;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    stub_spare_end();
    if (!stub_handle_ok(WIRE_KIND_MEMPOOL, handle))
        return wire_handle_error(WIRE_KIND_MEMPOOL);
    if (!handle_out)
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_call_begin(&c, WIRE_CALL_cuMemPoolExportToShareableHandle, sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    req = c.body;
    *req = (struct wire_cuMemPoolExportToShareableHandle_req){
        .pool = handle, .handleType = handleType, .flags = flags};
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_cuMemPoolExportToShareableHandle_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_cuMemPoolExportToShareableHandle);
    if (r == CUDA_SUCCESS)
        r = export_publish(WIRE_KIND_MEMPOOL, handle, rep.f->token0, rep.f->token1,
                           handle_out);
    stub_call_end(&c);
    return r;
}

/* What both imports begin with: the word, and an id for the object on its server. */
static CUresult
export_import(void *handle, uint32_t kind, struct export_word *word, uint64_t *ret_id)
{
    if (read_word((int)(intptr_t)handle, kind, word) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_id = stub_handle_new_on(word->link, kind);
    return *ret_id ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
stub_impl_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                         void *osHandle,
                                         CUmemAllocationHandleType shHandleType)
{
    struct wire_cuMemImportFromShareableHandle_req *req;
    struct export_word word;
    struct stub_call c;
    uint64_t id = 0;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    r = export_import(osHandle, WIRE_KIND_MEMHANDLE, &word, &id);
    if (r == CUDA_SUCCESS)
        r = stub_call_begin_on(&c, &stub_links[word.link],
                               WIRE_CALL_cuMemImportFromShareableHandle, sizeof(*req));
    if (r == CUDA_SUCCESS) {
        req = c.body;
        *req = (struct wire_cuMemImportFromShareableHandle_req){
            .handle = id,
            .shHandleType = shHandleType,
            .token0 = word.token[0],
            .token1 = word.token[1]};
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r == CUDA_SUCCESS)
        *handle = id;
    else if (id)
        stub_handle_del(WIRE_KIND_MEMHANDLE, id);
    return r;
}

CUresult
stub_impl_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                             CUmemAllocationHandleType handleType,
                                             unsigned long long flags)
{
    struct wire_cuMemPoolImportFromShareableHandle_req *req;
    struct export_word word;
    struct stub_call c;
    uint64_t id = 0;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!pool_out || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    r = export_import(handle, WIRE_KIND_MEMPOOL, &word, &id);
    if (r == CUDA_SUCCESS)
        r = stub_call_begin_on(&c, &stub_links[word.link],
                               WIRE_CALL_cuMemPoolImportFromShareableHandle,
                               sizeof(*req));
    if (r == CUDA_SUCCESS) {
        req = c.body;
        *req = (struct wire_cuMemPoolImportFromShareableHandle_req){
            .pool_out = id,
            .handleType = handleType,
            .flags = flags,
            .token0 = word.token[0],
            .token1 = word.token[1]};
        r = stub_call_wait(&c);
        stub_call_end(&c);
    }
    if (r == CUDA_SUCCESS)
        *pool_out = (CUmemoryPool)(uintptr_t)id;
    else if (id)
        stub_handle_del(WIRE_KIND_MEMPOOL, id);
    return r;
}
