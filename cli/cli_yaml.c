/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_yaml.h"

#include "gp_size.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define STEP 2 /* of an indentation */

struct printer {
    FILE *f;
    bool people;
};

static void put_value(const struct printer *p, const char *key, const json_t *value,
                      int indent, bool in_line);

/* ----------------------------------------------------------------- scalars -- */

/* Words that YAML takes for something else, and all that begins with no letter, have
 * quotes; text for people needs none unless it could reach the terminal. */
static bool
is_plain(const struct printer *p, const char *text)
{
    static const char *const WORDS[] = {"y",  "n",   "yes",   "no",  "true",
                                        "on", "off", "false", "null"};

    if (p->people) {
        for (; *text; text++)
            if ((unsigned char)*text < ' ' || *text == 0x7f)
                return false;
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcasecmp(text, WORDS[i]) == 0)
            return false;
    if (!isalpha((unsigned char)*text))
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("._/-", *text))
            return false;
    return true;
}

static void
put_text(const struct printer *p, const json_t *value)
{
    const char *text = json_string_value(value);

    if (p->people && !*text)
        fputc('-', p->f);
    else if (is_plain(p, text))
        fputs(text, p->f);
    else
        json_dumpf(value, p->f, JSON_ENCODE_ANY);
}

static bool
ends_with(const char *key, const char *unit)
{
    size_t n = strlen(key), m = strlen(unit);

    return n > m && strcmp(key + n - m, unit) == 0;
}

/* The units that keys end with. */
static const char *const UNITS[] = {"_bytes", "_percent", "_ms", "_ns", "_unix"};

static void
put_number_for_people(const struct printer *p, const char *key, const json_t *value)
{
    json_int_t n = json_integer_value(value);
    char text[GP_SIZE_TEXT + 8];
    time_t at = (time_t)n;
    struct tm tm;

    if (ends_with(key, "_bytes"))
        fputs(gp_size_format((uint64_t)n, text), p->f);
    else if (ends_with(key, "_percent"))
        fprintf(p->f, "%.4g %%", json_number_value(value));
    else if (ends_with(key, "_ms"))
        fprintf(p->f, "%.1f s", (double)n / 1e3);
    else if (ends_with(key, "_ns"))
        fprintf(p->f, "%.1f ms", (double)n / 1e6);
    else if (ends_with(key, "_unix") && localtime_r(&at, &tm) &&
             strftime(text, sizeof(text), "%F %T %z", &tm))
        fputs(text, p->f);
    else
        json_dumpf(value, p->f, JSON_ENCODE_ANY);
}

static void
put_scalar(const struct printer *p, const char *key, const json_t *value)
{
    if (json_is_string(value))
        put_text(p, value);
    else if (p->people && json_is_number(value))
        put_number_for_people(p, key, value);
    else
        json_dumpf(value, p->f, JSON_ENCODE_ANY);
}

static void
put_key(const struct printer *p, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; p->people && i < ARRAY_SIZE(UNITS); i++)
        if (ends_with(key, UNITS[i]))
            len -= strlen(UNITS[i]);
    for (size_t i = 0; i < len; i++)
        fputc(p->people && key[i] == '_' ? ' ' : key[i], p->f);
    fputc(':', p->f);
}

/* -------------------------------------------------------------- containers -- */

/* @in_line: the first key or element comes after a "- " that is there already. */
static void
put_object(const struct printer *p, const json_t *object, int indent, bool in_line)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        fprintf(p->f, "%*s", in_line ? 0 : indent, "");
        in_line = false;
        put_key(p, key);
        put_value(p, key, value, indent, false);
    }
}

static void
put_array(const struct printer *p, const char *key, const json_t *array, int indent,
          bool in_line)
{
    json_t *value;
    size_t i;

    json_array_foreach(array, i, value)
    {
        fprintf(p->f, "%*s- ", in_line ? 0 : indent, "");
        in_line = false;
        put_value(p, key, value, indent, true);
    }
}

/* After "key:" or "- ". */
static void
put_value(const struct printer *p, const char *key, const json_t *value, int indent,
          bool in_line)
{
    bool object = json_is_object(value) && json_object_size(value);

    if (object || json_array_size(value)) {
        if (!in_line)
            fputc('\n', p->f);
        if (object)
            put_object(p, value, indent + STEP, in_line);
        else
            put_array(p, key, value, indent + STEP, in_line);
        return;
    }
    if (!in_line)
        fputc(' ', p->f);
    if (json_is_object(value))
        fputs("{}", p->f);
    else if (json_is_array(value))
        fputs("[]", p->f);
    else
        put_scalar(p, key, value);
    fputc('\n', p->f);
}

void
cli_yaml_print(FILE *f, const json_t *value)
{
    const struct printer p = {f, false};

    put_object(&p, value, 0, false);
}

void
cli_yaml_print_for_people(FILE *f, const json_t *value)
{
    const struct printer p = {f, true};

    put_object(&p, value, 0, false);
}

void
cli_yaml_member(FILE *f, const char *name, const json_t *value)
{
    const struct printer p = {f, false};

    put_key(&p, name);
    put_value(&p, name, value, 0, false);
}

void
cli_yaml_element(FILE *f, const json_t *value)
{
    const struct printer p = {f, false};

    fprintf(f, "%*s- ", STEP, "");
    put_value(&p, "", value, STEP, true);
}
