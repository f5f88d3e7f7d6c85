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

#include "image_sections.h"

#include <string.h>

/* Shared memory of a block, local memory of a thread and parameters are less. */
#define OF_KERNEL_MAX (UINT64_C(1) << 20)

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
section_bytes(const struct image_sections *s, const Elf64_Shdr *sh)
{
    const char *name = image_sections_name(s, sh);

    if (!(sh->sh_flags & SHF_ALLOC) || sh->sh_flags & SHF_EXECINSTR)
        return 0;
    if (!(sh->sh_flags & SHF_WRITE) && !begins(name, ".nv.constant") &&
        !begins(name, ".nv.global"))
        return 0;
    if (is_of_kernel(name) && sh->sh_size <= OF_KERNEL_MAX)
        return 0;
    return sh->sh_size;
}

uint64_t
image_variables_elf(const void *image, size_t len)
{
    struct image_sections s;
    uint64_t sum = 0;
    Elf64_Shdr sh;

    if (image_sections_open(&s, image, len, NULL) < 0)
        return 0;
    for (uint64_t i = 0; i < s.n; i++) {
        image_sections_get(&s, i, &sh);
        sum = image_variables_add(sum, section_bytes(&s, &sh));
    }
    return sum;
}
