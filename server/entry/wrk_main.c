/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-worker: serves one client process on one connection.
 *
 * Started by gpupool-server with three descriptors (wrk_conf.h).  Order matters:
 *
 *   configuration, segment     a worker without them has nothing to serve
 *   open the driver            as the user that may read its files
 *   drop privileges            before the driver touches anything
 *   cuInit, seal the tables    nobody writes to the driver's functions any more
 *   read the cards             opens device nodes
 *   filter system calls        before the first byte of the client is read
 *   answer the attach request  then frames, until the client is gone
 *
 * It ends by _exit: a driver's exit handlers may wait for kernels that never end,
 * and the kernel takes everything back anyway.  Memory counted on the desk is
 * cleared by the supervisor when it reaps us.
 */
#include "wrk.h"

#include "ctl_limits.h"
#include "drv.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "tls.h"
#include "wrk_attach.h"
#include "wrk_crash.h"
#include "wrk_d2h_async.h"
#include "wrk_desk.h"
#include "wrk_driver.h"
#include "wrk_drv_shims.h"
#include "wrk_end_reason.h"
#include "wrk_governor.h"
#include "wrk_hostfn.h"
#include "wrk_images.h"
#include "wrk_kernels.h"
#include "wrk_link.h"
#include "wrk_loop.h"
#include "wrk_output.h"
#include "wrk_path_ring.h"
#include "wrk_probe.h"
#include "wrk_quota.h"
#include "wrk_request.h"
#include "wrk_resume.h"
#include "wrk_sandbox.h"
#include "wrk_seal.h"
#include "wrk_sender.h"
#include "wrk_shm.h"
#include "wrk_spatial.h"
#include "wrk_successor.h"
#include "wrk_supervisor_channel.h"
#include "wrk_tls.h"
#include "wrk_transfer.h"
#include "wrk_transport.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"
#include "wrk_watch.h"
#include "wrk_window.h"
#include "xport.h"

#include <errno.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#define READER_SLICE_NS 100000 /* the least that the kernel takes */

WRK_SEALED static struct wrk_sealed_drv the_table;
static struct wrk_priv the_priv;
static struct wrk_desks the_desks;
static struct wrk the_worker = {.drv = &the_table.drv, .priv = &the_priv};

static int
read_conf(struct wrk_conf *conf, struct gp_err *err)
{
    ssize_t n = read(WRK_FD_CONF, conf, sizeof(*conf));

    if (n != (ssize_t)sizeof(*conf) || conf->magic != WRK_CONF_MAGIC ||
        conf->size != sizeof(*conf) || conf->n_slices > TICKET_SLICES_MAX)
        return gp_err_set(err, -EINVAL,
                          "no configuration: gpupool-server starts this program");
    close(WRK_FD_CONF);
    xport_set_link_timeout(conf->link_timeout_s);
    return 0;
}

static struct wrk_sandbox
sandbox_of(const struct wrk_conf *conf)
{
    return (struct wrk_sandbox){.user = conf->user,
                                .exports = conf->exports,
                                .readable = conf->readable,
                                .memory = conf->memory,
                                .file_bytes = conf->file_bytes,
                                .own_user = conf->own_user,
                                .soft = conf->soft,
                                .log = conf->sandbox_log};
}

static int
start_driver(struct wrk *w, struct gp_err *err)
{
    struct wrk_priv *p = w->priv;
    struct wrk_sandbox box = sandbox_of(&p->conf);
    struct drv *table = &the_table.drv;
    CUresult result;
    int r = wrk_driver_open(p->conf.driver, table, err);

    if (r == 0)
        r = wrk_sandbox_enter(&box, err);
    if (r < 0)
        return r;
    /* A parent that ended between fork and the call above sends no signal. */
    if ((uint32_t)getppid() != p->conf.parent_pid)
        return gp_err_set(err, -ESRCH, "the supervisor is gone");
    wrk_driver_place(p->conf.links, p->conf.link);
    result = table->cuInit(0);
    if (result != CUDA_SUCCESS)
        return wrk_driver_refused(p->conf.driver, table, (int)result, err);
    wrk_drv_shims_enter(w, table);
    r = wrk_seal(err);
    return r < 0 ? r : wrk_cards_read(table, &p->conf, &p->cards, err);
}

static int
start_objects(struct wrk *w, struct gp_err *err)
{
    struct wrk_priv *p = w->priv;
    int r = wrk_quota_new(p->desks, &p->quota);

    if (r == 0)
        r = wrk_waiters_new(w, &p->waiters);
    if (r == 0)
        r = wrk_waits_new(w, &p->waits);
    if (r == 0)
        r = wrk_transfer_init(w);
    if (r == 0)
        r = wrk_d2h_async_new(&p->d2h_async);
    if (r == 0)
        r = wrk_hostfns_new(w, &p->hosts);
    if (r == 0)
        r = wrk_sender_new(&p->sender);
    if (r)
        return gp_err_set(err, r, "no memory for the worker's objects");
    r = wrk_spatial_new(w, &p->spatial, err);
    return r < 0 ? r : wrk_governor_new(w, &p->governor, err);
}

