/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_names.h"

#include <errno.h>
#include <string.h>

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

static inline bool
ptx_spellings_used(struct ptx_name *const *e)
{
    return *e != NULL;
}

static inline uint32_t
ptx_spellings_hash(struct ptx_sym key)
{
    return key.hash;
}

static inline uint32_t
ptx_spellings_hash_of(struct ptx_name *const *e)
{
    return (*e)->sym.hash;
}

static inline bool
ptx_spellings_is(struct ptx_name *const *e, struct ptx_sym key)
{
    const struct ptx_sym *sym = &(*e)->sym;

    return sym->hash == key.hash && sym->len == key.len &&
           memcmp(sym->name, key.name, key.len) == 0;
}

GP_TABLE(ptx_spellings, struct ptx_name *, struct ptx_sym)

static inline struct ptx_sym
sym_of(const struct ptx_names *names, const char *text, size_t len)
{
    return (struct ptx_sym){
        .name = text, .len = (uint32_t)len, .hash = hash_text(names->seed, text, len)};
}

struct ptx_name *
ptx_names_find(const struct ptx_names *names, const char *text, size_t len)
{
    struct ptx_name *const *e =
        ptx_spellings_find(&names->spellings, sym_of(names, text, len));

    return e ? *e : NULL;
}

struct ptx_name *
ptx_names_intern(struct ptx_names *names, const char *text, size_t len)
{
    struct ptx_sym sym = sym_of(names, text, len);
    struct ptx_name **found = ptx_spellings_find(&names->spellings, sym), *name;
    char *copy;

    if (likely(found))
        return *found;
    if (ptx_spellings_room(&names->spellings) < 0)
        return NULL;
    /* One piece: the name and its spelling. */
    name = ptx_arena_alloc(names->arena, sizeof(*name) + len + 1);
    if (!name)
        return NULL;
    copy = (char *)(name + 1);
    memcpy(copy, text, len);
    sym.name = copy;
    name->sym = sym;
    *ptx_spellings_enter(&names->spellings, sym) = name;
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
    r = preload_words(names);
    return r < 0 ? r : preload_sregs(names);
}

void
ptx_names_fini(struct ptx_names *names)
{
    ptx_spellings_fini(&names->spellings);
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
