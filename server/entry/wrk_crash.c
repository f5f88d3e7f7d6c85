/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_crash.h"

#include "gp_base.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#define FRAMES_MAX 48
#define LOG_FD_MIN 100 /* beyond those that the server gives */

/* The server's log.  What goes to standard error once programs are served is theirs, by
 * way of a thread that is dead then. */
static int log_fd = STDERR_FILENO;

static void
put(const char *text)
{
    ssize_t n = write(log_fd, text, strlen(text));

    (void)n;
}

static void
put_hex(uintptr_t value)
{
    char text[2 * sizeof(value) + 3], *at = text + sizeof(text) - 1;

    *at = 0;
    do {
        *--at = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value);
    *--at = 'x';
    *--at = '0';
    put(at);
}

static _Unwind_Reason_Code
put_frame(struct _Unwind_Context *context, void *arg)
{
    uintptr_t pc = _Unwind_GetIP(context);
    unsigned *n = arg;
    Dl_info info;

    if (!pc || (*n)++ >= FRAMES_MAX)
        return _URC_END_OF_STACK;
    put("    ");
    if (dladdr((void *)pc, &info) && info.dli_fname) {
        put(info.dli_fname);
        put("+");
        put_hex(pc - (uintptr_t)info.dli_fbase);
    } else {
        put_hex(pc);
    }
    put("\n");
    return _URC_NO_REASON;
}

/* Not every function here is safe in a handler by the letter; the process is lost
 * already, and what hangs is ended by the supervisor. */
static void
on_crash(int sig, siginfo_t *info, void *context)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    unsigned n = 0;

    (void)context;
    if (atomic_flag_test_and_set(&told))
        return;
    put("gpupool-worker: ");
    put(strsignal(sig));
    put(", address ");
    put_hex((uintptr_t)info->si_addr);
    put(", called by (for addr2line -e FILE OFFSET):\n");
    _Unwind_Backtrace(put_frame, &n);
    /* SA_RESETHAND: what raised it raises it again and ends the process. */
}

void
wrk_crash_tell(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action = {.sa_sigaction = on_crash,
                               .sa_flags = SA_SIGINFO | SA_RESETHAND};

#ifndef GP_SANITIZED /* a sanitizer tells more */
    int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, LOG_FD_MIN);

    if (copy >= 0)
        log_fd = copy;
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        sigaction(signals[i], &action, NULL);
#else
    (void)signals;
    (void)action;
#endif
}
