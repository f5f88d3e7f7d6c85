/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every word of the PTX language that softgpu has a number for: types, state
 * spaces, instructions, modifiers, directives.  One list, one enum, so that a
 * table may switch on integers and nobody compares strings.
 *
 * A word is listed once, whatever it is used for: `add` is an instruction and
 * also the operation of `atom.add`; both are PTX_W_add.  `::` is written `__`
 * in the enumerator.  A word that is not listed gets a number of its own from
 * PTX_W_COUNT upwards while its module is parsed; ptx_word_name() names both
 * kinds.  Constants only: no owner, any thread.
 */
#ifndef PTX_WORDS_H
#define PTX_WORDS_H

/* clang-format off */
/* X(enumerator, text, bytes): fundamental, packed and opaque types.  Types
 * narrower than a byte, which only matrix instructions name, have size 0. */
#define PTX_TYPE_WORDS(X)                                                              \
    X(b8, "b8", 1) X(b16, "b16", 2) X(b32, "b32", 4) X(b64, "b64", 8)                  \
    X(b128, "b128", 16) X(u8, "u8", 1) X(u16, "u16", 2) X(u32, "u32", 4)               \
    X(u64, "u64", 8) X(s8, "s8", 1) X(s16, "s16", 2) X(s32, "s32", 4)                  \
    X(s64, "s64", 8) X(f16, "f16", 2) X(f16x2, "f16x2", 4) X(bf16, "bf16", 2)          \
    X(bf16x2, "bf16x2", 4) X(tf32, "tf32", 4) X(f32, "f32", 4) X(f64, "f64", 8)        \
    X(f32x2, "f32x2", 8) X(u16x2, "u16x2", 4) X(s16x2, "s16x2", 4)                     \
    X(u8x4, "u8x4", 4) X(s8x4, "s8x4", 4) X(pred, "pred", 1)                           \
    X(e4m3, "e4m3", 1) X(e5m2, "e5m2", 1) X(e3m2, "e3m2", 1) X(e2m3, "e2m3", 1)        \
    X(e2m1, "e2m1", 0) X(ue8m0, "ue8m0", 1) X(ue4m3, "ue4m3", 1)                       \
    X(e4m3x2, "e4m3x2", 2) X(e5m2x2, "e5m2x2", 2) X(e3m2x2, "e3m2x2", 2)               \
    X(e2m3x2, "e2m3x2", 2) X(e2m1x2, "e2m1x2", 1) X(ue8m0x2, "ue8m0x2", 2)             \
    X(e4m3x4, "e4m3x4", 4) X(e5m2x4, "e5m2x4", 4) X(e3m2x4, "e3m2x4", 4)               \
    X(e2m3x4, "e2m3x4", 4) X(e2m1x4, "e2m1x4", 2) X(s2f6x2, "s2f6x2", 2)               \
    X(b6x16_p32, "b6x16_p32", 0) X(b4x16_p64, "b4x16_p64", 0) X(b4x16, "b4x16", 0)     \
    X(b6p2x16, "b6p2x16", 0) X(u4, "u4", 0) X(s4, "s4", 0) X(b1, "b1", 0)              \
    X(u2, "u2", 0) X(s2, "s2", 0)                                                      \
    X(texref, "texref", 8) X(samplerref, "samplerref", 8) X(surfref, "surfref", 8)

