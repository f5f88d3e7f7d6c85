/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuIpc*EventHandle.
 */
#include "sg_ipc_event.h"

#include "gp_fsize.h"
#include "sg_card.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_handle.h"
#include "sg_stream.h"
#include "sg_work.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define IPC_MAGIC UINT64_C(0x746e652d75706773)
#define IPC_EVENT_IDS (UINT64_C(1) << 62) /* apart from those of memory */

enum {
    FILE_SIZE = 4096,
    /* Polls between two looks at whether the recorder lives: about 0.1 s. */
    ALIVE_EVERY = 2000,
};

struct shared {
    _Atomic uint64_t recorded;
    _Atomic uint64_t done;
    _Atomic uint64_t recorder; /* the last one, sg_card_process() */
};

struct sg_ipc_event {
    unsigned refs;
    struct sg_dev *dev;
    struct shared *map;
    uint64_t id;
    uint32_t slot; /* whose file it is */
};

struct handle {
    uint64_t magic;
    uint8_t uuid[16];
    uint64_t id;
    uint32_t slot;
    uint32_t pad;
};

static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "fits the handle");

void
sg_ipc_event_unref(struct sg_ipc_event *ipc)
{
    char path[SG_CARD_PATH_MAX];

    if (!ipc || --ipc->refs)
        return;
    if (ipc->slot == sg_card_slot(ipc->dev->card)) {
        sg_card_ipc_path(ipc->dev->card, ipc->slot, ipc->id, path);
        unlink(path);
    }
    munmap(ipc->map, FILE_SIZE);
    free(ipc);
}

static CUresult
ipc_new(struct sg_dev *dev, uint32_t slot, uint64_t id, bool create,
        struct sg_ipc_event **ret)
{
    struct sg_ipc_event *ipc;
    char path[SG_CARD_PATH_MAX];
    struct stat st;
    void *map;
    int fd;

