/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int
gp_err_set(struct gp_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    return code;
}

int
gp_err_wrap(struct gp_err *err, int code, const char *fmt, ...)
{
    char tail[sizeof(err->msg)];
    size_t n, len;
    va_list ap;

    if (!err)
        return code;
    len = strnlen(gp_err_msg(err, code), sizeof(tail) - 1);
    memcpy(tail, gp_err_msg(err, code), len);
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg) / 2, fmt, ap);
    va_end(ap);
    /* Truncation is fine: the context in front is what must survive. */
    n = strlen(err->msg);
    err->msg[n++] = ':';
    err->msg[n++] = ' ';
    len = gp_min(len, sizeof(err->msg) - n - 1);
    memcpy(err->msg + n, tail, len);
    err->msg[n + len] = 0;
    return code;
}

const char *
gp_err_msg(const struct gp_err *err, int code)
{
    if (err && err->msg[0])
        return err->msg;
    return strerror(code < 0 ? -code : code);
}
