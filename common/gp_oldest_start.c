/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program on every GNU C library from 2.28 on: gp_oldest_libc.c for main().
 *
 * Until 2.34 a program told the C library which function runs its constructors; since
 * then the library finds them itself when none is named.  Naming one works with both.
 */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#endif

typedef int main_function(int argc, char **argv, char **envp);
typedef void constructor(int argc, char **argv, char **envp);

extern constructor *__init_array_start[] __attribute__((visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

extern int oldest_start(main_function *main, int argc, char **argv, constructor *init,
                        void (*fini)(void), void (*end_of_loader)(void),
                        void *stack_end);
__asm__(".symver oldest_start,__libc_start_main@" OLDEST);

int __wrap___libc_start_main(main_function *main, int argc, char **argv,
                             constructor *init, void (*fini)(void),
                             void (*end_of_loader)(void), void *stack_end);

static void
run_constructors(int argc, char **argv, char **envp)
{
    _init();
    for (constructor **it = __init_array_start; it < __init_array_end; it++)
        (*it)(argc, argv, envp);
}

/* The C library runs destructors by itself, in all versions. */
int
__wrap___libc_start_main(main_function *main, int argc, char **argv, constructor *init,
                         void (*fini)(void), void (*end_of_loader)(void),
                         void *stack_end)
{
    return oldest_start(main, argc, argv, init ? init : run_constructors, fini,
                        end_of_loader, stack_end);
}
