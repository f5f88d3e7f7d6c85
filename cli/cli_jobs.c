/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_jobs.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (256u << 10) /* a command line; the others are short */
#define LOOK_NS (20 * GP_NS_PER_MS)

/* ------------------------------------------------------------------ folders -- */

static char *
jobs_folder(void)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const struct passwd *pw;

    if (xdg && *xdg == '/')
        return gp_str_printf("%s/gpupool/jobs", xdg);
    if (!home || !*home) {
        pw = getpwuid(getuid());
        home = pw ? pw->pw_dir : "/";
    }
    return gp_str_printf("%s/.local/state/gpupool/jobs", home);
}

char *
cli_job_file(const struct cli_job *job, const char *name)
{
    return gp_str_printf("%s/%s", job->folder, name);
}

static unsigned
number_of(const char *name)
{
    uint64_t number;

    return gp_str_u64(name, 1, UINT32_MAX, &number) < 0 || *name == '0'
               ? 0
               : (unsigned)number;
}

static int
compare_numbers(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return x < y ? -1 : x > y;
}

int
cli_job_numbers(unsigned **ret_list, unsigned *ret_n, struct gp_err *err)
{
    CLEANUP_FREE char *folder = jobs_folder();
    unsigned *list = NULL, n = 0;
    const struct dirent *entry;
    DIR *dir;

    if (!folder)
        return -ENOMEM;
    dir = opendir(folder);
    if (!dir && errno != ENOENT)
        return gp_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    while (dir && (entry = readdir(dir))) {
        unsigned *more, number = number_of(entry->d_name);

        if (!number)
            continue;
        more = reallocarray(list, n + 1, sizeof(*list));
        if (!more) {
            free(list);
            closedir(dir);
            return -ENOMEM;
        }
        list = more;
        list[n++] = number;
    }
    if (dir)
        closedir(dir);
    if (n)
        qsort(list, n, sizeof(*list), compare_numbers);
    *ret_list = list;
    *ret_n = n;
    return 0;
}

/* --------------------------------------------------------------------- make -- */

int
cli_job_note(const struct cli_job *job, const char *name, const char *text,
             struct gp_err *err)
{
    CLEANUP_FREE char *path = cli_job_file(job, name);

    return path ? gp_file_replace(path, text, strlen(text), 0600, err) : -ENOMEM;
}

int
cli_job_note_processes(const struct cli_job *job, struct gp_err *err)
{
    char text[128];

    snprintf(text, sizeof(text), "%d %" PRIu64 "\n%d %" PRIu64 "\n", job->guardian.pid,
             job->guardian.start, job->runner.pid, job->runner.start);
    return cli_job_note(job, "processes", text, err);
}

static int
note_command(const struct cli_job *job, char *const *command, struct gp_err *err)
{
    CLEANUP_FREE char *path = cli_job_file(job, "command"), *text = NULL;
    size_t len = 0, at = 0;

    for (unsigned i = 0; command[i]; i++)
        len += strlen(command[i]) + 1;
    if (len > FILE_MAX)
        return gp_err_set(err, -E2BIG, "the command line is longer than %u KiB",
                          FILE_MAX >> 10);
    text = malloc(len);
    if (!path || !text)
        return -ENOMEM;
    for (unsigned i = 0; command[i]; i++) {
        memcpy(text + at, command[i], strlen(command[i]) + 1);
        at += strlen(command[i]) + 1;
    }
    return gp_file_replace(path, text, len, 0600, err);
}

/* The number after the highest that any job has had, because scripts and people still
 * have the numbers of jobs that were deleted.  The file "last" in @folder has it, and
 * its lock orders jobs that are made at the same time. */
