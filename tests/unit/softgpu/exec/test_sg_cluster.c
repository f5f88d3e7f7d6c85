/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters: each other's shared memory, their barrier; bulk and tensor copies. */
#include "ut_sgx.h"

#include "gp_err.h"
#include "sg_memview.h"
#include "sg_tmap.h"
#include "ut.h"

#include <string.h>

#define HEAD ".version 8.6\n.target sm_90\n.address_size 64\n"
#define WAIT(mbar)                                                                     \
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [" mbar "], 0;\n"             \
    "@!%p1 bra WAIT;\n"

/* All clusters of the launch, one after the other; their members in turns. */
static enum sg_cta_state
run_clusters(struct ut_sgx *u, uint32_t n)
{
    struct sg_cta *ctas[SG_MAX_CLUSTER] = {0};
    enum sg_cta_state st = SG_CTA_DONE, one;
    struct gp_err err;

    u->launch.cluster[0] = n;
    u->launch.cluster[1] = u->launch.cluster[2] = 1;
    assert_int_equal(sg_launch_init(&u->launch, &err), 0);
    u->launch.grid_id++;
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(sg_cta_new(&ctas[i]), 0);
    for (uint64_t c = 0; c < u->launch.n_ctas / n && st == SG_CTA_DONE; c++) {
        struct sg_cluster *cluster;
        bool left = true;
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(sg_cta_start(ctas[i], &u->launch,
                                          sg_cluster_member(&u->launch, c, i), 0),
                             0);
        assert_int_equal(sg_cluster_join(ctas, n, &cluster), 0);
        while (left && st == SG_CTA_DONE) {
            left = false;
            for (uint32_t i = 0; i < n; i++) {
                one = sg_cta_run(ctas[i], 100);
                left |= one == SG_CTA_YIELD || one == SG_CTA_STALLED;
                if (one == SG_CTA_FAULT || one == SG_CTA_CANCELLED)
                    st = one;
            }
        }
        sg_cluster_free(cluster);
    }
    for (uint32_t i = 0; i < n; i++)
        sg_cta_free(ctas[i]);
    return st;
}

/* Each thread gives a word to the next member of its cluster, three times round. */
static void
members_read_each_others_shared_memory(void **state)
{
    static const char text[] = HEAD
        ".shared .align 4 .b8 buf[256];\n"
        ".visible .entry k(.param .u64 out)\n{\n"
        ".reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>;\n"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, "
        "%cluster_nctarank;\n"
        "mad.lo.u32 %r4, %r2, 1000, %r1; shl.b32 %r5, %r1, 2; mov.u32 %r6, buf;\n"
        "add.u32 %r6, %r6, %r5; mov.u32 %r7, 0;\n"
        "AGAIN: st.shared.u32 [%r6], %r4;\n"
        "barrier.cluster.arrive.release.aligned; "
        "barrier.cluster.wait.acquire.aligned;\n"
        "add.u32 %r8, %r2, 1; rem.u32 %r8, %r8, %r3;\n"
        "mapa.shared::cluster.u32 %r9, %r6, %r8; getctarank.shared::cluster.u32 %r10, "
        "%r9;\n"
        "ld.shared::cluster.u32 %r11, [%r9]; sub.u32 %r10, %r10, %r8; add.u32 %r4, "
        "%r11, %r10;\n"
        "cvt.u64.u32 %rd4, %r6; cvta.shared.u64 %rd4, %rd4; mapa.u64 %rd5, %rd4, %r8;\n"
        "ld.u32 %r12, [%rd5]; sub.u32 %r12, %r12, %r11; add.u32 %r4, %r4, %r12;\n"
        "barrier.cluster.arrive; barrier.cluster.wait;\n"
        "add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 3; @%p1 bra AGAIN;\n"
        "mov.u32 %r13, %clusterid.x; mad.lo.u32 %r4, %r13, 100000, %r4;\n"
        "ld.param.u64 %rd1, [out]; mov.u32 %r14, %ctaid.x; mov.u32 %r15, %ntid.x;\n"
        "mad.lo.u32 %r14, %r14, %r15, %r1; mul.wide.u32 %rd2, %r14, 4;\n"
        "add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4;\n"
        "ret;\n}\n";
    struct ut_sgx u;
    uint32_t *out;

    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 8 * 64 * 4);
    ut_sgx_param(&u, 0, (uintptr_t)out);
    ut_sgx_shape(&u, 8, 64);
    assert_int_equal(run_clusters(&u, 4), SG_CTA_DONE);
    for (unsigned i = 0; i < 8 * 64; i++)
        assert_int_equal(out[i],
                         i / 256 * 100000 + (i / 64 % 4 + 3) % 4 * 1000 + i % 64);
    ut_sgx_close(&u);
}

static void
a_member_that_is_none_is_a_fault(void **state)
{
    static const char text[] = HEAD ".shared .align 4 .b8 buf[64];\n"
                                    ".visible .entry k(.param .u32 rank)\n{\n"
                                    ".reg .b32 %r<8>;\n"
                                    "ld.param.u32 %r1, [rank]; mov.u32 %r2, buf;\n"
                                    "mapa.shared::cluster.u32 %r3, %r2, %r1;\n"
                                    "st.shared::cluster.u32 [%r3], %r1;\nret;\n}\n";
    struct ut_sgx u;

    ut_sgx_open(&u, text);
    ut_sgx_shape(&u, 2, 32);
    ut_sgx_param(&u, 0, 1);
    assert_int_equal(run_clusters(&u, 2), SG_CTA_DONE);
    for (uint64_t rank = 2; rank < 70; rank++) {
        ut_sgx_param(&u, 0, rank);
        assert_int_equal(run_clusters(&u, 2), SG_CTA_FAULT);
        assert_int_equal(u.launch.fault.code, 700);
    }
    ut_sgx_close(&u);
}

