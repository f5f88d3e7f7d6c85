/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_output.h"

#include "gp_base.h"
#include "wrk.h"
#include "wrk_driver.h"

#include <stddef.h>
#include <stdint.h>

/* Text of one event; longer text comes in several. */
#define PIECE_MAX (32u * 1024)

/* The hook as softgpu declares it. */
struct output_hook {
    void (*set)(void (*fn)(void *user, CUcontext ctx, int fd, const char *text,
                           size_t len),
                void *user);
};

static void
on_text(void *user, CUcontext ctx, int fd, const char *text, size_t len)
{
    struct wrk *w = user;

    (void)ctx;
    while (len) {
        uint32_t n = (uint32_t)gp_min(len, (size_t)PIECE_MAX);
        struct wire_event_output event = {.fd = (uint32_t)fd, .len = n};

        wrk_event(w, WIRE_EVENT_OUTPUT, &event, sizeof(event), text, n);
        text += n;
        len -= n;
    }
}

bool
wrk_output_start(struct wrk *w)
{
    struct output_hook hook;
    void *symbol = wrk_driver_symbol("sg_set_output_hook");

    if (!symbol)
        return false;
    hook.set = (__typeof__(hook.set))(uintptr_t)symbol;
    hook.set(on_text, w);
    return true;
}
