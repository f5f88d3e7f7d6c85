/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_image.h"

#include "gp_err.h"
#include "gp_fatbin.h"
#include "gp_log.h"
#include "ptx_ast.h"
#include "ptx_link.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- choosing ---- */

static bool
fits(const struct gp_fatbin_entry *entry, unsigned sm)
{
    return entry->kind == GP_FATBIN_PTX && gp_fatbin_fits(entry, sm);
}

/* What an image holds, in words: "machine code for sm_75, sm_86". */
struct inventory {
    char code[160];
    char ptx[160];
    bool has_lto;
};

static void
note(char list[160], const char *prefix, const struct gp_fatbin_entry *entry)
{
    const char *suffix = entry->arch_specific ? "a" : entry->family_specific ? "f" : "";
    size_t used = strlen(list);
    char item[32];

    snprintf(item, sizeof(item), "%s%u%s", prefix, entry->sm, suffix);
    if (used + strlen(item) + 3 < 160)
        snprintf(list + used, 160 - used, "%s%s", used ? ", " : "", item);
}

static void
take_stock(struct inventory *inv, const struct gp_fatbin_entry *entry)
{
    if (entry->kind == GP_FATBIN_ELF)
        note(inv->code, "sm_", entry);
    else if (entry->kind == GP_FATBIN_PTX)
        note(inv->ptx, "compute_", entry);
    else if (entry->kind == GP_FATBIN_LTO)
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
        "with -gencode arch=compute_%u,code=compute_%u; for Triton, JAX, Mojo, "
        "CuPy and NVRTC give `gpupool run` --keep-ptx; for numba uninstall nvjitlink",
        *inv->code ? "machine code for " : "", inv->code,
        *inv->code     ? ""
        : inv->has_lto ? "LTO code"
                       : "no code",
        sm, sm);
}

static int
pick_entry(const struct gp_image *fatbin, unsigned sm, struct gp_fatbin_entry *ret,
           struct gp_err *err)
{
    struct gp_fatbin_entry entry;
    struct inventory inv = {0};
    unsigned n = 0;
    bool found = false;
    size_t pos = 0;
    int r;

    while ((r = gp_fatbin_next(fatbin->data, fatbin->len, &pos, &entry, err)) == 1) {
        if (++n > GP_FATBIN_MAX_ENTRIES)
            return gp_err_set(err, -E2BIG, "fat binary with more than %d entries",
                              GP_FATBIN_MAX_ENTRIES);
        take_stock(&inv, &entry);
        if (fits(&entry, sm) && (!found || gp_fatbin_better(&entry, ret))) {
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
    uint32_t flags;
    struct inventory inv = {0};
    struct gp_fatbin_entry entry = {.kind = GP_FATBIN_ELF};

    memcpy(&flags, data + offsetof(Elf64_Ehdr, e_flags), sizeof(flags));
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
unpack_text(const struct gp_fatbin_entry *entry, char **ret, size_t *ret_len,
            struct gp_err *err)
{
    int r = gp_fatbin_unpack(entry, ret, ret_len, err);

    if (r == 0)
        *ret_len = strnlen(*ret, *ret_len); /* padded with NULs */
    return r;
}

static int
image_ptx(const struct gp_image *image, unsigned sm, char **ret, size_t *ret_len,
          struct gp_err *err)
{
    struct gp_fatbin_entry entry;
    int r;

    switch (image->kind) {
    case GP_IMAGE_PTX:
        return text_copy(image, ret, ret_len, err);
    case GP_IMAGE_ELF:
        return refuse_elf(image, sm, err);
    case GP_IMAGE_FATBIN:
        r = pick_entry(image, sm, &entry, err);
        return r < 0 ? r : unpack_text(&entry, ret, ret_len, err);
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
    struct gp_fatbin_entry entry = {
        .kind = GP_FATBIN_PTX,
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
