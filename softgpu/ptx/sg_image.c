/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_image.h"

#include "gp_err.h"
#include "gp_log.h"
#include "ptx_ast.h"
#include "ptx_link.h"

#include <elf.h>
#include <errno.h>
#include <lz4.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

/* Bits of an entry's flags. */
#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_ARCH 0x100000u
#define FLAG_FAMILY 0x200000u

/* Older toolkits wrote headers without the last fields; the unpacked size is
 * in the first 64 bytes. */
#define ENTRY_HEAD_MIN 48
#define ENTRY_HEAD_FULL 64

/* ---- entries ---- */

static uint16_t
get16(const uint8_t *at)
{
    uint16_t v;

    memcpy(&v, at, sizeof(v));
    return v;
}

static uint32_t
get32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof(v));
    return v;
}

static uint64_t
get64(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof(v));
    return v;
}

/* @head has at least ENTRY_HEAD_MIN bytes, @head_len of them are the header,
 * @body behind it are the payload; both lie inside the image. */
static void
read_entry(const uint8_t *head, uint32_t head_len, uint64_t body,
           struct sg_image_entry *ret)
{
    uint32_t packed = get32(head + 16);
    uint64_t flags = get64(head + 40);

    *ret = (struct sg_image_entry){
        .kind = get16(head),
        .version_minor = get16(head + 24),
        .version_major = get16(head + 26),
        .sm = get32(head + 28),
        .flags = flags,
        .arch_specific = flags & FLAG_ARCH,
        .family_specific = flags & FLAG_FAMILY,
        .data = head + head_len,
        .len = packed ? gp_min((uint64_t)packed, body) : body,
        .raw_len = body,
    };
    if (flags & (FLAG_ZSTD | FLAG_LZ4)) {
        ret->packing = flags & FLAG_ZSTD ? SG_PACKING_ZSTD : SG_PACKING_LZ4;
        ret->raw_len = head_len >= ENTRY_HEAD_FULL ? get64(head + 56) : 0;
    } else {
        ret->len = body;
    }
}

int
sg_image_next(const void *fatbin, size_t len, size_t *pos, struct sg_image_entry *ret,
              struct gp_err *err)
{
    const uint8_t *data = fatbin;
    uint32_t head;
    uint64_t body;
    size_t left;

    if (*pos == 0) {
        if (len < 16 || get16(data + 6) > len)
            return gp_err_set(err, -EINVAL, "fat binary is shorter than its header");
        *pos = get16(data + 6);
    }
    left = len - *pos;
    if (left == 0)
        return 0;
    if (left < ENTRY_HEAD_MIN)
        return gp_err_set(err, -EINVAL, "fat binary ends inside an entry's header");
    head = get32(data + *pos + 4);
    body = get64(data + *pos + 8);
    if (head < ENTRY_HEAD_MIN || head > left || body > left - head)
        return gp_err_set(err, -EINVAL,
                          "entry at %zu of a fat binary reaches beyond its end", *pos);
    read_entry(data + *pos, head, body, ret);
    *pos += head + (size_t)body;
    return 1;
}

static const char *
packing_name(enum sg_packing packing)
{
    return packing == SG_PACKING_ZSTD  ? "zstd"
           : packing == SG_PACKING_LZ4 ? "LZ4"
                                       : "plain";
}

/* Exactly entry->raw_len bytes to @to, or false. */
static bool
unpack_to(const struct sg_image_entry *entry, char *to)
{
    size_t n;

    switch (entry->packing) {
    case SG_PACKING_ZSTD:
        n = ZSTD_decompress(to, entry->raw_len, entry->data, entry->len);
        return !ZSTD_isError(n) && n == entry->raw_len;
    case SG_PACKING_LZ4:
        return LZ4_decompress_safe((const char *)entry->data, to, (int)entry->len,
                                   (int)entry->raw_len) == (int)entry->raw_len;
    default:
        memcpy(to, entry->data, entry->raw_len);
        return true;
    }
}

