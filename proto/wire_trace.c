/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing of calls from the generated tables.
 */
#include "wire_trace.h"

#include "gp_base.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

/* Longest string argument that is shown: a kernel's mangled name has more than it says.
 */
#define TRACE_STRING_MAX 120
#define TRACE_LINE_MAX 1024

const char *(*wire_trace_func_name)(uint64_t handle);

struct line {
    char *buf;
    size_t size;
    size_t len;
};

static void put(struct line *l, const char *fmt, ...) GP_PRINTF(2, 3);

static void
put(struct line *l, const char *fmt, ...)
{
    va_list args;
    int n;

    if (l->len + 1 >= l->size)
        return;
    va_start(args, fmt);
    n = vsnprintf(l->buf + l->len, l->size - l->len, fmt, args);
    va_end(args);
    if (n > 0)
        l->len = gp_min(l->len + (size_t)n, l->size - 1);
}

const char *
wire_enum_name(const struct wire_trace_enum *names, int64_t value)
{
    for (size_t i = 0; names && i < names->count; i++)
        if (names->values[i].value == value)
            return names->values[i].name;
    return NULL;
}

const char *
wire_result_name(CUresult result)
{
    return wire_enum_name(wire_result_names, (int64_t)result);
}

const struct wire_trace_call *
wire_call_find(uint16_t number)
{
    unsigned low = 0, high = wire_trace_call_count;

    while (low < high) {
        unsigned mid = low + (high - low) / 2;

        if (wire_trace_calls[mid]->number == number)
            return wire_trace_calls[mid];
        if (wire_trace_calls[mid]->number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

const char *
wire_call_name(uint16_t number)
{
    const struct wire_trace_call *call = wire_call_find(number);

    return call ? call->name : NULL;
}

static void
put_enum(struct line *l, const struct wire_trace_enum *names, int64_t value)
{
    const char *name = wire_enum_name(names, value);

    if (name)
        put(l, "%s", name);
    else
        put(l, "%" PRId64, value);
}

/* Bits that have a name by it, the rest as a number. */
static void
put_flags(struct line *l, const struct wire_trace_enum *names, uint64_t value)
{
    const char *whole = wire_enum_name(names, (int64_t)value);
    bool first = true;

    if (whole) {
        put(l, "%s", whole);
        return;
    }
    if (!names || !value) {
        put(l, "%#" PRIx64, value);
        return;
    }
    for (size_t i = 0; i < names->count; i++) {
        uint64_t bit = (uint64_t)names->values[i].value;

        if (!bit || (bit & (bit - 1)) || !(value & bit))
            continue;
        put(l, "%s%s", first ? "" : "|", names->values[i].name);
        value &= ~bit;
        first = false;
    }
    if (value)
        put(l, "%s%#" PRIx64, first ? "" : "|", value);
}

static void
put_string(struct line *l, const char *s)
{
    if (s)
        put(l, "\"%.*s\"", TRACE_STRING_MAX, s);
    else
        put(l, "NULL");
}

static void
put_func(struct line *l, uint64_t handle)
{
    const char *name = wire_trace_func_name ? wire_trace_func_name(handle) : NULL;

    put(l, "%#" PRIx64, handle);
    if (name && *name)
        put(l, " \"%.*s\"", TRACE_STRING_MAX, name);
}

static void
put_value(struct line *l, const struct wire_trace_arg *arg, enum wire_trace_kind kind,
          uint64_t v)
{
    uint32_t bits = (uint32_t)v;
    float f;

    switch (kind) {
    case WIRE_TRACE_I32:
        put(l, "%" PRId32, (int32_t)v);
        return;
    case WIRE_TRACE_U32:
        put(l, "%" PRIu32, bits);
        return;
    case WIRE_TRACE_U64:
        put(l, "%" PRIu64, v);
        return;
    case WIRE_TRACE_F32:
        memcpy(&f, &bits, sizeof(f));
        put(l, "%g", (double)f);
        return;
    case WIRE_TRACE_ENUM:
        put_enum(l, arg->names, (int32_t)v);
        return;
    case WIRE_TRACE_FLAGS:
        put_flags(l, arg->names, bits);
        return;
    case WIRE_TRACE_FLAGS64:
        put_flags(l, arg->names, v);
        return;
    case WIRE_TRACE_STRING:
        put_string(l, (const char *)(uintptr_t)v);
        return;
    case WIRE_TRACE_FUNC:
        put_func(l, v);
        return;
    default:
        put(l, "%#" PRIx64, v);
    }
}

/* The kind of what an output points to, and its size. */
static enum wire_trace_kind
pointee(enum wire_trace_kind kind, size_t *ret_size)
{
    *ret_size = 4;
    switch (kind) {
    case WIRE_TRACE_OUT_I32:
        return WIRE_TRACE_I32;
    case WIRE_TRACE_OUT_U32:
        return WIRE_TRACE_U32;
    case WIRE_TRACE_OUT_F32:
        return WIRE_TRACE_F32;
    case WIRE_TRACE_OUT_HEX32:
        return WIRE_TRACE_HEX32;
    case WIRE_TRACE_OUT_ENUM:
        return WIRE_TRACE_ENUM;
    case WIRE_TRACE_OUT_FLAGS:
        return WIRE_TRACE_FLAGS;
    default:
        break;
    }
    *ret_size = 8;
    switch (kind) {
    case WIRE_TRACE_OUT_U64:
        return WIRE_TRACE_U64;
    case WIRE_TRACE_OUT_HEX64:
        return WIRE_TRACE_HEX64;
    case WIRE_TRACE_OUT_FLAGS64:
        return WIRE_TRACE_FLAGS64;
    default:
        *ret_size = 0;
        return kind;
    }
}

/* The program's pointer may lead anywhere: the kernel looks for us. */
static bool
read_safely(uint64_t from, void *to, size_t size)
{
    const struct iovec own = {to, size};
    const struct iovec its = {(void *)(uintptr_t)from, size};

    return process_vm_readv(getpid(), &own, 1, &its, 1, 0) == (ssize_t)size;
}

/* Fields that are 0 are left out. */
static void
put_struct(struct line *l, const struct wire_trace_struct *s, uint64_t at)
{
    char image[WIRE_TRACE_STRUCT_MAX];
    const char *comma = "";

    if (s->size > sizeof(image) || !read_safely(at, image, s->size)) {
        put(l, "%#" PRIx64, at);
        return;
    }
    put(l, "{");
    for (unsigned i = 0; i < s->count; i++) {
        const struct wire_trace_field *f = &s->fields[i];
        uint64_t v = 0;

        memcpy(&v, image + f->offset, f->size);
        if (!v)
            continue;
        put(l, "%s%s=", comma, f->value.name);
        put_value(l, &f->value, f->value.kind, v);
        comma = ", ";
    }
    put(l, "}");
}

static void
put_arg(struct line *l, const struct wire_trace_arg *arg, uint64_t v, bool ok)
{
    uint64_t behind = 0;
    size_t size;
    enum wire_trace_kind kind = pointee(arg->kind, &size);

    put(l, "%s=", arg->name);
    if (arg->fields && v && (ok || arg->kind == WIRE_TRACE_STRUCT)) {
        put_struct(l, arg->fields, v);
        return;
    }
    if (!size) {
        put_value(l, arg, kind, v);
        return;
    }
    if (!v) {
        put(l, "NULL");
        return;
    }
    if (!ok) {
        put(l, "%#" PRIx64, v);
        return;
    }
    memcpy(&behind, (const void *)(uintptr_t)v, size);
    put(l, "[");
    put_value(l, arg, kind, behind);
    put(l, "]");
}

void
wire_trace_format(char *buf, size_t size, const struct wire_trace_call *call,
                  const uint64_t *args, CUresult result)
{
    struct line l = {.buf = buf, .size = size};

    if (!size)
        return;
    buf[0] = '\0';
    put(&l, "%s(", call->name);
    for (unsigned i = 0; i < call->count; i++) {
        put(&l, "%s", i ? ", " : "");
        put_arg(&l, &call->args[i], args[i], result == CUDA_SUCCESS);
    }
    put(&l, ") = ");
    put_enum(&l, wire_result_names, (int64_t)result);
}

void
wire_trace_print(void (*print)(const char *fmt, ...),
                 const struct wire_trace_call *call, const uint64_t *args,
                 CUresult result)
{
    char line[TRACE_LINE_MAX];

    wire_trace_format(line, sizeof(line), call, args, result);
    print("%s", line);
}
