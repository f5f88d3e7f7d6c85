/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SOFTGPU_* environment.  A value that cannot be understood fails cuInit
 * with its name: a card of another size than was asked for is worse than none.
 */
#include "sg_conf.h"

#include "cuda_abi.h"
#include "gp_err.h"
#include "gp_option.h"
#include "gp_size.h"
#include "sg_exec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct sg_profile profiles[] = {
    {7, 5, 1024, 16, 65536, 65536, 4 << 20, 32, "SoftGPU T75"},
    {8, 6, 1536, 16, 102400, 101376, 6 << 20, 64, "SoftGPU A86"},
    {9, 0, 2048, 32, 233472, 232448, 50 << 20, 2, "SoftGPU H90"},
    {12, 0, 1536, 24, 102400, 101376, 64 << 20, 64, "SoftGPU B120"},
};

/* ------------------------------------------------------------------- table -- */

static int
set_profile(void *target, const struct gp_option *option, const char *value,
            struct gp_err *err)
{
    struct sg_conf *conf = target;
    char text[16];

    (void)option;
    for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
        snprintf(text, sizeof(text), "%d.%d", profiles[i].major, profiles[i].minor);
        if (!strcmp(value, text)) {
            conf->profile = &profiles[i];
            return 0;
        }
    }
    return gp_err_set(err, -EINVAL, "7.5, 8.6, 9.0 or 12.0 is wanted");
}

/* It becomes a part of a file name. */
static int
set_instance(void *target, const struct gp_option *option, const char *value,
             struct gp_err *err)
{
    if (value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789._-")])
        return gp_err_set(err, -EINVAL, "letters, digits and ._- only");
    return gp_option_copy(target, option, value, err);
}

/* 0, 1 (all), or a list of names. */
static int
set_check(void *target, const struct gp_option *option, const char *value,
          struct gp_err *err)
{
    static const struct {
        const char *name;
        unsigned flags;
    } names[] = {
        {"0", 0},
        {"1", SG_CHECK_FAULTS | SG_CHECK_INIT | SG_CHECK_RACES | SG_CHECK_BARRIERS |
                  SG_CHECK_LEAKS},
        {"faults", SG_CHECK_FAULTS},
        {"init", SG_CHECK_INIT},
        {"races", SG_CHECK_RACES},
        {"barriers", SG_CHECK_BARRIERS},
        {"leaks", SG_CHECK_LEAKS},
    };
    unsigned flags = 0;
    size_t len, i;

    (void)option;
    for (;; value += len + 1) {
        len = strcspn(value, ",");
        for (i = 0; i < ARRAY_SIZE(names); i++)
            if (strlen(names[i].name) == len && !strncmp(names[i].name, value, len))
                break;
        if (i == ARRAY_SIZE(names))
            return gp_err_set(err, -EINVAL,
                              "0, 1 or a list of faults, init, races, barriers and "
                              "leaks is wanted");
        flags |= names[i].flags;
        if (!value[len])
            break;
    }
    ((struct sg_conf *)target)->check = flags;
    return 0;
}

/* A number without a unit is bytes: those who set it are programs. */
static int
set_size(void *target, const struct gp_option *option, const char *value,
         struct gp_err *err)
{
    uint64_t bytes;

    if (gp_size_parse(value, &bytes) < 0 || bytes < option->min || bytes > option->max)
        return gp_err_set(err, -EINVAL, "a size from 1MiB to 512GiB is wanted");
    *(uint64_t *)((char *)target + option->offset) = bytes;
    return 0;
}

#define MEMORY_MIN (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(512) << 30) /* half of a card's arena */

#define NUMBER(flag, field, variable, least, most)                                     \
    {                                                                                  \
        .name = flag, .env = variable, .set = gp_option_u32, .min = least,             \
        .max = most, .offset = offsetof(struct sg_conf, field)                         \
    }
#define TEXT(flag, field, variable, setter)                                            \
    {                                                                                  \
        .name = flag, .env = variable, .set = setter,                                  \
        .offset = offsetof(struct sg_conf, field),                                     \
        .size = sizeof(((struct sg_conf *)0)->field)                                   \
    }
#define SIZE(flag, field, variable)                                                    \
    {                                                                                  \
        .name = flag, .env = variable, .set = set_size, .min = MEMORY_MIN,             \
        .max = MEMORY_MAX, .offset = offsetof(struct sg_conf, field)                   \
    }

static const struct gp_option OPTIONS[] = {
    NUMBER("cards", n_cards, "SOFTGPU_CARDS", 0, SG_MAX_CARDS),
    NUMBER("sms", sms, "SOFTGPU_SMS", 1, SG_MAX_SMS),
    NUMBER("address-slot", slot, "SOFTGPU_ADDRESS_SLOT", 0, SG_SLOTS),
    NUMBER("percentage", percentage, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 1, 100),
    NUMBER("exact", exact, "SOFTGPU_EXACT", 0, 1),
    NUMBER("time-limit", time_limit, "SOFTGPU_TIME_LIMIT", 0, SG_TIME_LIMIT_MAX),
    SIZE("memory", memory, "SOFTGPU_MEMORY"),
    SIZE("memory-budget", budget, "SOFTGPU_MEMORY_BUDGET"),
    NUMBER("check-exit", check_exit, "SOFTGPU_CHECK_EXIT", 0, 255),
    TEXT("check", check, "SOFTGPU_CHECK", set_check),
    TEXT("check-log", check_log, "SOFTGPU_CHECK_LOG", gp_option_copy),
    TEXT("fabric", fabric, "SOFTGPU_FABRIC", gp_option_copy),
    TEXT("cc", profile, "SOFTGPU_CC", set_profile),
    TEXT("instance", instance, "SOFTGPU_INSTANCE", set_instance),
    TEXT("name", name, "SOFTGPU_NAME", gp_option_copy),
};

static int
read_environment(const struct gp_option *options, size_t n, void *target,
                 struct gp_err *err)
{
    const struct gp_option_set_of set = {options, n, target};
    const struct gp_options all = {.program = "softgpu", .sets = &set, .n_sets = 1};

