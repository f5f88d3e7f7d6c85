/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_names.h"

#include <errno.h>
#include <string.h>

#define FIRST_SLOTS 4096u

static const char *const word_texts[PTX_W_COUNT] = {
#define WORD3(id, text, size) [PTX_W_##id] = text,
#define WORD2(id, text) [PTX_W_##id] = text,
    PTX_TYPE_WORDS(WORD3) PTX_SPACE_WORDS(WORD2) PTX_OPCODE_WORDS(WORD2)
        PTX_MODIFIER_WORDS(WORD2) PTX_DIRECTIVE_WORDS(WORD2)
#undef WORD3
#undef WORD2
};

static const uint8_t type_sizes[PTX_W_TYPE_LAST + 1] = {
#define SIZE3(id, text, size) [PTX_W_##id] = size,
    PTX_TYPE_WORDS(SIZE3)
#undef SIZE3
};

static inline uint32_t
hash_text(uint32_t seed, const char *text, size_t len)
{
    uint32_t h = seed;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)text[i]) * 0x01000193u;
    h ^= h >> 15;
    return h * 0x2c1b3c6du;
}

static bool
slots_grow(struct ptx_names *names)
{
    uint32_t old = names->slots ? names->mask + 1 : 0;
    uint32_t size = old ? old * 2 : FIRST_SLOTS;
    struct ptx_name **slots;

    if (old > UINT32_MAX / 4)
        return false;
    slots = calloc(size, sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = 0; i < old; i++) {
        struct ptx_name *name = names->slots[i];
        uint32_t at;

        if (!name)
            continue;
        for (at = name->sym.hash & (size - 1); slots[at]; at = (at + 1) & (size - 1))
            ;
        slots[at] = name;
    }
    free(names->slots);
    names->slots = slots;
    names->mask = size - 1;
    return true;
}

/* The slot that holds the name or the empty one where it belongs. */
static inline struct ptx_name **
slot_find(const struct ptx_names *names, const char *text, size_t len, uint32_t hash)
{
    uint32_t at = hash & names->mask;
    struct ptx_name *name;

    while ((name = names->slots[at])) {
        if (name->sym.hash == hash && name->sym.len == len &&
            memcmp(name->sym.name, text, len) == 0)
            break;
        at = (at + 1) & names->mask;
    }
    return &names->slots[at];
}

struct ptx_name *
ptx_names_find(const struct ptx_names *names, const char *text, size_t len)
{
    return *slot_find(names, text, len, hash_text(names->seed, text, len));
}

struct ptx_name *
ptx_names_intern(struct ptx_names *names, const char *text, size_t len)
{
    uint32_t hash = hash_text(names->seed, text, len);
    struct ptx_name **slot = slot_find(names, text, len, hash);
    struct ptx_name *name = *slot;
    char *copy;

    if (likely(name))
        return name;
    if (names->n >= names->mask / 2) {
        if (!slots_grow(names))
            return NULL;
        slot = slot_find(names, text, len, hash);
    }
    /* One piece: the name and its spelling. */
    name = ptx_arena_alloc(names->arena, sizeof(*name) + len + 1);
    if (!name)
        return NULL;
    copy = (char *)(name + 1);
    memcpy(copy, text, len);
    name->sym = (struct ptx_sym){.name = copy, .len = (uint32_t)len, .hash = hash};
    *slot = name;
    names->n++;
    return name;
}

unsigned
ptx_names_word(struct ptx_names *names, struct ptx_name *name)
{
    const struct ptx_name **slot;

    if (name->word)
        return name->word;
    if (names->words.n >= PTX_MAX_WORDS)
        return 0;
    slot = ptx_vec_push(&names->words, sizeof(*slot));
    if (!slot)
        return 0;
    *slot = name;
    name->word = (uint16_t)(PTX_W_COUNT + names->words.n - 1);
    return name->word;
}

bool
ptx_names_split(struct ptx_names *names, struct ptx_name *name)
{
    const char *text = name->sym.name;
    size_t len = name->sym.len, at = len;
    uint64_t num = 0;

    name->split = 1;
    while (at > 1 && text[at - 1] >= '0' && text[at - 1] <= '9')
        at--;
    /* %r007 is not the seventh of a range: numbers there have one spelling. */
    while (at < len && text[at] == '0' && at + 1 < len)
        at++;
    if (at == len || len - at > 9)
        return true;
    for (size_t i = at; i < len; i++)
        num = num * 10 + (uint64_t)(text[i] - '0');
    name->num = (uint32_t)num;
    name->prefix = ptx_names_intern(names, text, at);
    return name->prefix != NULL;
}

static int
preload_words(struct ptx_names *names)
{
    for (unsigned word = 1; word < PTX_W_COUNT; word++) {
        const char *text = word_texts[word];
        struct ptx_name *name = ptx_names_intern(names, text, strlen(text));

        if (!name)
            return -ENOMEM;
        name->word = (uint16_t)word;
    }
    return 0;
}

/* "%tid" and so on; %pm3_64 carries its index in the middle. */
static int
preload_sregs(struct ptx_names *names)
{
    static const char *const texts[] = {
#define TEXT(id, text, comps) "%" text,
        PTX_SREGS(TEXT)
#undef TEXT
    };
    char pm[] = "%pm0_64";

    for (unsigned i = 0; i < PTX_SREG_COUNT; i++) {
        struct ptx_name *name = ptx_names_intern(names, texts[i], strlen(texts[i]));

        if (!name)
            return -ENOMEM;
        name->sreg = (uint8_t)(i + 1);
    }
    for (unsigned i = 0; i < 8; i++) {
        struct ptx_name *name;

        pm[3] = (char)('0' + i);
        name = ptx_names_intern(names, pm, strlen(pm));
        if (!name)
            return -ENOMEM;
        *name = (struct ptx_name){
            .sym = name->sym, .sreg = PTX_SREG_pm_64 + 1, .split = 1, .num = i};
    }
    return 0;
}

int
ptx_names_init(struct ptx_names *names, struct ptx_arena *arena)
{
    int r;

    *names = (struct ptx_names){.arena = arena};
    names->seed = 0x811c9dc5u ^ (uint32_t)((uintptr_t)names >> 4);
    if (!slots_grow(names))
        return -ENOMEM;
    r = preload_words(names);
    return r < 0 ? r : preload_sregs(names);
}

void
ptx_names_fini(struct ptx_names *names)
{
    free(names->slots);
    names->slots = NULL;
    ptx_vec_fini(&names->words);
}

const char *
ptx_names_word_text(unsigned word)
{
    return word && word < PTX_W_COUNT ? word_texts[word] : NULL;
}

unsigned
ptx_type_size(unsigned word)
{
    return word <= PTX_W_TYPE_LAST ? type_sizes[word] : 0;
}
