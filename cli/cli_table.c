/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_table.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

void
cli_table_init(struct cli_table *table, const char *const *heads, unsigned columns)
{
    *table = (struct cli_table){.columns = columns, .heads = heads};
    for (unsigned i = 0; i < columns; i++)
        cli_table_add(table, "%s", heads[i] + strspn(heads[i], "+>"));
}

void
cli_table_fini(struct cli_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->cells[i]);
    free(table->cells);
}

/* Owners and programs are what their users say: nothing of it moves a cursor. */
static void
make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
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
    make_printable(text);
    table->cells[table->n++] = text;
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
                  {"closing", "\033[33m"},    {"dead", "\033[31m"},
                  {"server-dead", "\033[31m"}};

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
    int gap = table->width[column] - (int)strlen(cell);

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
        int len = (int)strlen(table->cells[i]);

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
