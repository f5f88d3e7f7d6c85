/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detached jobs: what `gpupool job` keeps of each, and what has become of it.
 *
 *   $XDG_STATE_HOME/gpupool/jobs, else ~/.local/state/gpupool/jobs
 *
 *   N/command       the program and its arguments, each with a NUL behind it
 *   N/log           what it wrote, and what `gpupool run` said
 *   N/processes     its guardian, and what does as `gpupool run` does
 *   N/session       the session's name, once it has one
 *   N/exit          the exit status, once it has ended
 *   N/lock          locked while one of its processes lives
 *
 * A job belongs to the user and to this host: the pool knows its session only.
 * Blocking; one thread.
 */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include "cli_pool.h"
#include "gp_base.h"

#include <stdint.h>

struct gp_err;

enum cli_job_state {
    CLI_JOB_WAITING, /* for a session */
    CLI_JOB_RUNNING,
    CLI_JOB_ENDED,
    CLI_JOB_LOST, /* killed with its guardian, or the host was started again */
};

struct cli_job {
    unsigned number;
    char *folder;
    enum cli_job_state state;
    int status; /* of one that has ended */
    char session[64];
    char name[64]; /* "": it has none of its own */
    char *command; /* NUL after each word */
    size_t command_len;
    struct cli_process guardian, runner; /* pid 0: not known */
};

/* A new one, locked by *ret_lock until all copies of that descriptor are closed. */
int cli_job_make(char *const *command, struct cli_job *ret_job, int *ret_lock,
                 struct gp_err *err);
/* -ENOENT: there is none of that number. */
int cli_job_read(unsigned number, struct cli_job *ret_job, struct gp_err *err);
void cli_job_fini(struct cli_job *job);

/* The numbers of all, in order; *ret_list is malloc'ed. */
int cli_job_numbers(unsigned **ret_list, unsigned *ret_n, struct gp_err *err);

const char *cli_job_state_word(const struct cli_job *job);
/* Path of @name in its folder, malloc'ed; NULL: out of memory. */
char *cli_job_file(const struct cli_job *job, const char *name);
int cli_job_note_processes(const struct cli_job *job, struct gp_err *err);
int cli_job_note(const struct cli_job *job, const char *name, const char *text,
                 struct gp_err *err);
/* Wait until its last process is gone.  -ETIMEDOUT. */
int cli_job_await(const struct cli_job *job, uint64_t deadline_ns);
/* -EBUSY: it has not ended. */
int cli_job_delete(const struct cli_job *job, struct gp_err *err);

#endif
