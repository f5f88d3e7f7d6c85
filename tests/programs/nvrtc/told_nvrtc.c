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

int
nvrtcGetPTXSize(char *program, size_t *size)
{
    *size = strlen("PTX:") + strlen(program) + 1;
    return 0;
}

int
nvrtcGetPTX(char *program, char *text)
{
    snprintf(text, strlen("PTX:") + strlen(program) + 1, "PTX:%s", program);
    return 0;
}

int
nvrtcGetCUBINSize(char *program, size_t *size)
{
    *size = strlen("code:") + strlen(program) + 1;
    return 0;
}

int
nvrtcGetCUBIN(char *program, char *code)
{
    snprintf(code, strlen("code:") + strlen(program) + 1, "code:%s", program);
    return 0;
}
