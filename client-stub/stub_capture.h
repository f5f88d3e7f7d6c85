/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the program captures streams at present (stub_capture.c).  Any thread. */
#ifndef STUB_CAPTURE_H
#define STUB_CAPTURE_H

#include <stdbool.h>

/* Captures were begun and not ended; no lock. */
bool stub_capture_any(void);

#endif
