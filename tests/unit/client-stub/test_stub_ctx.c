/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's stack of contexts, and what becomes of it when the thread ends. */
#include "ut_stub.h"

#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int
attach(void **state)
{
    ut_stub_attach(NULL);
    return 0;
}

static void *
push_many(void *arg)
{
    for (int i = 0; i < 9; i++)
        if (stub_ctx_push(arg) < 0)
            return NULL;
    return arg;
}

static bool
thread_pushes(struct stub_ctx *ctx)
{
    pthread_t thread;
    void *done = NULL;

    return pthread_create(&thread, NULL, push_many, ctx) == 0 &&
           pthread_join(thread, &done) == 0 && done == ctx;
}

/* A process that has no key left: 0 when what is in every key stayed there.  The first
 * keys are others' (a sanitizer's), so all that there can be are looked at. */
static int
without_keys(struct stub_ctx *ctx)
{
    static void *before[PTHREAD_KEYS_MAX];
    pthread_key_t key;

    while (pthread_key_create(&key, NULL) == 0)
        pthread_setspecific(key, ctx);
    for (key = 0; key < PTHREAD_KEYS_MAX; key++)
        before[key] = pthread_getspecific(key);
    if (!push_many(ctx) || stub_ctx_pop() != stub_ctx_handle(ctx))
        return 1;
    for (key = 0; key < PTHREAD_KEYS_MAX; key++)
        if (pthread_getspecific(key) != before[key])
            return 2;
    return 0;
}

/* In a child, and first: the key is made once in a process. */
static void
program_that_uses_all_keys_keeps_them_and_gets_its_context(void **state)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(without_keys(stub_ctx_primary(0)));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void
thread_that_ends_lets_go_of_its_contexts(void **state)
{
    struct stub_ctx *ctx = stub_ctx_primary(0);
    unsigned before = atomic_load(&ctx->refs);

    assert_true(thread_pushes(ctx));
    assert_int_equal(atomic_load(&ctx->refs), before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_that_uses_all_keys_keeps_them_and_gets_its_context),
        cmocka_unit_test(thread_that_ends_lets_go_of_its_contexts),
    };

    return cmocka_run_group_tests(tests, attach, NULL);
}
