/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_context.h"

#include "cli.h"
#include "cli_table.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>

#define SUFFIX ".conf"
#define NAME_MAX_LEN 63
#define CURRENT_MAX 256

/* What a context's file says, and what `gpupool context set` takes. */
struct pool_of {
    const char *scheduler, *token_file, *scheduler_key;
};

static const struct gp_option OPTIONS[] = {
    {.name = "scheduler",
     .value = "HOST:PORT",
     .help = "the scheduler of the context's pool, or several with commas between "
             "(GPUPOOL_SCHEDULER)",
     .set = gp_option_text,
     .env = "GPUPOOL_SCHEDULER",
     .offset = offsetof(struct pool_of, scheduler)},
    {.name = "token-file",
     .value = "FILE",
     .help = "the token to show there (GPUPOOL_TOKEN_FILE)",
     .set = gp_option_text,
     .env = "GPUPOOL_TOKEN_FILE",
     .offset = offsetof(struct pool_of, token_file)},
    {.name = "scheduler-key",
     .value = "FILE",
     .help = "the scheduler's public key, which nobody else can answer with "
             "(GPUPOOL_SCHEDULER_KEY)",
     .set = gp_option_text,
     .env = "GPUPOOL_SCHEDULER_KEY",
     .offset = offsetof(struct pool_of, scheduler_key)},
};

/* ------------------------------------------------------------------- files -- */

static char *
folder_name(void)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    const struct passwd *pw;

    if (xdg && *xdg)
        return gp_str_printf("%s/gpupool", xdg);
    if (!home || !*home) {
        pw = getpwuid(getuid());
        home = pw ? pw->pw_dir : "/";
    }
    return gp_str_printf("%s/.config/gpupool", home);
}

static int
path_of(const char *name, char **ret_path)
{
    CLEANUP_FREE char *folder = folder_name();

    *ret_path = folder ? gp_str_printf("%s/contexts/%s" SUFFIX, folder, name) : NULL;
    return *ret_path ? 0 : -ENOMEM;
}

static int
current_path(char **ret_path)
{
    CLEANUP_FREE char *folder = folder_name();

    *ret_path = folder ? gp_str_printf("%s/current-context", folder) : NULL;
    return *ret_path ? 0 : -ENOMEM;
}

/* It becomes a part of a file name. */
static int
check_name(const char *name, struct gp_err *err)
{
    size_t len = strlen(name);

    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            len = 0;
    if (len && len <= NAME_MAX_LEN && name[0] != '.')
        return 0;
    return gp_err_set(err, -EINVAL,
                      "context %.80s: a name has letters, digits and ._- only", name);
}

static int
no_context(const char *name, struct gp_err *err)
{
    return gp_err_set(err, -EINVAL,
                      "no context %s; `gpupool context list` names those there are",
                      name);
}

static int
read_context(const char *name, struct pool_of *ret, struct gp_err *err)
{
    struct pool_of pool = {NULL, NULL, NULL};
    const struct gp_option_set_of set = {OPTIONS, ARRAY_SIZE(OPTIONS), &pool};
    const struct gp_options options = {
        .program = "gpupool context set", .sets = &set, .n_sets = 1};
    CLEANUP_FREE char *path = NULL;
    int r = check_name(name, err);

    if (!r)
        r = path_of(name, &path);
    if (!r && access(path, F_OK) < 0)
        return no_context(name, err);
    if (!r)
        r = gp_options_file(&options, path, err);
    if (!r && !pool.scheduler)
        return gp_err_set(err, -EINVAL, "%s: no line says `scheduler = HOST:PORT`",
                          path);
    if (!r)
        *ret = pool;
    return r;
}

int
cli_context_current(char **ret_name, struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL, *text = NULL;
    size_t len;
    int r = current_path(&path);

    if (!r)
        r = gp_file_read(path, CURRENT_MAX, &text, &len, err);
    if (r == -ENOENT || r == -ENOTDIR)
        text = strdup(CLI_CONTEXT_LOCAL);
    else if (r < 0)
        return r;
    if (!text)
        return -ENOMEM;
    text[strcspn(text, "\r\n")] = 0;
    *ret_name = TAKE_PTR(text);
    return 0;
}

/* ----------------------------------------------------------------- resolve -- */

