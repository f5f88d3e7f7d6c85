/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens when the library is loaded and when the process ends.
 *
 * Loading reads the environment and connects to nothing.  At exit, runtimes still call
 * us from their own handlers, which run before an ELF destructor; so the link stays up
 * until then and is never closed by us: the kernel closes it, and no exit waits for a
 * server, but for one whose cards check kernels.
 */
#include "gp_log.h"
#include "gp_net.h"
#include "stub_call.h"
#include "stub_check.h"
#include "stub_flush.h"
#include "stub_link.h"
#include "stub_path_table.h"
#include "stub_report.h"
#include "stub_resume.h"
#include "stub_send_overflow.h"
#include "stub_session.h"
#include "stub_trace.h"
#include "xport.h"
#include "xport_resume.h"

#include <stdlib.h>
#include <string.h>

static bool
library_env_is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value && strcmp(value, "0") != 0;
}

/* Silent unless asked: the application's stderr is its own. */
__attribute__((constructor)) static void
library_loaded(void)
{
    const char *report = getenv("GPUPOOL_REPORT");

    gp_log_init("libcuda", GP_LOG_ERROR);
    stub_session_loaded();
    stub_tracing = library_env_is_set("GPUPOOL_TRACE");
    if (report && *report)
        stub_reporting = stub_report_open(report);
    stub_paths_shown = stub_tracing || gp_log_on("copy", GP_LOG_DEBUG);
    stub_slow = stub_tracing || stub_reporting;
    stub_launch_blocking = library_env_is_set("CUDA_LAUNCH_BLOCKING");
    if (stub_launch_blocking)
        stub_link_attend_all(STUB_ATTEND_FLUSH, true);
}

/* What was posted last leaves now: the flusher ends, and until the kernel closes the
 * link others may wait for memory that was freed so.  Not while another thread is
 * sending: the server waits for us then. */
static void
library_goodbye(struct stub_link *link)
{
    if (!stub_send_last(link))
        return;
    if (xport_resumes(link->conn))
        xport_resume_goodbye(link->conn);
    else if (xport_flushes_now(link->conn))
        xport_flush_now(link->conn);
    gp_lock_release(&link->send);
}

__attribute__((destructor)) static void
library_gone(void)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        uint32_t phase = atomic_load(&stub_links[i].phase);

        /* Not in the child of a fork(), whose parent goes on. */
        if (phase == STUB_READY || phase == STUB_LINKED) {
            if (phase == STUB_READY)
                stub_check_end(&stub_links[i]);
            /* An orderly end: what was said last still arrives. */
            library_goodbye(&stub_links[i]);
            stub_resume_end(stub_links[i].conn);
            gp_net_reset_on_close(stub_links[i].conn->fd, false);
        }
        stub_link_set_phase(&stub_links[i], STUB_GONE);
    }
}
