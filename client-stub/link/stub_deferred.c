/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_deferred.h"

#include "gp_log.h"
#include "stub_report.h"
#include "stub_trace.h"
#include "wire_api.h"
#include "wire_trace.h"

/* The call that the program made, for one that client and worker have between them; one
 * name stands for all asynchronous copies. */
static uint16_t
call_of_program(uint16_t call)
{
    switch (call) {
    case WIRE_CALL_gp_launch_shape:
    case WIRE_CALL_gp_launch_run:
        return WIRE_CALL_cuLaunchKernel;
    case WIRE_CALL_gp_stage_node:
        return WIRE_CALL_cuGraphAddMemcpyNode;
    case WIRE_CALL_gp_stage_set:
        return WIRE_CALL_cuGraphExecMemcpyNodeSetParams;
    case WIRE_CALL_gp_stage_capture:
    case WIRE_CALL_gp_pin_up:
    case WIRE_CALL_gp_pin_copy:
    case WIRE_CALL_gp_peer_send:
    case WIRE_CALL_gp_peer_recv:
        return WIRE_CALL_cuMemcpyAsync;
    default:
        return call;
    }
}

void
stub_deferred_error(uint16_t call, CUresult result)
{
    uint16_t made = call_of_program(call);
    const char *name = wire_call_name(made);
    const char *error = wire_result_name(result);

    if (!name)
        name = "a call of gpupool's own";
    if (!error)
        error = "an unknown error";
    if (stub_tracing)
        stub_trace(
            "  %s has failed since: %s (%d); the next call that waits returns it", name,
            error, (int)result);
    gp_log_warn(
        "call",
        "%s failed with %s (%d) after it had returned; the next call that waits "
        "returns the error",
        name, error, (int)result);
    if (made < WIRE_CALL_INTERNAL)
        stub_report_deferred(made, result);
}
