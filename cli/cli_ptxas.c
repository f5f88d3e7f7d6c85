/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool ptxas: what compilers call as ptxas where a software card is to run what
 * they make (`gpupool run --keep-ptx`).
 *
 * Triton and XLA have NVIDIA's ptxas make machine code of the PTX that they have
 * written, which a software card cannot run.  This one takes ptxas's command line and
 * leaves the PTX as it is, with the zero that ends such an image for cuModuleLoadData;
 * the card checks it when it is loaded.  What it does not know of the command line
 * changes nothing about the PTX and is passed over.
 */
#include "cli.h"
#include "gp_base.h"
#include "gp_err.h"
#include "gp_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define NAME "ptxas"
#define STATUS_FAILED 255 /* as ptxas's own */
/* No compiler writes so much. */
#define PTX_MAX (size_t)(256u << 20)
/* What programs read of the version: the toolkit's, which says which PTX they may
 * write.  softgpu carries what PTX 9.0 has (docs/ptx.md). */
#define RELEASE "13.0"

struct ptxas {
    const char *input;
    const char *output;
};

/* Options whose value may be the next word. */
static const char *const WITH_VALUE[] = {
    "-arch",
    "--gpu-name",
    "-m",
    "--machine",
    "-O",
    "--opt-level",
    "-maxrregcount",
    "--maxrregcount",
    "-e",
    "--entry",
    "-dlcm",
    "--def-load-cache",
    "-dscm",
    "--def-store-cache",
    "-optf",
    "--options-file",
};

static int
failed(const char *file, const char *words)
{
    fprintf(stderr, NAME " fatal   : %s: %s\n", file, words);
    return STATUS_FAILED;
}

static int
say_version(void)
{
    puts(NAME ": gpupool " GPUPOOL_VERSION
              ", which leaves PTX as it is for software cards\n"
              "Cuda compilation tools, release " RELEASE ", V" RELEASE ".0");
    return CLI_OK;
}

static int
say_help(void)
{
    puts("Usage: " NAME " [OPTION...] FILE\n"
         "Stand in for NVIDIA's " NAME
         " before a software card, which runs PTX: FILE is\n"
         "written as it is to what -o or --output-file names (elf.o), for the card to\n"
         "check when it is loaded.  Other options of " NAME
         " are taken and change nothing.\n"
         "`gpupool run --keep-ptx` has Triton, JAX and Mojo call it.");
    return CLI_OK;
}

static bool
takes_value(const char *option)
{
    for (size_t i = 0; i < ARRAY_SIZE(WITH_VALUE); i++)
        if (!strcmp(option, WITH_VALUE[i]))
            return true;
    return false;
}

/* `-o FILE`, `-oFILE`, `--output-file FILE`, `--output-file=FILE`: whether it is that;
 * how many words it has is added to *@i. */
static bool
take_output(struct ptxas *ptxas, char **argv, int *i)
{
    static const char name[] = "--output-file";
    const char *word = argv[*i];

    if (!strcmp(word, "-o") || !strcmp(word, name))
        ptxas->output = argv[++*i];
    else if (!strncmp(word, name, sizeof(name) - 1) && word[sizeof(name) - 1] == '=')
        ptxas->output = word + sizeof(name);
    else if (word[0] == '-' && word[1] == 'o' && word[2] && word[2] != 'p')
        ptxas->output = word + 2; /* not -optf */
    else
        return false;
    return true;
}

/* Blanks and comments are passed over. */
static const char *
first_word(const char *text)
{
    for (;;) {
        const char *end = NULL;

        while (isspace((unsigned char)*text))
            text++;
        if (text[0] == '/' && text[1] == '/')
            end = strchr(text, '\n');
        else if (text[0] == '/' && text[1] == '*' && (end = strstr(text + 2, "*/")))
            end++;
        if (!end)
            return text;
        text = end + 1;
    }
}

/* In place, as ptxas does: it may be /dev/null. */
static int
write_output(const char *file, const char *text)
{
    CLEANUP_FD int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int r = fd < 0 ? -errno : gp_file_write_all(fd, text, strlen(text) + 1);

    return r < 0 ? failed(file, strerror(-r)) : CLI_OK;
}

static int
pass_on(const struct ptxas *ptxas)
{
    CLEANUP_FREE char *text = NULL;
    struct gp_err err = {0};
    size_t len = 0;
    int r = gp_file_read(ptxas->input, PTX_MAX, &text, &len, &err);

    if (r < 0)
        return failed(ptxas->input, gp_err_msg(&err, r));
    if (strncmp(first_word(text), ".version", strlen(".version")) != 0)
        return failed(ptxas->input, "this is no PTX: it does not begin with .version");
    return write_output(ptxas->output, text);
}

int
cli_ptxas(int argc, char **argv)
{
    struct ptxas ptxas = {.output = "elf.o"};

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];

        if (!strcmp(word, "--version") || !strcmp(word, "-V"))
            return say_version();
        if (!strcmp(word, "--help") || !strcmp(word, "-h"))
            return say_help();
        if (take_output(&ptxas, argv, &i))
            continue;
        if (word[0] == '-')
            i += takes_value(word);
        else if (ptxas.input)
            return failed(word, "one file at a time is carried");
        else
            ptxas.input = word;
    }
    if (!ptxas.input)
        return failed("command line", "which file? see " NAME " --help");
    if (!ptxas.output)
        return failed("command line", "-o and --output-file need a name");
    return pass_on(&ptxas);
}
