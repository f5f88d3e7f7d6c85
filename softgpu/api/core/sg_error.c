/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and descriptions of the result codes.
 */
#include "sg_core.h"

#include <stddef.h>

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define E(name, text)                                                                  \
    {                                                                                  \
        name, #name, text                                                              \
    }
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    E(CUDA_ERROR_PROFILER_DISABLED, "profiler disabled"),
    E(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "profiler not initialized"),
    E(CUDA_ERROR_PROFILER_ALREADY_STARTED, "profiler already started"),
    E(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "profiler already stopped"),
    E(CUDA_ERROR_STUB_LIBRARY, "the driver library is a stub"),
    E(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call needs a newer driver"),
    E(CUDA_ERROR_DEVICE_UNAVAILABLE, "device is busy or unavailable"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_DEVICE_NOT_LICENSED, "device is not licensed"),
    E(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current"),
    E(CUDA_ERROR_MAP_FAILED, "mapping failed"),
    E(CUDA_ERROR_UNMAP_FAILED, "unmapping failed"),
    E(CUDA_ERROR_ARRAY_IS_MAPPED, "array is mapped"),
    E(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    E(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for the device"),
    E(CUDA_ERROR_ALREADY_ACQUIRED, "resource already acquired"),
    E(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    E(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "resource not mapped as array"),
    E(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "resource not mapped as pointer"),
    E(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable memory error"),
    E(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported"),
    E(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "context is in use by another thread"),
    E(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported"),
    E(CUDA_ERROR_INVALID_PTX, "PTX compilation failed"),
    E(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context"),
    E(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable link error"),
    E(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX compiler not found"),
    E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "PTX version is not supported"),
    E(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX compilation is disabled"),
    E(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "execution affinity is not supported"),
    E(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC,
      "device-side synchronization is not supported"),
    E(CUDA_ERROR_CONTAINED, "contained memory error"),
    E(CUDA_ERROR_INVALID_SOURCE, "device kernel source is invalid"),
    E(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    E(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "symbol could not be resolved"),
    E(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "initialization of a shared object failed"),
    E(CUDA_ERROR_OPERATING_SYSTEM, "an operating system call failed"),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_ILLEGAL_STATE, "the resource is in a state that does not allow it"),
    E(CUDA_ERROR_LOSSY_QUERY, "the query would lose information"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    E(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    E(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "incompatible texturing mode"),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    E(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active"),
    E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    E(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    E(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted"),
    E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "memory is already registered"),
    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "memory has not been registered"),
    E(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    E(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    E(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    E(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation on an invalid address space"),
    E(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    E(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    E(CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory was not freed"),
    E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    E(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "driver versions do not match"),
    E(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "compatibility mode not supported"),
    E(CUDA_ERROR_MPS_CONNECTION_FAILED, "connection to the sharing daemon failed"),
    E(CUDA_ERROR_MPS_RPC_FAILURE, "call to the sharing daemon failed"),
    E(CUDA_ERROR_MPS_SERVER_NOT_READY, "sharing server is not ready"),
    E(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "too many sharing clients"),
    E(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "too many sharing connections"),
    E(CUDA_ERROR_MPS_CLIENT_TERMINATED, "sharing client was terminated"),
    E(CUDA_ERROR_CDP_NOT_SUPPORTED, "device-side launches are not supported"),
    E(CUDA_ERROR_CDP_VERSION_MISMATCH, "device-side launch versions do not match"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted while capturing"),
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture failed before"),
    E(CUDA_ERROR_STREAM_CAPTURE_MERGE, "the operation would merge two captures"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not begun in this stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capture has unjoined work"),
    E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency on uncaptured work"),
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "dependency on the legacy stream"),
    E(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on a captured event"),
    E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "capture was begun by another thread"),
    E(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    E(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed"),
    E(CUDA_ERROR_EXTERNAL_DEVICE, "an external device failed"),
    E(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    E(CUDA_ERROR_FUNCTION_NOT_LOADED, "function is not loaded"),
    E(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid resource type"),
    E(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "invalid resource configuration"),
    E(CUDA_ERROR_KEY_ROTATION, "key rotation in progress"),
    E(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef E
};

static int
find(CUresult error)
{
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        if (errors[i].code == error)
            return (int)i;
    return -1;
}

SG_CALL(cuGetErrorName, CUresult error, const char **pStr)
{
    int i = find(error);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = i < 0 ? NULL : errors[i].name;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SG_CALL(cuGetErrorString, CUresult error, const char **pStr)
{
    int i = find(error);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = i < 0 ? NULL : errors[i].text;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
