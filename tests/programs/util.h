/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all test programs share, whatever CUDA interface they use: fixed input
 * data, a checksum, and the one line at the end.
 *
 * The line holds no times and no addresses, so that two runs of a program can be
 * compared byte by byte.  One thread; ends the process when memory is short.
 */
#ifndef PROGRAMS_UTIL_H
#define PROGRAMS_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* argv[1], how often to do the work; 1 when absent.  Ends the process when bad. */
int util_rounds(int argc, char **argv);

/* calloc() that ends the process instead of returning NULL. */
void *util_alloc(size_t count, size_t size);

/* A fixed sequence of 32-bit values, the same on every machine. */
uint32_t util_random(uint64_t *state);

/* FNV-1a over the bytes, to show a result in one word. */
uint32_t util_checksum(const void *data, size_t size);

/* Print "NAME: WORDS: ok" or the number of wrong results; the value is main()'s. */
int util_report(const char *name, size_t wrong, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
