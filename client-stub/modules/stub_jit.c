/* SPDX-License-Identifier: Apache-2.0 */
/* JIT options on their way to the server and back. */
#include "stub_jit.h"

#include "stub_call.h"
#include "wire_api.h"

#include <string.h>

#define JIT_OPTIONS_MAX 64 /* the wire's cap; there are fewer kinds */

static int
jit_find(const struct stub_jit *jit, CUjit_option option)
{
    for (uint32_t i = 0; i < jit->n; i++)
        if (jit->options[i] == option)
            return (int)i;
    return -1;
}

static uint32_t
jit_room(const struct stub_jit *jit, CUjit_option size)
{
    int s = jit_find(jit, size);

    return s >= 0 ? (uint32_t)(uintptr_t)jit->values[s] : 0;
}

CUresult
stub_jit_open(struct stub_jit *jit, unsigned int n, const CUjit_option *options,
              void **values)
{
    if (n > JIT_OPTIONS_MAX || (n && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < n; i++)
        if (options[i] == CU_JIT_GLOBAL_SYMBOL_NAMES ||
            options[i] == CU_JIT_GLOBAL_SYMBOL_ADDRESSES)
            return stub_unsupported(WIRE_CALL_cuModuleLoadDataEx);
    *jit = (struct stub_jit){.n = n, .options = options, .values = values};
    jit->info_room = jit_room(jit, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    jit->error_room = jit_room(jit, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    return CUDA_SUCCESS;
}

/* Addresses of the caller's buffers mean nothing on the server. */
void
stub_jit_put(const struct stub_jit *jit, int32_t *options, uint64_t *values)
{
    for (uint32_t i = 0; i < jit->n; i++) {
        CUjit_option option = jit->options[i];
        bool buffer =
            option == CU_JIT_INFO_LOG_BUFFER || option == CU_JIT_ERROR_LOG_BUFFER;

        options[i] = (int32_t)option;
        values[i] = buffer ? 0 : (uintptr_t)jit->values[i];
    }
}

static void
jit_take_log(const struct stub_jit *jit, CUjit_option buffer, CUjit_option size,
             uint32_t room, const uint8_t *log, uint32_t len)
{
    int b = jit_find(jit, buffer), s = jit_find(jit, size);

    if (s >= 0)
        jit->values[s] = NULL;
    if (b < 0 || !jit->values[b] || room == 0)
        return;
    /* One that is cut off fills its room, with the NUL. */
    len = log && room > 1 ? gp_min(len, room) : 0;
    if (len)
        memcpy(jit->values[b], log, len);
    ((char *)jit->values[b])[gp_min(len, room - 1)] = '\0';
    jit->values[s] = (void *)(uintptr_t)len;
}

void
stub_jit_take_logs(const struct stub_jit *jit, const uint8_t *info, uint32_t info_len,
                   const uint8_t *error, uint32_t error_len)
{
    jit_take_log(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                 jit->info_room, info, info_len);
    jit_take_log(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                 jit->error_room, error, error_len);
}

void
stub_jit_take_time(const struct stub_jit *jit, float wall_time)
{
    int t = jit_find(jit, CU_JIT_WALL_TIME);

    if (t >= 0)
        memcpy(&jit->values[t], &wall_time, sizeof(wall_time));
}

void
stub_jit_take(const struct stub_jit *jit, float wall_time, const uint8_t *info,
              uint32_t info_len, const uint8_t *error, uint32_t error_len)
{
    stub_jit_take_logs(jit, info, info_len, error, error_len);
    stub_jit_take_time(jit, wall_time);
}

void
stub_jit_take_nothing(const struct stub_jit *jit)
{
    stub_jit_take(jit, 0, NULL, 0, NULL, 0);
}
