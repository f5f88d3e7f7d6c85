/* SPDX-License-Identifier: Apache-2.0 */
/* Command line, environment and file; see gp_option.h. */
#include "gp_option.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_MAX (64u * 1024)
#define NAME_MAX_LEN 63

struct found {
    const struct gp_option *option; /* NULL: there is none */
    void *target;
};

/* Whether the next option of all tables is there; @at starts at {0, 0}. */
struct walk {
    size_t set, i;
};

static bool
next_option(const struct gp_options *options, struct walk *at, struct found *ret)
{
    for (; at->set < options->n_sets; at->set++, at->i = 0) {
        const struct gp_option_set_of *set = &options->sets[at->set];

        if (at->i < set->n) {
            *ret = (struct found){&set->options[at->i++], set->target};
            return true;
        }
    }
    return false;
}

static struct found
find(const struct gp_options *options, const char *name, char letter)
{
    struct walk at = {0};
    struct found f;

    while (next_option(options, &at, &f))
        if (letter ? f.option->letter == letter : strcmp(f.option->name, name) == 0)
            return f;
    return (struct found){NULL, NULL};
}

/* The only option whose name begins so, if there is one. */
static struct found
find_prefix(const struct gp_options *options, const char *name)
{
    struct found f, only = {NULL, NULL};
    struct walk at = {0};
    unsigned n = 0;

    while (next_option(options, &at, &f))
        if (strncmp(f.option->name, name, strlen(name)) == 0) {
            only = f;
            n++;
        }
    return n == 1 ? only : (struct found){NULL, NULL};
}

static int
unknown(const struct gp_options *options, const char *name, struct gp_err *err)
{
    const char *near = NULL;
    struct walk at = {0};
    unsigned best = gp_str_distance_near(name) + 1;
    struct found f;

    while (next_option(options, &at, &f)) {
        unsigned d = gp_str_distance(name, f.option->name);

        if (d < best) {
            best = d;
            near = f.option->name;
        }
    }
    if (near)
        return gp_err_set(err, -EINVAL,
                          "unknown option --%s; did you mean --%s? (see %s --help)",
                          name, near, options->program);
    return gp_err_set(err, -EINVAL, "unknown option --%s (see %s --help)", name,
                      options->program);
}

static int
set(const struct found *f, const char *value, struct gp_err *err)
{
    int r = gp_option_put(f->target, f->option, value, err);

    if (r >= 0)
        return r;
    return *value ? gp_err_wrap(err, r, "--%s %.100s", f->option->name, value)
                  : gp_err_wrap(err, r, "--%s is empty", f->option->name);
}

/* By its other names too. */
static int
look_up(const struct gp_options *options, const char *name, const char *value,
        struct found *ret, struct gp_err *err)
{
    if (options->alias)
        name = options->alias(name, value);
    *ret = find(options, name, 0);
    return ret->option ? 0 : unknown(options, name, err);
}

static int
apply(const struct gp_options *options, const char *name, const char *value,
      struct gp_err *err)
{
    struct found f;
    int r = look_up(options, name, value, &f, err);

    return r < 0 ? r : set(&f, value, err);
}

/* -------------------------------------------------------------------- file -- */

/* A file that is read. */
struct file {
    const struct gp_options *options;
    unsigned number; /* of the line */
    struct {
        const struct gp_option *option;
        unsigned number;
    } * seen; /* room for every option */
    size_t n_seen;
};

/* Two values of one option: which of them counts would be a guess. */
static int
note_seen(struct file *file, const struct gp_option *option, struct gp_err *err)
{
    for (size_t i = 0; i < file->n_seen; i++)
        if (file->seen[i].option == option)
            return gp_err_set(err, -EINVAL, "%s is in line %u already", option->name,
                              file->seen[i].number);
    if (!option->several) {
        file->seen[file->n_seen].option = option;
        file->seen[file->n_seen++].number = file->number;
    }
    return 0;
}

