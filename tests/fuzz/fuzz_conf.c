/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's configuration file: read, or refused in words.
 *
 * The program keeps the file's text for as long as it lives, because fields point into
 * it; here it is one buffer, so that a million files do not stay.
 */
#include "gp_err.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TEXT_MAX 8192

static char text[TEXT_MAX + 1];
static size_t text_len;

static int
fuzz_file_read(const char *path, size_t max, char **ret, size_t *ret_len,
               struct gp_err *err)
{
    (void)path, (void)max, (void)err;
    *ret = text;
    *ret_len = text_len;
    return 0;
}

#define gp_file_read fuzz_file_read
#include "gp_option.c"
#undef gp_file_read

#include "srv_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[] = {(char *)"gpupool-server", (char *)"--config", (char *)"fuzz", NULL};
    static struct srv_conf conf;
    struct gp_err err = {0};

    text_len = gp_min(size, (size_t)TEXT_MAX);
    memcpy(text, data, text_len);
    text[text_len] = 0;
    if (srv_conf_parse(&conf, 3, argv, &err) < 0 && !err.msg[0])
        __builtin_trap(); /* a refusal without words */
    return 0;
}
