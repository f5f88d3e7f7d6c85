/* SPDX-License-Identifier: Apache-2.0 */
/* Strings into callers' buffers. */
#ifndef NVML_TEXT_H
#define NVML_TEXT_H

#include "nvml_abi.h"

#include <string.h>

static inline int
nvml_text(char *to, unsigned int length, const char *text)
{
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

#endif
