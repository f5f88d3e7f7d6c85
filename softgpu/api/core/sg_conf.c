/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SOFTGPU_* environment.  A value that cannot be understood fails cuInit
 * with its name: a card of another size than was asked for is worse than none.
 */
#include "sg_conf.h"

#include "cuda_abi.h"
#include "gp_err.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const struct sg_profile profiles[] = {
    {7, 5, 1024, 16, 65536, 65536, 4 << 20, 32, "SoftGPU T75"},
    {8, 6, 1536, 16, 102400, 101376, 6 << 20, 64, "SoftGPU A86"},
    {9, 0, 2048, 32, 233472, 232448, 50 << 20, 2, "SoftGPU H90"},
    {12, 0, 1536, 24, 102400, 101376, 64 << 20, 64, "SoftGPU B120"},
};

static int
conf_uint(const char *name, unsigned lo, unsigned hi, unsigned *val, struct gp_err *err)
{
    const char *s = getenv(name);
    char *end;
    unsigned long v;

    if (!s || !*s)
        return 0;
    errno = 0;
    v = strtoul(s, &end, 10);
    if (errno || *end || *s == '-' || v < lo || v > hi)
        return gp_err_set(err, -EINVAL, "%s=%s: a number from %u to %u is expected",
                          name, s, lo, hi);
    *val = (unsigned)v;
    return 0;
}

int
sg_conf_cuda_version(void)
{
    unsigned version = CUDA_VERSION;

    return conf_uint("SOFTGPU_CUDA_VERSION", 11000, CUDA_VERSION, &version, NULL) < 0
               ? CUDA_VERSION
               : (int)version;
}

static int
unit_shift(const char *unit)
{
    static const struct {
        const char *text;
        int shift;
    } units[] = {
        {"", 0},    {"B", 0},    {"K", 10},   {"KiB", 10}, {"KB", 10},
        {"M", 20},  {"MiB", 20}, {"MB", 20},  {"G", 30},   {"GiB", 30},
        {"GB", 30}, {"T", 40},   {"TiB", 40},
    };

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (!strcasecmp(unit, units[i].text))
            return units[i].shift;
    return -1;
}

static int
conf_size(const char *name, uint64_t *val, struct gp_err *err)
{
    const uint64_t most = UINT64_C(512) << 30; /* half of a card's arena */
    const char *s = getenv(name);
    unsigned long long v;
    char *end;
    int shift;

    if (!s || !*s)
        return 0;
    errno = 0;
    v = strtoull(s, &end, 10);
    shift = unit_shift(end);
    if (errno || end == s || *s == '-' || shift < 0 || v > (most >> shift) ||
        (v << shift) < (1 << 20))
        return gp_err_set(err, -EINVAL, "%s=%s: a size from 1MiB to 512GiB is expected",
                          name, s);
    *val = v << shift;
    return 0;
}

static int
conf_profile(struct sg_conf *conf, struct gp_err *err)
{
    const char *s = getenv("SOFTGPU_CC");
    char text[16];

    conf->profile = &profiles[1];
    if (!s || !*s)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
        snprintf(text, sizeof(text), "%d.%d", profiles[i].major, profiles[i].minor);
        if (!strcmp(s, text)) {
            conf->profile = &profiles[i];
            return 0;
        }
    }
    return gp_err_set(err, -EINVAL,
                      "SOFTGPU_CC=%s: one of 7.5, 8.6, 9.0, 12.0 is expected", s);
}

static int
conf_text(const char *name, char *dst, size_t size, struct gp_err *err)
{
    const char *s = getenv(name);

    if (!s || !*s)
        return 0;
    if (strlen(s) >= size)
        return gp_err_set(err, -EINVAL, "%s is longer than %zu bytes", name, size - 1);
    memcpy(dst, s, strlen(s) + 1);
    return 0;
}

static int
conf_instance(struct sg_conf *conf, struct gp_err *err)
{
    int r;

    r = conf_text("SOFTGPU_INSTANCE", conf->instance, sizeof(conf->instance), err);
    if (r < 0)
        return r;
    /* It becomes a part of a file name. */
    for (const char *p = conf->instance; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                    "0123456789._-",
                    *p))
            return gp_err_set(err, -EINVAL,
                              "SOFTGPU_INSTANCE=%s: letters, digits and ._- only",
                              conf->instance);
    return 0;
}

/* As the CUDA list is read: the first entry that is not a visible card ends it,
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
    struct sg_conf conf = {
        .n_cards = 2, .memory = UINT64_C(4) << 30, .sms = 2, .percentage = 100};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int r;

    if (cpus > 2)
        conf.sms = cpus > SG_MAX_SMS ? SG_MAX_SMS : (unsigned)cpus;
    r = conf_uint("SOFTGPU_CARDS", 0, SG_MAX_CARDS, &conf.n_cards, err);
    if (!r)
        r = conf_uint("SOFTGPU_SMS", 1, SG_MAX_SMS, &conf.sms, err);
    if (!r)
        r = conf_uint("SOFTGPU_ADDRESS_SLOT", 0, SG_SLOTS, &conf.slot, err);
    if (!r)
        r = conf_uint("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 1, 100, &conf.percentage,
                      err);
    if (!r)
        r = conf_uint("SOFTGPU_EXACT", 0, 1, &conf.exact, err);
    if (!r)
        r = conf_uint("SOFTGPU_TIME_LIMIT", 0, SG_TIME_LIMIT_MAX, &conf.time_limit,
                      err);
    if (!r)
        r = conf_size("SOFTGPU_MEMORY", &conf.memory, err);
    if (!r)
        r = conf_size("SOFTGPU_MEMORY_BUDGET", &conf.budget, err);
    if (!r)
        r = conf_profile(&conf, err);
    if (!r)
        r = conf_instance(&conf, err);
    if (r < 0)
        return r;
    snprintf(conf.name, sizeof(conf.name), "%s", conf.profile->name);
    r = conf_text("SOFTGPU_NAME", conf.name, sizeof(conf.name), err);
    if (r < 0)
        return r;
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
