/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of replay.h: what they do to memory is known and depends on the order. */
#ifndef REPLAY_KERNELS_H
#define REPLAY_KERNELS_H

/* step: p[i] = p[i] * 1664525 + k + i.  mix: d[i] = d[i] * 31 ^ s[i].  idle: nothing.
 */
#define REPLAY_PTX                                                                     \
    ".version 6.0\n.target sm_50\n.address_size 64\n"                                  \
    ".visible .entry step(.param .u64 p, .param .u32 n, .param .u32 k)\n{\n"           \
    ".reg .pred %q;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n"                             \
    "ld.param.u64 %d0, [p];\nld.param.u32 %r0, [n];\nld.param.u32 %r1, [k];\n"         \
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"            \
    "mad.lo.s32 %r2, %r2, %r3, %r4;\nsetp.ge.u32 %q, %r2, %r0;\n@%q ret;\n"            \
    "mul.wide.u32 %d1, %r2, 4;\nadd.s64 %d0, %d0, %d1;\n"                              \
    "ld.global.u32 %r5, [%d0];\nmad.lo.s32 %r5, %r5, 1664525, %r1;\n"                  \
    "add.s32 %r5, %r5, %r2;\nst.global.u32 [%d0], %r5;\nret;\n}\n"                     \
    ".visible .entry mix(.param .u64 d, .param .u64 s, .param .u32 n)\n{\n"            \
    ".reg .pred %q;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n"                             \
    "ld.param.u64 %d0, [d];\nld.param.u64 %d1, [s];\nld.param.u32 %r0, [n];\n"         \
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"            \
    "mad.lo.s32 %r2, %r2, %r3, %r4;\nsetp.ge.u32 %q, %r2, %r0;\n@%q ret;\n"            \
    "mul.wide.u32 %d2, %r2, 4;\nadd.s64 %d0, %d0, %d2;\nadd.s64 %d1, %d1, %d2;\n"      \
    "ld.global.u32 %r5, [%d0];\nld.global.u32 %r6, [%d1];\n"                           \
    "mul.lo.s32 %r5, %r5, 31;\nxor.b32 %r5, %r5, %r6;\n"                               \
    "st.global.u32 [%d0], %r5;\nret;\n}\n"                                             \
    ".visible .entry idle()\n{\nret;\n}\n"

#endif
