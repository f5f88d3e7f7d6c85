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
        cli_table_add(table, "%s", heads[i] + (heads[i][0] == '>'));
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
    if (len < 0 || !text)
        table->failed = true;
    else
        table->cells[table->n++] = text;
}

int
cli_table_print(struct cli_table *table, FILE *f)
{
    int *width = table->width;

    if (table->failed)
        return -ENOMEM;
    for (size_t i = 0; i < table->n; i++) {
        int len = (int)strlen(table->cells[i]);

        width[i % table->columns] = gp_max(width[i % table->columns], len);
    }
    for (size_t i = 0; i < table->n; i++) {
        unsigned column = (unsigned)(i % table->columns);
        bool last = column + 1 == table->columns;

        if (table->heads[column][0] == '>')
            fprintf(f, "%*s%s", width[column], table->cells[i], last ? "\n" : "  ");
        else
            fprintf(f, "%-*s%s", last ? 0 : width[column], table->cells[i],
                    last ? "\n" : "  ");
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
    return r;
}
