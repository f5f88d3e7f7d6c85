/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_cost.h"

#include "gp_base.h"
#include "gp_file.h"
#include "gp_str.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Of a process or a thread; @ret_name (16 bytes) may be NULL. */
static double
cpu_of(const char *path, char *ret_name)
{
    CLEANUP_FREE char *text = NULL;
    unsigned long user, system;
    char *at;
    size_t len;

    if (gp_file_read(path, 4096, &text, &len, NULL) < 0)
        return -1;
    at = strrchr(text, ')');
    if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                      &user, &system) != 2)
        return -1;
    *at = '\0';
    if (ret_name)
        gp_str_copy(ret_name, 16, strchr(text, '(') + 1);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double
sched_cost_seconds(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    return cpu_of(path, NULL);
}

struct sched_cost_parts
sched_cost_parts(pid_t pid)
{
    struct sched_cost_parts parts = {0};
    char path[320], name[16] = "";
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        double seconds;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, entry->d_name);
        seconds = cpu_of(path, name);
        if (!strcmp(name, "signer"))
            parts.signing += seconds;
        else if (!strcmp(name, "store-writer"))
            parts.writing += seconds;
        else
            parts.deciding += seconds;
    }
    if (dir)
        closedir(dir);
    return parts;
}

double
sched_cost_bytes(pid_t pid)
{
    CLEANUP_FREE char *text = NULL;
    unsigned long pages;
    char path[64];
    size_t len;

    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    if (gp_file_read(path, 4096, &text, &len, NULL) < 0 ||
        sscanf(text, "%*u %lu", &pages) != 1)
        return -1;
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

double
sched_cost_own_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int
by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void
sched_cost_print_us(uint32_t *us, size_t n, const char *what)
{
    if (!n)
        return;
    qsort(us, n, sizeof(us[0]), by_value);
    printf("%s_p50_us %u\n", what, us[n / 2]);
    printf("%s_p99_us %u\n", what, us[n * 99 / 100]);
    printf("%s_max_us %u\n", what, us[n - 1]);
}