    sg_card_ipc_path(dev->card, slot, id, path);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_EXCL : 0),
              0600);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((create && gp_fsize_reserve(fd, FILE_SIZE) < 0) || fstat(fd, &st) < 0 ||
        !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_size < FILE_SIZE) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    map = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    ipc = map == MAP_FAILED ? NULL : calloc(1, sizeof(*ipc));
    if (!ipc) {
        if (map != MAP_FAILED)
            munmap(map, FILE_SIZE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ipc = (struct sg_ipc_event){
        .refs = 1, .dev = dev, .map = map, .id = id, .slot = slot};
    *ret = ipc;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ operations */

struct ipc_work {
    struct sg_work work;      /* first */
    struct sg_ipc_event *ipc; /* reference */
    uint64_t target;
    unsigned polls;
};

static void
ipc_op_fini(struct sg_work *work)
{
    sg_ipc_event_unref(container_of(work, struct ipc_work, work)->ipc);
}

/* Several processes may record: the counter never goes back. */
static CUresult
record_run(struct sg_work *work)
{
    struct ipc_work *o = container_of(work, struct ipc_work, work);
    uint64_t seen = atomic_load(&o->ipc->map->done);

    while (seen < o->target &&
           !atomic_compare_exchange_weak(&o->ipc->map->done, &seen, o->target))
        ;
    return CUDA_SUCCESS;
}

/* A record that was announced and will not run must not be waited for. */
static void
record_fini(struct sg_work *work)
{
    record_run(work);
    ipc_op_fini(work);
}

/* Whoever was to record it is gone, so that nobody need wait. */
static bool
is_abandoned(const struct sg_ipc_event *ipc)
{
    return !sg_card_process_alive(ipc->dev->card, atomic_load(&ipc->map->recorder));
}

static CUresult
wait_run(struct sg_work *work)
{
    struct ipc_work *o = container_of(work, struct ipc_work, work);

    if (atomic_load(&o->ipc->map->done) >= o->target)
        return CUDA_SUCCESS;
    if (++o->polls % ALIVE_EVERY == 0 && is_abandoned(o->ipc))
        return CUDA_SUCCESS;
    return SG_NOT_YET;
}

static const struct sg_work_class record_class = {
    .name = "shared-event-record",
    .queue = SG_QUEUE_INLINE,
    .always = true,
    .run = record_run,
    .fini = record_fini,
};

static const struct sg_work_class wait_class = {
    .name = "shared-event-wait",
    .queue = SG_QUEUE_POLL,
    .run = wait_run,
    .fini = ipc_op_fini,
};

static struct ipc_work *
ipc_op_new(const struct sg_work_class *class, struct sg_ctx *ctx,
           struct sg_ipc_event *ipc, uint64_t target)
{
    struct ipc_work *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    sg_work_init(&o->work, class, ctx);
    o->ipc = ipc;
    ipc->refs++;
    o->target = target;
    return o;
}

CUresult
sg_ipc_event_record_work(struct sg_ipc_event *ipc, struct sg_ctx *ctx,
                         struct sg_work **ret_work)
{
    struct shared *map = ipc->map;
    struct ipc_work *o = ipc_op_new(&record_class, ctx, ipc, 0);

    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_store(&map->recorder, sg_card_process(ipc->dev->card));
    o->target = atomic_fetch_add(&map->recorded, 1) + 1;
    *ret_work = &o->work;
    return CUDA_SUCCESS;
}

CUresult
sg_ipc_event_record(struct sg_ipc_event *ipc, struct sg_stream *stream)
{
    struct sg_work *work;
    CUresult rc = sg_ipc_event_record_work(ipc, stream->ctx, &work);

    return rc == CUDA_SUCCESS ? sg_stream_enqueue(stream, work, NULL) : rc;
}

bool
sg_ipc_event_is_done(const struct sg_ipc_event *ipc)
{
    const struct shared *map = ipc->map;

    return atomic_load(&map->done) >= atomic_load(&map->recorded) || is_abandoned(ipc);
}

CUresult
sg_ipc_event_wait_work(struct sg_ipc_event *ipc, struct sg_ctx *ctx,
                       struct sg_work **ret_work)
{
    struct ipc_work *o =
        ipc_op_new(&wait_class, ctx, ipc, atomic_load(&ipc->map->recorded));

    if (o)
        *ret_work = &o->work;
    return o ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
sg_ipc_event_wait(struct sg_stream *stream, struct sg_ipc_event *ipc)
{
    struct sg_work *work;
    CUresult rc;

    if (sg_ipc_event_is_done(ipc))
        return CUDA_SUCCESS;
    rc = sg_ipc_event_wait_work(ipc, stream->ctx, &work);
    return rc == CUDA_SUCCESS ? sg_stream_enqueue(stream, work, NULL) : rc;
}

CUresult
sg_ipc_event_synchronize(struct sg_ipc_event *ipc, struct sg_ctx *ctx)
{
    struct ipc_work *o;
    CUresult rc;

    if (sg_ipc_event_is_done(ipc))
        return ctx->error;
    o = ipc_op_new(&wait_class, ctx, ipc, atomic_load(&ipc->map->recorded));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_ctx_ref(ctx);
    sg_work_submit(&o->work);
    sg_work_wait(&o->work);
    rc = ctx->error;
    sg_work_unref(&o->work);
    sg_ctx_unref(ctx);
    return rc;
}

/* A record that was made before the event had a file counts in it, too. */
static CUresult
share_record(struct sg_ipc_event *ipc, struct sg_ctx *ctx, struct sg_work *record)
{
    struct sg_work *work;
    CUresult rc;

    if (sg_work_is_done(record))
        return CUDA_SUCCESS;
    rc = sg_ipc_event_record_work(ipc, ctx, &work);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (sg_work_after(work, record) < 0)
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    else
        sg_work_submit(work);
    sg_work_unref(work);
    return rc;
}

static CUresult
share_new(struct sg_ctx *ctx, struct sg_work *record, struct sg_ipc_event **ret_ipc)
{
    static uint64_t last_id = IPC_EVENT_IDS;
    struct sg_dev *dev = ctx->dev;
    struct sg_ipc_event *ipc;
    CUresult rc;

    sg_card_note_export(dev->card);
    if (ipc_new(dev, sg_card_slot(dev->card), ++last_id, true, &ipc) != CUDA_SUCCESS)
        return CUDA_ERROR_OPERATING_SYSTEM;
    rc = share_record(ipc, ctx, record);
    if (rc == CUDA_SUCCESS)
        *ret_ipc = ipc;
    else
        sg_ipc_event_unref(ipc);
    return rc;
}

CUresult
sg_ipc_event_share(struct sg_ctx *ctx, struct sg_work *record,
                   struct sg_ipc_event **ipc, CUipcEventHandle *ret_handle)
{
    struct handle h = {.magic = IPC_MAGIC};
    struct sg_dev *dev = ctx->dev;
    CUresult rc = *ipc ? CUDA_SUCCESS : share_new(ctx, record, ipc);

    if (rc != CUDA_SUCCESS)
        return rc;
    memcpy(h.uuid, dev->uuid, sizeof(h.uuid));
    h.id = (*ipc)->id;
    h.slot = (*ipc)->slot;
    memset(ret_handle, 0, sizeof(*ret_handle));
    memcpy(ret_handle, &h, sizeof(h));
    return CUDA_SUCCESS;
}

CUresult
sg_ipc_event_open(struct sg_dev *dev, const CUipcEventHandle *handle,
                  struct sg_ipc_event **ret_ipc)
{
    struct handle h;

    memcpy(&h, handle, sizeof(h));
    if (h.magic != IPC_MAGIC || memcmp(h.uuid, dev->uuid, sizeof(h.uuid)))
        return CUDA_ERROR_MAP_FAILED;
    if (h.slot == sg_card_slot(dev->card)) /* our own */
        return CUDA_ERROR_INVALID_CONTEXT;
    return ipc_new(dev, h.slot, h.id, false, ret_ipc);
}
