/* SPDX-License-Identifier: Apache-2.0 */
/* In place of NVRTC, which Debian does not have: says what it was told to compile for,
 * as PTX or as machine code.  The real one: tests/clients/linked_nvrtc.py. */
#include <stdio.h>
#include <string.h>

int nvrtcCompileProgram(char *program, int n, const char *const *options);
int nvrtcGetPTXSize(char *program, size_t *size);
int nvrtcGetPTX(char *program, char *text);
int nvrtcGetCUBINSize(char *program, size_t *size);
int nvrtcGetCUBIN(char *program, char *code);

/* @program has room for 200 characters. */
int
nvrtcCompileProgram(char *program, int n, const char *const *options)
{
    *program = '\0';
    for (int i = 0; i < n; i++)
        snprintf(program + strlen(program), 200 - strlen(program), " %s", options[i]);
    return 0;
}

static int
tell(const char *kind, const char *program, char *text, size_t *size)
{
    size_t n = strlen(kind) + strlen(program) + 1;

    if (size)
        *size = n;
    if (text)
        snprintf(text, n, "%s%s", kind, program);
    return 0;
}

int
nvrtcGetPTXSize(char *program, size_t *size)
{
    return tell("PTX:", program, NULL, size);
}

int
nvrtcGetPTX(char *program, char *text)
{
    return tell("PTX:", program, text, NULL);
}

int
nvrtcGetCUBINSize(char *program, size_t *size)
{
    return tell("code:", program, NULL, size);
}

int
nvrtcGetCUBIN(char *program, char *code)
{
    return tell("code:", program, code, NULL);
}
