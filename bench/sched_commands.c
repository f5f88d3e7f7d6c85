/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_commands.h"

#include "gp_base.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern char **environ;

/* A command of the `gpupool` beside the scheduler, and what it took. */
static const struct {
    const char *what, *args[6];
} COMMANDS[] = {
    {"sessions_500", {"sessions", "--limit", "500"}},
    {"sessions_largest", {"sessions", "--sort=-memory", "--limit", "500"}},
    {"status_json", {"status", "-o", "json"}},
    {"explain", {"explain", "--core", "1", "--memory", "1MiB"}},
    {"complete", {"complete", "sessions"}},
};

struct took {
    double seconds, cpu, mib;
    int status;
};

static struct took
run_command(const char *scheduler, const char *const *args)
{
    const char *slash = strrchr(scheduler, '/'), *argv[8] = {"gpupool"};
    struct took took = {.status = -1};
    uint64_t from = gp_now_ns();
    posix_spawn_file_actions_t actions;
    char program[PATH_MAX];
    struct rusage usage;
    pid_t pid;

    for (unsigned i = 0; args[i]; i++)
        argv[i + 1] = args[i];
    snprintf(program, sizeof(program), "%.*sgpupool",
             slash ? (int)(slash + 1 - scheduler) : 0, scheduler);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)argv,
                     environ) &&
        wait4(pid, &took.status, 0, &usage) == pid) {
        took.seconds = (double)(gp_now_ns() - from) / 1e9;
        took.cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
        took.mib = (double)usage.ru_maxrss / 1024;
    }
    posix_spawn_file_actions_destroy(&actions);
    return took;
}

static void
run_all(const char *scheduler, int fd)
{
    char address[GP_NET_NAME_MAX];

    if (read(fd, address, sizeof(address)) <= 0)
        return;
    setenv("GPUPOOL_SCHEDULER", address, 1);
    setenv("GPUPOOL_TLS", "off", 1);
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++) {
        struct took took = run_command(scheduler, COMMANDS[i].args);

        if (write(fd, &took, sizeof(took)) < 0)
            return;
    }
}

int
sched_commands_new(const char *scheduler)
{
    int fds[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        run_all(scheduler, fds[1]);
        _exit(0);
    }
    close(fds[1]);
    return pid < 0 ? -1 : fds[0];
}

int
sched_commands_run(int commands, const char *address)
{
    char text[GP_NET_NAME_MAX];
    struct took took;

    gp_str_copy(text, sizeof(text), address);
    if (write(commands, text, sizeof(text)) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(COMMANDS); i++) {
        if (read(commands, &took, sizeof(took)) != sizeof(took) || took.status)
            return -1;
        printf("cli_%s_s %.3f\n", COMMANDS[i].what, took.seconds);
        printf("cli_%s_cpu_s %.3f\n", COMMANDS[i].what, took.cpu);
        printf("cli_%s_mib %.1f\n", COMMANDS[i].what, took.mib);
    }
    close(commands);
    return 0;
}
