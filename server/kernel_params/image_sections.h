/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of machine code (ELF, 64 bits), for kernel_params_elf.c and
 * image_variables_elf.c.
 *
 * A plain value that borrows the image; any thread.  Images are hostile: the table of
 * sections lies inside, and so do their names, but what a section says of itself is its
 * own word.
 */
#ifndef IMAGE_SECTIONS_H
#define IMAGE_SECTIONS_H

#include "gp_base.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

struct gp_err;

struct image_sections {
    const uint8_t *data;
    size_t len;
    uint64_t table, n; /* where it begins, and how many there are */
    const char *names; /* ends with a NUL; NULL: they have none */
    size_t names_len;
};

/* -EINVAL, with words: it is too short, or has no table of sections inside. */
int image_sections_open(struct image_sections *ret, const void *image, size_t len,
                        struct gp_err *err);
/* Section @i of those that there are. */
void image_sections_get(const struct image_sections *s, uint64_t i, Elf64_Shdr *ret);
/* "": it has none. */
const char *image_sections_name(const struct image_sections *s, const Elf64_Shdr *sh);
bool image_sections_inside(const struct image_sections *s, uint64_t offset,
                           uint64_t size);

#endif
