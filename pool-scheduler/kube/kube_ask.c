/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_ask.h"

#include "gp_err.h"
#include "gp_str.h"
#include "kube_object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define CARDS_MAX 16

/* One way of asking.  @unit: bytes of one unit of memory, 0: the quantity is bytes. */
struct family {
    const char *core, *memory;
    uint64_t unit;
    const char *unit_words;
    uint32_t core_min, core_step;
};

static const struct family FAMILIES[] = {
    {"elasticgpu.io/gpu-core", "elasticgpu.io/gpu-memory", 0, "bytes, as in 4Gi", 1, 1},
    {"elasticgpu.com/gpu-core", "elasticgpu.com/gpu-memory", 0, "bytes, as in 4Gi", 1,
     1},
    {"gpushare.provisioner.elasticgpu.io/gpu-core",
     "gpushare.provisioner.elasticgpu.io/gpu-memory", 0, "bytes, as in 4Gi", 1, 1},
    {"tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-memory", GIB,
     "whole GiB, from 1", 5, 5},
    {"tencent.com/vcuda-core", "tencent.com/vcuda-memory", 256 * MIB,
     "blocks of 256 MiB, from 1", 1, 1},
    {"nvidia.com/vcuda-core", "nvidia.com/vcuda-memory", MIB, "MiB, from 1", 1, 1},
    {"nvidia.com/gpu", NULL, 0, "", 1, 1},
};

/* --------------------------------------------------------------- quantities -- */

/* A suffix stands for ten to the power of @ten, or two to the power of @two. */
struct suffix {
    const char *text;
    int ten;
    unsigned two;
};

static const struct suffix SUFFIXES[] = {
    {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},
    {"k", 3, 0},   {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},
    {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

#define DIGITS "0123456789"
/* Of a number that still fits into 64 bits. */
#define DIGITS_MAX 19
/* An exponent beyond that changes no result. */
#define EXPONENT_MAX 1000

/* A number on its way: @digits times ten to the power of @ten, and a little more when
 * @more (digits beyond those that are kept). */
struct number {
    uint64_t digits;
    int ten;
    bool more;
};

/* "12", "1.5", "1.", ".5".  Returns what follows; NULL: no digit. */
static const char *
read_number(const char *text, struct number *ret)
{
    struct number number = {0};
    unsigned n = 0, kept = 0;
    bool point = false;

    text += *text == '+';
    for (; *text && (strchr(DIGITS, *text) || (*text == '.' && !point)); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        n++;
        if (kept < DIGITS_MAX) {
            number.digits = number.digits * 10 + (uint64_t)(*text - '0');
            kept += number.digits > 0;
            number.ten -= point;
        } else {
            number.more |= *text != '0';
            number.ten += !point;
        }
    }
    *ret = number;
    return n ? text : NULL;
}

/* Behind a number: "e3", "E-3".  False: it is no exponent. */
static bool
read_exponent(const char *text, int *ret)
{
    bool less = text[0] && text[1] == '-';
    const char *digits = text + 1 + (text[0] && (text[1] == '+' || less));
    int n = 0;

    if ((*text != 'e' && *text != 'E') || !*digits ||
        digits[strspn(digits, DIGITS)] != '\0')
        return false;
    for (; *digits; digits++)
        n = gp_min(n * 10 + (*digits - '0'), EXPONENT_MAX);
    *ret = less ? -n : n;
    return true;
}

static bool
read_suffix(const char *text, struct suffix *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(SUFFIXES); i++)
        if (strcmp(text, SUFFIXES[i].text) == 0) {
            *ret = SUFFIXES[i];
            return true;
        }
    *ret = (struct suffix){.text = text};
    return read_exponent(text, &ret->ten);
}

/* Rounded up, and the most there is for what is more. */
static uint64_t
whole(const struct number *number, const struct suffix *suffix)
{
    unsigned __int128 value = (unsigned __int128)number->digits << suffix->two;
    unsigned __int128 divisor = 1;
    int ten = number->ten + suffix->ten;

    if (!value)
        return 0;
    for (; ten > 0 && value <= KUBE_QUANTITY_MAX; ten--)
        value *= 10;
    for (; ten < 0 && divisor <= value; ten++)
        divisor *= 10;
    if (value % divisor || number->more)
        value += divisor;
    return (uint64_t)gp_min(value / divisor, (unsigned __int128)KUBE_QUANTITY_MAX);
}

int
kube_quantity(const json_t *value, uint64_t *ret, struct gp_err *err)
{
    const char *text = json_string_value(value), *end;
    struct suffix suffix;
    struct number number;

    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *ret = (uint64_t)json_integer_value(value);
        return 0;
    }
    end = text ? read_number(text, &number) : NULL;
    if (!end)
        return gp_err_set(err, -EINVAL, "\"%s\" is not a quantity", text ? text : "");
    if (read_suffix(end, &suffix)) {
        *ret = whole(&number, &suffix);
        return 0;
    }
    if (*end == '%')
        return gp_err_set(
            err, -EINVAL,
            "\"%s\" is not a quantity: percent is written without the sign", text);
    if (strlen(end) > 1 && end[strlen(end) - 1] == 'B')
        return gp_err_set(err, -EINVAL,
                          "\"%s\" is not a quantity: Kubernetes writes %.*s%c or "
                          "%.*s%ci",
                          text, (int)(end - text), text, *end, (int)(end - text), text,
                          *end);
    return gp_err_set(err, -EINVAL, "\"%s\" is not a quantity", text);
}

