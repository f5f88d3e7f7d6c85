/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_image.h"

#include "gp_err.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

/* Bytes that may be read.  Offsets come from the image itself. */
struct view {
    const uint8_t *data;
    uint64_t bound; /* at most GP_IMAGE_MAX_BYTES */
};

static bool
peek(const struct view *view, uint64_t off, void *to, size_t len)
{
    if (off > view->bound || len > view->bound - off)
        return false;
    memcpy(to, view->data + off, len);
    return true;
}

/* Byte by byte, so that a text shorter than the magic is not read beyond. */
static bool
starts_with(const struct view *view, const char magic[4])
{
    for (size_t i = 0; i < 4; i++) {
        if (i >= view->bound || view->data[i] != (uint8_t)magic[i])
            return false;
    }
    return true;
}

static int
too_big(struct gp_err *err, const char *what, uint64_t len, uint64_t bound)
{
    return gp_err_set(err, -E2BIG, "%s claims %llu bytes, at most %llu can be there",
                      what, (unsigned long long)len, (unsigned long long)bound);
}

static int
measure_fatbin(const struct view *view, size_t *ret, struct gp_err *err)
{
    uint16_t version, head;
    uint64_t body, total;

    if (!peek(view, 4, &version, 2) || !peek(view, 6, &head, 2) ||
        !peek(view, 8, &body, 8))
        return gp_err_set(err, -EINVAL, "fat binary is shorter than its header");
    if (version != 1 || head < 16)
        return gp_err_set(err, -EINVAL, "fat binary of version %u, header of %u bytes",
                          version, head);
    if (!gp_add_ok((uint64_t)head, body, &total) || total > view->bound)
        return too_big(err, "fat binary", body, view->bound);
    *ret = (size_t)total;
    return 0;
}

/* *end = max(*end, off + n * size); false on overflow. */
static bool
extend(uint64_t *end, uint64_t off, uint64_t n, uint64_t size)
{
    uint64_t bytes;

    if (!gp_mul_ok(n, size, &bytes) || !gp_add_ok(off, bytes, &bytes))
        return false;
    *end = gp_max(*end, bytes);
    return true;
}

/* Has it no bytes in the image?  Machine code that is still to be linked has types of
 * its own for zeroed variables and for shared memory. */
static bool
is_empty(const Elf64_Shdr *sh)
{
    enum { GLOBAL = 0x70000007, SHARED = 0x7000000a };

    switch (sh->sh_type) {
    case SHT_NULL:
    case SHT_NOBITS:
    case GLOBAL:
    case SHARED:
        return true;
    default:
        return false;
    }
}

static int
measure_elf(const struct view *view, size_t *ret, struct gp_err *err)
{
    uint64_t end = sizeof(Elf64_Ehdr), n;
    Elf64_Ehdr eh;
    Elf64_Shdr sh;

    if (!peek(view, 0, &eh, sizeof(eh)))
        return gp_err_set(err, -EINVAL, "ELF image is shorter than its header");
    if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_ident[EI_DATA] != ELFDATA2LSB)
        return gp_err_set(err, -EINVAL, "ELF image is not 64-bit little-endian");
    if ((eh.e_shoff && eh.e_shentsize != sizeof(sh)) ||
        (eh.e_phnum && eh.e_phentsize != sizeof(Elf64_Phdr)))
        return gp_err_set(err, -EINVAL, "ELF image with foreign header sizes");
    n = eh.e_shnum;
    /* 65,280 sections and more: the number is in the first of them */
    if (eh.e_shoff && n == 0)
        n = peek(view, eh.e_shoff, &sh, sizeof(sh)) ? sh.sh_size : UINT64_MAX;
    if (!extend(&end, eh.e_shoff, eh.e_shoff ? n : 0, sizeof(sh)) ||
        !extend(&end, eh.e_phoff, eh.e_phnum, sizeof(Elf64_Phdr)) || end > view->bound)
        return too_big(err, "ELF image", end, view->bound);
    for (uint64_t i = 0; eh.e_shoff && i < n; i++) {
        if (!peek(view, eh.e_shoff + i * sizeof(sh), &sh, sizeof(sh)) ||
            (!is_empty(&sh) && !extend(&end, sh.sh_offset, sh.sh_size, 1)) ||
            end > view->bound)
            return too_big(err, "ELF image", end, view->bound);
    }
    *ret = (size_t)end;
    return 0;
}

/* Text may start with blanks, a comment, a directive; nothing else is PTX. */
static bool
may_start_text(uint8_t c)
{
    return c == '.' || c == '/' || c == '#' || c == ' ' || (c >= '\t' && c <= '\r');
}

static int
measure_text(const struct view *view, size_t *ret, struct gp_err *err)
{
    size_t max = (size_t)gp_min(view->bound, (uint64_t)GP_IMAGE_MAX_PTX + 1);

    if (!view->bound || !may_start_text(view->data[0]))
        return gp_err_set(err, -EINVAL, "neither PTX text, fat binary nor ELF");
    *ret = strnlen((const char *)view->data, max);
    if (*ret > GP_IMAGE_MAX_PTX)
        return too_big(err, "PTX text", *ret, GP_IMAGE_MAX_PTX);
    return 0;
}

int
gp_image_measure(const void *data, size_t bound, struct gp_image *ret,
                 struct gp_err *err)
{
    struct view view = {data, gp_min(bound, GP_IMAGE_MAX_BYTES)};
    struct gp_image image = {.data = data};
    int r;

    if (!data)
        return gp_err_set(err, -EINVAL, "no image");
    if (starts_with(&view, "\xb1\x43\x62\x46")) {
        image.kind = GP_IMAGE_WRAPPER;
        image.len = 24;
        r = bound < image.len ? gp_err_set(err, -EINVAL, "wrapper is cut short") : 0;
    } else if (starts_with(&view, "\x50\xed\x55\xba")) {
        image.kind = GP_IMAGE_FATBIN;
        r = measure_fatbin(&view, &image.len, err);
    } else if (starts_with(&view, ELFMAG)) {
        image.kind = GP_IMAGE_ELF;
        r = measure_elf(&view, &image.len, err);
    } else {
        image.kind = GP_IMAGE_PTX;
        r = measure_text(&view, &image.len, err);
    }
    if (r == 0)
        *ret = image;
    return r;
}

struct raw_wrapper {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *const *parts;
};

int
gp_image_unwrap(const void *data, struct gp_image_wrapper *ret, struct gp_err *err)
{
    struct gp_image_wrapper wrapper = {0};
    struct raw_wrapper raw;
    int r;

    memcpy(&raw, data, sizeof(raw));
    if (raw.magic != GP_IMAGE_WRAPPER_MAGIC || raw.version < 1 || raw.version > 2)
        return gp_err_set(err, -EINVAL, "fat binary wrapper of unknown version %u",
                          raw.version);
    r = gp_image_measure(raw.data, GP_IMAGE_UNBOUNDED, &wrapper.image, err);
    if (r < 0)
        return gp_err_wrap(err, r, "in a wrapper");
    if (wrapper.image.kind == GP_IMAGE_WRAPPER)
        return gp_err_set(err, -EINVAL, "a wrapper in a wrapper");
    wrapper.version = raw.version;
    if (raw.version == 2 && raw.parts) {
        wrapper.parts = raw.parts;
        while (raw.parts[wrapper.n_parts]) {
            if (++wrapper.n_parts > GP_IMAGE_MAX_PARTS)
                return gp_err_set(err, -E2BIG, "wrapper with more than %d parts",
                                  GP_IMAGE_MAX_PARTS);
        }
    }
    *ret = wrapper;
    return 0;
}
