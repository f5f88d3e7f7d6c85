/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_managed_runs.h"

#include "gp_base.h"
#include "stub_call.h"
#include "stub_link.h"
#include "wire_api.h"
#include "wire_runs.h"

#include <string.h>

static struct {
    CUstream stream;
    bool quiet;
    uint32_t n, n_data;
    struct wire_run runs[WIRE_RUNS_MAX];
    uint8_t data[WIRE_RUNS_DATA];
} frame;

bool
managed_runs_usable(void)
{
    return stub_link_can(stub_link_here(), "runs") || managed_runs_digests();
}

bool
managed_runs_digests(void)
{
    return stub_link_can(stub_link_here(), "digests");
}

static CUresult
frame_send(void)
{
    const struct wire_gp_runs_up_req head = {
        .hStream = (uintptr_t)frame.stream,
        .quiet = frame.quiet,
        .n = (uint32_t)(frame.n * sizeof(frame.runs[0])),
        .len = frame.n_data,
    };
    struct wire_gp_runs_up_req_room room;
    struct stub_call c;
    CUresult r;

    if (!frame.n)
        return CUDA_SUCCESS;
    frame.n = frame.n_data = 0;
    r = stub_call_begin(&c, WIRE_CALL_gp_runs_up, wire_gp_runs_up_req_size(&head));
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &head, sizeof(head));
    wire_gp_runs_up_req_place(&room, c.body);
    memcpy(room.runs, frame.runs, head.n);
    if (head.len)
        memcpy(room.data, frame.data, head.len);
    return stub_call_post(&c);
}

void
managed_runs_open(CUstream stream, bool quiet)
{
    frame.stream = stream;
    frame.quiet = quiet;
    frame.n = frame.n_data = 0;
}

CUresult
managed_runs_bytes(uint64_t dev, const uint8_t *bytes, uint64_t n)
{
    CUresult r = CUDA_SUCCESS;

    while (n && r == CUDA_SUCCESS) {
        const uint64_t part = gp_min(n, (uint64_t)(WIRE_RUNS_DATA - frame.n_data));

        if (!part || frame.n == WIRE_RUNS_MAX) {
            r = frame_send();
            continue;
        }
        memcpy(frame.data + frame.n_data, bytes, part);
        frame.runs[frame.n++] =
            (struct wire_run){.addr = dev, .len = part, .kind = WIRE_RUN_BYTES};
        frame.n_data += (uint32_t)part;
        dev += part;
        bytes += part;
        n -= part;
    }
    return r;
}

static CUresult
frame_word(uint64_t dev, uint64_t n, uint32_t kind)
{
    CUresult r = frame.n == WIRE_RUNS_MAX ? frame_send() : CUDA_SUCCESS;

    if (r == CUDA_SUCCESS)
        frame.runs[frame.n++] = (struct wire_run){.addr = dev, .len = n, .kind = kind};
    return r;
}

CUresult
managed_runs_agreed(uint64_t dev, uint64_t n)
{
    return frame_word(dev, n, WIRE_RUN_AGREED);
}

CUresult
managed_runs_stale(uint64_t dev, uint64_t n)
{
    return managed_runs_digests() ? frame_word(dev, n, WIRE_RUN_STALE) : CUDA_SUCCESS;
}

CUresult
managed_runs_close(void)
{
    return frame_send();
}

CUresult
managed_runs_agree(uint64_t dev, uint64_t n, CUstream stream)
{
    CUresult r;

    if (!managed_runs_usable())
        return CUDA_SUCCESS;
    managed_runs_open(stream, false);
    r = managed_runs_agreed(dev, n);
    return r == CUDA_SUCCESS ? managed_runs_close() : r;
}