/* Rank 0 sends 512 bytes to every member; each hands them on to global memory. */
static void
bulk_copies_reach_every_member(void **state)
{
    static const char text[] = HEAD
        ".shared .align 128 .b8 buf[512];\n.shared .align 8 .b64 bar;\n"
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .b16 %h;\n"
        "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\n"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; setp.ne.u32 %p0, %r1, 0;\n"
        "@%p0 bra READY;\n"
        "mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "fence.mbarrier_init.release.cluster;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\n"
        "READY: barrier.cluster.arrive; barrier.cluster.wait;\n"
        "or.b32 %r3, %r1, %r2; setp.ne.u32 %p2, %r3, 0; @%p2 bra WAIT;\n"
        "mov.u16 %h, 0xf;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [buf], [%rd1], 512, [bar], %h;\n" WAIT(
            "bar") "@%p0 bra OUT;\n"
                   "mov.u32 %r4, %ctaid.x; mul.wide.u32 %rd3, %r4, 512; add.u64 %rd2, "
                   "%rd2, %rd3;\n"
                   "fence.proxy.async;\n"
                   "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 512;\n"
                   "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n"
                   "OUT: ret;\n}\n";
    struct ut_sgx u;
    char *in, *out;

    ut_sgx_open(&u, text);
    in = ut_sgx_buf(&u, 512);
    out = ut_sgx_buf(&u, 4 * 512);
    for (int i = 0; i < 512; i++)
        in[i] = (char)(i * 7);
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_shape(&u, 4, 64);
    assert_int_equal(run_clusters(&u, 4), SG_CTA_DONE);
    for (int c = 0; c < 4; c++)
        assert_memory_equal(out + c * 512, in, 512);
    ut_sgx_param(&u, 0, (uintptr_t)in + 8);
    assert_int_equal(run_clusters(&u, 4), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, 716);
    ut_sgx_param(&u, 0, (uintptr_t)in + 16);
    assert_int_equal(run_clusters(&u, 4), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, 700);
    ut_sgx_close(&u);
}

/* A box of 8 x 64 halves from a tensor of 20 x 100, at a corner that hangs over. */
static void
tensor_copies_swizzle_and_fill(void **state)
{
    static const char text[] = HEAD
        ".shared .align 1024 .b8 buf[1024];\n.shared .align 8 .b64 bar;\n"
        ".visible .entry k(.param .u64 map, .param .u64 out, .param .u32 x, "
        ".param .u32 y)\n{\n"
        ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
        "ld.param.u64 %rd1, [map]; ld.param.u64 %rd2, [out];\n"
        "ld.param.u32 %r2, [x]; ld.param.u32 %r3, [y];\n"
        "mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0; @%p0 exit;\n"
        "mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [buf], [%rd1, {%r2, %r3}], [bar];\n" WAIT(
            "bar") "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 1024;\n"
                   "sub.u32 %r2, %r2, 1;\n"
                   "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                   " [%rd1, {%r2, %r3}], [buf];\n"
                   "ret;\n}\n";
    uint16_t(*tensor)[100], (*out)[64], was[20][100];
    struct sg_tmap map = {.magic = SG_TMAP_MAGIC,
                          .mode = SG_TMAP_TILED,
                          .type = 6,
                          .rank = 2,
                          .swizzle = 3,
                          .stride = {200},
                          .last = {99, 19},
                          .box = {64, 8, 1, 1, 1},
                          .step = {1, 1, 1, 1, 1}};
    struct ut_sgx u;
    void *at;

    ut_sgx_open(&u, text);
    tensor = ut_sgx_buf(&u, 20 * 200);
    out = ut_sgx_buf(&u, 1024);
    at = ut_sgx_buf(&u, 128);
    for (unsigned i = 0; i < 2000; i++)
        tensor[i / 100][i % 100] = (uint16_t)(1000 + i);
    memcpy(was, tensor, sizeof(was));
    map.base = (uintptr_t)tensor;
    memcpy(at, &map, sizeof(map));
    ut_sgx_param(&u, 0, (uintptr_t)at);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_param(&u, 2, 50);
    ut_sgx_param(&u, 3, 16);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned y = 0; y < 8; y++) {
        for (unsigned x = 0; x < 64; x++) {
            unsigned want = y + 16 < 20 && x + 50 < 100 ? was[y + 16][x + 50] : 0;
            unsigned chunk = x / 8 ^ y; /* 16 bytes each, rows of 128 bytes */
            assert_int_equal(out[y][chunk * 8 + x % 8], want);
        }
    }
    for (unsigned y = 0; y < 20; y++) /* and written back one column to the left */
        for (unsigned x = 0; x < 100; x++)
            assert_int_equal(tensor[y][x], y < 16 || x < 49 ? was[y][x]
                                           : x < 99         ? was[y][x + 1]
                                                            : 0);
    ((struct sg_tmap *)at)->magic = 0;
    ut_sgx_run(&u);
    assert_int_equal(u.launch.fault.code, 715);
    ut_sgx_close(&u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_read_each_others_shared_memory),
        cmocka_unit_test(a_member_that_is_none_is_a_fault),
        cmocka_unit_test(bulk_copies_reach_every_member),
        cmocka_unit_test(tensor_copies_swizzle_and_fill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