    return gp_options_environment(&all, err);
}

int
sg_conf_cuda_version(void)
{
    static const struct gp_option option = {.name = "cuda-version",
                                            .env = "SOFTGPU_CUDA_VERSION",
                                            .set = gp_option_u32,
                                            .min = 11000,
                                            .max = CUDA_VERSION};
    uint32_t version = CUDA_VERSION;

    read_environment(&option, 1, &version, NULL);
    return (int)version;
}

/* ------------------------------------------------------------------- cards -- */

/* Not in the table, because an empty list is a list: it has no card.
 *
 * As the CUDA list is read: the first entry that is not a visible card ends it,
 * and everything after that entry is invisible as well. */
static void
conf_visible(struct sg_conf *conf)
{
    const char *s = getenv("SOFTGPU_VISIBLE");
    char *end;

    if (!s)
        s = getenv("CUDA_VISIBLE_DEVICES");
    conf->n_visible = 0;
    if (!s) {
        for (unsigned i = 0; i < conf->n_cards; i++)
            conf->visible[conf->n_visible++] = i;
        return;
    }
    for (;; s = end + 1) {
        unsigned long v;
        unsigned i;

        errno = 0;
        v = strtoul(s, &end, 10);
        if (errno || end == s || v >= conf->n_cards)
            return;
        for (i = 0; i < conf->n_visible && conf->visible[i] != v; i++)
            ;
        if (i < conf->n_visible) { /* named twice: no card at all */
            conf->n_visible = 0;
            return;
        }
        conf->visible[conf->n_visible++] = (unsigned)v;
        if (*end != ',')
            return;
    }
}

int
sg_conf_read(struct sg_conf *ret_conf, struct gp_err *err)
{
    struct sg_conf conf = {.n_cards = 2,
                           .memory = UINT64_C(4) << 30,
                           .sms = 2,
                           .percentage = 100,
                           .profile = &profiles[1]};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int r;

    if (cpus > 2)
        conf.sms = cpus > SG_MAX_SMS ? SG_MAX_SMS : (unsigned)cpus;
    r = read_environment(OPTIONS, ARRAY_SIZE(OPTIONS), &conf, err);
    if (r < 0)
        return r;
    if (!conf.name[0])
        snprintf(conf.name, sizeof(conf.name), "%s", conf.profile->name);
    conf_visible(&conf);
    *ret_conf = conf;
    return 0;
}

static uint64_t
hash_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t
hash_mix(uint64_t h)
{
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

void
sg_conf_uuid(const struct sg_conf *conf, unsigned card, uint8_t ret_uuid[16])
{
    char host[HOST_NAME_MAX + 1] = "";
    uint64_t seed, word;

    if (gethostname(host, sizeof(host) - 1) < 0)
        host[0] = '\0';
    seed = hash_text(UINT64_C(0xcbf29ce484222325), host);
    seed = hash_text(hash_text(seed, "/"), conf->instance) + card;
    for (unsigned i = 0; i < 2; i++) {
        word = hash_mix(seed + i * UINT64_C(0x9e3779b97f4a7c15));
        memcpy(ret_uuid + i * 8, &word, 8);
    }
    ret_uuid[6] = (uint8_t)((ret_uuid[6] & 0x0f) | 0x40); /* RFC 4122: random */
    ret_uuid[8] = (uint8_t)((ret_uuid[8] & 0x3f) | 0x80);
}

void
sg_conf_pci(const struct sg_conf *conf, unsigned card, int *ret_domain, int *ret_bus,
            int *ret_device)
{
    uint64_t h = hash_text(UINT64_C(0xcbf29ce484222325), conf->instance);

    *ret_domain = conf->instance[0] ? (int)(hash_mix(h) % 0xfffe) + 1 : 0;
    *ret_bus = (int)card + 1;
    *ret_device = 0;
}
