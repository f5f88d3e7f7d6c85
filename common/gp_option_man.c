/* SPDX-License-Identifier: Apache-2.0 */
/* Items of a manual page, in the macros of mdoc(7); see gp_option.h. */
#include "gp_option.h"

#include <ctype.h>
#include <string.h>

#define WIDTH 88

/* "HOST:PORT" is the argument host:port. */
static void
put_lower(const char *text, size_t len, FILE *out)
{
    for (size_t i = 0; i < len; i++)
        fputc(tolower((unsigned char)text[i]), out);
}

/* "auto|off|ADDRESS": words as they are, and what stands for something. */
static void
put_choices(const char *value, FILE *out)
{
    const char *before = "";

    for (const char *word = value; *word;) {
        size_t len = strcspn(word, "|");
        const char *macro = isupper((unsigned char)*word) ? " Ar" : " Cm";

        fprintf(out, "%s%s ", word == value ? "" : " |", macro == before ? "" : macro);
        before = macro;
        put_lower(word, len, out);
        word += len + (word[len] == '|');
    }
}

static void
put_value(const struct gp_option *o, FILE *out)
{
    const char *equals = strchr(o->value, '=');

    if (o->optional) {
        fputs(" Ns Op = Ns Ar ", out);
        put_lower(o->value, strlen(o->value), out);
    } else if (o->words && !strpbrk(o->value, "|:")) {
        if (!o->words[1]) { /* or anything else that the value is */
            fputs(" Ar ", out);
            put_lower(o->value, strlen(o->value), out);
            fputs(" |", out);
        }
        for (size_t i = 0; o->words[i]; i++)
            fprintf(out, "%s%s", i ? " | " : " Cm ", o->words[i]);
    } else if (strchr(o->value, '|')) {
        put_choices(o->value, out);
    } else if (equals) {
        fputs(" Ar ", out);
        put_lower(o->value, (size_t)(equals - o->value), out);
        fputs(" Ns Cm = Ns Ar ", out);
        put_lower(equals + 1, strlen(equals + 1), out);
    } else {
        fputs(" Ar ", out);
        put_lower(o->value, strlen(o->value), out);
    }
}

/* A word of a sentence.  A backslash escapes, a dash in front of an option is none of
 * typography, and quotes of commands are the page's. */
static size_t
put_word(const char *word, size_t len, bool capital, FILE *out)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        bool opens = i + 1 < len && (!i || !isalnum((unsigned char)word[i - 1]));
        int c = (unsigned char)word[i];

        if (c == '\\')
            n += (size_t)fprintf(out, "\\e");
        else if (c == '-')
            n += (size_t)fprintf(out, "\\-");
        else if (c == '`')
            n += (size_t)fprintf(out, "%s", opens ? "\\(lq" : "\\(rq");
        else
            n += (size_t)fprintf(out, "%c", capital && !i ? toupper(c) : c);
    }
    return n;
}

/* @text as sentences, each on a line of its own, or more where it is long. */
static void
put_sentences(const char *text, FILE *out)
{
    size_t at = 0, len;

    for (bool first = true; *text; first = false) {
        len = strcspn(text, " \n");
        if (at && at + 1 + len > WIDTH) {
            fputc('\n', out);
            at = 0;
        } else if (at) {
            fputc(' ', out);
            at++;
        }
        if (!at && strchr(".'", *text)) /* a macro else */
            fputs("\\&", out);
        at += put_word(text, len, first, out);
        if (!text[len] && text[len - 1] != '.')
            fputc('.', out);
        if (text[len] && text[len - 1] == '.') {
            fputc('\n', out);
            at = 0;
        }
        text += len;
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

static void
put_item(const struct gp_options *options, const struct gp_option *o, FILE *out)
{
    (void)options;
    fputs(".It ", out);
    if (o->letter)
        fprintf(out, "Fl %c , ", o->letter);
    fprintf(out, "Fl -%s", o->name);
    if (o->value)
        put_value(o, out);
    fputc('\n', out);
    put_sentences(o->help, out);
    if (o->live)
        fputs("Read again on\n.Dv SIGHUP .\n", out);
}

void
gp_options_man(const struct gp_options *options, FILE *out)
{
    gp_options_each(options, put_item, out);
}