/* SIGTERM: the supervisor ends this attachment.  The receive thread may be in any call.
 * Aborting the connection wakes it from all of them except calls of the driver, which
 * the supervisor's SIGKILL ends. */
static void *
signal_main(void *arg)
{
    struct wrk *w = arg;
    char words[WRK_ENDING_MAX + 1] = "";

    wrk_watch_run(w);
    wrk_resume_end();
    wrk_successor_catch_up(w->priv->desks);
    memcpy(words, w->priv->desks->segment->ending, WRK_ENDING_MAX);
    if (!words[0])
        snprintf(words, sizeof(words), "the session was ended by the pool");
    gp_log_info("worker", "ended by the supervisor: %s", words);
    wrk_end_reason_send(w, CUDA_ERROR_SYSTEM_NOT_READY, words);
    wrk_stop(w);
    return NULL;
}

/* The client has sent what no client sends, or this is a fault of ours. */
static void
say_bad(struct wrk *w)
{
    char words[WRK_ENDING_MAX];

    snprintf(words, sizeof(words), "bad frame %u: %s", atomic_load(&w->priv->seq),
             w->priv->bad);
    wrk_end_reason_send(w, CUDA_ERROR_SYSTEM_NOT_READY, words);
}

/* Before any thread, the driver's included, so that all inherit the mask. */
static void
block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* The receive thread runs for microseconds at a time.  With a short scheduler slice it
 * runs as soon as the client on the same core has woken it, so that the reply arrives
 * before the client has gone to sleep: two system calls per round trip instead of four.
 * For the receive thread only, because a driver's threads may compute.  Kernels before
 * 6.12 ignore the request. */
static void
reader_short_slice(void)
{
    /* The kernel's, whose header and the C library's exclude each other. */
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof(attr)};

    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
        return;
    attr.size = sizeof(attr);
    attr.runtime = READER_SLICE_NS;
    attr.flags = SCHED_FLAG_RESET_ON_FORK;
    if (attr.policy == SCHED_OTHER)
        syscall(SYS_sched_setattr, 0, &attr, 0);
}

/* With rseq(2) the kernel writes the current core to memory after every thread switch.
 * The receive thread switches once or twice per call and would pay for that each time,
 * and sched_getcpu() works without it. */
static void
reader_without_rseq(void)
{
#if defined(__GLIBC__) && __has_include(<sys/rseq.h>)
    if (__rseq_size)
        syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset,
                (uint32_t)sizeof(struct rseq), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
}

