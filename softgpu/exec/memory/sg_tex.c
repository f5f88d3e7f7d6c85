/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of textures, and sampling: address modes, filters, formats; see sg_tex.h.
 *
 * Linear filtering uses weights of eight fractional bits, as cards do.
 */
#include "sg_tex.h"

#include "gp_base.h"

#include "exec_lane.h"
#include "exec_scalar.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* Free, in use, or one that its owner has given up: in use until it expires. */
struct sg_tex_slot {
    struct sg_tex tex;
    uint64_t handle; /* 0: free, or expired */
    bool live;       /* its owner has not given it up */
    uint64_t uses;
    struct sg_tex_slot *next; /* in one of the lists below, or one that has expired */
    uint32_t index;
};

static struct sg_tex_slot *slots[SG_TEX_MAX + 2 * SG_TEX_RETIRED_MAX];
static uint32_t n_slots, n_live, n_retired;
static struct sg_tex_slot *unused;
static struct sg_tex_slot *oldest, *newest; /* that were given up */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define INDEX_BITS 20

static unsigned
format_bytes(enum sg_tex_format f)
{
    static const uint8_t bytes[] = {1, 2, 4, 1, 2, 4, 2, 4};

    return bytes[f];
}

static bool
description_valid(const struct sg_tex *t)
{
    if (t->format > SG_TEX_F32 || t->dims < 1 || t->dims > 3 || t->n_levels < 1 ||
        t->n_levels > SG_TEX_LEVELS ||
        (t->channels != 1 && t->channels != 2 && t->channels != 4))
        return false;
    for (uint32_t i = 0; i < t->n_levels; i++)
        if (!t->level[i].base || !t->level[i].width || !t->level[i].height ||
            !t->level[i].depth)
            return false;
    for (int i = 0; i < 3; i++)
        if (t->address[i] > SG_TEX_BORDER)
            return false;
    return true;
}

/* The bytes from the first texel of any level to the last. */
static bool
measure(struct sg_tex *t)
{
    uint64_t lo = UINT64_MAX, hi = 0;

    for (uint32_t i = 0; i < t->n_levels; i++) {
        const struct sg_tex_level *l = &t->level[i];
        uint64_t rows, slices, end;

        if (!gp_mul_ok(l->pitch, (uint64_t)l->height - 1, &rows) ||
            !gp_mul_ok(l->slice, (uint64_t)l->depth - 1, &slices) ||
            !gp_add_ok(l->base, rows, &end) || !gp_add_ok(end, slices, &end) ||
            !gp_add_ok(end, (uint64_t)l->width * format_bytes(t->format) * t->channels,
                       &end))
            return false;
        lo = gp_min(lo, l->base);
        hi = gp_max(hi, end);
    }
    t->lo = lo;
    t->len = hi - lo;
    return true;
}

static struct sg_tex_slot *
slot_take(void)
{
    struct sg_tex_slot *s = unused;

    if (s) {
        unused = s->next;
        return s;
    }
    if (n_slots == ARRAY_SIZE(slots))
        return NULL;
    s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->index = n_slots;
    __atomic_store_n(&slots[n_slots++], s, __ATOMIC_RELEASE);
    return s;
}

static void
slot_give(struct sg_tex_slot *s)
{
    s->next = unused;
    unused = s;
}

