/* SPDX-License-Identifier: Apache-2.0 */
/* See sg_devrt.h. */
#include "sg_devrt.h"

#include "gp_base.h"
#include "sg_exec.h"

#include <string.h>

/* SG_DEVRT_HEAD and SG_DEVRT_RECORD as the text has them. */
#define HEAD "64"
#define RECORD "4160"
static_assert(SG_DEVRT_HEAD == 64 && SG_DEVRT_RECORD == 4160, "as the text has them");

static const char *const names[] = {"cudaCGGetIntrinsicHandle", "cudaCGSynchronize",
                                    "__cudaCDP2GetParameterBufferV2",
                                    "__cudaCDP2LaunchDeviceV2"};

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
    "OUT: st.param.b32 [ret], %r0; ret;\n}\n"
    /* struct sg_devrt_record on the heap; the parameters stand behind its head. */
    ".extern .func (.param .b64 ret) malloc(.param .b64 size);\n"
    ".extern .func (.param .b32 ret) " SG_LAUNCH_FUNCTION "(.param .b64 record);\n"
    ".weak .func (.param .b64 ret) __cudaCDP2GetParameterBufferV2(.param .b64 func, "
    ".param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], "
    ".param .b32 shared)\n{\n"
    ".reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<2>;\n"
    "mov.u64 %rd0, " RECORD ";\n"
    "{ .param .b64 p; .param .b64 q; st.param.b64 [p], %rd0;\n"
    "call.uni (q), malloc, (p); ld.param.b64 %rd1, [q]; }\n"
    "setp.eq.u64 %p0, %rd1, 0;\n"
    "@%p0 bra OUT;\n"
    "ld.param.u64 %rd2, [func]; st.u64 [%rd1], %rd2;\n"
    "ld.param.u32 %r0, [grid]; ld.param.u32 %r1, [grid+4]; ld.param.u32 %r2, "
    "[grid+8];\n"
    "st.u32 [%rd1+16], %r0; st.u32 [%rd1+20], %r1; st.u32 [%rd1+24], %r2;\n"
    "ld.param.u32 %r3, [block]; ld.param.u32 %r4, [block+4]; "
    "ld.param.u32 %r5, [block+8];\n"
    "st.u32 [%rd1+28], %r3; st.u32 [%rd1+32], %r4; st.u32 [%rd1+36], %r5;\n"
    "ld.param.u32 %r6, [shared]; st.u32 [%rd1+40], %r6;\n"
    "add.s64 %rd1, %rd1, " HEAD ";\n"
    "OUT: st.param.b64 [ret], %rd1; ret;\n}\n"
    ".weak .func (.param .b32 ret) __cudaCDP2LaunchDeviceV2(.param .b64 params, "
    ".param .b64 stream)\n{\n"
    ".reg .b32 %r<2>; .reg .b64 %rd<4>; .reg .pred %p<2>;\n"
    "ld.param.u64 %rd0, [params]; ld.param.u64 %rd1, [stream]; mov.u32 %r0, 1;\n"
    "setp.eq.u64 %p0, %rd0, 0;\n"
    "@%p0 bra OUT;\n"
    "sub.s64 %rd0, %rd0, " HEAD "; st.u64 [%rd0+8], %rd1;\n"
    "{ .param .b64 p; .param .b32 q; st.param.b64 [p], %rd0;\n"
    "call.uni (q), " SG_LAUNCH_FUNCTION ", (p); ld.param.b32 %r0, [q]; }\n"
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
