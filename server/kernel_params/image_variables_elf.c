/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of machine code.
 *
 * A linker has put them into few sections, whose sizes are those of the memory that a
 * driver allocates: .nv.global (zero at first, no bytes in the image), .nv.global.init
 * and the banks of constants that belong to the whole image.  A section of a kernel has
 * the kernel's name behind its own; those of shared and local memory and of parameters
 * take no memory of the card for a variable, but one that is larger than any kernel can
 * have is counted, whatever it is called.
 */
#include "image_variables.h"

#include <elf.h>
#include <string.h>

/* Shared memory of a block, local memory of a thread and parameters are less. */
#define OF_KERNEL_MAX (UINT64_C(1) << 20)

struct reader {
    const uint8_t *data;
    size_t len;
    const char *names; /* of sections; NULL: they have none */
    size_t names_len;
};

static bool
inside(const struct reader *r, uint64_t offset, uint64_t size)
{
    return offset <= r->len && size <= r->len - offset;
}

static void
section(const struct reader *r, uint64_t table, uint64_t i, Elf64_Shdr *ret)
{
    memcpy(ret, r->data + table + i * sizeof(*ret), sizeof(*ret));
}

static const char *
name_of(const struct reader *r, const Elf64_Shdr *sh)
{
    return r->names && sh->sh_name < r->names_len ? r->names + sh->sh_name : "";
}

static bool
begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* Shared or local memory, a kernel's constants, or what a later link needs. */
static bool
is_of_kernel(const char *name)
{
    static const char constant[] = ".nv.constant";

    if (begins(name, ".nv.shared.") || begins(name, ".nv.local.") ||
        begins(name, ".nv.merc."))
        return true;
    if (!begins(name, constant))
        return false;
    name += strlen(constant);
    return name[strspn(name, "0123456789")] == '.';
}

static uint64_t
section_bytes(const struct reader *r, const Elf64_Shdr *sh)
{
    const char *name = name_of(r, sh);

    if (!(sh->sh_flags & SHF_ALLOC) || sh->sh_flags & SHF_EXECINSTR)
        return 0;
    if (!(sh->sh_flags & SHF_WRITE) && !begins(name, ".nv.constant") &&
        !begins(name, ".nv.global"))
        return 0;
    if (is_of_kernel(name) && sh->sh_size <= OF_KERNEL_MAX)
        return 0;
    return sh->sh_size;
}

/* More sections than the header has room for are counted in the first of them. */
static bool
open_sections(struct reader *r, const Elf64_Ehdr *eh, uint64_t *ret_n)
{
    uint64_t n = eh->e_shnum, names = eh->e_shstrndx, bytes;
    Elf64_Shdr sh;

    if (eh->e_shentsize != sizeof(sh) || !inside(r, eh->e_shoff, sizeof(sh)))
        return false;
    section(r, eh->e_shoff, 0, &sh);
    if (n == 0)
        n = sh.sh_size;
    if (names == SHN_XINDEX)
        names = sh.sh_link;
    if (!gp_mul_ok(n, (uint64_t)sizeof(sh), &bytes) || !inside(r, eh->e_shoff, bytes))
        return false;
    *ret_n = n;
    if (names >= n)
        return true;
    section(r, eh->e_shoff, names, &sh);
    if (sh.sh_type == SHT_NOBITS || !inside(r, sh.sh_offset, sh.sh_size) ||
        !sh.sh_size || r->data[sh.sh_offset + sh.sh_size - 1] != 0)
        return true;
    r->names = (const char *)r->data + sh.sh_offset;
    r->names_len = sh.sh_size;
    return true;
}

uint64_t
image_variables_elf(const void *image, size_t len)
{
    struct reader r = {.data = image, .len = len};
    uint64_t n = 0, sum = 0;
    Elf64_Ehdr eh;
    Elf64_Shdr sh;

    if (len < sizeof(eh) || memcmp(image, ELFMAG, SELFMAG) != 0)
        return 0;
    memcpy(&eh, image, sizeof(eh));
    if (!open_sections(&r, &eh, &n))
        return 0;
    for (uint64_t i = 0; i < n; i++) {
        section(&r, eh.e_shoff, i, &sh);
        sum = image_variables_add(sum, section_bytes(&r, &sh));
    }
    return sum;
}