int
cli_context_resolve(struct cli_where *where, struct gp_err *err)
{
    CLEANUP_FREE char *current = NULL;
    struct pool_of pool = {NULL, NULL, NULL};
    const char *name = where->context;
    int r = 0;

    if (where->scheduler && name)
        return gp_err_set(err, -EINVAL,
                          "--context %s and --scheduler %s (or GPUPOOL_CONTEXT, "
                          "GPUPOOL_SCHEDULER) both name a pool; leave one of them out",
                          name, where->scheduler);
    if (where->scheduler)
        return 0;
    if (!name)
        r = cli_context_current(&current, err);
    if (r < 0)
        return r;
    name = name ? name : current;
    if (strcmp(name, CLI_CONTEXT_LOCAL) == 0)
        return 0;
    r = read_context(name, &pool, err);
    if (r < 0)
        return r;
    where->scheduler = pool.scheduler;
    if (!where->token_file)
        where->token_file = pool.token_file;
    if (pool.scheduler_key &&
        setenv("GPUPOOL_SCHEDULER_KEY", pool.scheduler_key, 0) < 0)
        return -errno;
    return 0;
}

static int
is_context(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return len > strlen(SUFFIX) && entry->d_name[0] != '.' &&
           strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX) == 0;
}

int
cli_context_each(void (*visit)(const char *name, void *arg), void *arg,
                 struct gp_err *err)
{
    CLEANUP_FREE char *folder = folder_name();
    CLEANUP_FREE char *path = folder ? gp_str_printf("%s/contexts", folder) : NULL;
    struct dirent **list = NULL;
    int n;

    if (!path)
        return -ENOMEM;
    visit(CLI_CONTEXT_LOCAL, arg);
    n = scandir(path, &list, is_context, alphasort);
    if (n < 0)
        return errno == ENOENT
                   ? 0
                   : gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        list[i]->d_name[strlen(list[i]->d_name) - strlen(SUFFIX)] = 0;
        visit(list[i]->d_name, arg);
        free(list[i]);
    }
    free(list);
    return 0;
}

/* ------------------------------------------------------------------- verbs -- */

struct request {
    struct pool_of pool; /* what the options say */
    const char *name;
};

struct listing {
    struct cli_table table;
    char *current;
};

static void
add_row(const char *name, void *arg)
{
    struct listing *listing = arg;
    struct pool_of pool = {NULL, NULL, NULL};
    struct gp_err err = {0};

    cli_table_add(&listing->table, "%s", strcmp(name, listing->current) ? "" : "*");
    cli_table_add(&listing->table, "%s", name);
    if (strcmp(name, CLI_CONTEXT_LOCAL) == 0)
        pool.scheduler = "the pool of `gpupool up`";
    else if (read_context(name, &pool, &err) < 0)
        pool.scheduler = err.msg;
    cli_table_add(&listing->table, "%s", pool.scheduler);
    cli_table_add(&listing->table, "%s", pool.token_file ? pool.token_file : "");
}

static int
verb_list(const struct request *request, struct gp_err *err)
{
    static const char *const heads[] = {"", "CONTEXT", "SCHEDULER", "TOKEN-FILE"};
    CLEANUP_FREE char *current = NULL;
    struct listing listing;
    int r = cli_context_current(&current, err);

    (void)request;
    if (r < 0)
        return r;
    listing.current = current;
    cli_table_init(&listing.table, heads, ARRAY_SIZE(heads));
    r = cli_context_each(add_row, &listing, err);
    if (!r)
        r = cli_table_print(&listing.table, stdout);
    cli_table_fini(&listing.table);
    return r;
}

static int
make_folders(struct gp_err *err)
{
    CLEANUP_FREE char *folder = folder_name();
    CLEANUP_FREE char *path = folder ? gp_str_printf("%s/contexts", folder) : NULL;

    return path ? gp_file_mkdirs(path, 0700, err) : -ENOMEM;
}

static int
verb_use(const struct request *request, struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL;
    struct pool_of pool;
    int r = 0;

    if (strcmp(request->name, CLI_CONTEXT_LOCAL) != 0)
        r = read_context(request->name, &pool, err);
    if (!r)
        r = make_folders(err);
    if (!r)
        r = current_path(&path);
    if (!r)
        r = gp_file_replace(path, request->name, strlen(request->name), 0600, err);
    if (!r)
        printf("context %s is in use\n", request->name);
    return r;
}

/* A line `name = value`, which is read back as it is.  @path: it is a file, and stays
 * the same one wherever the command is run. */