int
sg_tex_register(const struct sg_tex *tex, uint64_t *ret_handle)
{
    struct sg_tex t = *tex;
    struct sg_tex_slot *s;

    if (!description_valid(&t) || !measure(&t))
        return -EINVAL;
    pthread_mutex_lock(&lock);
    s = n_live < SG_TEX_MAX ? slot_take() : NULL;
    if (s) {
        n_live++;
        s->live = true;
        s->tex = t;
        *ret_handle = ++s->uses << INDEX_BITS | (s->index + 1);
        __atomic_store_n(&s->handle, *ret_handle, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return s ? 0 : -ENOSPC;
}

static struct sg_tex_slot *
slot_find(uint64_t handle)
{
    uint64_t index = (handle & ((1u << INDEX_BITS) - 1)) - 1;
    struct sg_tex_slot *s;

    if (index >= ARRAY_SIZE(slots))
        return NULL;
    s = __atomic_load_n(&slots[index], __ATOMIC_ACQUIRE);
    return s && __atomic_load_n(&s->handle, __ATOMIC_ACQUIRE) == handle ? s : NULL;
}

void
sg_tex_unregister(uint64_t handle)
{
    struct sg_tex_slot *s;

    pthread_mutex_lock(&lock);
    s = slot_find(handle);
    if (s && s->live) {
        n_live--;
        s->live = false;
        __atomic_store_n(&s->handle, 0, __ATOMIC_RELEASE);
        slot_give(s);
    }
    pthread_mutex_unlock(&lock);
}

bool
sg_tex_retire(uint64_t handle)
{
    struct sg_tex_slot *s;
    bool many;

    pthread_mutex_lock(&lock);
    s = slot_find(handle);
    if (s && s->live) {
        n_live--;
        n_retired++;
        s->live = false;
        s->next = NULL;
        *(newest ? &newest->next : &oldest) = s;
        newest = s;
    }
    many = n_retired > SG_TEX_RETIRED_MAX;
    pthread_mutex_unlock(&lock);
    return many;
}

struct sg_tex_slot *
sg_tex_expire(void)
{
    struct sg_tex_slot *list = NULL, *s;

    pthread_mutex_lock(&lock);
    while (n_retired > SG_TEX_RETIRED_MAX / 2) {
        s = oldest;
        oldest = s->next;
        if (!oldest)
            newest = NULL;
        n_retired--;
        __atomic_store_n(&s->handle, 0, __ATOMIC_RELEASE);
        s->next = list;
        list = s;
    }
    pthread_mutex_unlock(&lock);
    return list;
}

void
sg_tex_reuse(struct sg_tex_slot *expired)
{
    struct sg_tex_slot *next;

    pthread_mutex_lock(&lock);
    for (; expired; expired = next) {
        next = expired->next;
        slot_give(expired);
    }
    pthread_mutex_unlock(&lock);
}

const struct sg_tex *
sg_tex_find(uint64_t handle)
{
    const struct sg_tex_slot *s = slot_find(handle);

    return s ? &s->tex : NULL;
}

/* -------------------------------------------------------------------- texels */

/* The index behind the address mode, or -1 for the border. */
static int64_t
address(enum sg_tex_address mode, int64_t i, int64_t n)
{
    switch (mode) {
    case SG_TEX_WRAP:
        return (i % n + n) % n;
    case SG_TEX_MIRROR:
        i = (i % (2 * n) + 2 * n) % (2 * n);
        return i < n ? i : 2 * n - 1 - i;
    case SG_TEX_CLAMP:
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    default:
        return i < 0 || i >= n ? -1 : i;
    }
}

/* Wrapping and mirroring exist only for normalised coordinates. */
static enum sg_tex_address
mode_of(const struct sg_tex *t, int axis)
{
    enum sg_tex_address m = t->address[axis];

    if (!t->normalized && (m == SG_TEX_WRAP || m == SG_TEX_MIRROR))
        return SG_TEX_CLAMP;
    return m;
}

static uint32_t
channel_raw(const struct sg_tex *t, const uint8_t *p, unsigned c)
{
    uint32_t v = 0;
    unsigned n = format_bytes(t->format);

    memcpy(&v, p + (size_t)c * n, n);
    if (t->format == SG_TEX_S8)
        return (uint32_t)(int8_t)v;
    if (t->format == SG_TEX_S16)
        return (uint32_t)(int16_t)v;
    return v;
}

static float
channel_float(const struct sg_tex *t, uint32_t raw)
{
    switch (t->format) {
    case SG_TEX_F32:
        return lane_float(raw);
    case SG_TEX_F16:
        return lane_f16_f32(raw);
    case SG_TEX_U8:
        return t->read_float ? (float)raw / 255.0f : lane_float(raw);
    case SG_TEX_U16:
        return t->read_float ? (float)raw / 65535.0f : lane_float(raw);
    case SG_TEX_S8:
        return t->read_float ? fmaxf((float)(int32_t)raw / 127.0f, -1.0f)
                             : lane_float(raw);
    case SG_TEX_S16:
        return t->read_float ? fmaxf((float)(int32_t)raw / 32767.0f, -1.0f)
                             : lane_float(raw);
    default:
        return lane_float(raw);
    }
}

/* The sRGB transfer curve, backwards. */
static float
linear(float v)
{
    return v <= 0.04045f ? v / 12.92f : powf((v + 0.055f) / 1.055f, 2.4f);
}

static bool
is_float(const struct sg_tex *t)
{
    return t->format >= SG_TEX_F16 || t->read_float;
}

/* One texel at checked or border (-1) indexes. */
static void
texel(const struct sg_tex *t, const struct sg_tex_level *l, const int64_t at[3],
      uint32_t ret[4])
{
    unsigned size = format_bytes(t->format) * t->channels;
    const uint8_t *p;

    for (unsigned c = 0; c < 4; c++)
        ret[c] = is_float(t) ? lane_bits32(t->border[c]) : (uint32_t)t->border[c];
    if (at[0] < 0 || at[1] < 0 || at[2] < 0)
        return;
    p = (const uint8_t *)(uintptr_t)(l->base + (uint64_t)at[2] * l->slice +
                                     (uint64_t)at[1] * l->pitch +
                                     (uint64_t)at[0] * size);
    for (unsigned c = 0; c < 4; c++) {
        uint32_t raw = c < t->channels ? channel_raw(t, p, c) : 0;
        if (is_float(t))
            ret[c] = lane_bits32(c >= t->channels   ? c == 3
                                 : t->srgb && c < 3 ? linear(channel_float(t, raw))
                                                    : channel_float(t, raw));
        else
            ret[c] = c < t->channels ? raw : c == 3;
    }
}

/* ----------------------------------------------------------------- one level */

struct axes {
    int64_t size[3];
    unsigned n;       /* that are filtered */
    int64_t fixed[3]; /* layer or face on the axis behind them */
};

static struct axes
axes_of(const struct sg_tex *t, const struct sg_tex_level *l, int64_t layer)
{
    struct axes a = {.size = {l->width, l->height, l->depth}, .n = t->dims};

    if (t->layered || t->cube) { /* the slice is chosen, never filtered */
        a.n = t->dims > 2 ? 2 : t->dims;
        a.fixed[2] = layer < 0 ? 0 : layer >= a.size[2] ? a.size[2] - 1 : layer;
    }
    return a;
}

static void
fetch(const struct sg_tex *t, const struct sg_tex_level *l, const struct axes *a,
      const int64_t i[3], uint32_t ret[4])
{
    int64_t at[3] = {0, 0, a->n < 3 ? a->fixed[2] : 0};

    for (unsigned k = 0; k < a->n; k++)
        at[k] = address(mode_of(t, (int)k), i[k], a->size[k]);
    texel(t, l, at, ret);
}

static int64_t
to_index(float f)
{
    return f >= 1e9f ? 1000000000 : f <= -1e9f ? -1000000000 : f != f ? 0 : (int64_t)f;
}

/* The face of a cube that a direction hits, and where: faces +x -x +y -y +z -z. */
static int
cube_face(const float d[3], float ret_uv[2])
{
    float ax = fabsf(d[0]), ay = fabsf(d[1]), az = fabsf(d[2]), m, s, t;
    int face;

    if (ax >= ay && ax >= az)
        face = d[0] < 0, m = ax, s = d[0] < 0 ? d[2] : -d[2], t = -d[1];
    else if (ay >= az)
        face = 2 + (d[1] < 0), m = ay, s = d[0], t = d[1] < 0 ? -d[2] : d[2];
    else
        face = 4 + (d[2] < 0), m = az, s = d[2] < 0 ? -d[0] : d[0], t = -d[1];
    ret_uv[0] = (s / m + 1) / 2;
    ret_uv[1] = (t / m + 1) / 2;
    return face;
}

/* The direction that hits @face at @uv: cube_face() backwards. */
static void
cube_direction(int face, const float uv[2], float ret[3])
{
    float s = 2 * uv[0] - 1, t = 2 * uv[1] - 1, m = face & 1 ? -1 : 1;

    if (face < 2)
        ret[0] = m, ret[1] = -t, ret[2] = -m * s;
    else if (face < 4)
        ret[0] = s, ret[1] = m, ret[2] = m * t;
    else
        ret[0] = m * s, ret[1] = -t, ret[2] = m;
}

/* A texel behind one edge of a face is one of the face next to it.  False: behind two
 * edges, where three faces meet and no texel is. */
static bool
cross_edge(const struct sg_tex_level *l, int64_t i[3], int64_t *layer)
{
    int64_t n = l->width;
    float at[2] = {((float)i[0] + 0.5f) / (float)n, ((float)i[1] + 0.5f) / (float)n};
    bool out[2] = {i[0] < 0 || i[0] >= n, i[1] < 0 || i[1] >= n};
    float d[3];

    if (!out[0] && !out[1])
        return true;
    if (out[0] && out[1])
        return false;
    cube_direction((int)(*layer % 6), at, d);
    *layer += cube_face(d, at) - *layer % 6;
    for (int k = 0; k < 2; k++)
        i[k] = to_index(at[k] * (float)n);
    return true;
}

/* The texels around a place, of which those behind the edges of a face are its
 * neighbours' if the cube is seamless; one that is nowhere is the mean of the others.
 */
static void
fetch_corners(const struct sg_tex *t, const struct sg_tex_level *l,
              const struct axes *a, const int64_t base[3], uint32_t ret[8][4])
{
    bool seamless = t->seamless && t->linear && is_float(t);
    int none = -1;

    for (int corner = 0; corner < 1 << a->n; corner++) {
        int64_t i[3] = {base[0], base[1], base[2]};
        struct axes at = *a;
        for (unsigned k = 0; k < a->n; k++)
            i[k] += corner >> k & 1;
        if (seamless && !cross_edge(l, i, &at.fixed[2]))
            none = corner;
        else
            fetch(t, l, &at, i, ret[corner]);
    }
    for (int c = 0; c < 4 && none >= 0; c++) {
        double sum = 0;
        for (int corner = 0; corner < 4; corner++)
            sum += corner == none ? 0 : (double)lane_float(ret[corner][c]);
        ret[none][c] = lane_bits32((float)(sum / 3));
    }
}

static void
sample_linear(const struct sg_tex *t, const struct sg_tex_level *l,
              const struct axes *a, const float u[3], int gather, uint32_t ret[4])
{
    double sum[4] = {0}, frac[3] = {0};
    int64_t base[3] = {0};
    uint32_t v[8][4];

    for (unsigned k = 0; k < a->n; k++) {
        float b = u[k] - 0.5f, f = floorf(b);
        base[k] = to_index(f);
        frac[k] = nearbyint((double)(b - f) * 256.0) / 256.0;
    }
    fetch_corners(t, l, a, base, v);
    for (unsigned corner = 0; corner < 1u << a->n; corner++) {
        double w = 1;
        for (unsigned k = 0; k < a->n; k++)
            w *= corner >> k & 1 ? frac[k] : 1 - frac[k];
        if (gather >= 0) { /* counter-clockwise from the lower left */
            static const uint8_t order[4] = {3, 2, 0, 1};
            ret[order[corner & 3]] = v[corner][gather];
            continue;
        }
        for (int c = 0; c < 4; c++)
            sum[c] += w * (double)lane_float(v[corner][c]);
    }
    for (int c = 0; c < 4 && gather < 0; c++)
        ret[c] = lane_bits32((float)sum[c]);
}

static void
sample_level(const struct sg_tex *t, const struct sg_tex_query *q, uint32_t level,
             uint32_t ret[4])
{
    const struct sg_tex_level *l = &t->level[level];
    float u[3] = {q->coord[0], q->coord[1], q->coord[2]}, uv[2];
    int64_t layer = q->layer, i[3];
    struct axes a;

    if (t->cube) {
        int64_t last = gp_max((int64_t)l->depth / 6 - 1, INT64_C(0));
        layer = gp_max(gp_min(layer, last), INT64_C(0)) * 6 + cube_face(q->coord, uv);
        u[0] = uv[0];
        u[1] = uv[1];
    }
    a = axes_of(t, l, layer);
    for (unsigned k = 0; k < a.n; k++)
        if (t->normalized || t->cube)
            u[k] *= (float)a.size[k];
    for (unsigned k = 0; k < 3; k++)
        u[k] += (float)q->offset[k];
    if (q->by_texel) {
        for (int k = 0; k < 3; k++)
            i[k] = (int64_t)q->texel[k] + q->offset[k];
    } else if ((t->linear && is_float(t)) || q->gather >= 0) {
        sample_linear(t, l, &a, u, q->gather, ret);
        return;
    } else {
        for (int k = 0; k < 3; k++)
            i[k] = to_index(floorf(u[k]));
    }
    fetch(t, l, &a, i, ret);
}

void
sg_tex_sample(const struct sg_tex *tex, const struct sg_tex_query *q, uint32_t ret[4])
{
    float lod = q->lod + tex->lod_bias, top = (float)(tex->n_levels - 1), f;
    uint32_t low[4], high[4], level;

    lod = !(lod > tex->lod_min) ? tex->lod_min : lod;
    lod = lod > tex->lod_max ? tex->lod_max : lod;
    lod = !(lod > 0) ? 0 : lod > top ? top : lod;
    if (!tex->mip_linear || !is_float(tex) || q->gather >= 0) {
        sample_level(tex, q, (uint32_t)(lod + 0.5f), ret);
        return;
    }
    level = (uint32_t)lod;
    f = lod - (float)level;
    sample_level(tex, q, level, low);
    if (f == 0.0f) {
        memcpy(ret, low, sizeof(low));
        return;
    }
    sample_level(tex, q, level + 1, high);
    for (int c = 0; c < 4; c++)
        ret[c] = lane_bits32(lane_float(low[c]) * (1 - f) + lane_float(high[c]) * f);
}
