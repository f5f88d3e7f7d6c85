/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of machine code.
 *
 * Each has a section .nv.info.NAME of records: a form, an attribute, and either two
 * bytes of value or a length and as many bytes.  One record tells a parameter's number,
 * offset and size, in either of two shapes; another the bytes of all of them.
 */
#include "kernel_params.h"

#include "gp_err.h"
#include "image_sections.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INFO_PREFIX ".nv.info."

enum {
    FORM_BYTES = 4,         /* a length, and so many bytes */
    ATTR_PARAM = 0x17,      /* the size in 14 bits */
    ATTR_PARAM_WIDE = 0x45, /* for kernels with a parameter that is larger */
    ATTR_PARAM_BYTES = 0x19,
};

struct record {
    uint32_t index;
    uint16_t ordinal;
    uint16_t offset;
    uint32_t size;
};

static_assert(sizeof(struct record) == 12, "a record of the image");

struct reader {
    struct kernel_params_set *all;

    /* The kernel at hand. */
    const char *why;
    uint32_t n; /* one more than the highest number */
    uint32_t bytes;
    bool seen[KERNEL_PARAMS_PARAMS_MAX];
    struct kernel_param params[KERNEL_PARAMS_PARAMS_MAX];
};

/* ---- records ---- */

static void
give_up(struct reader *r, const char *why)
{
    if (!r->why)
        r->why = why;
}

static void
read_param(struct reader *r, const uint8_t *bytes, size_t len, bool wide)
{
    struct record rec;

    if (len != sizeof(rec)) {
        give_up(r, "a record of a parameter has another length");
        return;
    }
    memcpy(&rec, bytes, sizeof(rec));
    if (rec.ordinal >= KERNEL_PARAMS_PARAMS_MAX) {
        give_up(r, "more parameters than a launch can take");
    } else if (r->seen[rec.ordinal]) {
        give_up(r, "one parameter is told twice");
    } else {
        r->seen[rec.ordinal] = true;
        r->params[rec.ordinal] = (struct kernel_param){
            rec.offset, wide ? rec.size & 0xffff : rec.size >> 18};
        r->n = gp_max(r->n, rec.ordinal + 1u);
    }
}

/* Every number once, and no more bytes than the kernel takes. */
static void
check(struct reader *r)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        if (!r->seen[i])
            give_up(r, "the records leave a parameter out");
        end = r->params[i].offset + r->params[i].size;
    }
    if (end > r->bytes)
        give_up(r, "the records tell more bytes than the kernel takes");
    if (r->bytes && !r->n)
        give_up(r, "its machine code does not tell its parameters");
}

static int
read_kernel(struct reader *r, const char *name, const uint8_t *at, size_t len,
            struct gp_err *err)
{
    r->why = NULL;
    r->n = r->bytes = 0;
    while (len >= 4 && !r->why) {
        uint8_t form = at[0], attr = at[1];
        uint16_t value;
        size_t step = 4;

        memcpy(&value, at + 2, sizeof(value));
        if (form == FORM_BYTES)
            step += value;
        if (step > len)
            break;
        if (form == FORM_BYTES && (attr == ATTR_PARAM || attr == ATTR_PARAM_WIDE))
            read_param(r, at + 4, value, attr == ATTR_PARAM_WIDE);
        else if (attr == ATTR_PARAM_BYTES)
            r->bytes = value;
        at += step;
        len -= step;
    }
    if (len)
        give_up(r, "its records end inside of one");
    check(r);
    memset(r->seen, 0, r->n * sizeof(r->seen[0]));
    return kernel_params_add(r->all, name, strlen(name), r->params, r->n, r->why, err);
}

/* ---- sections ---- */

static int
read_section(struct reader *r, const struct image_sections *s, const Elf64_Shdr *sh,
             struct gp_err *err)
{
    const char *name = image_sections_name(s, sh);
    size_t prefix = strlen(INFO_PREFIX);

    if (sh->sh_type == SHT_NOBITS || strncmp(name, INFO_PREFIX, prefix) != 0)
        return 0;
    if (!image_sections_inside(s, sh->sh_offset, sh->sh_size))
        return gp_err_set(err, -EINVAL, "a section of machine code reaches beyond it");
    return read_kernel(r, name + prefix, s->data + sh->sh_offset, sh->sh_size, err);
}

int
kernel_params_elf(const void *image, size_t len, struct kernel_params_set *all,
                  struct gp_err *err)
{
    CLEANUP_FREE struct reader *r = calloc(1, sizeof(*r));
    struct image_sections s;
    Elf64_Shdr sh;
    int rc;

    if (!r)
        return gp_err_set(err, -ENOMEM, "no memory to read machine code");
    r->all = all;
    rc = image_sections_open(&s, image, len, err);
    if (rc == 0 && !s.names)
        rc = gp_err_set(err, -EINVAL, "machine code whose sections have no names");
    for (uint64_t i = 0; rc == 0 && i < s.n; i++) {
        image_sections_get(&s, i, &sh);
        rc = read_section(r, &s, &sh, err);
    }
    return rc;
}
