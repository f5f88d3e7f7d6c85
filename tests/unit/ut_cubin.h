/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code made by a test: the sections that tell of kernels, and no code. */
#ifndef UT_CUBIN_H
#define UT_CUBIN_H

#include "ut.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#define UT_CUBIN_SECTIONS 16

struct ut_cubin {
    uint8_t data[32768];
    size_t len;
    char names[4096];
    size_t names_len;
    Elf64_Shdr sections[UT_CUBIN_SECTIONS];
    unsigned n;
};

static inline void
ut_cubin_put(struct ut_cubin *c, const void *bytes, size_t n)
{
    assert_true(c->len + n <= sizeof(c->data));
    memcpy(c->data + c->len, bytes, n);
    c->len += n;
}

/* What follows belongs to a section of this name. */
static inline void
ut_cubin_section(struct ut_cubin *c, const char *name)
{
    Elf64_Shdr *sh = &c->sections[c->n++];

    assert_true(c->n <= UT_CUBIN_SECTIONS);
    sh->sh_name = (Elf64_Word)c->names_len;
    sh->sh_type = 0x70000000;
    sh->sh_offset = c->len;
    memcpy(c->names + c->names_len, name, strlen(name) + 1);
    c->names_len += strlen(name) + 1;
}

static inline void
ut_cubin_begin(struct ut_cubin *c)
{
    memset(c, 0, sizeof(*c));
    c->len = sizeof(Elf64_Ehdr);
    c->names_len = c->n = 1; /* an empty name, an empty section */
}

static inline void
ut_cubin_kernel(struct ut_cubin *c, const char *name)
{
    char section[200] = ".nv.info.";

    memcpy(section + strlen(section), name, strlen(name) + 1);
    ut_cubin_section(c, section);
}

/* A record of four bytes, or of @n behind them. */
static inline void
ut_cubin_value(struct ut_cubin *c, unsigned attr, unsigned value)
{
    const uint8_t record[4] = {3, (uint8_t)attr, (uint8_t)value, (uint8_t)(value >> 8)};

    ut_cubin_put(c, record, sizeof(record));
}

static inline void
ut_cubin_param(struct ut_cubin *c, unsigned ordinal, unsigned offset, unsigned size,
               bool wide)
{
    const uint32_t words[4] = {4 | (wide ? 0x45u : 0x17u) << 8 | 12u << 16, 0,
                               ordinal | offset << 16,
                               wide ? size | 0x5000000u : size << 18 | 0x1f500u};

    ut_cubin_put(c, words, sizeof(words));
}

static inline void
ut_cubin_bytes(struct ut_cubin *c, unsigned bytes)
{
    ut_cubin_value(c, 0x19, bytes);
}

/* The names, the table, the header. */
static inline void
ut_cubin_end(struct ut_cubin *c)
{
    Elf64_Ehdr eh = {.e_type = ET_EXEC,
                     .e_machine = 190,
                     .e_ehsize = sizeof(eh),
                     .e_shentsize = sizeof(Elf64_Shdr)};

    memcpy(eh.e_ident, ELFMAG "\2\1\1\x41\x08", 9);
    ut_cubin_section(c, ".shstrtab");
    for (unsigned i = 1; i < c->n; i++)
        c->sections[i].sh_size =
            (i + 1 < c->n ? c->sections[i + 1].sh_offset : c->len + c->names_len) -
            c->sections[i].sh_offset;
    ut_cubin_put(c, c->names, c->names_len);
    c->len = (c->len + 7) & ~(size_t)7;
    eh.e_shoff = c->len;
    eh.e_shnum = (Elf64_Half)c->n;
    eh.e_shstrndx = (Elf64_Half)(c->n - 1);
    ut_cubin_put(c, c->sections, c->n * sizeof(Elf64_Shdr));
    memcpy(c->data, &eh, sizeof(eh));
}

#endif