int
sg_image_unpack(const struct sg_image_entry *entry, char **ret, size_t *ret_len,
                struct gp_err *err)
{
    CLEANUP_FREE char *text = NULL;

    if (entry->raw_len > GP_IMAGE_MAX_PTX || entry->len > GP_IMAGE_MAX_PTX ||
        entry->raw_len / SG_IMAGE_MAX_RATIO > entry->len)
        return gp_err_set(
            err, -E2BIG, "entry of %llu bytes claims to unpack to %llu (%s)",
            (unsigned long long)entry->len, (unsigned long long)entry->raw_len,
            packing_name(entry->packing));
    text = malloc(entry->raw_len + 1);
    if (!text)
        return gp_err_set(err, -ENOMEM, "no memory for an image of %llu bytes",
                          (unsigned long long)entry->raw_len);
    if (!unpack_to(entry, text))
        return gp_err_set(err, -EINVAL, "broken %s data in a fat binary",
                          packing_name(entry->packing));
    text[entry->raw_len] = 0;
    *ret_len = strnlen(text, entry->raw_len); /* padded with NULs */
    *ret = TAKE_PTR(text);
    return 0;
}

/* ---- choosing ---- */

static bool
fits(const struct sg_image_entry *entry, unsigned sm)
{
    if (entry->kind != SG_ENTRY_PTX)
        return false;
    if (entry->arch_specific)
        return entry->sm == sm;
    if (entry->family_specific)
        return entry->sm / 10 == sm / 10 && entry->sm <= sm;
    return entry->sm <= sm;
}

/* Higher wins; of two equal ones the one that asks for less. */
static bool
better(const struct sg_image_entry *a, const struct sg_image_entry *b)
{
    if (a->sm != b->sm)
        return a->sm > b->sm;
    return (b->arch_specific || b->family_specific) &&
           !(a->arch_specific || a->family_specific);
}

/* What an image holds, in words: "machine code for sm_75, sm_86". */
struct inventory {
    char code[160];
    char ptx[160];
    bool has_lto;
};

static void
note(char list[160], const char *prefix, const struct sg_image_entry *entry)
{
    const char *suffix = entry->arch_specific ? "a" : entry->family_specific ? "f" : "";
    size_t used = strlen(list);
    char item[32];

    snprintf(item, sizeof(item), "%s%u%s", prefix, entry->sm, suffix);
    if (used + strlen(item) + 3 < 160)
        snprintf(list + used, 160 - used, "%s%s", used ? ", " : "", item);
}

static void
take_stock(struct inventory *inv, const struct sg_image_entry *entry)
{
    if (entry->kind == SG_ENTRY_ELF)
        note(inv->code, "sm_", entry);
    else if (entry->kind == SG_ENTRY_PTX)
        note(inv->ptx, "compute_", entry);
    else if (entry->kind == SG_ENTRY_LTO)
        inv->has_lto = true;
}

/* The words that turn "no kernel image" into something to do. */
static int
no_ptx(const struct inventory *inv, unsigned sm, struct gp_err *err)
{
    if (*inv->ptx)
        return gp_err_set(err, -ENOEXEC,
                          "the image has PTX for %s, but this card is sm_%u: recompile "
                          "with -gencode arch=compute_%u,code=compute_%u, or choose a "
                          "newer soft card (SOFTGPU_CC)",
                          inv->ptx, sm, sm, sm);
    return gp_err_set(
        err, -ENOEXEC,
        "the image holds only %s%s%s and a software GPU runs PTX: recompile "
        "with -gencode arch=compute_%u,code=compute_%u; for cupy set "
        "CUPY_COMPILE_WITH_PTX=1; for numba uninstall nvjitlink",
        *inv->code ? "machine code for " : "", inv->code,
        *inv->code     ? ""
        : inv->has_lto ? "LTO code"
                       : "no code",
        sm, sm);
}

