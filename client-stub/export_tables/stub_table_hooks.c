/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two arrays of flags by which a runtime checks whether a tool wants callbacks, indexed
 * by the runtime's callback numbers.  They stay zero, so there are no callbacks.  They
 * are never freed, because runtimes read them while the process exits.
 */
#include "stub_table.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define HOOKS_WORDS 7

/* Runtime 13.0 refuses to start below 523; room for many later ones. */
static uint32_t api_flags[8192];
/* At least 14 are wanted, more are read. */
static uint32_t domain_flags[1024];

static void
hooks_api_flags(uint32_t **flags, size_t *count)
{
    *flags = api_flags;
    *count = sizeof(api_flags) / sizeof(api_flags[0]);
}

static void
hooks_domain_flags(uint32_t **flags, size_t *count)
{
    *flags = domain_flags;
    *count = sizeof(domain_flags) / sizeof(domain_flags[0]);
}

static CUresult
hooks_unserved(void)
{
    return stub_table_unserved(&stub_table_hooks);
}

static const struct {
    uintptr_t size;
    CUresult (*unused_1)(void);
    void (*api_flags)(uint32_t **, size_t *);
    CUresult (*unused_3[3])(void);
    void (*domain_flags)(uint32_t **, size_t *);
} words = {
    .size = sizeof(words),
    .unused_1 = hooks_unserved,
    .api_flags = hooks_api_flags,
    .unused_3 = {hooks_unserved, hooks_unserved, hooks_unserved},
    .domain_flags = hooks_domain_flags,
};

static_assert(sizeof(words) == HOOKS_WORDS * 8, "the runtime checks the size");

const struct stub_table stub_table_hooks = {
    .name = "hooks",
    .id = {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20,
           0x0c, 0x0a, 0x66},
    .words = &words,
};
