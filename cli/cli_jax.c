/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_jax.h"

#include "cli.h"
#include "gp_base.h"
#include "gp_str.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* JAX's CUDA plug-in, below a folder of packages. */
#define PLUGIN "jax_plugins/xla_cuda*"
/* Of the first line of a script; the kernel reads no more either. */
#define FIRST_LINE_MAX 256

bool
cli_jax_file_there(void)
{
    static const char *const files[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"};

    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (access(files[i], F_OK) == 0)
            return true;
    return false;
}

/* ------------------------------------------------------------- interpreter -- */

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The file that execvp(3) would take for @program; malloc'ed, or NULL. */
static char *
find_program(const char *program)
{
    const char *path = getenv("PATH");

    if (strchr(program, '/'))
        return strdup(program);
    for (size_t n; path && *path; path += n + (path[n] == ':')) {
        CLEANUP_FREE char *file = NULL;

        n = strcspn(path, ":");
        file = gp_str_printf("%.*s/%s", (int)n, path, program);
        if (file && !access(file, X_OK))
            return TAKE_PTR(file);
    }
    return NULL;
}

/* What the first line of the script @file names: "#!/usr/bin/env python3" names the
 * python3 of the PATH.  malloc'ed, or NULL. */
static char *
script_interpreter(const char *file)
{
    char line[FIRST_LINE_MAX] = "", *word, *rest = NULL;
    FILE *f = fopen(file, "re");
    bool read = f && fgets(line, sizeof(line), f);

    if (f)
        fclose(f);
    if (!read || line[0] != '#' || line[1] != '!')
        return NULL;
    word = strtok_r(line + 2, " \t\n", &rest);
    if (word && !strcmp(base_name(word), "env"))
        word = strtok_r(NULL, " \t\n", &rest);
    return word ? find_program(word) : NULL;
}

static bool
is_python(const char *path)
{
    return path && !strncmp(base_name(path), "python", strlen("python"));
}

/* The Python that runs @program; malloc'ed, NULL when it is another kind of program. */
static char *
interpreter_of(const char *program)
{
    CLEANUP_FREE char *file = find_program(program), *python = NULL;

    if (!file || is_python(file))
        return TAKE_PTR(file);
    python = script_interpreter(file);
    return is_python(python) ? TAKE_PTR(python) : NULL;
}

/* ---------------------------------------------------------------- packages -- */

/* The first match of the pattern; malloc'ed, or NULL. */
static char *
first_match(char *pattern)
{
    char *found = NULL;
    glob_t g;

    if (!pattern)
        return NULL;
    if (!glob(pattern, 0, NULL, &g)) {
        found = strdup(g.gl_pathv[0]);
        globfree(&g);
    }
    free(pattern);
    return found;
}

/* Below a prefix such as /usr or a virtual environment. */
static char *
plugin_below(const char *prefix)
{
    static const char *const places[] = {
        "lib/python3*/site-packages", "lib64/python3*/site-packages",
        "lib/python3/dist-packages", "local/lib/python3*/dist-packages"};
    char *found = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(places) && !found; i++)
        found = first_match(gp_str_printf("%s/%s/" PLUGIN, prefix, places[i]));
    return found;
}

static char *
plugin_on_path(void)
{
    const char *path = getenv("PYTHONPATH");
    char *found = NULL;

    for (size_t n; path && *path && !found; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        if (n)
            found = first_match(gp_str_printf("%.*s/" PLUGIN, (int)n, path));
    }
    return found;
}

/* Cuts "/bin/python3" off; false when there is no such end. */
static bool
cut_to_prefix(char *python)
{
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(python, '/');

        if (!slash || slash == python)
            return false;
        *slash = 0;
    }
    return true;
}

static bool
file_exists(const char *folder, const char *name)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/%s", folder, name);

    return path && !access(path, F_OK);
}

/* The packages of a virtual environment are its own alone, as it is by default; other
 * Pythons also have the user's, and links to them those where they lead to. */
static char *
find_plugin(const char *python)
{
    CLEANUP_FREE char *prefix = strdup(python), *real = realpath(python, NULL);
    const char *home = getenv("HOME");
    char *found = plugin_on_path();

    if (found || !prefix || !cut_to_prefix(prefix))
        return found;
    found = plugin_below(prefix);
    if (found || file_exists(prefix, "pyvenv.cfg"))
        return found;
    if (real && cut_to_prefix(real))
        found = plugin_below(real);
    if (!found && home)
        found = first_match(
            gp_str_printf("%s/.local/lib/python3*/site-packages/" PLUGIN, home));
    return found;
}

static bool
kept_from_cards(void)
{
    const char *platforms = getenv("JAX_PLATFORMS");

    return platforms && *platforms && !strstr(platforms, "cuda") &&
           !strstr(platforms, "gpu");
}

void
cli_jax_hint(const char *program)
{
    CLEANUP_FREE char *python = NULL, *plugin = NULL;

    if (cli_jax_file_there() || kept_from_cards())
        return;
    python = interpreter_of(program);
    plugin = python ? find_plugin(python) : NULL;
    if (plugin)
        cli_fail(
            0,
            "run: this Python has JAX (%s), which looks for a device file before it "
            "looks for cards; a slice has none, and an empty one is "
            "enough: " CLI_JAX_REMEDY,
            plugin);
}
