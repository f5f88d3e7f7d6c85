/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_pool.h"

#include "cli_folder.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "gp_time.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

static const char MAGIC[] = "gpupool-pool 1";

/* -------------------------------------------------------------------- file -- */

static int
parse_line(struct cli_pool *pool, const char *line)
{
    struct cli_process *p = &pool->processes[pool->n];
    int pid;

    if (sscanf(line, "scheduler %271s", pool->scheduler) == 1)
        return 0;
    if (sscanf(line, "local %271s", pool->local) == 1)
        return 0;
    if (pool->n == CLI_POOL_PROCESSES_MAX ||
        sscanf(line, "process %31s %d %" SCNu64, p->name, &pid, &p->start) != 3 ||
        pid <= 1)
        return -EBADMSG;
    p->pid = pid;
    pool->n++;
    return 0;
}

int
cli_pool_read(struct cli_pool *ret_pool, struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL, *text = NULL;
    struct cli_pool pool = {.n = 0};
    char *save = NULL, *line;
    size_t len;
    int r;

    r = cli_folder_file("pool", &path, err);
    if (!r)
        r = gp_file_read(path, 64 * 1024, &text, &len, err);
    if (r < 0)
        return r;
    line = strtok_r(text, "\n", &save);
    if (!line || strcmp(line, MAGIC) != 0)
        return gp_err_set(err, -EBADMSG, "%s: not a pool file of this version", path);
    while ((line = strtok_r(NULL, "\n", &save)))
        if (parse_line(&pool, line) < 0)
            return gp_err_set(err, -EBADMSG, "%s: a bad line: %.60s", path, line);
    *ret_pool = pool;
    return 0;
}

int
cli_pool_write(const struct cli_pool *pool, struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL, *text = NULL;
    size_t size;
    FILE *f;
    int r = cli_folder_file("pool", &path, err);

    if (r < 0)
        return r;
    f = open_memstream(&text, &size);
    if (!f)
        return -ENOMEM;
    fprintf(f, "%s\n", MAGIC);
    if (pool->scheduler[0])
        fprintf(f, "scheduler %s\n", pool->scheduler);
    if (pool->local[0])
        fprintf(f, "local %s\n", pool->local);
    for (unsigned i = 0; i < pool->n; i++)
        fprintf(f, "process %s %d %" PRIu64 "\n", pool->processes[i].name,
                (int)pool->processes[i].pid, pool->processes[i].start);
    if (fclose(f) != 0)
        return -ENOMEM;
    return gp_file_replace(path, text, size, 0600, err);
}

int
cli_pool_remove(struct gp_err *err)
{
    CLEANUP_FREE char *path = NULL;
    int r = cli_folder_file("pool", &path, err);

    if (r < 0)
        return r;
    if (unlink(path) < 0 && errno != ENOENT)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

/* --------------------------------------------------------------- processes -- */

int
cli_process_start(pid_t pid, uint64_t *ret_start)
{
    char path[64], *p;
    CLEANUP_FREE char *text = NULL;
    size_t len;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (gp_file_read(path, 8192, &text, &len, NULL) < 0)
        return -ESRCH;
    /* The name in brackets may hold anything; the fields are counted from its end.
     * State is the third field, the start time the 22nd. */
    p = strrchr(text, ')');
    if (p && p[1] && p[2] == 'Z')
        return -ESRCH; /* dead, only not yet reaped by its parent */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (!p)
        return -ESRCH;
    *ret_start = strtoull(p + 1, NULL, 10);
    return 0;
}

int
cli_process_open(const struct cli_process *process, int *ret_pidfd)
{
    int fd = pidfd_open(process->pid, 0);
    uint64_t start;

    if (fd < 0)
        return -errno;
    /* Checked after the open: from here on the number cannot change its owner. */
    if (cli_process_start(process->pid, &start) < 0 || start != process->start) {
        close(fd);
        return -ESRCH;
    }
    *ret_pidfd = fd;
    return 0;
}

static bool
is_alive(const struct cli_process *process)
{
    int fd;

    if (cli_process_open(process, &fd) < 0)
        return false;
    close(fd);
    return true;
}

bool
cli_pool_alive(const struct cli_pool *pool)
{
    for (unsigned i = 0; i < pool->n; i++)
        if (is_alive(&pool->processes[i]))
            return true;
    return false;
}

const char *
cli_pool_dead(const struct cli_pool *pool)
{
    for (unsigned i = 0; cli_pool_alive(pool) && i < pool->n; i++)
        if (!is_alive(&pool->processes[i]))
            return pool->processes[i].name;
    return NULL;
}

/* The parent of process @pid; 0: it has gone. */
static pid_t
parent_of(const char *pid)
{
    char path[64], *p;
    CLEANUP_FREE char *text = NULL;
    size_t len;
    int parent;

    snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
    if (gp_file_read(path, 8192, &text, &len, NULL) < 0)
        return 0;
    p = strrchr(text, ')'); /* the name in brackets may hold anything */
    return p && sscanf(p + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Workers die with their server, so only servers that live are looked at. */
bool
cli_pool_works(const struct cli_pool *pool)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    bool works = !dir; /* nobody can tell, which must not pass for an idle pool */

    while (dir && !works && (entry = readdir(dir))) {
        pid_t parent = entry->d_name[0] >= '1' && entry->d_name[0] <= '9'
                           ? parent_of(entry->d_name)
                           : 0;

        /* The first process is the scheduler. */
        for (unsigned i = 1; parent && !works && i < pool->n; i++)
            works = pool->processes[i].pid == parent && is_alive(&pool->processes[i]);
    }
    if (dir)
        closedir(dir);
    return works;
}

static bool
await(int pidfd, uint64_t deadline_ns)
{
    struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
    int n;

    do
        n = poll(&pfd, 1, gp_poll_ms(deadline_ns));
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* Signal a range of processes, then wait for all of it. */
static void
end_range(const struct cli_process *list, unsigned n, uint64_t deadline_ns,
          struct cli_pool_ended *ended)
{
    int fds[CLI_POOL_PROCESSES_MAX];

    for (unsigned i = 0; i < n; i++) {
        if (cli_process_open(&list[i], &fds[i]) < 0)
            fds[i] = -1;
        else
            ended->ended += pidfd_send_signal(fds[i], SIGTERM, NULL, 0) == 0;
    }
    for (unsigned i = 0; i < n; i++) {
        if (fds[i] < 0)
            continue;
        if (!await(fds[i], deadline_ns)) {
            pidfd_send_signal(fds[i], SIGKILL, NULL, 0);
            await(fds[i], GP_FOREVER);
            ended->killed++;
        }
        close(fds[i]);
    }
}

struct cli_pool_ended
cli_pool_end(const struct cli_pool *pool, uint64_t deadline_ns)
{
    struct cli_pool_ended ended = {.ended = 0};

    if (!pool->n)
        return ended;
    /* The scheduler, always the first, ends last: servers say goodbye to it. */
    end_range(pool->processes + 1, pool->n - 1, deadline_ns, &ended);
    end_range(pool->processes, 1, deadline_ns, &ended);
    return ended;
}