static void
tell_started(const struct wrk_conf *conf)
{
    struct wrk_request msg = {.kind = WRK_REQUEST_STARTED};

    if (conf->tell_started)
        wrk_request_send(WRK_FD_REQUEST, &msg, -1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int
serve(struct wrk *w, struct wrk_link *link, struct gp_err *err)
{
    struct wrk_priv *p = w->priv;
    pthread_t thread;
    struct wrk_sandbox box = sandbox_of(&p->conf);
    int r;

    /* Opens devices and sockets, which the filter ends. */
    wrk_link_prepare(link, &p->conf, WRK_FD_CONN);
    reader_short_slice();
    reader_without_rseq();
    if (wrk_watch_init() < 0)
        return gp_err_set(err, -EMFILE, "no descriptor for the watch");
    r = wrk_sandbox_memory(&box, err);
    if (r == 0)
        r = wrk_sandbox_filter(&box, err);
    wrk_shm_start(w);
    if (r == 0)
        r = wrk_attach_reply(w, link, WRK_FD_CONN, err);
    if (r == 0)
        r = wrk_link_open(link, w, WRK_FD_CONN, &p->conn, err);
    if (r == 0)
        r = wrk_ring_new(p->conn, &p->ring);
    wrk_link_fini(link);
    tell_started(&p->conf);
    if (r < 0)
        return r;
    atomic_store(&p->usage->gdr_mode, WRK_GDR_NONE);
    wrk_transport_note(w, p->conn);
    wrk_windows_new(w, p->conf.gpudirect, &p->windows);
    if (p->conn->blocks)
        xport_blocks_count(p->conn, &p->usage->spent[WRK_SPENT_PACKED][0],
                           &p->usage->spent[WRK_SPENT_PACKED_WIRE][0]);
    wrk_output_start(w);
    if (pthread_create(&thread, NULL, signal_main, w) != 0)
        return gp_err_set(err, -EAGAIN, "no thread for signals");
    r = wrk_loop_run(w);
    if (p->bad)
        say_bad(w);
    wrk_hostfns_cancel(p->hosts);
    wrk_governor_finish(w);
    wrk_images_finish();
    gp_log_debug("worker", "%u frames, %llu bytes in, %llu bytes out",
                 atomic_load(&p->seq), (unsigned long long)p->conn->stats.rx_bytes,
                 (unsigned long long)p->conn->stats.tx_bytes);
    xport_abort(p->conn);
    return r;
}

static int
worker_main(void)
{
    struct wrk *w = &the_worker;
    struct wrk_priv *p = w->priv;
    struct wrk_link link = {0};
    struct gp_err err = {0};
    int r;

    if (dup2(WRK_FD_LOG, STDERR_FILENO) >= 0)
        close(WRK_FD_LOG);
    r = read_conf(&p->conf, &err);
    if (r < 0) {
        fprintf(stderr, "gpupool-worker: %s\n", gp_err_msg(&err, r));
        return 2;
    }
    gp_log_init(p->conf.attachment, GP_LOG_WARN);
    wrk_crash_tell();
    /* The governor sleeps for tens of microseconds; the default timer slack of fifty
     * would be most of that.  Threads inherit the setting. */
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    prctl(PR_SET_NAME, p->conf.attachment, 0, 0, 0);
    block_signals();
    w->handles.link = p->conf.link;
    if (p->conf.links > 1)
        tls_found(NULL); /* for connections to other servers, which come later */
    r = wrk_tls_layer(&p->conf.tls, &link.wire, &err);
    explicit_bzero(&p->conf.tls.tx, sizeof(p->conf.tls.tx));
    explicit_bzero(&p->conf.tls.rx, sizeof(p->conf.tls.rx));
    if (r == 0)
        r = wrk_desks_open(&the_desks, p->conf.slot, &err);
    p->desks = &the_desks;
    the_desks.window_s = p->conf.adopt_window_s;
    if (r == 0) {
        p->usage = &the_desks.desk->usage;
        r = start_driver(w, &err);
    }
    if (r == 0 && p->conf.adopt_window_s)
        r = wrk_successor_start(&the_desks, &err);
    wrk_supervisor_open(&the_desks);
    if (r == 0)
        r = start_objects(w, &err);
    if (r < 0) {
        gp_log_error("worker", "%s", gp_err_msg(&err, r));
        if (link.wire || !p->conf.tls.suite)
            wrk_attach_refuse(&p->conf, &link, WRK_FD_CONN, gp_err_msg(&err, r));
        return 1;
    }
    r = serve(w, &link, &err);
    if (r < 0 && err.code)
        gp_log_error("worker", "%s", gp_err_msg(&err, r));
    return r == -EPROTO ? 3 : r < 0 && r != -ECANCELED;
}

static int
usage(int status)
{
    fputs(
        "Usage: gpupool-worker --probe [--driver NAME] [--user USER]\n"
        "                               [--read PATHS] [--check NUMBER | --events "
        "yes]\n"
        "Serves one client of gpupool-server, which starts it.  --probe prints the\n"
        "cards that a driver shows: softgpu, null, cuda, or a path; or, with --check,\n"
        "whether one of them works; or, with --events, their errors as they happen.\n",
        status ? stderr : stdout);
    return status;
}

static int
probe_main(int argc, char **argv)
{
    struct wrk_probe what = {
        .driver = "softgpu", .user = "", .readable = "", .check = -1};
    struct gp_err err = {0};
    uint64_t number;
    int r;

    for (int i = 2; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage(2);
        if (strcmp(argv[i], "--driver") == 0)
            what.driver = argv[i + 1];
        else if (strcmp(argv[i], "--user") == 0)
            what.user = argv[i + 1];
        else if (strcmp(argv[i], "--read") == 0)
            what.readable = argv[i + 1];
        else if (strcmp(argv[i], "--events") == 0)
            what.events = strcmp(argv[i + 1], "yes") == 0;
        else if (strcmp(argv[i], "--check") == 0 &&
                 gp_str_u64(argv[i + 1], 0, CTL_SERVER_CARDS_MAX, &number) == 0)
            what.check = (int)number;
        else
            return usage(2);
    }
    gp_log_init("probe", GP_LOG_INFO);
    r = wrk_probe(&what, &err);
    if (r < 0)
        gp_log_error("probe", "%s", gp_err_msg(&err, r));
    if (r < 0 && what.check >= 0)
        printf("%s\n", gp_err_msg(&err, r));
    return r != 0;
}

/* The kernel names a process after the last part of that path, which is a number. */
static void
close_program(void)
{
    const char *path = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    size_t len = strlen(WRK_PROGRAM_PATH);
    uint64_t fd;

    if (!path || strncmp(path, WRK_PROGRAM_PATH, len) != 0 ||
        gp_str_u64(path + len, WRK_FD_CONN, INT_MAX, &fd) < 0)
        return;
    close((int)fd);
    prctl(PR_SET_NAME, "gpupool-worker", 0, 0, 0);
}

int
main(int argc, char **argv)
{
    int status;

    close_program();
    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return usage(0);
    if (argc > 1 && strcmp(argv[1], "--probe") == 0)
        status = probe_main(argc, argv);
    else
        status = worker_main();
    fflush(NULL);
    _exit(status);
}
