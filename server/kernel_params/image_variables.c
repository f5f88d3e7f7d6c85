/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of an image of any kind.
 *
 * A driver loads the entries of a fat binary for one target.  Which target it chooses
 * depends on the driver: machine code by itself, but PTX when it is told so, and a
 * software card always.  So each target that fits the card is measured, and the largest
 * one counts.
 */
#include "image_variables.h"

#include "gp_fatbin.h"
#include "gp_image.h"

#include <errno.h>
#include <string.h>

/* What no driver can read has no variables; what only we cannot read may have any
 * number of them. */
static uint64_t
entry_bytes(const struct gp_fatbin_entry *entry, bool is_unit)
{
    CLEANUP_FREE char *bytes = NULL;
    size_t len;
    int r = gp_fatbin_unpack(entry, &bytes, &len, NULL);

    if (r < 0)
        return r == -EINVAL ? 0 : UINT64_MAX;
    return entry->kind == GP_FATBIN_PTX ? image_variables_ptx(bytes, len, is_unit)
                                        : image_variables_elf(bytes, len);
}

/* Entries of one target are loaded together. */
struct target {
    uint16_t kind;
    uint32_t sm;
    bool arch_specific, family_specific;
    uint64_t bytes;
};

/* So many that fit one card; the largest number seen was 5. */
#define TARGETS_MAX 64u

static struct target *
target_of(struct target *all, unsigned *n, const struct gp_fatbin_entry *entry)
{
    for (unsigned i = 0; i < *n; i++)
        if (all[i].kind == entry->kind && all[i].sm == entry->sm &&
            all[i].arch_specific == entry->arch_specific &&
            all[i].family_specific == entry->family_specific)
            return &all[i];
    if (*n == TARGETS_MAX)
        return NULL;
    all[*n] = (struct target){.kind = entry->kind,
                              .sm = entry->sm,
                              .arch_specific = entry->arch_specific,
                              .family_specific = entry->family_specific};
    return &all[(*n)++];
}

static uint64_t
fatbin_bytes(const struct gp_image *fatbin, unsigned sm, bool is_unit)
{
    uint64_t left = IMAGE_VARIABLES_UNPACKED_MAX, most = 0;
    struct target targets[TARGETS_MAX];
    struct gp_fatbin_entry entry;
    unsigned n_targets = 0;
    size_t pos = 0;

    while (gp_fatbin_next(fatbin->data, fatbin->len, &pos, &entry, NULL) == 1) {
        struct target *target;

        if (!gp_fatbin_fits(&entry, sm))
            continue;
        target = target_of(targets, &n_targets, &entry);
        if (!target || entry.raw_len > left)
            return UINT64_MAX;
        left -= entry.raw_len;
        target->bytes =
            image_variables_add(target->bytes, entry_bytes(&entry, is_unit));
        most = gp_max(most, target->bytes);
    }
    return most;
}

uint64_t
image_variables(const void *data, size_t len, unsigned sm, bool is_unit)
{
    struct gp_image image;

    if (gp_image_measure(data, len, &image, NULL) < 0)
        return 0;
    switch (image.kind) {
    case GP_IMAGE_PTX:
        return image_variables_ptx(image.data, image.len, is_unit);
    case GP_IMAGE_ELF:
        return image_variables_elf(image.data, image.len);
    case GP_IMAGE_FATBIN:
        return fatbin_bytes(&image, sm, is_unit);
    default:
        return 0; /* pointers */
    }
}