/* Shapes of warpgroup matrices: in this order, by n and then by k. */
#define PTX_M64_(X, n)                                                                 \
    X(m64n##n##k8, "m64n" #n "k8") X(m64n##n##k16, "m64n" #n "k16")                    \
    X(m64n##n##k32, "m64n" #n "k32") X(m64n##n##k64, "m64n" #n "k64")                  \
    X(m64n##n##k256, "m64n" #n "k256")
#define PTX_M64_SHAPES_(X)                                                             \
    PTX_M64_(X, 8) PTX_M64_(X, 16) PTX_M64_(X, 24) PTX_M64_(X, 32) PTX_M64_(X, 40)     \
    PTX_M64_(X, 48) PTX_M64_(X, 56) PTX_M64_(X, 64) PTX_M64_(X, 72) PTX_M64_(X, 80)    \
    PTX_M64_(X, 88) PTX_M64_(X, 96) PTX_M64_(X, 104) PTX_M64_(X, 112)                  \
    PTX_M64_(X, 120) PTX_M64_(X, 128) PTX_M64_(X, 136) PTX_M64_(X, 144)                \
    PTX_M64_(X, 152) PTX_M64_(X, 160) PTX_M64_(X, 168) PTX_M64_(X, 176)                \
    PTX_M64_(X, 184) PTX_M64_(X, 192) PTX_M64_(X, 200) PTX_M64_(X, 208)                \
    PTX_M64_(X, 216) PTX_M64_(X, 224) PTX_M64_(X, 232) PTX_M64_(X, 240)                \
    PTX_M64_(X, 248) PTX_M64_(X, 256)

/* X(enumerator, text): state spaces, also as modifiers. */
#define PTX_SPACE_WORDS(X)                                                             \
    X(reg, "reg") X(sreg, "sreg") X(const, "const") X(global, "global")                \
    X(local, "local") X(param, "param") X(shared, "shared") X(tex, "tex")              \
    X(generic, "generic") X(shared__cta, "shared::cta")                                \
    X(shared__cluster, "shared::cluster") X(param__entry, "param::entry")              \
    X(param__func, "param::func")

/* Instructions (`tex` and `exit`-like words that are listed elsewhere are not
 * repeated). */
#define PTX_OPCODE_WORDS(X)                                                            \
    X(abs, "abs") X(activemask, "activemask") X(add, "add") X(addc, "addc")            \
    X(alloca, "alloca") X(and, "and") X(applypriority, "applypriority")                \
    X(atom, "atom") X(bar, "bar") X(barrier, "barrier") X(bfe, "bfe")                  \
    X(bfi, "bfi") X(bfind, "bfind") X(bmsk, "bmsk") X(bra, "bra")                      \
    X(brev, "brev") X(brkpt, "brkpt") X(brx, "brx") X(call, "call") X(clz, "clz")      \
    X(clusterlaunchcontrol, "clusterlaunchcontrol") X(cnot, "cnot")                    \
    X(copysign, "copysign") X(cos, "cos") X(cp, "cp") X(createpolicy, "createpolicy")  \
    X(cvt, "cvt") X(cvta, "cvta") X(discard, "discard") X(div, "div")                  \
    X(dp2a, "dp2a") X(dp4a, "dp4a") X(elect, "elect") X(ex2, "ex2")                    \
    X(exit, "exit") X(fence, "fence") X(fma, "fma") X(fns, "fns")                      \
    X(getctarank, "getctarank") X(griddepcontrol, "griddepcontrol")                    \
    X(isspacep, "isspacep") X(istypep, "istypep") X(ld, "ld")                          \
    X(ldmatrix, "ldmatrix") X(ldu, "ldu") X(lg2, "lg2") X(lop3, "lop3")                \
    X(mad, "mad") X(mad24, "mad24") X(madc, "madc") X(mapa, "mapa")                    \
    X(match, "match") X(max, "max") X(mbarrier, "mbarrier") X(membar, "membar")        \
    X(min, "min") X(mma, "mma") X(mov, "mov") X(movmatrix, "movmatrix")                \
    X(mul, "mul") X(mul24, "mul24") X(multimem, "multimem")                            \
    X(nanosleep, "nanosleep") X(neg, "neg") X(not, "not") X(or, "or")                  \
    X(pmevent, "pmevent") X(popc, "popc") X(prefetch, "prefetch")                      \
    X(prefetchu, "prefetchu") X(prmt, "prmt") X(rcp, "rcp") X(red, "red")              \
    X(redux, "redux") X(rem, "rem") X(ret, "ret") X(rsqrt, "rsqrt") X(sad, "sad")      \
    X(selp, "selp") X(set, "set") X(setmaxnreg, "setmaxnreg") X(setp, "setp")          \
    X(shf, "shf") X(shfl, "shfl") X(shl, "shl") X(shr, "shr") X(sin, "sin")            \
    X(slct, "slct") X(sqrt, "sqrt") X(st, "st") X(stackrestore, "stackrestore")        \
    X(stacksave, "stacksave") X(stmatrix, "stmatrix") X(sub, "sub")                    \
    X(subc, "subc") X(suld, "suld") X(suq, "suq") X(sured, "sured")                    \
    X(sust, "sust") X(szext, "szext") X(tanh, "tanh") X(tcgen05, "tcgen05")            \
    X(tensormap, "tensormap") X(testp, "testp") X(tld4, "tld4") X(trap, "trap")        \
    X(txq, "txq") X(vabsdiff, "vabsdiff") X(vabsdiff2, "vabsdiff2")                    \
    X(vabsdiff4, "vabsdiff4") X(vadd, "vadd") X(vadd2, "vadd2") X(vadd4, "vadd4")      \
    X(vavrg2, "vavrg2") X(vavrg4, "vavrg4") X(vmad, "vmad") X(vmax, "vmax")            \
    X(vmax2, "vmax2") X(vmax4, "vmax4") X(vmin, "vmin") X(vmin2, "vmin2")              \
    X(vmin4, "vmin4") X(vote, "vote") X(vset, "vset") X(vset2, "vset2")                \
    X(vset4, "vset4") X(vshl, "vshl") X(vshr, "vshr") X(vsub, "vsub")                  \
    X(vsub2, "vsub2") X(vsub4, "vsub4") X(wgmma, "wgmma") X(wmma, "wmma")              \
    X(xor, "xor")

/* Modifiers of instructions. */
#define PTX_MODIFIER_WORDS(X)                                                          \
    /* widths */                                                                       \
    X(v2, "v2") X(v4, "v4") X(v8, "v8") X(lo, "lo") X(hi, "hi") X(wide, "wide")        \
    /* rounding, saturation, precision */                                              \
    X(rn, "rn") X(rz, "rz") X(rm, "rm") X(rp, "rp") X(rna, "rna") X(rs, "rs")          \
    X(rni, "rni") X(rzi, "rzi") X(rmi, "rmi") X(rpi, "rpi") X(ftz, "ftz")              \
    X(sat, "sat") X(satfinite, "satfinite") X(relu, "relu") X(approx, "approx")        \
    X(full, "full") X(oob, "oob") X(NaN, "NaN") X(xorsign, "xorsign")                  \
    X(scale, "scale") X(cc, "cc") X(pack, "pack") X(mask, "mask")                                                      \
    /* comparisons and tests */                                                        \
    X(eq, "eq") X(ne, "ne") X(lt, "lt") X(le, "le") X(gt, "gt") X(ge, "ge")            \
    X(ls, "ls") X(hs, "hs") X(equ, "equ") X(neu, "neu") X(ltu, "ltu") X(leu, "leu")    \
    X(gtu, "gtu") X(geu, "geu") X(num, "num") X(nan, "nan") X(finite, "finite")        \
    X(infinite, "infinite") X(number, "number") X(notanumber, "notanumber")            \
    X(normal, "normal") X(subnormal, "subnormal")                                      \
    /* shifts, permutes, extracts */                                                   \
    X(wrap, "wrap") X(clamp, "clamp") X(l, "l") X(r, "r") X(shiftamt, "shiftamt")      \
    X(f4e, "f4e") X(b4e, "b4e") X(rc8, "rc8") X(ecl, "ecl") X(ecr, "ecr")              \
    X(rc16, "rc16") X(shr7, "shr7") X(shr15, "shr15") X(po, "po")                      \
    /* memory: caching, consistency, scope */                                          \
    X(ca, "ca") X(cg, "cg") X(cs, "cs") X(lu, "lu") X(cv, "cv") X(wb, "wb")            \
    X(wt, "wt") X(nc, "nc") X(volatile, "volatile") X(weak, "weak")                    \
    X(relaxed, "relaxed") X(acquire, "acquire") X(release, "release")                  \
    X(acq_rel, "acq_rel") X(sc, "sc") X(mmio, "mmio") X(cta, "cta")                    \
    X(cluster, "cluster") X(gpu, "gpu") X(sys, "sys") X(gl, "gl")                      \
    X(unified, "unified") X(L1, "L1") X(L2, "L2")                                      \
    X(L1__evict_normal, "L1::evict_normal")                                            \
    X(L1__evict_unchanged, "L1::evict_unchanged")                                      \
    X(L1__evict_first, "L1::evict_first") X(L1__evict_last, "L1::evict_last")          \
    X(L1__no_allocate, "L1::no_allocate") X(L2__evict_normal, "L2::evict_normal")      \
    X(L2__evict_first, "L2::evict_first") X(L2__evict_last, "L2::evict_last")          \
    X(L2__evict_unchanged, "L2::evict_unchanged") X(L2__cache_hint, "L2::cache_hint")  \
    X(L2__64B, "L2::64B") X(L2__128B, "L2::128B") X(L2__256B, "L2::256B")              \
    X(fractional, "fractional") X(range, "range") X(tensormap__generic,                \
                                                    "tensormap::generic")              \
    X(proxy, "proxy")                                                                  \
    X(async__generic, "async::generic")                                                \
    X(sync_restrict__shared__cta__cluster, "sync_restrict::shared::cta::cluster")      \
    X(sync_restrict__shared__cta, "sync_restrict::shared::cta")                        \
    X(sync_restrict__shared__cluster, "sync_restrict::shared::cluster")                \
    X(op_restrict, "op_restrict") X(mbarrier_init, "mbarrier_init") X(to, "to")        \
    /* atomics */                                                                      \
    X(exch, "exch") X(cas, "cas") X(inc, "inc") X(dec, "dec") X(noftz, "noftz")        \
    /* control, barriers, warp */                                                      \
    X(uni, "uni") X(idx, "idx") X(sync, "sync") X(arrive, "arrive") X(warp, "warp")    \
    X(aligned, "aligned") X(wait, "wait") X(all, "all") X(any, "any")                  \
    X(ballot, "ballot") X(up, "up") X(down, "down") X(bfly, "bfly")                    \
    X(noinc, "noinc") X(noComplete, "noComplete") X(init, "init") X(inval, "inval")    \
    X(arrive_drop, "arrive_drop") X(test_wait, "test_wait")                            \
    X(try_wait, "try_wait") X(pending_count, "pending_count")                          \
    X(expect_tx, "expect_tx") X(complete_tx, "complete_tx") X(parity, "parity")        \
    X(phase, "phase") X(try_cancel, "try_cancel") X(query_cancel, "query_cancel")      \
    X(is_canceled, "is_canceled") X(get_first_ctaid, "get_first_ctaid")   \
    X(get_first_ctaid__x, "get_first_ctaid::x")                                        \
    X(get_first_ctaid__y, "get_first_ctaid::y")                                        \
    X(get_first_ctaid__z, "get_first_ctaid::z")                \
    X(launch_dependents, "launch_dependents") X(async, "async")                        \
    X(async__barrier, "async::barrier")                                                \
    /* asynchronous copies */                                                          \
    X(bulk, "bulk") X(commit_group, "commit_group") X(wait_group, "wait_group")        \
    X(wait_all, "wait_all") X(bulk_group, "bulk_group") X(read, "read")                \
    X(tensor, "tensor") X(tile, "tile") X(im2col, "im2col")                            \
    X(tile__gather4, "tile::gather4") X(tile__scatter4, "tile::scatter4")              \
    X(im2col__w, "im2col::w") X(im2col__w__128, "im2col::w::128")                      \
    X(im2col_no_offs, "im2col_no_offs") X(ignore_src, "ignore_src")                    \
    X(multicast__cluster, "multicast::cluster")                                        \
    X(multicast__cluster__all, "multicast::cluster::all")                              \
    X(mbarrier__complete_tx__bytes, "mbarrier::complete_tx::bytes")                    \
    X(mbarrier__arrive__one, "mbarrier::arrive::one") X(cp_mask, "cp_mask")            \
    X(ld_reduce, "ld_reduce") X(acc__f16, "acc::f16") X(acc__f32, "acc::f32")          \
    X(reduce, "reduce") X(replace, "replace") X(cp_fenceproxy, "cp_fenceproxy")        \
    X(global_address, "global_address") X(rank, "rank") X(box_dim, "box_dim")          \
    X(global_dim, "global_dim") X(global_stride, "global_stride")                      \
    X(element_stride, "element_stride") X(elemtype, "elemtype")                        \
    X(interleave_layout, "interleave_layout") X(swizzle_mode, "swizzle_mode")          \
    X(swizzle_atomicity, "swizzle_atomicity") X(fill_mode, "fill_mode")                \
    X(b1024, "b1024")                                                                  \
    /* matrices */                                                                     \
    X(load, "load") X(store, "store") X(a, "a") X(b, "b") X(c, "c") X(d, "d")          \
    X(row, "row") X(col, "col") X(trans, "trans") X(x1, "x1") X(x2, "x2") X(x4, "x4")  \
    X(x8, "x8") X(x16, "x16") X(x32, "x32") X(x64, "x64") X(x128, "x128")              \
    X(b8x16, "b8x16") X(m8n8, "m8n8") X(m16n16, "m16n16") X(m16n8, "m16n8") X(m8n16, "m8n16")            \
    X(m16n16k16, "m16n16k16") X(m8n32k16, "m8n32k16") X(m32n8k16, "m32n8k16")          \
    X(m16n16k8, "m16n16k8") X(m8n8k4, "m8n8k4") X(m8n8k16, "m8n8k16")                  \
    X(m8n8k32, "m8n8k32") X(m8n8k128, "m8n8k128") X(m16n8k4, "m16n8k4")                \
    X(m16n8k8, "m16n8k8") X(m16n8k16, "m16n8k16") X(m16n8k32, "m16n8k32")              \
    X(m16n8k64, "m16n8k64") X(m16n8k128, "m16n8k128") X(m16n8k256, "m16n8k256")        \
    PTX_M64_SHAPES_(X)                                                                 \
    X(sp, "sp") X(sp__ordered_metadata, "sp::ordered_metadata")                        \
    X(block_scale, "block_scale") X(mma_async, "mma_async")                            \
    X(scale_vec__1X, "scale_vec::1X") X(scale_vec__2X, "scale_vec::2X")                \
    X(scale_vec__4X, "scale_vec::4X") X(kind__f8f6f4, "kind::f8f6f4")                  \
    X(kind__mxf8f6f4, "kind::mxf8f6f4") X(kind__mxf4, "kind::mxf4")                    \
    X(kind__mxf4nvf4, "kind::mxf4nvf4") X(kind__f16, "kind::f16")                      \
    X(kind__tf32, "kind::tf32") X(kind__i8, "kind::i8")                                \
    X(dst__src, "dst::src") X(ws, "ws") X(alloc, "alloc") X(dealloc, "dealloc")        \
    X(relinquish_alloc_permit, "relinquish_alloc_permit") X(commit, "commit")          \
    X(shift, "shift") X(cta_group__1, "cta_group::1") X(cta_group__2, "cta_group::2")  \
    X(fence__before_thread_sync, "fence::before_thread_sync")                          \
    X(fence__after_thread_sync, "fence::after_thread_sync") X(pack__16b, "pack::16b")  \
    X(unpack__16b, "unpack::16b") X(32x32b, "32x32b") X(16x64b, "16x64b")              \
    X(16x128b, "16x128b") X(16x256b, "16x256b") X(16x32bx2, "16x32bx2")                \
    /* textures and surfaces */                                                        \
    X(1d, "1d") X(2d, "2d") X(3d, "3d") X(4d, "4d") X(5d, "5d") X(a1d, "a1d")          \
    X(a2d, "a2d") X(cube, "cube") X(acube, "acube") X(2dms, "2dms")                    \
    X(a2dms, "a2dms") X(base, "base") X(level, "level") X(grad, "grad") X(p, "p")      \
    X(g, "g") X(zero, "zero") X(width, "width") X(height, "height")                    \
    X(depth, "depth") X(channel_data_type, "channel_data_type")                        \
    X(channel_order, "channel_order") X(normalized_coords, "normalized_coords")        \
    X(force_unnormalized_coords, "force_unnormalized_coords")                          \
    X(filter_mode, "filter_mode") X(addr_mode_0, "addr_mode_0")                        \
    X(addr_mode_1, "addr_mode_1") X(addr_mode_2, "addr_mode_2")                        \
    X(array_size, "array_size") X(num_mipmap_levels, "num_mipmap_levels")              \
    X(num_samples, "num_samples") X(memory_layout, "memory_layout")                    \
    /* sub-word and component selectors */                                             \
    X(x, "x") X(y, "y") X(z, "z") X(w, "w") X(b0, "b0") X(b2, "b2") X(b3, "b3")        \
    X(h0, "h0") X(h1, "h1") X(b10, "b10") X(b20, "b20") X(b21, "b21") X(b30, "b30")    \
    X(b31, "b31") X(b210, "b210") X(b3210, "b3210")                    \
    X(h10, "h10")

/* Directives and their attributes. */
#define PTX_DIRECTIVE_WORDS(X)                                                         \
    X(version, "version") X(target, "target") X(address_size, "address_size")          \
    X(entry, "entry") X(func, "func") X(visible, "visible") X(extern, "extern")        \
    X(common, "common") X(align, "align") X(ptr, "ptr") X(attribute, "attribute")      \
    X(managed, "managed") X(maxntid, "maxntid") X(reqntid, "reqntid")                  \
    X(minnctapersm, "minnctapersm") X(maxnctapersm, "maxnctapersm")                    \
    X(maxnreg, "maxnreg") X(noreturn, "noreturn") X(pragma, "pragma")                  \
    X(abi_preserve, "abi_preserve") X(abi_preserve_control, "abi_preserve_control")    \
    X(explicitcluster, "explicitcluster")                                              \
    X(reqnctapercluster, "reqnctapercluster") X(maxclusterrank, "maxclusterrank")      \
    X(blocksareclusters, "blocksareclusters") X(callprototype, "callprototype")        \
    X(calltargets, "calltargets") X(branchtargets, "branchtargets")                    \
    X(alias, "alias") X(file, "file") X(loc, "loc") X(section, "section")              \
    X(function_name, "function_name") X(inlined_at, "inlined_at")

/* clang-format on */

enum ptx_word {
    PTX_W_NONE,
#define PTX_W_ENUM3_(id, text, size) PTX_W_##id,
#define PTX_W_ENUM2_(id, text) PTX_W_##id,
    /* clang-format off */
    PTX_TYPE_WORDS(PTX_W_ENUM3_)
    PTX_SPACE_WORDS(PTX_W_ENUM2_)
    PTX_OPCODE_WORDS(PTX_W_ENUM2_)
    PTX_MODIFIER_WORDS(PTX_W_ENUM2_)
    PTX_DIRECTIVE_WORDS(PTX_W_ENUM2_)
/* clang-format on */
#undef PTX_W_ENUM3_
#undef PTX_W_ENUM2_
                PTX_W_COUNT
};

/* The types are the first words, so a type test is one comparison. */
#define PTX_W_TYPE_LAST PTX_W_surfref

/* clang-format off */
/* X(enumerator, name without %, number of components): special registers.
 * Those ending in an index (%envreg7, %pm3) are one entry, with the index. */
#define PTX_SREGS(X)                                                                   \
    X(tid, "tid", 3) X(ntid, "ntid", 3) X(ctaid, "ctaid", 3) X(nctaid, "nctaid", 3)    \
    X(laneid, "laneid", 0) X(warpid, "warpid", 0) X(nwarpid, "nwarpid", 0)             \
    X(smid, "smid", 0) X(nsmid, "nsmid", 0) X(gridid, "gridid", 0)                     \
    X(is_explicit_cluster, "is_explicit_cluster", 0) X(clusterid, "clusterid", 3)      \
    X(nclusterid, "nclusterid", 3) X(cluster_ctaid, "cluster_ctaid", 3)                \
    X(cluster_nctaid, "cluster_nctaid", 3) X(cluster_ctarank, "cluster_ctarank", 0)    \
    X(cluster_nctarank, "cluster_nctarank", 0) X(lanemask_eq, "lanemask_eq", 0)        \
    X(lanemask_le, "lanemask_le", 0) X(lanemask_lt, "lanemask_lt", 0)                  \
    X(lanemask_ge, "lanemask_ge", 0) X(lanemask_gt, "lanemask_gt", 0)                  \
    X(clock, "clock", 0) X(clock_hi, "clock_hi", 0) X(clock64, "clock64", 0)           \
    X(globaltimer, "globaltimer", 0) X(globaltimer_lo, "globaltimer_lo", 0)            \
    X(globaltimer_hi, "globaltimer_hi", 0)                                             \
    X(total_smem_size, "total_smem_size", 0) X(aggr_smem_size, "aggr_smem_size", 0)    \
    X(dynamic_smem_size, "dynamic_smem_size", 0)                                       \
    X(current_graph_exec, "current_graph_exec", 0)                                     \
    X(reserved_smem_offset_begin, "reserved_smem_offset_begin", 0)                     \
    X(reserved_smem_offset_end, "reserved_smem_offset_end", 0)                         \
    X(reserved_smem_offset_cap, "reserved_smem_offset_cap", 0)                         \
    X(reserved_smem_offset, "reserved_smem_offset_", 0) X(envreg, "envreg", 0)         \
    X(pm, "pm", 0) X(pm_64, "pm_64", 0)

/* clang-format on */

enum ptx_sreg {
#define PTX_SREG_ENUM_(id, text, comps) PTX_SREG_##id,
    PTX_SREGS(PTX_SREG_ENUM_)
#undef PTX_SREG_ENUM_
        PTX_SREG_COUNT
};

#endif
