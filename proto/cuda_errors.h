/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and texts of result codes, which the client stub and the software GPU both
 * answer without asking anybody: a program reads the same words from either.
 *
 * Static strings, never freed; any thread.  The compiler refuses a code of cuda_abi.h
 * that the table has no words for.
 */
#ifndef CUDA_ERRORS_H
#define CUDA_ERRORS_H

#include "cuda_abi.h"

#include <stdbool.h>

/* False, and nothing is written: no such code. */
static inline bool
cuda_error_words(CUresult error, const char **ret_name, const char **ret_text)
{
    switch (error) {
#define E(code, text)                                                                  \
    case code:                                                                         \
        *ret_name = #code;                                                             \
        *ret_text = text;                                                              \
        return true;
#include "cuda_errors.def"
#undef E
    }
    return false;
}

#endif
