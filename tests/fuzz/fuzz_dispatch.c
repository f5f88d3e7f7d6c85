/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's generated dispatch against hostile frames, before a driver that agrees
 * to everything: whatever arrives, nothing is read or written outside the frame and the
 * buffers of the dispatch.  The input says which calls are made and what is wrong with
 * their bodies; handles live from one frame to the next.  tests/fuzz/dispatch_seeds.py
 * writes such inputs. */
#include "gen_loop.h"
#include "test_codec.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t body[WIRE_FRAME_MAX / 8];

uint64_t
codec_test_number(uint32_t seed)
{
    return (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

void
codec_test_fill(void *part, uint64_t count, size_t elem, int is_string)
{
    memset(part, is_string ? 'x' : 0, count * elem);
    if (is_string && count)
        ((char *)part)[count - 1] = '\0';
}

void
codec_test_read(const void *part, uint64_t count, size_t elem)
{
}

static CUresult driver_answer;

static CUresult
answer(void)
{
    return driver_answer;
}

static void
driver_make(void)
{
    void *fn = (void *)answer;

    gen_loop_reset();
    for (size_t at = 0; at < sizeof(loop.drv); at += sizeof(fn))
        memcpy((char *)&loop.drv + at, &fn, sizeof(fn));
    for (int kind = 1; kind < WIRE_KIND_COUNT; kind++)
        gen_loop_handle((enum wire_kind)kind, body);
}

/* How one frame differs from a good one. */
struct step {
    uint16_t which; /* number of the call; any other picks one of the bodies, modulo */
    uint8_t seed;
    uint8_t patches; /* that many follow */
    uint16_t cut;    /* bytes off the end, modulo, with CUT; else see REFUSED */
};
#define CUT 1u
#define REFUSED 2u /* the driver answers with an error */

struct patch {
    uint16_t at; /* modulo the size */
    uint8_t value;
};

static const struct codec_test *
body_of(uint16_t which)
{
    for (unsigned i = 0; i < codec_test_count; i++)
        if (codec_tests[i].request && codec_tests[i].call == which)
            return &codec_tests[i];
    return &codec_tests[which % codec_test_count];
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct patch patch;
    struct step step;

    driver_make();
    while (size >= sizeof(step)) {
        const struct codec_test *t;
        uint32_t len;

        memcpy(&step, data, sizeof(step));
        data += sizeof(step);
        size -= sizeof(step);
        t = body_of(step.which);
        len = t->make(body, step.seed);
        while (step.patches-- && size >= sizeof(patch)) {
            memcpy(&patch, data, sizeof(patch));
            data += sizeof(patch);
            size -= sizeof(patch);
            if (len)
                ((uint8_t *)body)[patch.at % len] = patch.value;
        }
        driver_answer = step.cut & REFUSED && !(step.cut & CUT)
                            ? CUDA_ERROR_INVALID_VALUE
                            : CUDA_SUCCESS;
        if (step.cut & CUT)
            len -= step.cut % (len + 1);
        gen_loop_frame(t->call, body, len & ~7u);
    }
    return 0;
}
