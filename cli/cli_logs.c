/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool logs: the logs of the pool of `gpupool up`, shown by tail(1).  Logs elsewhere
 * are the service manager's.
 */
#include "cli.h"
#include "cli_folder.h"
#include "cli_options.h"
#include "gp_err.h"
#include "gp_str.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX ".log"
#define FILES_MAX 128 /* a pool of `gpupool up` has at most 65 processes */

struct query {
    const char *lines;
    bool follow;
};

static int
is_log(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return len > strlen(SUFFIX) &&
           strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX) == 0;
}

/* The files of @names, or of all; terminated by NULL.  They live as long as we do. */
static int
find_logs(char **names, int n_names, char **files, struct gp_err *err)
{
    CLEANUP_FREE char *folder = NULL;
    struct dirent **list = NULL;
    unsigned n = 0;
    int r = cli_folder_file("pool.d", &folder, err), found;

    if (r < 0)
        return r;
    found = scandir(folder, &list, is_log, versionsort);
    if (found <= 0)
        return gp_err_set(err, -ENOENT,
                          "no pool has been started here with `gpupool up`");
    for (int i = 0; i < found; i++) {
        const char *name = list[i]->d_name;
        bool wanted = !n_names;

        for (int k = 0; k < n_names; k++)
            wanted |= strlen(names[k]) == strlen(name) - strlen(SUFFIX) &&
                      strncmp(name, names[k], strlen(names[k])) == 0;
        if (wanted && n < FILES_MAX)
            files[n++] = gp_str_printf("%s/%s", folder, name);
        free(list[i]);
    }
    free(list);
    if (n < (unsigned)n_names || !n)
        return gp_err_set(err, -EINVAL,
                          "no such log in %s: its names are those of the scheduler and "
                          "of `gpupool servers`",
                          folder);
    return 0;
}

static int
check_lines(void *target, const struct gp_option *option, const char *value,
            struct gp_err *err)
{
    uint64_t lines;
    struct gp_option check = *option;
    int r;

    check.offset = 0;
    r = gp_option_u64(&lines, &check, value, err);
    return r < 0 ? r : gp_option_text(target, option, value, err);
}

int
cli_logs(int argc, char **argv)
{
    static const struct gp_option own[] = {
        {.name = "lines",
         .letter = 'n',
         .value = "N",
         .help = "the last N lines of each (20)",
         .set = check_lines,
         .max = 1000000000,
         .offset = offsetof(struct query, lines)},
        {.name = "follow",
         .letter = 'f',
         .help = "go on with what is written, until it is interrupted",
         .set = gp_option_yes,
         .offset = offsetof(struct query, follow)},
    };
    struct query q = {.lines = "20"};
    const struct gp_option_set_of set = {own, ARRAY_SIZE(own), &q};
    const struct gp_options options = {
        .program = "gpupool logs",
        .arguments = "[scheduler|SERVER...]",
        .arguments_complete = "servers",
        .about =
            "The logs of the pool of `gpupool up`: of its scheduler, of servers, or "
            "all.",
        .sets = &set,
        .n_sets = 1,
    };
    char *files[FILES_MAX + 1] = {NULL}, *args[FILES_MAX + 6];
    struct gp_err err = {0};
    int first, n = 0, status = cli_options(&options, argc, argv, &first), r;

    if (status >= 0)
        return status;
    r = find_logs(&argv[first], argc - first, files, &err);
    if (r < 0)
        return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, "logs: %s",
                        gp_err_msg(&err, r));
    args[n++] = (char *)(uintptr_t) "tail";
    args[n++] = (char *)(uintptr_t) "-n";
    args[n++] = (char *)(uintptr_t)q.lines;
    if (q.follow)
        args[n++] = (char *)(uintptr_t) "-F";
    for (unsigned i = 0; files[i]; i++)
        args[n++] = files[i];
    args[n] = NULL;
    execvp(args[0], args);
    return cli_fail(CLI_FAILED, "logs: tail: %s", strerror(errno));
}
