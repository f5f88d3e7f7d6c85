/* SPDX-License-Identifier: Apache-2.0 */
/* See sg_devrt.h. */
#include "sg_devrt.h"

#include "gp_base.h"

#include <string.h>

static const char *const names[] = {"cudaCGGetIntrinsicHandle", "cudaCGSynchronize"};

/* The handle of a grid is the workspace of its cooperative launch; its second word
 * counts arrivals.  All blocks but the first add 1, the first what makes the sum
 * 2^31: the top bit changes when the last has come. */
static const char text[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    ".weak .func (.param .b64 ret) cudaCGGetIntrinsicHandle(.param .b32 scope)\n{\n"
    ".reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<2>;\n"
    "mov.u32 %r0, %envreg1; mov.u32 %r1, %envreg2; mov.b64 %rd0, {%r1, %r0};\n"
    "ld.param.u32 %r2, [scope]; setp.ne.u32 %p0, %r2, 1;\n"
    "@%p0 mov.u64 %rd0, 0;\n"
    "st.param.b64 [ret], %rd0; ret;\n}\n"
    ".weak .func (.param .b32 ret) cudaCGSynchronize(.param .b64 handle, "
    ".param .b32 flags)\n{\n"
    ".reg .b32 %r<12>; .reg .b64 %rd<2>; .reg .pred %p<4>;\n"
    "ld.param.u64 %rd0, [handle]; mov.u32 %r0, 1; setp.eq.u64 %p0, %rd0, 0;\n"
    "@%p0 bra OUT;\n"
    "barrier.sync 0;\n"
    "mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z;\n"
    "or.b32 %r0, %r0, %r1; or.b32 %r0, %r0, %r2; setp.ne.u32 %p1, %r0, 0;\n"
    "@%p1 bra CAME;\n"
    "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z;\n"
    "or.b32 %r0, %r0, %r1; or.b32 %r0, %r0, %r2; setp.ne.u32 %p2, %r0, 0;\n"
    "mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y; mov.u32 %r5, %nctaid.z;\n"
    "mul.lo.u32 %r3, %r3, %r4; mul.lo.u32 %r3, %r3, %r5;\n"
    "sub.u32 %r3, 0x80000001, %r3; selp.b32 %r3, 1, %r3, %p2;\n"
    "fence.acq_rel.gpu; atom.add.release.gpu.u32 %r6, [%rd0+4], %r3;\n"
    "AGAIN: ld.acquire.gpu.u32 %r7, [%rd0+4]; xor.b32 %r7, %r7, %r6;\n"
    "setp.ge.s32 %p3, %r7, 0;\n"
    "@%p3 bra AGAIN;\n"
    "CAME: barrier.sync 0; mov.u32 %r0, 0;\n"
    "OUT: st.param.b32 [ret], %r0; ret;\n}\n";

const char *
sg_devrt_text(char *const *inputs, const size_t *lens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (memmem(inputs[i], lens[i], names[k], strlen(names[k])))
                return text;
    return NULL;
}