static int
file_line(struct file *file, char *line, struct gp_err *err)
{
    char *eq, *name, *value;
    struct found f;
    int r;

    line[strcspn(line, "#\r")] = 0;
    line = gp_str_trim(line);
    if (!*line)
        return 0;
    eq = strchr(line, '=');
    if (!eq)
        return gp_err_set(err, -EINVAL, "`%s`: option = value is wanted", line);
    *eq = 0;
    name = gp_str_trim(line);
    value = gp_str_trim(eq + 1);
    r = look_up(file->options, name, value, &f, err);
    if (!r)
        r = note_seen(file, f.option, err);
    return r < 0 ? r : set(&f, value, err);
}

static int
file_lines(const struct gp_options *options, const char *path, char *text,
           struct gp_err *err)
{
    struct file file = {.options = options};
    char *rest = gp_str_behind_bom(text), *line;
    struct walk at = {0};
    struct found f;
    size_t n = 0;
    int r = 0;

    while (next_option(options, &at, &f))
        n++;
    file.seen = calloc(n + 1, sizeof(*file.seen));
    if (!file.seen)
        return -ENOMEM;
    while (!r && (line = strsep(&rest, "\n"))) {
        file.number++;
        r = file_line(&file, line, err);
        if (r < 0)
            gp_err_wrap(err, r, "%s:%u", path, file.number);
    }
    free(file.seen);
    return r;
}

int
gp_options_file(const struct gp_options *options, const char *path, struct gp_err *err)
{
    /* Fields may point into the texts, so they stay for as long as the process. */
    static struct kept {
        struct kept *next;
        char *text;
    } * kept;
    struct kept *file = calloc(1, sizeof(*file));
    size_t len;
    int r = file ? gp_file_read(path, CONFIG_MAX, &file->text, &len, err) : -ENOMEM;

    if (r < 0) {
        free(file);
        return r;
    }
    file->next = kept;
    kept = file;
    return file_lines(options, path, file->text, err);
}

/* ------------------------------------------------------------ command line -- */

struct line {
    const struct gp_options *options;
    int argc;
    char **argv;
    int at;
    bool files_only; /* the walk that looks for --config alone */
    bool check; /* --check-options, which is in no help: say what is wrong and end */
};

/* The value of the option at line->at, which takes one: after `=`, or the next
 * argument. */
static const char *
take_value(struct line *line, const char *eq)
{
    if (eq)
        return eq;
    return line->at + 1 < line->argc ? line->argv[++line->at] : NULL;
}

static int
use(struct line *line, const struct found *f, const char *eq, const char *shown,
    struct gp_err *err)
{
    const char *value = "yes";

    if (f->option->optional) {
        value = eq ? eq : "";
    } else if (f->option->value) {
        value = take_value(line, eq);
        if (!value)
            return gp_err_set(err, -EINVAL, "%s needs a value: %s (see %s --help)",
                              shown, f->option->value, line->options->program);
    } else if (eq) {
        value = eq;
    }
    if (line->files_only)
        return 0;
    if (line->options->alias)
        return apply(line->options, f->option->name, value, err);
    return set(f, value, err);
}

static int
take_config(struct line *line, const char *eq, struct gp_err *err)
{
    const char *path = take_value(line, eq);

    if (!path)
        return gp_err_set(err, -EINVAL, "--config needs a value: FILE");
    return line->files_only ? gp_options_file(line->options, path, err) : 0;
}

/* 1: answered. */
static int
take_builtin(struct line *line, const char *name, const char *eq, struct gp_err *err)
{
    if (strcmp(name, "help") == 0) {
        gp_options_help(line->options, stdout);
        return 1;
    }
    if (strcmp(name, "version") == 0) {
        printf("%s " GPUPOOL_VERSION "\n", line->options->program);
        return 1;
    }
    if (strcmp(name, "check-options") == 0 && line->options->config) {
        line->check = true;
        return 0;
    }
    if (strcmp(name, "mdoc") == 0) {
        gp_options_man(line->options, stdout);
        return 1;
    }
    if (strcmp(name, "completion") == 0) {
        const char *shell = take_value(line, eq);

        if (shell && gp_options_complete(line->options, shell, stdout) == 0)
            return 1;
        return gp_err_set(err, -EINVAL, "--completion wants bash, zsh or fish");
    }
    return unknown(line->options, name, err);
}