/* ------------------------------------------------------------------ asking -- */

/* What requests and limits say together of one name; NULL: neither names it. */
static int
value_of(const json_t *resources, const char *name, const json_t **ret,
         struct gp_err *err)
{
    const json_t *request =
        json_object_get(json_object_get(resources, "requests"), name);
    const json_t *limit = json_object_get(json_object_get(resources, "limits"), name);
    uint64_t a, b;
    int r;

    *ret = limit ? limit : request;
    if (!limit || !request)
        return 0;
    r = kube_quantity(request, &a, err);
    if (!r)
        r = kube_quantity(limit, &b, err);
    if (r < 0)
        return gp_err_wrap(err, r, "%s", name);
    if (a != b)
        return gp_err_set(err, -EINVAL,
                          "%s: the request and the limit must be equal, as for every "
                          "extended resource",
                          name);
    return 0;
}

static int
check_core(const struct family *family, const struct kube_class *class, uint64_t core,
           struct gp_err *err)
{
    uint32_t min = gp_max(family->core_min, class ? class->core_min : 1);
    uint32_t step = gp_max(family->core_step, class ? class->core_step : 1);

    if (core >= 100 && core % 100 == 0 && core <= 100 * CARDS_MAX)
        return 0;
    if (core >= min && core < 100 && core % step == 0)
        return 0;
    return gp_err_set(err, -EINVAL,
                      "%s: %" PRIu64
                      " is not possible; percent of one card, from %u in "
                      "steps of %u to 100, or N*100 for N whole cards (at most %d)",
                      family->core, core, min, step, CARDS_MAX);
}

static int
read_memory(const struct family *family, const json_t *value, struct kube_ask *ret,
            struct gp_err *err)
{
    uint64_t n;
    int r;

    if (!value)
        return 0;
    r = kube_quantity(value, &n, err);
    if (r < 0)
        return gp_err_wrap(err, r, "%s", family->memory);
    if (n >= KUBE_QUANTITY_MAX)
        return gp_err_set(err, -EINVAL, "%s: this is too much", family->memory);
    if (!n || (family->unit ? !gp_mul_ok(n, family->unit, &ret->memory) : n < MIB))
        return gp_err_set(err, -EINVAL, "%s: %" PRIu64 " is not possible; it counts %s",
                          family->memory, n, family->unit_words);
    if (!family->unit)
        ret->memory = n;
    return 0;
}

static int
read_family(const struct family *family, const struct kube_class *class,
            const json_t *core, const json_t *memory, struct kube_ask *ret,
            struct gp_err *err)
{
    uint64_t n = 0;
    int r;

    if (!core)
        return gp_err_set(err, -EINVAL, "%s is asked for, but no %s", family->memory,
                          family->core);
    r = kube_quantity(core, &n, err);
    if (r < 0)
        return gp_err_wrap(err, r, "%s", family->core);
    if (!family->memory) { /* whole cards are counted */
        if (n < 1 || n > CARDS_MAX)
            return gp_err_set(err, -EINVAL,
                              "%s: %" PRIu64 " cards; 1 to %d are possible",
                              family->core, n, CARDS_MAX);
        n *= 100;
    }
    r = check_core(family, class, n, err);
    if (!r)
        r = read_memory(family, memory, ret, err);
    if (r < 0)
        return r;
    if (n < 100 && !ret->memory)
        return gp_err_set(err, -EINVAL,
                          "%s: %" PRIu64 " %% of a card needs a %s too (%s)",
                          family->core, n, family->memory, family->unit_words);
    ret->core = (uint32_t)n;
    ret->cards = n < 100 ? 1 : (uint32_t)(n / 100);
    return 0;
}

int
kube_ask_read(const json_t *resources, const struct kube_class *class,
              struct kube_ask *ret, struct gp_err *err)
{
    const struct family *found = NULL;
    struct kube_ask ask = {0};

    for (size_t i = 0; i < ARRAY_SIZE(FAMILIES); i++) {
        const struct family *family = &FAMILIES[i];
        const json_t *core = NULL, *memory = NULL;
        int r = value_of(resources, family->core, &core, err);

        if (!r && family->memory)
            r = value_of(resources, family->memory, &memory, err);
        if (r < 0)
            return r;
        if (!core && !memory)
            continue;
        if (found)
            return gp_err_set(
                err, -EINVAL,
                "both %s and %s are asked for; a container asks in one way",
                found->core, family->core);
        found = family;
        r = read_family(family, class, core, memory, &ask, err);
        if (r < 0)
            return r;
    }
    if (!found)
        return gp_err_set(err, -ENODATA, "no GPU is asked for");
    *ret = ask;
    return 0;
}