static int
next_number(const char *folder, unsigned *ret, struct gp_err *err)
{
    CLEANUP_FREE char *path = gp_str_printf("%s/last", folder);
    CLEANUP_FREE unsigned *list = NULL;
    CLEANUP_FD int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    unsigned n, last;
    char text[16] = "";
    int r;

    if (!path)
        return -ENOMEM;
    if (fd < 0 || flock(fd, LOCK_EX) < 0 || pread(fd, text, sizeof(text) - 1, 0) < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    text[strcspn(text, "\n")] = 0;
    last = number_of(text);
    r = cli_job_numbers(&list, &n, err); /* an earlier version has left no such file */
    if (r < 0)
        return r;
    if (n)
        last = gp_max(last, list[n - 1]);
    if (last == UINT32_MAX)
        return gp_err_set(err, -EOVERFLOW, "%s: no job number is left", path);
    *ret = last + 1;
    n = (unsigned)snprintf(text, sizeof(text), "%u\n", *ret);
    if (pwrite(fd, text, n, 0) != (ssize_t)n)
        return gp_err_set(err, -EIO, "%s: cannot be written", path);
    return 0;
}

static int
make_folder(struct cli_job *job, struct gp_err *err)
{
    CLEANUP_FREE char *folder = jobs_folder();
    int r = folder ? gp_file_mkdirs(folder, 0700, err) : -ENOMEM;

    if (!r)
        r = next_number(folder, &job->number, err);
    if (r < 0)
        return r;
    job->folder = gp_str_printf("%s/%u", folder, job->number);
    if (!job->folder)
        return -ENOMEM;
    r = mkdir(job->folder, 0700) < 0 ? -errno : 0;
    return r < 0 ? gp_err_set(err, r, "%s: %s", job->folder, strerror(-r)) : 0;
}

/* Whoever looks at jobs sees one by its command, which is therefore written last. */
static int
fill_folder(const struct cli_job *job, char *const *command, int *ret_lock,
            struct gp_err *err)
{
    CLEANUP_FREE char *path = cli_job_file(job, "lock");
    CLEANUP_FD int lock = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    int r;

    if (!path)
        return -ENOMEM;
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    r = note_command(job, command, err);
    if (!r)
        *ret_lock = TAKE_FD(lock);
    return r;
}

int
cli_job_make(char *const *command, struct cli_job *ret_job, int *ret_lock,
             struct gp_err *err)
{
    CLEANUP(cli_job_fini) struct cli_job job = {.number = 0};
    int r = make_folder(&job, err);

    if (r < 0)
        return r;
    r = fill_folder(&job, command, ret_lock, err);
    if (r < 0) { /* no command would find it */
        cli_job_delete(&job, NULL);
        return r;
    }
    *ret_job = job;
    memset(&job, 0, sizeof(job)); /* it is the caller's */
    return 0;
}

/* --------------------------------------------------------------------- read -- */

void
cli_job_fini(struct cli_job *job)
{
    free(job->folder);
    free(job->command);
    memset(job, 0, sizeof(*job));
}

/* Text of one of its files; NULL: it is not there. */
static char *
read_text(const struct cli_job *job, const char *name, size_t *ret_len)
{
    CLEANUP_FREE char *path = cli_job_file(job, name);
    char *text = NULL;

    return path && !gp_file_read(path, FILE_MAX, &text, ret_len, NULL) ? text : NULL;
}

static bool
is_locked(const struct cli_job *job)
{
    CLEANUP_FREE char *path = cli_job_file(job, "lock");
    CLEANUP_FD int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static void
read_state(struct cli_job *job)
{
    size_t len;
    bool locked = is_locked(job); /* before: it notes its end and then lets go */
    CLEANUP_FREE char *status = read_text(job, "exit", &len);
    CLEANUP_FREE char *session = read_text(job, "session", &len);
    CLEANUP_FREE char *processes = read_text(job, "processes", &len);
    CLEANUP_FREE char *name = read_text(job, "name", &len);

    if (name)
        gp_utf8_copy(job->name, sizeof(job->name), name);
    if (session) {
        session[strcspn(session, "\n")] = 0;
        gp_utf8_copy(job->session, sizeof(job->session), session);
    }
    if (processes)
        (void)!sscanf(processes, "%d %" SCNu64 " %d %" SCNu64, &job->guardian.pid,
                      &job->guardian.start, &job->runner.pid, &job->runner.start);
    job->state = status    ? CLI_JOB_ENDED
                 : !locked ? CLI_JOB_LOST
                 : session ? CLI_JOB_RUNNING
                           : CLI_JOB_WAITING;
    if (status)
        job->status = (int)strtol(status, NULL, 10);
}

int
cli_job_read(unsigned number, struct cli_job *ret_job, struct gp_err *err)
{
    CLEANUP(cli_job_fini) struct cli_job job = {.number = number};
    CLEANUP_FREE char *folder = jobs_folder();
    struct stat st;

    job.folder = folder ? gp_str_printf("%s/%u", folder, number) : NULL;
    if (!job.folder)
        return -ENOMEM;
    job.command = read_text(&job, "command", &job.command_len);
    if (!job.command || stat(job.folder, &st) < 0)
        return gp_err_set(err, -ENOENT, "no job %u; `gpupool job list` lists them",
                          number);
    read_state(&job);
    *ret_job = job;
    memset(&job, 0, sizeof(job)); /* it is the caller's */
    return 0;
}

const char *
cli_job_state_word(const struct cli_job *job)
{
    static const char *const WORDS[] = {"waiting", "running", "ended", "lost"};

    return WORDS[job->state];
}

/* ---------------------------------------------------------------------- end -- */

int
cli_job_await(const struct cli_job *job, uint64_t deadline_ns)
{
    while (is_locked(job)) {
        if (gp_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
        gp_sleep_ns(LOOK_NS);
    }
    return 0;
}

int
cli_job_delete(const struct cli_job *job, struct gp_err *err)
{
    static const char *const FILES[] = {"log",  "processes", "session", "name",
                                        "exit", "lock",      "command"};

    if (is_locked(job))
        return gp_err_set(err, -EBUSY,
                          "job %u has not ended; `gpupool job kill %u` "
                          "ends it",
                          job->number, job->number);
    for (unsigned i = 0; i < ARRAY_SIZE(FILES); i++) {
        CLEANUP_FREE char *path = cli_job_file(job, FILES[i]);

        if (!path)
            return -ENOMEM;
        if (unlink(path) < 0 && errno != ENOENT)
            return gp_err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    if (rmdir(job->folder) < 0)
        return gp_err_set(err, -errno, "%s: %s", job->folder, strerror(errno));
    return 0;
}
