/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetErrorName and cuGetErrorString: static words, never freed, without a server and
 * before cuInit.
 */
#include "gp_base.h"
#include "stub_manual.h"

struct error_words {
    int code;
    const char *name;
    const char *text;
};

#define E(code, text)                                                                  \
    {                                                                                  \
        code, #code, text                                                              \
    }

/* Ascending by code. */
static const struct error_words words[] = {
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    E(CUDA_ERROR_PROFILER_DISABLED, "profiler disabled"),
    E(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "profiler not initialized"),
    E(CUDA_ERROR_PROFILER_ALREADY_STARTED, "profiler already started"),
    E(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "profiler already stopped"),
    E(CUDA_ERROR_STUB_LIBRARY, "the library is a stub for linking"),
    E(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call needs a newer driver"),
    E(CUDA_ERROR_DEVICE_UNAVAILABLE, "device is busy or unavailable"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_DEVICE_NOT_LICENSED, "device is not licensed for compute"),
    E(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current"),
    E(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    E(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    E(CUDA_ERROR_ARRAY_IS_MAPPED, "array is mapped"),
    E(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    E(CUDA_ERROR_NO_BINARY_FOR_GPU,
      "no kernel image is available for execution on the device"),
    E(CUDA_ERROR_ALREADY_ACQUIRED, "resource already acquired"),
    E(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    E(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "resource not mapped as array"),
    E(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "resource not mapped as pointer"),
    E(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    E(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this device"),
    E(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "context is in use by another thread"),
    E(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
      "peer access is not supported between these devices"),
    E(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    E(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context"),
    E(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error"),
    E(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler not found"),
    E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX was made for a newer compiler"),
    E(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX JIT compilation was disabled"),
    E(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "execution affinity is not supported"),
    E(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC,
      "device-side synchronization is not supported by the image"),
    E(CUDA_ERROR_CONTAINED, "contained device error"),
    E(CUDA_ERROR_INVALID_SOURCE, "device kernel source is invalid"),
    E(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    E(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    E(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    E(CUDA_ERROR_OPERATING_SYSTEM, "an operating system call failed"),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_ILLEGAL_STATE, "the operation is not allowed in the present state"),
    E(CUDA_ERROR_LOSSY_QUERY, "the query would lose information"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    E(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    E(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
      "launch with incompatible texturing mode"),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    E(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active already"),
    E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    E(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    E(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted"),
    E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
      "part or all of the memory range is already registered"),
    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered"),
    E(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    E(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    E(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    E(CUDA_ERROR_INVALID_ADDRESS_SPACE,
      "operation not supported on this address space"),
    E(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    E(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    E(CUDA_ERROR_TENSOR_MEMORY_LEAK, "a block ended without freeing tensor memory"),
    E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    E(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "versions of driver components do not match"),
    E(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
      "forward compatibility is not supported on this device"),
    E(CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS client failed to connect"),
    E(CUDA_ERROR_MPS_RPC_FAILURE, "MPS remote procedure call failed"),
    E(CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS server is not ready"),
    E(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "MPS has no room for another client"),
    E(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "MPS has no connection left"),
    E(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS server ended this client"),
    E(CUDA_ERROR_CDP_NOT_SUPPORTED, "dynamic parallelism is not supported"),
    E(CUDA_ERROR_CDP_VERSION_MISMATCH, "versions of dynamic parallelism do not match"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
      "operation not permitted when stream is capturing"),
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
      "the capture was invalidated by an earlier error"),
    E(CUDA_ERROR_STREAM_CAPTURE_MERGE, "the operation would merge two captures"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not begun in this stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "forked work was not joined to the capture"),
    E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
      "a dependency would cross the capture boundary"),
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "implicit dependency on a capturing stream"),
    E(CUDA_ERROR_CAPTURED_EVENT,
      "operation not permitted on an event of a capturing stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
      "the capture was begun by another thread"),
    E(CUDA_ERROR_TIMEOUT, "wait timed out"),
    E(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
      "the graph update violated constraints of the instance"),
    E(CUDA_ERROR_EXTERNAL_DEVICE, "an error on another device"),
    E(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    E(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded"),
    E(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid resource type"),
    E(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "insufficient or unsuitable resource"),
    E(CUDA_ERROR_KEY_ROTATION, "a confidential-computing key has to be rotated"),
    E(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const struct error_words *
error_find(CUresult error)
{
    size_t low = 0, high = ARRAY_SIZE(words);

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (words[mid].code == (int)error)
            return &words[mid];
        if (words[mid].code < (int)error)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

CUresult
stub_m_cuGetErrorName(CUresult error, const char **pStr)
{
    const struct error_words *w = error_find(error);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = w ? w->name : NULL;
    return w ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
stub_m_cuGetErrorString(CUresult error, const char **pStr)
{
    const struct error_words *w = error_find(error);

    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = w ? w->text : NULL;
    return w ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
