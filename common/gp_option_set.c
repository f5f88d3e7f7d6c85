/* SPDX-License-Identifier: Apache-2.0 */
/* Where the values of options go; see gp_option.h. */
#include "gp_option.h"

#include "gp_err.h"
#include "gp_size.h"
#include "gp_str.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static void *
field(void *target, const struct gp_option *o)
{
    return (char *)target + o->offset;
}

int
gp_option_put(void *target, const struct gp_option *o, const char *value,
              struct gp_err *err)
{
    int r = o->check ? o->check(o, value, err) : 0;

    return r < 0 ? r : o->set(target, o, value, err);
}

int
gp_option_copy(void *target, const struct gp_option *o, const char *value,
               struct gp_err *err)
{
    if (gp_str_copy(field(target, o), o->size, value))
        return 0;
    return gp_err_set(err, -EINVAL, "longer than %zu bytes", o->size - 1);
}

int
gp_option_text(void *target, const struct gp_option *o, const char *value,
               struct gp_err *err)
{
    (void)err;
    *(const char **)field(target, o) = value;
    return 0;
}

int
gp_option_u64(void *target, const struct gp_option *o, const char *value,
              struct gp_err *err)
{
    if (gp_str_u64(value, o->min, o->max, field(target, o)) == 0)
        return 0;
    return gp_err_set(err, -EINVAL,
                      "a number from %" PRIu64 " to %" PRIu64 " is wanted", o->min,
                      o->max);
}

int
gp_option_u32(void *target, const struct gp_option *o, const char *value,
              struct gp_err *err)
{
    struct gp_option wide = *o;
    uint64_t n;
    int r;

    wide.offset = 0;
    r = gp_option_u64(&n, &wide, value, err);
    if (!r)
        *(uint32_t *)field(target, o) = (uint32_t)n;
    return r;
}

int
gp_option_percent(void *target, const struct gp_option *o, const char *value,
                  struct gp_err *err)
{
    size_t len = strlen(value);
    char digits[24];
    uint64_t n;

    if (len && value[len - 1] == '%')
        len--;
    if (len < sizeof(digits)) {
        memcpy(digits, value, len);
        digits[len] = 0;
        if (gp_str_u64(digits, o->min, o->max, &n) == 0) {
            *(uint32_t *)field(target, o) = (uint32_t)n;
            return 0;
        }
    }
    return gp_err_set(err, -EINVAL,
                      "whole percents of a card, such as 30 or 30%%, from %" PRIu64
                      " to %" PRIu64 ", are wanted",
                      o->min, o->max);
}

/* A number alone says nothing: the one who means MiB and the one who means bytes both
 * write it. */
int
gp_option_size(void *target, const struct gp_option *o, const char *value,
               struct gp_err *err)
{
    char limit[GP_SIZE_TEXT];
    uint64_t n;
    int r = gp_size_parse(value, &n);

    if (r == 0 && isdigit((unsigned char)value[strlen(value) - 1]))
        return gp_err_set(err, -EINVAL,
                          "in which unit? Say %sMiB or %sGiB, or %sB for bytes", value,
                          value, value);
    if (r < 0)
        return gp_err_set(err, -EINVAL, "a size like 512MiB or 4GiB is wanted");
    if (n < o->min)
        return gp_err_set(err, -EINVAL, "at least %s is wanted",
                          gp_size_format(o->min, limit));
    if (o->max && n > o->max)
        return gp_err_set(err, -EINVAL, "at most %s is possible",
                          gp_size_format(o->max, limit));
    *(uint64_t *)field(target, o) = n;
    return 0;
}

int
gp_option_yes(void *target, const struct gp_option *o, const char *value,
              struct gp_err *err)
{
    bool yes = strcmp(value, "yes") == 0;

    if (!yes && strcmp(value, "no") != 0)
        return gp_err_set(err, -EINVAL, "yes or no is wanted");
    *(bool *)field(target, o) = yes;
    return 0;
}

/* "a, b or c" */
static const char *
list_words(const char *const *words, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = 0;
    for (; *words && n < size; words++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s",
                              !n          ? ""
                              : !words[1] ? " or "
                                          : ", ",
                              *words);
    return buf;
}

