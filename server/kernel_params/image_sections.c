/* SPDX-License-Identifier: Apache-2.0 */
#include "image_sections.h"

#include "gp_err.h"

#include <errno.h>
#include <string.h>

bool
image_sections_inside(const struct image_sections *s, uint64_t offset, uint64_t size)
{
    return offset <= s->len && size <= s->len - offset;
}

void
image_sections_get(const struct image_sections *s, uint64_t i, Elf64_Shdr *ret)
{
    memcpy(ret, s->data + s->table + i * sizeof(*ret), sizeof(*ret));
}

const char *
image_sections_name(const struct image_sections *s, const Elf64_Shdr *sh)
{
    return sh->sh_name < s->names_len ? s->names + sh->sh_name : "";
}

static void
find_names(struct image_sections *s, uint64_t at)
{
    Elf64_Shdr sh;

    if (at >= s->n)
        return;
    image_sections_get(s, at, &sh);
    if (sh.sh_type == SHT_NOBITS ||
        !image_sections_inside(s, sh.sh_offset, sh.sh_size) || !sh.sh_size ||
        s->data[sh.sh_offset + sh.sh_size - 1] != 0)
        return;
    s->names = (const char *)s->data + sh.sh_offset;
    s->names_len = sh.sh_size;
}

/* More sections than the header has room for are counted in the first of them. */
int
image_sections_open(struct image_sections *ret, const void *image, size_t len,
                    struct gp_err *err)
{
    struct image_sections s = {.data = image, .len = len};
    uint64_t bytes, names;
    Elf64_Ehdr eh;
    Elf64_Shdr first;

    if (len < sizeof(eh) || memcmp(image, ELFMAG, SELFMAG) != 0)
        return gp_err_set(err, -EINVAL, "machine code is shorter than its header");
    memcpy(&eh, image, sizeof(eh));
    s.table = eh.e_shoff;
    if (eh.e_shentsize != sizeof(first) ||
        !image_sections_inside(&s, s.table, sizeof(first)))
        return gp_err_set(err, -EINVAL, "machine code without a table of sections");
    image_sections_get(&s, 0, &first);
    s.n = eh.e_shnum ? eh.e_shnum : first.sh_size;
    names = eh.e_shstrndx == SHN_XINDEX ? first.sh_link : eh.e_shstrndx;
    if (!gp_mul_ok(s.n, (uint64_t)sizeof(first), &bytes) ||
        !image_sections_inside(&s, s.table, bytes))
        return gp_err_set(err, -EINVAL, "a table of sections reaches beyond its image");
    find_names(&s, names);
    *ret = s;
    return 0;
}