static int
take_long(struct line *line, struct gp_err *err)
{
    const char *arg = line->argv[line->at], *eq = strchr(arg, '=');
    char name[NAME_MAX_LEN + 1];
    struct found f;

    snprintf(name, sizeof(name), "%.*s", eq ? (int)(eq - arg - 2) : NAME_MAX_LEN,
             arg + 2);
    if (line->options->config && strcmp(name, "config") == 0)
        return take_config(line, eq ? eq + 1 : NULL, err);
    f = find(line->options, name, 0);
    if (!f.option && line->options->alias)
        f = find(line->options, line->options->alias(name, ""), 0);
    if (!f.option && strcmp(name, "help") != 0 && strcmp(name, "version") != 0)
        f = find_prefix(line->options, name);
    if (!f.option)
        return take_builtin(line, name, eq ? eq + 1 : NULL, err);
    return use(line, &f, eq ? eq + 1 : NULL, arg, err);
}

/* -x, -xVALUE, -x VALUE, -xyz of switches. */
static int
take_letters(struct line *line, struct gp_err *err)
{
    const char *arg = line->argv[line->at];

    for (const char *c = arg + 1; *c; c++) {
        struct found f = find(line->options, "", *c);
        char shown[3] = {'-', *c, 0};
        int r;

        if (!f.option && *c == 'h')
            return take_builtin(line, "help", NULL, err);
        if (!f.option)
            return gp_err_set(err, -EINVAL, "unknown option -%c (see %s --help)", *c,
                              line->options->program);
        if (f.option->value)
            return use(line, &f, c[1] ? c + 1 : NULL, shown, err);
        r = use(line, &f, NULL, shown, err);
        if (r)
            return r;
    }
    return 0;
}

/* Takes options up to the first argument, or all where arguments may stand between:
 * those are moved behind the options, in their order. */
static int
walk_line(struct line *line, int *ret_first, struct gp_err *err)
{
    int n_kept = 0, r;
    char **kept = calloc((size_t)line->argc + 1, sizeof(*kept));

    if (!kept)
        return gp_err_set(err, -ENOMEM, "out of memory");
    for (line->at = 1, r = 0; r == 0 && line->at < line->argc; line->at++) {
        char *arg = line->argv[line->at];

        if (strcmp(arg, "--") == 0) {
            line->at++;
            break;
        }
        if (arg[0] != '-' || !arg[1]) {
            if (line->options->first_ends)
                break;
            kept[n_kept++] = arg;
            continue;
        }
        r = arg[1] == '-' ? take_long(line, err) : take_letters(line, err);
    }
    if (r == 0 && !line->files_only) {
        *ret_first = line->at - n_kept;
        if (n_kept) /* in front of what follows `--` */
            memcpy(&line->argv[*ret_first], kept, (size_t)n_kept * sizeof(*kept));
    }
    free(kept);
    return r;
}

/* Variables with the program's prefix that stand for no option.  Not looked at in a
 * start: container platforms make variables of their own from the names of services. */
static int
check_environment(const struct gp_options *options, struct gp_err *err)
{
    size_t len = options->env ? strlen(options->env) : 0;

    for (char **variable = environ; len && *variable; variable++) {
        size_t n = strcspn(*variable, "=");
        char name[NAME_MAX_LEN + 1];

        if (strncmp(*variable, options->env, len) != 0 || n - len > NAME_MAX_LEN)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(n - len), *variable + len);
        for (char *c = name; *c; c++)
            *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
        if (!find(options, name, 0).option)
            return gp_err_wrap(err, unknown(options, name, err), "%.*s", (int)n,
                               *variable);
    }
    return 0;
}

int
gp_options_parse(const struct gp_options *options, int argc, char **argv,
                 int *ret_first, struct gp_err *err)
{
    struct line line = {.options = options, .argc = argc, .argv = argv};
    int first = argc, r = 0;

    if (options->config) {
        line.files_only = true;
        r = walk_line(&line, &first, err);
        line.files_only = false;
    }
    if (r == 0)
        r = gp_options_environment(options, err);
    if (r == 0)
        r = walk_line(&line, &first, err);
    if (r == 0 && !options->arguments && first < argc)
        r = gp_err_set(err, -EINVAL, "%s: unexpected argument (see %s --help)",
                       argv[first], options->program);
    if (r == 0 && line.check) {
        r = check_environment(options, err);
        return r < 0 ? r : 1;
    }
    if (r == 0)
        *ret_first = first;
    return r;
}
