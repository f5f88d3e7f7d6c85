/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_table.h"

#include "gp_utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static const char *
head_text(const char *head)
{
    return head + strspn(head, "+>");
}

void
cli_table_init(struct cli_table *table, const char *const *heads, unsigned columns)
{
    *table = (struct cli_table){.columns = columns, .heads = heads};
    for (unsigned i = 0; i < columns; i++)
        cli_table_add(table, "%s", head_text(heads[i]));
}

void
cli_table_fini(struct cli_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->cells[i]);
    free(table->cells);
}

void
cli_table_add(struct cli_table *table, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    int len;

    if (table->failed)
        return;
    if (table->n == table->cap) {
        size_t cap = table->cap ? 2 * table->cap : 64;
        char **cells = reallocarray(table->cells, cap, sizeof(*cells));

        if (!cells) {
            table->failed = true;
            return;
        }
        table->cells = cells;
        table->cap = cap;
    }
    va_start(ap, fmt);
    len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len == 0) {
        free(text);
        text = strdup("-");
    }
    if (len < 0 || !text) {
        table->failed = true;
        return;
    }
    gp_utf8_mask(text); /* names are what their users say */
    table->cells[table->n++] = text;
}

/* -------------------------------------------------------------------- sort -- */

int
cli_table_column(const char *const *heads, unsigned columns, const char *name)
{
    for (unsigned i = 0; i < columns; i++)
        if (strcasecmp(head_text(heads[i]), name) == 0)
            return (int)i;
    return -1;
}

/* Is @name one of those in "A, B, C"? */
static bool
is_listed(const char *text, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = text; (at = strstr(at, name)); at++)
        if ((at == text || (at[-1] == ' ' && at[-2] == ',')) &&
            (!at[len] || at[len] == ','))
            return true;
    return false;
}

void
cli_table_names(const char *const *heads, unsigned columns, char *text, size_t size)
{
    for (unsigned i = 0; i < columns; i++) {
        size_t at = strlen(text);

        if (!is_listed(text, head_text(heads[i])))
            snprintf(text + at, size - at, "%s%s", at ? ", " : "", head_text(heads[i]));
    }
}

/* Of "40 %", "1.5 GiB of 16 GiB", "2 of 8"; nothing is less than everything. */
static double
number_in(const char *cell)
{
    static const char UNITS[] = "KMGTPE";
    const char *unit;
    char *end;
    double value = strtod(cell, &end);

    if (end == cell)
        return -1;
    end += strspn(end, " ");
    unit = *end ? strchr(UNITS, *end) : NULL;
    if (unit && end[1] == 'i')
        value *= (double)(UINT64_C(1) << 10 * (unit - UNITS + 1));
    return value;
}

struct sort_key {
    unsigned column;
    bool number, descending;
};

static int
compare_rows(const void *a, const void *b, void *arg)
{
    const struct sort_key *key = arg;
    char *const *x = a, *const *y = b;
    int order;

    if (key->number) {
        double m = number_in(x[key->column]), n = number_in(y[key->column]);

        order = (m > n) - (m < n);
    } else {
        order = strverscmp(x[key->column], y[key->column]);
    }
    if (key->descending)
        order = -order;
    return order ? order : strverscmp(x[0], y[0]);
}

void
cli_table_sort(struct cli_table *table, unsigned column, bool descending)
{
    size_t first = table->headed ? 0 : table->columns;
    struct sort_key key = {column, strchr(table->heads[column], '>') != NULL,
                           descending};

    if (table->n > first && !table->failed)
        qsort_r(table->cells + first, (table->n - first) / table->columns,
                table->columns * sizeof(table->cells[0]), compare_rows, &key);
}

size_t
cli_table_rows(const struct cli_table *table)
{
    size_t first = table->headed ? 0 : table->columns;

    return table->n > first ? (table->n - first) / table->columns : 0;
}

size_t
cli_table_cut(struct cli_table *table, size_t rows)
{
    size_t first = table->headed ? 0 : table->columns, all = cli_table_rows(table);

    if (all <= rows)
        return 0;
    for (size_t i = first + rows * table->columns; i < table->n; i++)
        free(table->cells[i]);
    table->n = first + rows * table->columns;
    return all - rows;
}

/* ------------------------------------------------------------------- print -- */

static bool
has_colours(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(fileno(f)) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

static bool
is_head(const struct cli_table *table, size_t i)
{
    return !table->headed && i < table->columns;
}

/* How a cell begins on a terminal; "": as it is. */
static const char *
colour_of(const struct cli_table *table, size_t i)
{
    static const struct {
        const char *state, *colour;
    } STATES[] = {{"alive", "\033[32m"},      {"running", "\033[32m"},
                  {"draining", "\033[33m"},   {"drained", "\033[33m"},
                  {"cordoned", "\033[33m"},   {"reserved", "\033[36m"},
                  {"out of use", "\033[31m"}, {"closing", "\033[33m"},
                  {"dead", "\033[31m"},       {"server-dead", "\033[31m"}};

    if (is_head(table, i))
        return "\033[1m";
    if (strcmp(table->heads[i % table->columns], "STATE") != 0)
        return "";
    for (size_t k = 0; k < ARRAY_SIZE(STATES); k++)
        if (strcmp(table->cells[i], STATES[k].state) == 0)
            return STATES[k].colour;
    return "";
}

static bool
is_shown(const struct cli_table *table, unsigned column)
{
    return table->wide || table->heads[column][0] != '+';
}

static unsigned
last_shown(const struct cli_table *table)
{
    unsigned last = table->columns - 1;

    while (last && !is_shown(table, last))
        last--;
    return last;
}

static void
print_cell(const struct cli_table *table, size_t i, bool last, bool colours, FILE *f)
{
    const char *cell = table->cells[i], *colour = colours ? colour_of(table, i) : "";
    unsigned column = (unsigned)(i % table->columns);
    bool right = strchr(table->heads[column], '>');
    int gap = table->width[column] - (int)gp_utf8_width(cell);

    fprintf(f, "%*s%s%s%s%*s%s", right ? gap : 0, "", colour, cell,
            *colour ? "\033[0m" : "", right || last ? 0 : gap, "", last ? "\n" : "  ");
}

int
cli_table_print(struct cli_table *table, FILE *f)
{
    int *width = table->width;
    bool colours = has_colours(f);
    unsigned last = last_shown(table);

    if (table->failed)
        return -ENOMEM;
    for (size_t i = 0; i < table->n; i++) {
        int len = (int)gp_utf8_width(table->cells[i]);

        width[i % table->columns] = gp_max(width[i % table->columns], len);
    }
    for (size_t i = 0; i < table->n; i++) {
        unsigned column = (unsigned)(i % table->columns);

        if (is_shown(table, column) && !(is_head(table, i) && table->headless))
            print_cell(table, i, column == last, colours, f);
    }
    return 0;
}

int
cli_table_flush(struct cli_table *table, FILE *f)
{
    int r = cli_table_print(table, f);

    for (size_t i = 0; i < table->n; i++)
        free(table->cells[i]);
    table->n = 0;
    table->headed = true;
    return r;
}
