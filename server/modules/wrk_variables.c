/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_variables.h"

#include "gp_log.h"
#include "image_variables.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_image.h"
#include "wrk_quota.h"

#include <stdlib.h>
#include <sys/uio.h>

/* A loaded library that has variables. */
struct library {
    struct library *next;
    uint64_t id;
    uint64_t serial;    /* a client may use an id again before the library has ended */
    const void *object; /* NULL: the driver is loading it */
    uint64_t bytes;
};

static struct library *libraries; /* the reader's */

/* ---- sizes ---- */

static unsigned
card_sm(const struct wrk *w, uint32_t slice)
{
    const int32_t *a = w->priv->cards.card[slice].attributes;

    return (unsigned)(a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR - 1] * 10 +
                      a[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR - 1]);
}

/* Of several pieces the first is the linked image; the others are the units of which a
 * driver can make another. */
static uint64_t
pieces_bytes(const struct iovec *pieces, size_t n, unsigned sm)
{
    uint64_t linked, units = 0;

    linked = image_variables(pieces[0].iov_base, pieces[0].iov_len, sm, false);
    for (size_t i = 1; i < n; i++)
        units = image_variables_add(
            units, image_variables(pieces[i].iov_base, pieces[i].iov_len, sm, true));
    return gp_max(linked, units);
}

/* What a client sent, or what another process has found out about it. */
struct source {
    struct wrk_image *image;
    const unsigned long long *parts;
    uint32_t n_parts;
};

static uint64_t
bytes_on(const struct source *source, unsigned sm)
{
    struct iovec pieces[WRK_IMAGE_PIECES];
    uint64_t bytes;
    size_t n;

    if (wrk_image_variables_known(source->image, sm, &bytes))
        return bytes;
    n = wrk_image_pieces(source->image, source->parts, source->n_parts, pieces);
    bytes = pieces_bytes(pieces, n, sm);
    wrk_image_variables_found(source->image, sm, bytes);
    return bytes;
}

/* The most on any of the cards. */
static uint64_t
bytes_anywhere(const struct wrk *w, const struct source *source)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < w->priv->cards.n; i++)
        if (i == 0 || card_sm(w, i) != card_sm(w, i - 1))
            most = gp_max(most, bytes_on(source, card_sm(w, i)));
    return most;
}

/* ---- counting ---- */

/* In the quota's ledger: with the highest bit, which neither addresses nor handles
 * have, and above the keys of limits (h_ctx.c), which are below 2^35. */
#define CTX_BITS 27
#define SERIAL_FIRST (UINT64_C(1) << (35 - CTX_BITS))
#define SERIAL_END (UINT64_C(1) << (62 - CTX_BITS))

static_assert(WIRE_INDEX_SERVER == 1u << CTX_BITS, "contexts that a client makes");

static uint64_t
library_key(uint64_t serial, uint32_t ctx_index)
{
    return UINT64_C(1) << 63 | serial << CTX_BITS | ctx_index;
}

