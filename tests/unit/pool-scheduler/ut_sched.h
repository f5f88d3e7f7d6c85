/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler as a process of its own, and the words to play its servers and clients.
 *
 * A test's setup starts one in a private folder, its teardown ends it.  Every function
 * fails the test when the other side does not answer as it must.  A reply belongs to
 * the caller, who drops it.
 */
#ifndef UT_SCHED_H
#define UT_SCHED_H

#include "ut.h"

#include "control.pb-c.h"
#include "gp_time.h"
#include "sched_daemon.h"

#include <sys/types.h>

#define GIB (UINT64_C(1) << 30)
#define PATIENCE (20 * GP_NS_PER_S)

typedef Gpupool__Ctl__CtlReply reply_t;

struct world {
    char dir[64], ready[128], address[64];
    struct sched_config config;
    pid_t scheduler;
};

struct play { /* what a played server says of itself */
    const char *name;
    uint64_t instance;
    unsigned cards;
    uint64_t running; /* a session id, or 0 */
    const char *token;
};

void ut_sched_start(struct world *w);
void ut_sched_end(struct world *w, int sig);
int ut_sched_setup(void **state);
int ut_sched_teardown(void **state);
int ut_sched_dial(const struct world *w);
void ut_sched_post(int fd, Gpupool__Ctl__CtlRequest *req);
reply_t *ut_sched_hear(int fd);
void ut_sched_drop(reply_t *reply);
reply_t *ut_sched_ask(int fd, Gpupool__Ctl__CtlRequest *req);
void ut_sched_refused(reply_t *reply, Gpupool__Ctl__CtlCode code, const char *words);
reply_t *ut_sched_enlist(int fd, const struct play *play);
int ut_sched_join(const struct world *w, const char *name, unsigned cards);
/* A heartbeat that names @running, if not 0. */
reply_t *ut_sched_report(int fd, uint64_t running);
/* The same, of a server that says how many closes it has followed (and one). */
reply_t *ut_sched_report_after(int fd, uint64_t running, uint64_t closes_followed);
Gpupool__Ctl__CtlOpen ut_sched_preference(uint32_t core, uint64_t memory);
reply_t *ut_sched_open(int fd, Gpupool__Ctl__CtlOpen *open);
reply_t *ut_sched_ask_preference(int fd, uint32_t core);
/* A grant; the caller drops it. */
reply_t *ut_sched_granted(int fd, Gpupool__Ctl__CtlOpen open);
reply_t *ut_sched_renew(int fd, const Gpupool__Ctl__CtlGrant *grant, bool hold);
void ut_sched_post_close(int fd, const Gpupool__Ctl__CtlGrant *grant);
reply_t *ut_sched_status(int fd);
reply_t *ut_sched_drain(int fd, const char *server, bool undo);
void ut_sched_await_notice(int server, uint64_t session);

#endif
