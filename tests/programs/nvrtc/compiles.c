/* SPDX-License-Identifier: Apache-2.0 */
/* Has NVRTC, which it is linked with, make machine code, and prints that; as a program,
 * and as a library that tests/programs/nvrtc/loads.c loads. */
#include <stdio.h>
#include <stdlib.h>

int nvrtcCompileProgram(char *program, int n, const char *const *options);
int nvrtcGetCUBINSize(char *program, size_t *size);
int nvrtcGetCUBIN(char *program, char *code);
void compile(void);

static void
compile_with(int n, const char *const *options)
{
    char program[200], *code;
    size_t size;

    if (nvrtcCompileProgram(program, n, options) || nvrtcGetCUBINSize(program, &size) ||
        !(code = malloc(size)) || nvrtcGetCUBIN(program, code))
        exit(1);
    puts(code);
    free(code);
}

void
compile(void)
{
    static const char *const one[] = {"-DOF=sm_1", "--gpu-architecture=sm_90a"};
    static const char *const two[] = {"-arch", "sm_86"};
    static const char *const three[] = {"-arch=compute_75"};

    compile_with(2, one);
    compile_with(2, two);
    compile_with(1, three);
    compile_with(0, NULL);
}

#ifndef AS_LIBRARY
int
main(void)
{
    compile();
    return 0;
}
#endif