/* The place of @value among the option's words. */
static int
find_word(const struct gp_option *o, const char *value, uint32_t *ret,
          struct gp_err *err)
{
    char all[256];

    for (uint32_t i = 0; o->words[i]; i++)
        if (strcmp(o->words[i], value) == 0) {
            *ret = i;
            return 0;
        }
    return gp_err_set(err, -EINVAL, "%s is wanted",
                      list_words(o->words, all, sizeof(all)));
}

int
gp_option_word(void *target, const struct gp_option *o, const char *value,
               struct gp_err *err)
{
    uint32_t i = 0;
    int r = find_word(o, value, &i, err);

    if (r == 0)
        *(const char **)field(target, o) = o->words[i];
    return r;
}

int
gp_option_choice(void *target, const struct gp_option *o, const char *value,
                 struct gp_err *err)
{
    uint32_t i = 0;
    int r = find_word(o, value, &i, err);

    i += (uint32_t)o->min;
    if (r == 0) /* an enum is as long, but is another type */
        memcpy(field(target, o), &i, sizeof(i));
    return r;
}

int
gp_option_time(void *target, const struct gp_option *o, const char *value,
               struct gp_err *err)
{
    return gp_str_time(value, 1000, o->min, o->max, field(target, o)) == 0
               ? 0
               : gp_err_set(err, -EINVAL, "a time like 30s, 10m or 2h is wanted");
}

int
gp_option_seconds(void *target, const struct gp_option *o, const char *value,
                  struct gp_err *err)
{
    uint64_t s;

    if (gp_str_time(value, 1, o->min, o->max, &s) < 0)
        return gp_err_set(err, -EINVAL,
                          "a number of seconds, or a time like 30s, 10m or 2h, from "
                          "%" PRIu64 " to %" PRIu64 " seconds is wanted",
                          o->min, o->max);
    *(uint32_t *)field(target, o) = (uint32_t)s;
    return 0;
}

/* Of the field; 0: a setter of its own knows. */
static size_t
field_size(const struct gp_option *option)
{
    if (option->set == gp_option_text || option->set == gp_option_word)
        return sizeof(const char *);
    if (option->set == gp_option_u32 || option->set == gp_option_percent ||
        option->set == gp_option_choice || option->set == gp_option_seconds)
        return sizeof(uint32_t);
    if (option->set == gp_option_u64 || option->set == gp_option_size ||
        option->set == gp_option_time)
        return sizeof(uint64_t);
    return option->set == gp_option_yes ? sizeof(bool) : option->size;
}

bool
gp_option_same(const struct gp_option *option, const void *a, const void *b)
{
    const char *x = (const char *)a + option->offset;
    const char *y = (const char *)b + option->offset;
    const char *text[2];

    if (option->set != gp_option_text && option->set != gp_option_word)
        return memcmp(x, y, field_size(option)) == 0;
    memcpy(&text[0], x, sizeof(text[0]));
    memcpy(&text[1], y, sizeof(text[1]));
    return text[0] == text[1] || (text[0] && text[1] && strcmp(text[0], text[1]) == 0);
}

void
gp_option_take(const struct gp_option *option, void *to, const void *from)
{
    memcpy((char *)to + option->offset, (const char *)from + option->offset,
           field_size(option));
}

static void
add_name(char *text, size_t size, const char *name)
{
    size_t at = strlen(text);

    snprintf(text + at, size - at, "%s--%s", at ? ", " : "", name);
}

void
gp_option_take_live(const struct gp_option_set_of *was,
                    const struct gp_option_set_of *is, size_t n,
                    struct gp_option_changes *ret)
{
    *ret = (struct gp_option_changes){0};
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < is[s].n; i++) {
            const struct gp_option *o = &is[s].options[i];

            if (gp_option_same(o, was[s].target, is[s].target))
                continue;
            if (o->live)
                gp_option_take(o, was[s].target, is[s].target);
            add_name(o->live ? ret->live : ret->fixed, sizeof(ret->live), o->name);
        }
}
