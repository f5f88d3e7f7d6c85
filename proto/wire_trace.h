/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing of calls from the generated tables: names of calls, arguments, values.
 *
 * Constant data and pure functions, any thread.  Who prints, and whether, is the
 * caller's business.
 */
#ifndef WIRE_TRACE_H
#define WIRE_TRACE_H

#include "cuda_abi_result.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum wire_trace_kind {
    WIRE_TRACE_I32,
    WIRE_TRACE_U32,
    WIRE_TRACE_U64,
    WIRE_TRACE_F32,
    WIRE_TRACE_HEX32,
    WIRE_TRACE_HEX64,
    WIRE_TRACE_ENUM,
    WIRE_TRACE_FLAGS,
    WIRE_TRACE_FLAGS64,
    WIRE_TRACE_STRING,
    WIRE_TRACE_POINTER,
    WIRE_TRACE_FUNC,   /* a kernel: its name too, if wire_trace_func_name knows it */
    WIRE_TRACE_STRUCT, /* behind a pointer, if it can be read: fields that are not 0 */
    /* Behind a pointer, and read only when the call succeeded. */
    WIRE_TRACE_OUT_I32,
    WIRE_TRACE_OUT_U32,
    WIRE_TRACE_OUT_U64,
    WIRE_TRACE_OUT_F32,
    WIRE_TRACE_OUT_HEX32,
    WIRE_TRACE_OUT_HEX64,
    WIRE_TRACE_OUT_ENUM,
    WIRE_TRACE_OUT_FLAGS,
    WIRE_TRACE_OUT_FLAGS64,
    WIRE_TRACE_OUT_STRUCT,
};

struct wire_trace_value {
    int64_t value;
    const char *name;
};

struct wire_trace_enum {
    const char *name;
    const struct wire_trace_value *values;
    size_t count;
};

struct wire_trace_arg {
    const char *name;
    enum wire_trace_kind kind;
    const struct wire_trace_enum *names; /* of an enumeration or of flags, or NULL */
    const struct wire_trace_struct *fields;
};

/* One number in a structure; of structures within it, with a dot in its name. */
struct wire_trace_field {
    struct wire_trace_arg value;
    uint16_t offset;
    uint16_t size;
};

struct wire_trace_struct {
    uint16_t size;
    uint16_t count;
    const struct wire_trace_field *fields;
};

/* The largest structure that is looked into. */
#define WIRE_TRACE_STRUCT_MAX 512

/* The name of a kernel for WIRE_TRACE_FUNC, or NULL; whoever knows sets it. */
extern const char *(*wire_trace_func_name)(uint64_t handle);

struct wire_trace_call {
    const char *name;
    uint16_t number;
    uint16_t count;
    const struct wire_trace_arg *args;
    const char *refusal; /* why it is always refused, or NULL */
};

/* Generated: every call, sorted by number; the names of CUresult. */
extern const struct wire_trace_call *const wire_trace_calls[];
extern const unsigned wire_trace_call_count;
extern const struct wire_trace_enum *const wire_result_names;

/* NULL when no call has that number, or no result that value. */
const char *wire_call_name(uint16_t number);
const char *wire_result_name(CUresult result);
const struct wire_trace_call *wire_call_find(uint16_t number);
const char *wire_enum_name(const struct wire_trace_enum *names, int64_t value);

/* `cuX(a=1, b=CU_Y) = CUDA_SUCCESS` into @buf, cut to @size and always ended.  @args
 * holds the arguments as the call was made: pointers as they are, floats as bits. */
void wire_trace_format(char *buf, size_t size, const struct wire_trace_call *call,
                       const uint64_t *args, CUresult result);

/* The same through a printf-like function. */
void wire_trace_print(void (*print)(const char *fmt, ...),
                      const struct wire_trace_call *call, const uint64_t *args,
                      CUresult result);

static inline uint64_t
wire_trace_f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

#endif