bool
kube_ask_strip(json_t *resources)
{
    static const char *const LISTS[] = {"requests", "limits"};
    bool any = false;

    for (size_t l = 0; l < ARRAY_SIZE(LISTS); l++) {
        json_t *list = json_object_get(resources, LISTS[l]);

        for (size_t i = 0; list && i < ARRAY_SIZE(FAMILIES); i++) {
            any |= json_object_del(list, FAMILIES[i].core) == 0;
            if (FAMILIES[i].memory)
                any |= json_object_del(list, FAMILIES[i].memory) == 0;
        }
    }
    return any;
}

json_t *
kube_ask_write(const struct kube_ask *ask)
{
    char core[16], memory[32];
    json_t *list = json_object();

    snprintf(core, sizeof(core), "%u", ask->core);
    json_object_set_new(list, FAMILIES[0].core, json_string(core));
    if (ask->memory % MIB)
        snprintf(memory, sizeof(memory), "%" PRIu64, ask->memory);
    else
        snprintf(memory, sizeof(memory), "%" PRIu64 "Mi", ask->memory / MIB);
    if (ask->memory)
        json_object_set_new(list, FAMILIES[0].memory, json_string(memory));
    return list;
}

/* ----------------------------------------------------------------- classes -- */

/* Choices of a parameter, in the order of control.proto's numbers. */
struct parameter {
    const char *name;
    const char *words[4];
};

static const struct parameter PARAMETERS[] = {
    {"policy", {"fixed-share", "burst-share", "best-effort"}},
    {"placement", {"default", "binpack", "spread", "fgd"}},
    {"class", {"online", "offline"}},
    {"spatial", {"off", "sm", "mps"}},
};

static int
choice(const struct parameter *parameter, const char *word, unsigned *ret,
       struct gp_err *err)
{
    for (unsigned i = 0; i < ARRAY_SIZE(parameter->words) && parameter->words[i]; i++)
        if (strcmp(parameter->words[i], word) == 0) {
            *ret = i;
            return 0;
        }
    return gp_err_set(err, -EINVAL, "parameter %s: unknown value \"%s\"",
                      parameter->name, word);
}

static int
class_parameter(struct kube_class *class, const char *key, const char *value,
                struct gp_err *err)
{
    unsigned *fields[] = {&class->policy, &class->placement, &class->offline,
                          &class->spatial};
    bool min = strcmp(key, "coreMin") == 0;
    uint64_t n;

    for (size_t i = 0; i < ARRAY_SIZE(PARAMETERS); i++)
        if (strcmp(PARAMETERS[i].name, key) == 0)
            return choice(&PARAMETERS[i], value, fields[i], err);
    if (!min && strcmp(key, "coreStep") != 0)
        return gp_err_set(err, -EINVAL, "unknown parameter \"%s\"", key);
    if (gp_str_u64(value, 1, 100, &n) < 0)
        return gp_err_set(err, -EINVAL, "parameter %s: \"%s\" is not 1 to 100", key,
                          value);
    *(min ? &class->core_min : &class->core_step) = (uint32_t)n;
    return 0;
}

int
kube_class_read(const json_t *object, struct kube_class *ret, struct gp_err *err)
{
    struct kube_class class = {.core_min = 1, .core_step = 1};
    const char *mode = kube_str(object, "eGPUBindingMode"), *key;
    json_t *value;
    int r = 0;

    if (!*mode)
        mode = kube_str(object, "egpuBindingMode");
    class.name = kube_name(object);
    class.provisioner = kube_str(object, "provisioner");
    class.retain = strcmp(kube_str(object, "reclaimPolicy"), "Retain") == 0;
    class.wait = strcmp(mode, "WaitForFirstConsumer") == 0;
    json_object_foreach(json_object_get(object, "parameters"), key, value) if (!r) r =
        class_parameter(&class, key,
                        json_is_string(value) ? json_string_value(value) : "", err);
    if (r < 0)
        return gp_err_wrap(err, r, "ElasticGPUClass %s", class.name);
    *ret = class;
    return 0;
}

int
kube_claim_class(const json_t *claim, const char **ret_name, struct gp_err *err)
{
    static const char *const KEYS[] = {"spec.elasticGPUClassName", "spec.egpuClassName",
                                       "spec.storageClassName"};
    const char *found = "";

    for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++) {
        const char *name = kube_str(claim, KEYS[i]);

        if (!*name)
            continue;
        if (*found && strcmp(found, name) != 0)
            return gp_err_set(err, -EINVAL, "two classes are named, %s and %s", found,
                              name);
        found = name;
    }
    *ret_name = found;
    return 0;
}
