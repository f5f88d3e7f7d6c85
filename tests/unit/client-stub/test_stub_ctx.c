/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's stack of contexts, and what becomes of it when the thread ends. */
#include "ut_stub.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
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

#define FINDS 10000

static atomic_bool enough;
static atomic_uint looks;

/* Every other one lives until the other thread has looked, so that it finds some
 * however the two are scheduled. */
static void *
make_and_end(void *arg)
{
    for (unsigned n = 0; !atomic_load(&enough); n++) {
        struct stub_ctx *ctx = stub_ctx_new(0, 0);
        unsigned seen = atomic_load(&looks);

        while (n % 2 && atomic_load(&looks) == seen && !atomic_load(&enough))
            sched_yield();
        if (ctx)
            stub_ctx_end(ctx);
    }
    return NULL;
}

/* Internal calls are made in any living context, which a thread of the program may
 * destroy at the same time. */
static void
context_is_found_while_another_thread_destroys_it(void **state)
{
    pthread_t thread;
    bool alive;

    assert_int_equal(pthread_create(&thread, NULL, make_and_end, NULL), 0);
    for (unsigned found = 0; found < FINDS; found += alive) {
        assert_int_equal(stub_ctx_push_on(0, 0, &alive), 0);
        assert_true(!alive || atomic_load(&stub_tls.ctx->refs) > 0);
        stub_ctx_pop();
        atomic_fetch_add(&looks, 1);
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_int_equal(stub_tls.depth, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_that_uses_all_keys_keeps_them_and_gets_its_context),
        cmocka_unit_test(thread_that_ends_lets_go_of_its_contexts),
        cmocka_unit_test(context_is_found_while_another_thread_destroys_it),
    };

    return cmocka_run_group_tests(tests, attach, NULL);
}
