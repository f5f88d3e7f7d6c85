/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few hundred kernels of the search of docs/fuzzing.md, on each build of the
 * executor, against the reference; and the search itself: it finds what is wrong and
 * shrinks it.  And the forms of the probe on all their operands, against what a card
 * gave for them.
 */
#include "rk_forms.h"
#include "rk_probe.h"
#include "rk_run.h"
#include "sg_exec.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define KERNELS 120
#define CHECKED_KERNELS 60

/* How many of the kernels differ, in a process of its own. */
static int
differing(const char *isa)
{
    struct rk_run *run;
    int wrong = 0;

    setenv("SOFTGPU_ISA", isa, 1);
    setenv("SOFTGPU_JIT", "0", 1); /* machine code is test_sg_jit's */
    if (strcmp(sg_exec_isa(), isa) != 0)
        return 0; /* not on this processor */
    run = rk_run_new();
    for (uint64_t seed = 1; seed <= KERNELS; seed++) {
        struct rk_kernel *k = rk_kernel_new(seed);
        uint64_t order = seed & 1 ? seed : 0;
        char words[256];

        if (!rk_run_agrees(run, k, order, words, sizeof(words))) {
            printf("%s, seed %d: %s\n", isa, (int)seed, words);
            wrong++;
        }
        rk_kernel_free(k);
    }
    rk_run_free(run);
    return wrong;
}