static int
pick_entry(const struct gp_image *fatbin, unsigned sm, struct sg_image_entry *ret,
           struct gp_err *err)
{
    struct sg_image_entry entry;
    struct inventory inv = {0};
    unsigned n = 0;
    bool found = false;
    size_t pos = 0;
    int r;

    while ((r = sg_image_next(fatbin->data, fatbin->len, &pos, &entry, err)) == 1) {
        if (++n > SG_IMAGE_MAX_ENTRIES)
            return gp_err_set(err, -E2BIG, "fat binary with more than %d entries",
                              SG_IMAGE_MAX_ENTRIES);
        take_stock(&inv, &entry);
        if (fits(&entry, sm) && (!found || better(&entry, ret))) {
            *ret = entry;
            found = true;
        }
    }
    if (r < 0)
        return r;
    return found ? 0 : no_ptx(&inv, sm, err);
}

static int
refuse_elf(const struct gp_image *elf, unsigned sm, struct gp_err *err)
{
    const uint8_t *data = elf->data;
    uint32_t flags = get32(data + offsetof(Elf64_Ehdr, e_flags));
    struct inventory inv = {0};
    struct sg_image_entry entry = {.kind = SG_ENTRY_ELF};

    /* the SM moved up by one byte with version 8 of the ABI */
    entry.sm = data[EI_ABIVERSION] >= 8 ? flags >> 8 & 0xff : flags & 0xff;
    take_stock(&inv, &entry);
    return no_ptx(&inv, sm, err);
}

static int
text_copy(const struct gp_image *image, char **ret, size_t *ret_len, struct gp_err *err)
{
    char *text = strndup(image->data, image->len);

    if (!text)
        return gp_err_set(err, -ENOMEM, "no memory for an image of %zu bytes",
                          image->len);
    *ret = text;
    *ret_len = image->len;
    return 0;
}

static int
image_ptx(const struct gp_image *image, unsigned sm, char **ret, size_t *ret_len,
          struct gp_err *err)
{
    struct sg_image_entry entry;
    int r;

    switch (image->kind) {
    case GP_IMAGE_PTX:
        return text_copy(image, ret, ret_len, err);
    case GP_IMAGE_ELF:
        return refuse_elf(image, sm, err);
    case GP_IMAGE_FATBIN:
        r = pick_entry(image, sm, &entry, err);
        return r < 0 ? r : sg_image_unpack(&entry, ret, ret_len, err);
    default:
        return gp_err_set(err, -EINVAL, "a wrapper of pointers is no image by itself");
    }
}

/* ---- from a pointer to PTX ---- */

/* @image, or what a wrapper points to. */
static int
open_image(const void *data, size_t bound, struct gp_image_wrapper *ret,
           struct gp_err *err)
{
    struct gp_image_wrapper one = {0};
    int r;

    r = gp_image_measure(data, bound, &one.image, err);
    if (r < 0)
        return r;
    if (one.image.kind == GP_IMAGE_WRAPPER && bound == GP_IMAGE_UNBOUNDED)
        return gp_image_unwrap(data, ret, err);
    *ret = one;
    return 0;
}

int
sg_image_ptx(const void *image, size_t bound, unsigned sm, char **ret, size_t *ret_len,
             struct gp_err *err)
{
    struct gp_image_wrapper found;
    int r = open_image(image, bound, &found, err);

    return r < 0 ? r : image_ptx(&found.image, sm, ret, ret_len, err);
}

/* A module for a newer card than ours would fail somewhere in the middle. */
static int
check_target(const struct ptx_module *mod, unsigned sm, struct gp_err *err)
{
    struct sg_image_entry entry = {
        .kind = SG_ENTRY_PTX,
        .sm = mod->sm,
        .arch_specific = mod->target_flags & PTX_TARGET_ARCH,
        .family_specific = mod->target_flags & PTX_TARGET_FAMILY,
    };
    struct inventory inv = {0};

    if (fits(&entry, sm))
        return 0;
    take_stock(&inv, &entry);
    return no_ptx(&inv, sm, err);
}

