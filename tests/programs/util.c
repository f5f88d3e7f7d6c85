/* SPDX-License-Identifier: Apache-2.0 */
/* Input data, checksum and the last line of the test programs; see util.h. */
#include "util.h"

#include <stdarg.h>

int
util_rounds(int argc, char **argv)
{
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 1;

    if (rounds < 1 || rounds > 1000000) {
        fprintf(stderr, "usage: %s [rounds]\n", argv[0]);
        exit(2);
    }
    return (int)rounds;
}

void *
util_alloc(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory) {
        fprintf(stderr, "out of memory: %zu * %zu bytes\n", count, size);
        exit(2);
    }
    return memory;
}

uint32_t
util_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

uint32_t
util_checksum(const void *data, size_t size)
{
    const unsigned char *byte = data;
    uint32_t sum = 2166136261u;

    for (size_t i = 0; i < size; i++)
        sum = (sum ^ byte[i]) * 16777619u;
    return sum;
}

int
util_report(const char *name, size_t wrong, const char *format, ...)
{
    va_list args;

    printf("%s: ", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    if (wrong == 0)
        printf(": ok\n");
    else
        printf(": %zu WRONG\n", wrong);
    if (fflush(stdout) != 0)
        return 2;
    return wrong != 0;
}