static int
put_line(FILE *f, const char *name, const char *value, bool path, struct gp_err *err)
{
    CLEANUP_FREE char *real = value && path ? realpath(value, NULL) : NULL;

    if (!value)
        return 0;
    if (path && !real)
        return gp_err_set(err, -errno, "--%s %s: %s", name, value, strerror(errno));
    value = real ? real : value;
    if (value[strcspn(value, "#\r\n")])
        return gp_err_set(err, -EINVAL, "--%s %s: has a # or the end of a line", name,
                          value);
    fprintf(f, "%s = %s\n", name, value);
    return 0;
}

static int
write_context(const struct request *request, FILE *f, struct gp_err *err)
{
    const struct pool_of *pool = &request->pool;
    int r = put_line(f, "scheduler", pool->scheduler, false, err);

    if (!r)
        r = put_line(f, "token-file", pool->token_file, true, err);
    if (!r)
        r = put_line(f, "scheduler-key", pool->scheduler_key, true, err);
    return r;
}

static int
verb_set(const struct request *request, struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL, *text = NULL;
    size_t size;
    FILE *f;
    int r = check_name(request->name, err);

    if (r < 0)
        return r;
    if (strcmp(request->name, CLI_CONTEXT_LOCAL) == 0 || !request->pool.scheduler)
        return gp_err_set(err, -EINVAL,
                          request->pool.scheduler
                              ? "local is the pool of `gpupool up`"
                              : "which pool? --scheduler HOST:PORT");
    f = open_memstream(&text, &size);
    if (!f)
        return -ENOMEM;
    r = write_context(request, f, err);
    if (fclose(f) != 0)
        r = -ENOMEM;
    if (!r)
        r = make_folders(err);
    if (!r)
        r = path_of(request->name, &path);
    if (!r)
        r = gp_file_replace(path, text, size, 0600, err);
    if (!r)
        printf("context %s: %s\n", request->name, path);
    return r;
}

static int
verb_delete(const struct request *request, struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL, *current = NULL;
    int r = check_name(request->name, err);

    if (!r && strcmp(request->name, CLI_CONTEXT_LOCAL) == 0)
        return gp_err_set(err, -EINVAL,
                          "local cannot be deleted: it is the pool of `gpupool up`");
    if (!r)
        r = cli_context_current(&current, err);
    if (r < 0)
        return r;
    if (strcmp(request->name, current) == 0)
        return gp_err_set(err, -EBUSY,
                          "context %s is in use; `gpupool context use` another first",
                          request->name);
    r = path_of(request->name, &path);
    if (!r && unlink(path) < 0)
        r = errno == ENOENT ? no_context(request->name, err)
                            : gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    return r;
}

static const struct {
    const char *name;
    bool named; /* a NAME follows */
    int (*fn)(const struct request *request, struct gp_err *err);
} VERBS[] = {{"list", false, verb_list},
             {"use", true, verb_use},
             {"set", true, verb_set},
             {"delete", true, verb_delete}};
static const char *const WORDS[] = {"list", "use", "set", "delete", NULL};

static int
run_verb(struct request *request, char **args, int n)
{
    struct gp_err err = {0};
    int r;

    for (size_t i = 0; n && i < ARRAY_SIZE(VERBS); i++) {
        if (strcmp(args[0], VERBS[i].name) != 0 || n != 1 + VERBS[i].named)
            continue;
        request->name = VERBS[i].named ? args[1] : NULL;
        r = VERBS[i].fn(request, &err);
        return r < 0 ? cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, "context: %s",
                                gp_err_msg(&err, r))
                     : CLI_OK;
    }
    return cli_fail(CLI_USAGE, "context: list, use NAME, set NAME or delete NAME is "
                               "wanted, see gpupool context --help");
}

int
cli_context(int argc, char **argv)
{
    struct request request = {.name = NULL};
    const struct gp_option_set_of set = {OPTIONS, ARRAY_SIZE(OPTIONS), &request.pool};
    const struct gp_options options = {
        .program = "gpupool context",
        .arguments = "list | use NAME | set NAME | delete NAME",
        .arguments_words = WORDS,
        .about = "The pools that you know by name, and which of them is meant where "
                 "nothing else says so.",
        .after =
            "Options are for set.  The context local is the pool of `gpupool up`.  "
            "Another one for a\n"
            "single command: --context NAME, or GPUPOOL_CONTEXT.  Files are in\n"
            "$XDG_CONFIG_HOME/gpupool, else ~/.config/gpupool.\n",
        .sets = &set,
        .n_sets = 1,
    };
    int first, status = cli_options(&options, argc, argv, &first);

    return status >= 0 ? status : run_verb(&request, &argv[first], argc - first);
}
