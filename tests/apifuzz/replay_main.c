/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     replay FILE      one program; every line is printed at once
 *     replay --serve   one after the other of those whose names come by standard input;
 *                      behind the answers of each, "end"
 */
#include "replay.h"

#include <string.h>

int
main(int argc, char **argv)
{
    bool serving = argc > 1 && strcmp(argv[1], "--serve") == 0;
    FILE *program = serving ? NULL : argc > 1 ? fopen(argv[1], "re") : stdin;

    if ((!program && !serving) || replay_start() != 0)
        return 2;
    return (serving ? replay_serve() : replay_program(program, true)) ? 0 : 2;
}
