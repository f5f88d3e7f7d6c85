/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_device_files.h"

#include "gp_base.h"
#include "gp_log.h"
#include "gp_time.h"

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where the driver's library looks for it. */
#define TOOL "/usr/bin/nvidia-modprobe"
/* Loading the modules on a host with sixteen cards takes seconds. */
#define TOOL_NS (30 * GP_NS_PER_S)
/* The minor number of /dev/nvidiactl; cards have those from 0 on. */
#define CONTROL "255"

static bool
is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Wait for the tool, and end it if it takes too long. */
static void
reap(pid_t pid)
{
    uint64_t until = gp_now_ns() + TOOL_NS;
    bool killed = false;

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (!killed && gp_now_ns() >= until) {
            gp_log_warn("server", TOOL " does not end; killed");
            kill(pid, SIGKILL);
            killed = true;
        }
        gp_sleep_ns(5 * GP_NS_PER_MS);
    }
}

/* @option: NULL for the module nvidia itself. */
static void
run_tool(const char *option, const char *minor)
{
    const char *argv[] = {TOOL, "-c", minor, option, NULL};
    char *const env[] = {NULL};
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid;
    int r;

    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none); /* ours are for the event loop */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    r = posix_spawn(&pid, TOOL, NULL, &attr, (char *const *)argv, env);
    posix_spawnattr_destroy(&attr);
    if (r == 0)
        reap(pid);
    else
        gp_log_warn("server", TOOL ": %s", strerror(r));
}

/* Load the module, if it is not loaded, and make one of its files. */
static void
make(const char *name, const char *minor, const char *option)
{
    char path[64];

    snprintf(path, sizeof(path), "/dev/%s", name);
    if (is_there(path))
        return;
    run_tool(option, minor);
    if (is_there(path))
        gp_log_info("server", "%s was not there: " TOOL " has made it", path);
    else
        gp_log_warn("server",
                    "%s is not there, and " TOOL " did not make it: is the kernel "
                    "module of NVIDIA's driver installed for this kernel?",
                    path);
}

/* Cards that the kernel module knows. */
static unsigned
count_cards(void)
{
    DIR *dir = opendir("/proc/driver/nvidia/gpus");
    struct dirent *entry;
    unsigned n = 0;

    while (dir && (entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

void
srv_device_files_make(const char *driver)
{
    char name[32], minor[16];

    if (!strcmp(driver, "softgpu") || !strcmp(driver, "null") ||
        access(TOOL, X_OK) != 0)
        return;
    make("nvidiactl", CONTROL, NULL);
    if (!is_there("/dev/nvidiactl"))
        return; /* there is no card, or nothing to use it with */
    for (unsigned i = 0, n = count_cards(); i < n; i++) {
        snprintf(minor, sizeof(minor), "%u", i);
        snprintf(name, sizeof(name), "nvidia%s", minor);
        make(name, minor, NULL);
    }
    make("nvidia-uvm", "0", "-u");
    make("nvidia-uvm-tools", "1", "-u");
}
