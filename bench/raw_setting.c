/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of raw links as text and from a file; see raw_setting.h. */
#include "raw_setting.h"

#include "bench.h"

#include <string.h>

const struct raw_setting raw_setting_default = {
    .rseq = 1, .piece_kib = 256, .slots = 4, .pause = 1, .card_kib = 256};

static const struct {
    const char *name;
    size_t at;
} fields[] = {
    {"wait", offsetof(struct raw_setting, wait)},
    {"slice_us", offsetof(struct raw_setting, slice_us)},
    {"rseq", offsetof(struct raw_setting, rseq)},
    {"send_kib", offsetof(struct raw_setting, send_kib)},
    {"receive_kib", offsetof(struct raw_setting, receive_kib)},
    {"piece_kib", offsetof(struct raw_setting, piece_kib)},
    {"slots", offsetof(struct raw_setting, slots)},
    {"late", offsetof(struct raw_setting, late)},
    {"pause", offsetof(struct raw_setting, pause)},
    {"unpaced", offsetof(struct raw_setting, unpaced)},
    {"card_kib", offsetof(struct raw_setting, card_kib)},
};

static const char *const waits[RAW_WAITS] = {"block", "futex", "poll"};

static uint32_t *
field(struct raw_setting *setting, size_t i)
{
    return (uint32_t *)(void *)((char *)setting + fields[i].at);
}

void
raw_setting_print(const struct raw_setting *setting, char text[RAW_SETTING_TEXT])
{
    struct raw_setting copy = *setting;
    int at = snprintf(text, RAW_SETTING_TEXT, "wait:%s", waits[copy.wait % RAW_WAITS]);

    for (size_t i = 1; i < sizeof(fields) / sizeof(fields[0]); i++)
        at += snprintf(text + at, RAW_SETTING_TEXT - (size_t)at, ",%s:%u",
                       fields[i].name, *field(&copy, i));
}

static int
parse_wait(struct raw_setting *setting, const char *word)
{
    for (uint32_t i = 0; i < RAW_WAITS; i++) {
        if (strcmp(word, waits[i]) == 0) {
            setting->wait = i;
            return 1;
        }
    }
    return 0;
}

static int
parse_field(struct raw_setting *setting, const char *name, const char *value)
{
    char *end;

    if (strcmp(name, "wait") == 0)
        return parse_wait(setting, value);
    for (size_t i = 1; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(name, fields[i].name) == 0) {
            *field(setting, i) = (uint32_t)strtoul(value, &end, 10);
            return end != value && *end == 0;
        }
    }
    return 0;
}

int
raw_setting_parse(struct raw_setting *setting, const char *text)
{
    char copy[RAW_SETTING_TEXT], *rest = copy, *part;

    if (strlen(text) >= sizeof(copy))
        return 0;
    memcpy(copy, text, strlen(text) + 1);
    while ((part = strsep(&rest, ","))) {
        char *value = strchr(part, ':');

        if (!value)
            return 0;
        *value++ = 0;
        if (!parse_field(setting, part, value))
            return 0;
    }
    return 1;
}

/* How far apart two sizes are: the quotient of the larger by the smaller one. */
static double
distance(size_t a, size_t b)
{
    double x = (double)a + 1, y = (double)b + 1;

    return x > y ? x / y : y / x;
}

struct raw_setting
raw_setting_of(const char *path, const char *kind, size_t size)
{
    struct raw_setting best = raw_setting_default, one;
    double nearest = 0;
    char name[32], text[RAW_SETTING_TEXT];
    size_t of;
    FILE *file;

    if (!path)
        return best;
    file = fopen(path, "r");
    if (!file)
        bench_die(path);
    while (fscanf(file, "%31s %zu %191s", name, &of, text) == 3) {
        one = raw_setting_default;
        if (!raw_setting_parse(&one, text)) {
            fprintf(stderr, "%s: no setting: %s\n", path, text);
            exit(2);
        }
        if (strcmp(name, kind) == 0 && (!nearest || distance(of, size) < nearest)) {
            nearest = distance(of, size);
            best = one;
        }
    }
    fclose(file);
    if (!nearest) {
        fprintf(stderr, "%s: no setting for %s\n", path, kind);
        exit(2);
    }
    return best;
}