static void
random_kernels_give_what_the_reference_says(void **state)
{
    static const char *const builds[] = {"v2", "v3", "v4", "generic"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(builds); i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            int wrong = differing(builds[i]);
            fflush(stdout);
            _exit(wrong > 100 ? 100 : wrong);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

/* Threads of a random kernel see of each other only what the rules let them see. */
static void
checks_accuse_no_random_kernel(void **state)
{
    struct rk_run *run = rk_run_new();

    (void)state;
    rk_run_check(run,
                 SG_CHECK_FAULTS | SG_CHECK_INIT | SG_CHECK_RACES | SG_CHECK_BARRIERS);
    for (uint64_t seed = 1; seed <= CHECKED_KERNELS; seed++) {
        struct rk_kernel *k = rk_kernel_new(seed);
        char words[1024];

        if (!rk_run_agrees(run, k, seed & 1 ? seed : 0, words, sizeof(words)))
            fail_msg("seed %d: %s", (int)seed, words);
        rk_kernel_free(k);
    }
    rk_run_free(run);
}

static void
a_seed_is_always_the_same_kernel(void **state)
{
    struct rk_kernel *a = rk_kernel_new(77), *b = rk_kernel_new(77),
                     *c = rk_kernel_new(78);
    char *texts[3] = {rk_print(a), rk_print(b), rk_print(c)};

    (void)state;
    assert_string_equal(texts[0], texts[1]);
    assert_string_not_equal(texts[0], texts[2]);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
    rk_kernel_free(a);
    rk_kernel_free(b);
    rk_kernel_free(c);
}

/* Statements of @list that are on and whose form's name begins with @word. */
static unsigned
forms_named(const struct rk_list *list, const char *word)
{
    unsigned n = 0;

    for (unsigned i = 0; i < list->n; i++) {
        const struct rk_stmt *s = &list->v[i];
        n += !s->off && s->kind == RK_ALU &&
             strncmp(s->op->name, word, strlen(word)) == 0;
        for (unsigned w = 0; w < RK_MAX_WAYS; w++)
            n += forms_named(&s->sub[w], word);
    }
    return n;
}

static void
kernels_for_a_card_have_no_form_that_its_compiler_mistakes(void **state)
{
    unsigned before = 0, after = 0, others = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rk_kernel *k = rk_kernel_new(seed);
        before += forms_named(&k->body, "testp") + forms_named(&k->body, "shl.b64");
        rk_kernel_for_card(k);
        after += forms_named(&k->body, "testp") + forms_named(&k->body, "shl.b64");
        others += forms_named(&k->body, "shl.b32");
        rk_kernel_free(k);
    }
    assert_in_range(before, 10, 10000);
    assert_int_equal(after, 0);
    assert_in_range(others, 1, 10000);
}

static unsigned
statements(const struct rk_list *list)
{
    unsigned n = 0;

    for (unsigned i = 0; i < list->n; i++) {
        n += !list->v[i].off;
        for (unsigned w = 0; !list->v[i].off && w < RK_MAX_WAYS; w++)
            n += statements(&list->v[i].sub[w]);
    }
    return n;
}

/* A reference that is wrong about one form: some kernel has the form, and what is left
 * of that kernel is the form and what it is in. */
static void
a_wrong_result_is_found_and_shrunk(void **state)
{
    struct rk_run *run = rk_run_new();
    struct rk_kernel *k = NULL;
    char words[256], *text;
    uint64_t seed = 0;

    (void)state;
    rk_run_break_reference(run, "xor.b64");
    do {
        rk_kernel_free(k);
        k = rk_kernel_new(++seed);
        assert_in_range(seed, 1, 2000);
    } while (rk_run_agrees(run, k, 0, words, sizeof(words)));
    rk_run_shrink(run, k, 0);
    assert_false(rk_run_agrees(run, k, 0, words, sizeof(words)));
    assert_non_null(strstr(words, "the reference"));
    text = rk_print(k);
    assert_non_null(strstr(text, "xor.b64"));
    assert_in_range(statements(&k->body), 1, 4);
    free(text);
    rk_kernel_free(k);
    rk_run_free(run);
}

/* ---- results of a card -------------------------------------------------------------
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EVERY 40
#else
#define EVERY 1
#endif

static const uint64_t h200[] = {
#include "rk_h200.def"
};

static uint32_t
hash_of_text(const struct rk_form *form)
{
    uint64_t h = (UINT64_C(0xcbf29ce484222325) ^ (uint8_t)rk_kind_class(form->result)) *
                 UINT64_C(0x100000001b3);

    for (const char *c = form->text; *c; c++)
        h = (h ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    return (uint32_t)(h >> 32);
}

/* The card's results of @form, if it was asked for them and they are ours. */
static const uint64_t *
recorded(const struct rk_form *form)
{
    size_t low = 0, high = ARRAY_SIZE(h200);

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (h200[middle] >> 32 == hash_of_text(form))
            return &h200[middle];
        if (h200[middle] >> 32 < hash_of_text(form))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void
forms_give_what_a_card_gave(void **state)
{
    struct rk_run *run = rk_run_new();
    uint64_t *in = rk_run_memory(run, RK_PROBE_IN_BYTES);
    uint64_t *out = rk_run_memory(run, RK_PROBE_OUT_BYTES);
    const struct rk_form *forms;
    unsigned n, found = 0, wrong = 0;

    (void)state;
    rk_forms_init();
    n = rk_forms(&forms);
    for (unsigned i = 0; i < n; i += EVERY) {
        const uint64_t *card = recorded(&forms[i]);
        uint64_t hash = 0;

        if (!card)
            continue;
        found++;
        if (rk_probe_hash(run, &forms[i], in, out, &hash) == 0 &&
            (uint32_t)*card == hash >> 32)
            continue;
        printf("%s\n", forms[i].text);
        wrong++;
    }
    assert_in_range(found, 3000 / EVERY, n);
    assert_int_equal(wrong, 0);
    rk_run_free(run);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kernels_give_what_the_reference_says),
        cmocka_unit_test(checks_accuse_no_random_kernel),
        cmocka_unit_test(a_seed_is_always_the_same_kernel),
        cmocka_unit_test(kernels_for_a_card_have_no_form_that_its_compiler_mistakes),
        cmocka_unit_test(forms_give_what_a_card_gave),
        cmocka_unit_test(a_wrong_result_is_found_and_shrunk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
