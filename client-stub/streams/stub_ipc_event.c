/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_ipc_event.h. */
#include "stub_ipc_event.h"

#include "stub_gen.h"
#include "stub_manual.h"

atomic_bool stub_ipc_events;

static void
event_is_shared(CUevent event)
{
    static char exported;

    stub_handle_set_data(WIRE_KIND_EVENT, (uintptr_t)event, &exported);
    atomic_store(&stub_ipc_events, true);
}

CUresult
stub_impl_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    CUresult r;

    if (!event) /* of a handle that is none a driver says something else */
        return CUDA_ERROR_INVALID_VALUE;
    r = stub_gen_cuIpcGetEventHandle(pHandle, event);
    if (r == CUDA_SUCCESS)
        event_is_shared(event);
    return r;
}

CUresult
stub_impl_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    CUresult r = stub_gen_cuIpcOpenEventHandle(phEvent, handle);

    if (r == CUDA_SUCCESS)
        event_is_shared(*phEvent);
    return r;
}