static int
parse_one(const struct gp_image *image, unsigned sm, struct ptx_module **ret,
          struct gp_err *err)
{
    CLEANUP(ptx_module_freep) struct ptx_module *mod = NULL;
    CLEANUP_FREE char *text = NULL;
    size_t len;
    int r;

    r = image_ptx(image, sm, &text, &len, err);
    if (r < 0)
        return r;
    r = ptx_parse(text, len, &mod, err);
    if (r < 0)
        return gp_err_wrap(err, r, "PTX");
    r = check_target(mod, sm, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(mod);
    return 0;
}

static void
free_modules(struct ptx_module **mods, size_t n)
{
    for (size_t i = 0; mods && i < n; i++)
        ptx_module_free(mods[i]);
    free(mods);
}

/* The units of a device link that have PTX for this card, packed to the front of @mods.
 * Others are left out: nvcc adds its device runtime to every link, with PTX for the
 * newest card only, and few programs use it.  @left_out says why, for the last one. */
static int
parse_units(const struct gp_image_wrapper *wrapper, unsigned sm,
            struct ptx_module **mods, uint32_t *ret_n, struct gp_err *left_out,
            struct gp_err *err)
{
    uint32_t n = 0;

    for (size_t i = 0; i < wrapper->n_parts; i++) {
        struct gp_err why = {0};
        struct gp_image part;
        int r;

        r = gp_image_measure(wrapper->parts[i], GP_IMAGE_UNBOUNDED, &part, &why);
        if (r == 0)
            r = parse_one(&part, sm, &mods[n], &why);
        if (r == -ENOEXEC) {
            gp_err_wrap(&why, r, "unit %zu of a device link is left out", i);
            gp_log_info("softgpu", "%s", why.msg);
            *left_out = why;
        } else if (r < 0) {
            return gp_err_set(err, r, "unit %zu of a device link: %s", i,
                              gp_err_msg(&why, r));
        } else {
            n++;
        }
    }
    *ret_n = n;
    return 0;
}

/* What is missing may be in what was left out: then that is the thing to say. */
static int
link_units(struct ptx_module **mods, uint32_t n, struct ptx_module **ret,
           const struct gp_err *left_out, struct gp_err *err)
{
    struct gp_err why = {0};
    int r;

    if (n == 0)
        return gp_err_set(err, -ENOEXEC, "%s", left_out->msg);
    r = ptx_link(mods, n, ret, &why);
    if (r == -ENOENT && left_out->code)
        return gp_err_set(err, -ENOEXEC, "%s; %s", why.msg, left_out->msg);
    return r < 0 ? gp_err_set(err, r, "%s", gp_err_msg(&why, r)) : 0;
}

static int
parse_parts(const struct gp_image_wrapper *wrapper, unsigned sm,
            struct ptx_module **ret, struct gp_err *err)
{
    struct ptx_module **mods = calloc(wrapper->n_parts, sizeof(struct ptx_module *));
    struct gp_err left_out = {0};
    uint32_t n = 0;
    int r;

    if (!mods)
        return gp_err_set(err, -ENOMEM, "no memory to link");
    r = parse_units(wrapper, sm, mods, &n, &left_out, err);
    if (r == 0)
        r = link_units(mods, n, ret, &left_out, err);
    free_modules(mods, wrapper->n_parts);
    return r;
}

int
sg_image_parse(const void *image, size_t bound, unsigned sm, struct ptx_module **ret,
               struct gp_err *err)
{
    struct gp_image_wrapper found;
    int r = open_image(image, bound, &found, err);

    if (r < 0)
        return r;
    return found.n_parts ? parse_parts(&found, sm, ret, err)
                         : parse_one(&found.image, sm, ret, err);
}
