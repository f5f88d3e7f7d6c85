/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of text with columns as wide as their widest cell, in columns of a terminal:
 * signs of East Asian scripts take two (gp_utf8.h).
 *
 * The caller owns the object; cells are copied.  Nothing is truncated: a table is for
 * people and for awk alike.  A long one is printed in parts (cli_table_flush()), each
 * at least as wide as those before.  On a terminal heads and states have colours,
 * unless NO_COLOR is set.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "gp_base.h"

#include <stdio.h>

#define CLI_TABLE_COLUMNS_MAX 20

struct cli_table {
    unsigned columns;
    /* The caller's; a head that starts with '+' is shown in a wide table only, one that
     * starts with '>' (after that) aligns right. */
    const char *const *heads;
    bool wide, headless; /* set by the caller */
    bool headed;         /* the line of heads has been dealt with */
    char **cells;
    size_t n, cap;
    int width[CLI_TABLE_COLUMNS_MAX]; /* of what was printed */
    bool failed;                      /* out of memory, told by cli_table_print() */
};

void cli_table_init(struct cli_table *table, const char *const *heads,
                    unsigned columns);
void cli_table_fini(struct cli_table *table);
/* The next cell; "-" when the text is empty. */
void cli_table_add(struct cli_table *table, const char *fmt, ...) GP_PRINTF(2, 3);
/* The column whose head is @name, in any case of letters; -1: there is none. */
int cli_table_column(const char *const *heads, unsigned columns, const char *name);
/* Append the heads that @text does not have yet: "SERVER, CARD". */
void cli_table_names(const char *const *heads, unsigned columns, char *text,
                     size_t size);
/* Order the rows by what is shown in @column: numbers, sizes and shares by their value,
 * where the column aligns right, and other texts with the numbers in them ("s9" before
 * "s10").  What is equal there goes by the first column. */
void cli_table_sort(struct cli_table *table, unsigned column, bool descending);
size_t cli_table_rows(const struct cli_table *table);
/* Drop the rows behind the first @rows; returns how many those were. */
size_t cli_table_cut(struct cli_table *table, size_t rows);
int cli_table_print(struct cli_table *table, FILE *f); /* -ENOMEM */
/* The same, and what was printed is forgotten but for its widths. */
int cli_table_flush(struct cli_table *table, FILE *f);

#endif
