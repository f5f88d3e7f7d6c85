/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_ending.h"

#include "attach.pb-c.h"
#include "attach_proof.h"
#include "gp_err.h"
#include "gp_fsize.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "stub_answer.h"
#include "stub_link.h"
#include "stub_session.h"
#include "wire_format.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CAUSE_MAX 700 /* the longest of the software GPU's is 520 */
/* The interval of queries while the supervisor does not know yet that the worker has
 * ended. */
#define AGAIN_NS (20 * (long)GP_NS_PER_MS)

/* ---- asking the supervisor -------------------------------------------------- */

static int
ending_send(const struct stub_link *link, struct gp_wire *wire, int fd,
            uint64_t deadline)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    uint8_t bytes[256], cookie[ATTACH_COOKIE_SIZE];

    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.ended_cookie = link->attach->lane_cookie;
    if (link->proven) {
        attach_cookie_make(link->key, ATTACH_COOKIE_ENDING, 0, cookie);
        req.ended_cookie.data = cookie;
        req.ended_cookie.len = WIRE_ENDING_COOKIE;
    }
    if (gpupool__attach_request__get_packed_size(&req) > sizeof(bytes))
        return -EPROTO;
    return gp_msg_send_over(wire, fd, bytes, gpupool__attach_request__pack(&req, bytes),
                            deadline, NULL);
}

static int
ending_receive(struct gp_wire *wire, int fd, uint64_t deadline,
               char words[STUB_ENDING_MAX])
{
    Gpupool__AttachReply *reply;
    int r = stub_answer_receive(wire, fd, STUB_ANSWER_MAX, deadline, &reply, NULL);

    if (r < 0)
        return r;
    if (reply->status == GPUPOOL__ATTACH_STATUS__ATTACH_OK)
        gp_str_copy(words, STUB_ENDING_MAX, reply->message);
    gpupool__attach_reply__free_unpacked(reply, NULL);
    return 0;
}

/* One question; 0 with no words: nothing is known (yet). */
static int
ending_query(const struct stub_link *link, uint64_t deadline,
             char words[STUB_ENDING_MAX])
{
    CLEANUP(gp_wire_freep) struct gp_wire *wire = NULL;
    CLEANUP_FD int fd = -1;
    int r = gp_net_connect(link->address, STUB_SERVER_PORT, deadline, true, &fd, NULL);

    if (r >= 0)
        r = stub_secure_connect(&link->tls, fd, deadline, &wire, NULL);
    if (r >= 0)
        r = ending_send(link, wire, fd, deadline);
    return r < 0 ? r : ending_receive(wire, fd, deadline, words);
}

void
stub_ending_of(const struct stub_link *link, int r, char words[STUB_ENDING_MAX])
{
    static const struct timespec again = {.tv_nsec = AGAIN_NS};
    uint64_t deadline = gp_now_ns() + STUB_ENDING_MS * GP_NS_PER_MS;

    words[0] = '\0';
    if (r == -ETIMEDOUT) {
        snprintf(words, STUB_ENDING_MAX,
                 "the server's host has acknowledged nothing for %u s "
                 "(GPUPOOL_LINK_TIMEOUT)",
                 xport_link_timeout());
        return;
    }
    if (r == -ETIME) {
        snprintf(
            words, STUB_ENDING_MAX,
            "its link broke and could not be replaced within %u s (GPUPOOL_RESUME)",
            link->attach->resume_s);
        return;
    }
    while (link->address && stub_link_can(link, "endings") && gp_now_ns() < deadline &&
           ending_query(link, deadline, words) == 0 && !words[0])
        nanosleep(&again, NULL);
    if (!words[0])
        snprintf(words, STUB_ENDING_MAX,
                 "connection closed; the server's log says more");
}

/* ---- telling gpupool run ---------------------------------------------------- */

/* The file is there only if `gpupool run` wants to know. */
void
stub_ending_leave(const char *line)
{
    const char *session = getenv("GPUPOOL_SESSION_FILE");
    CLEANUP_FREE char *path = session ? gp_str_printf("%s.end", session) : NULL;
    struct gp_fsize guard;
    CLEANUP_FD int fd = -1;

    if (!path)
        return;
    gp_fsize_begin(&guard);
    fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && dprintf(fd, "%s\n", line) < 0)
        gp_log_debug("stub", "%s: %s", path, strerror(errno));
    gp_fsize_end(&guard);
}

void
stub_ending_cause(const char *words, uint32_t len)
{
    static atomic_flag left = ATOMIC_FLAG_INIT;
    char line[sizeof(WIRE_ENDING_CAUSE) + CAUSE_MAX];
    const char *end = memchr(words, '\n', len);

    if (end)
        len = (uint32_t)(end - words);
    if (atomic_flag_test_and_set(&left))
        return;
    snprintf(line, sizeof(line), WIRE_ENDING_CAUSE "%.*s",
             (int)gp_min(len, (uint32_t)CAUSE_MAX), words);
    stub_ending_leave(line);
}