static CUresult
take(struct wrk *w, uint64_t key, uint32_t slice, uint32_t ctx_index, uint64_t bytes)
{
    struct wrk_quota *q = w->priv->quota;

    if (!bytes)
        return CUDA_SUCCESS;
    if (!wrk_quota_take_soon(q, slice, bytes, WRK_QUOTA_SOON_NS))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (wrk_quota_note(q, key, slice, ctx_index, bytes) == 0)
        return CUDA_SUCCESS;
    wrk_quota_give(q, slice, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- modules ---- */

CUresult
wrk_variables_take_module(struct wrk *w, uint64_t id, struct wrk_image *image,
                          const unsigned long long *parts, uint32_t n_parts)
{
    struct source source = {image, parts, n_parts};
    uint32_t slice = wrk_ctx_slice(w, w->ctx_index);
    uint64_t held;

    /* A client that uses an id again must not have its first bytes given back with the
     * second module, which may have none. */
    if (wrk_quota_find(w->priv->quota, id, &held))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!wrk_ctx_current(w)) /* the driver refuses it */
        return CUDA_SUCCESS;
    return take(w, id, slice, w->ctx_index, bytes_on(&source, card_sm(w, slice)));
}

/* ---- libraries ---- */

static struct library *
library_new(uint64_t id, uint64_t bytes)
{
    static uint64_t serial = SERIAL_FIRST; /* the reader's */
    struct library *library = serial < SERIAL_END ? calloc(1, sizeof(*library)) : NULL;

    if (!library)
        return NULL;
    library->id = id;
    library->serial = serial++;
    library->bytes = bytes;
    library->next = libraries;
    libraries = library;
    return library;
}

/* The one of that object, or with NULL of that id. */
static struct library **
library_at(const void *object, uint64_t id)
{
    struct library **at = &libraries;

    while (*at && (object ? (*at)->object != object : (*at)->id != id))
        at = &(*at)->next;
    return at;
}

static void
library_free(struct library **at)
{
    struct library *library = *at;

    if (!library)
        return;
    *at = library->next;
    free(library);
}

void
wrk_variables_loaded(uint64_t id, const void *object)
{
    struct library *library = *library_at(NULL, id);

    if (library)
        library->object = object;
}

void
wrk_variables_unloaded(struct wrk *w, uint64_t serial)
{
    if (serial)
        wrk_quota_drop_range(w->priv->quota, library_key(serial, 0),
                             library_key(serial, WIRE_INDEX_SERVER - 1));
}

uint64_t
wrk_variables_of_library(const void *object)
{
    const struct library *library = object ? *library_at(object, 0) : NULL;

    return library ? library->serial : 0;
}

void
wrk_variables_module_failed(struct wrk *w, uint64_t id)
{
    wrk_quota_drop(w->priv->quota, id);
}

void
wrk_variables_library_failed(struct wrk *w, uint64_t id)
{
    struct library **at = library_at(NULL, id);

    if (!*at) /* nothing was taken */
        return;
    wrk_variables_unloaded(w, (*at)->serial);
    library_free(at);
}

void
wrk_variables_forget(const void *object)
{
    if (object)
        library_free(library_at(object, 0));
}

/* Those made from green contexts have the memory of their device's primary one. */
static uint32_t
next_ctx(const struct wrk *w, uint32_t index)
{
    index = wrk_ctx_next(w, index);
    return index < WIRE_INDEX_SERVER ? index : 0;
}

CUresult
wrk_variables_take_library(struct wrk *w, uint64_t id, struct wrk_image *image,
                           const unsigned long long *parts, uint32_t n_parts)
{
    struct source source = {image, parts, n_parts};
    CUresult r = CUDA_SUCCESS;
    struct library *library;
    uint64_t bytes;

    if (*library_at(NULL, id)) /* as above */
        return CUDA_ERROR_OUT_OF_MEMORY;
    bytes = bytes_anywhere(w, &source);
    if (!bytes)
        return CUDA_SUCCESS;
    library = library_new(id, bytes);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t ctx = next_ctx(w, 0); ctx && r == CUDA_SUCCESS;
         ctx = next_ctx(w, ctx))
        r = take(w, library_key(library->serial, ctx), wrk_ctx_slice(w, ctx), ctx,
                 bytes);
    if (r != CUDA_SUCCESS)
        wrk_variables_library_failed(w, id);
    return r;
}

CUresult
wrk_variables_take_ctx(struct wrk *w, uint32_t index, uint32_t slice)
{
    CUresult r = CUDA_SUCCESS;

    for (const struct library *l = libraries; l && r == CUDA_SUCCESS; l = l->next)
        r = take(w, library_key(l->serial, index), slice, index, l->bytes);
    if (r != CUDA_SUCCESS)
        wrk_variables_give_ctx(w, index); /* in which nothing was noted before */
    return r;
}

void
wrk_variables_give_ctx(struct wrk *w, uint32_t index)
{
    for (const struct library *l = libraries; l; l = l->next)
        wrk_quota_drop(w->priv->quota, library_key(l->serial, index));
}
