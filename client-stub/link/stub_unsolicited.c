/* SPDX-License-Identifier: Apache-2.0 */
/* Unsolicited messages: output of kernels and the end of the session are handled
 * here, all others by the features that list them. */
#include "stub_unsolicited.h"

#include "gp_log.h"
#include "stub_deferred.h"
#include "stub_ending.h"
#include "stub_hooks.h"
#include "stub_result.h"
#include "wire_format.h"

#include <stdio.h>
#include <string.h>

/* What kernels print is the application's own output, so it goes through the
 * application's stdio and keeps its place among what the host prints. */
static const char *
event_output(const void *body, uint32_t size)
{
    struct wire_event_output ev;

    if (size < sizeof(ev))
        return "short output event";
    memcpy(&ev, body, sizeof(ev));
    if (ev.len > size - sizeof(ev))
        return "output event longer than its frame";
    fwrite((const char *)body + sizeof(ev), 1, ev.len, ev.fd == 2 ? stderr : stdout);
    return NULL;
}

static const char *
event_cause(const void *body, uint32_t size)
{
    struct wire_event_cause ev;

    if (size < sizeof(ev))
        return "short cause event";
    memcpy(&ev, body, sizeof(ev));
    if (ev.len > size - sizeof(ev))
        return "cause event longer than its frame";
    stub_ending_cause((const char *)body + sizeof(ev), ev.len);
    return NULL;
}

static const char *
event_deferred(const void *body, uint32_t size)
{
    struct wire_event_deferred ev;

    if (size < sizeof(ev))
        return "short event of a deferred error";
    memcpy(&ev, body, sizeof(ev));
    stub_deferred_error(ev.call, (CUresult)ev.result);
    return NULL;
}

/* The words are the thread's until its next such event. */
static const char *
event_lost(const void *body, uint32_t size)
{
    static __thread char words[256];
    struct wire_event_lost ev;
    uint32_t len = 0;

    if (size >= sizeof(ev)) {
        memcpy(&ev, body, sizeof(ev));
        len = gp_min(ev.len, size - (uint32_t)sizeof(ev));
        stub_result_lost_as((CUresult)ev.result);
    }
    snprintf(words, sizeof(words), "ended by the server: %.*s", (int)gp_min(len, 200u),
             (const char *)body + sizeof(ev));
    return words;
}

const char *
stub_unsolicited_take(struct stub_link *link, const struct wire_rep *event)
{
    uint32_t size = event->size - (uint32_t)sizeof(*event);
    const struct stub_unsolicited *taker;

    switch (event->call) {
    case WIRE_EVENT_OUTPUT:
        return event_output(event + 1, size);
    case WIRE_EVENT_CAUSE:
        return event_cause(event + 1, size);
    case WIRE_EVENT_DEFERRED:
        return event_deferred(event + 1, size);
    case WIRE_EVENT_CREDIT:
        return NULL;
    case WIRE_EVENT_LOST:
        return event_lost(event + 1, size);
    default:
        taker = stub_hooks_unsolicited(event->call);
        if (taker)
            return taker->take(link, event);
        gp_log_debug("stub", "event 0x%04x is unknown here", event->call);
        return NULL;
    }
}
