/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that launch kernels, linked with the toolkit's device library or what stands
 * for it here. */
#include "ut.h"
#include "ut_sgapi.h"

#define PTX_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

/* p[depth] counts threads.  Thread 0 of block 0 launches two of itself, one deeper, of
 * 2 blocks of 32, and leaves the depth in p[8] in front of that; whoever finds another
 * one there counts in p[9]. */
static char tree[] =
    PTX_HEAD ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2("
             ".param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], "
             ".param .b32 s);\n"
             ".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, "
             ".param .b64 s);\n"
             /* A launch of @f, whose result is @e: */
             ".func (.reg .b32 e) start(.reg .b64 f, .reg .b32 grid, .reg .b32 block, "
             ".reg .b64 stream, .reg .b64 p, .reg .b32 depth)\n{\n"
             ".reg .b64 %d<2>; .reg .pred %q;\n"
             "{ .param .b64 a; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12];\n"
             ".param .b32 s; .param .b64 r; st.param.b64 [a], f;\n"
             "st.param.b32 [g], grid; st.param.b32 [g+4], 1; st.param.b32 [g+8], 1;\n"
             "st.param.b32 [b], block; st.param.b32 [b+4], 1; st.param.b32 [b+8], 1;\n"
             "st.param.b32 [s], 64;\n"
             "call (r), __cudaCDP2GetParameterBufferV2, (a, g, b, s);\n"
             "ld.param.b64 %d0, [r]; }\n"
             "mov.u32 e, 2; setp.eq.u64 %q, %d0, 0;\n"
             "@%q bra OUT;\n"
             "st.u64 [%d0], p; st.u32 [%d0+8], depth;\n"
             "{ .param .b64 a; .param .b64 s; .param .b32 r; st.param.b64 [a], %d0;\n"
             "st.param.b64 [s], stream; call (r), __cudaCDP2LaunchDeviceV2, (a, s);\n"
             "ld.param.b32 e, [r]; }\n"
             "OUT: ret;\n}\n"
             ".visible .entry tree(.param .u64 p, .param .u32 depth)\n{\n"
             ".reg .b64 %d<4>; .reg .b32 %r<10>; .reg .pred %q<4>;\n"
             "ld.param.u64 %d0, [p]; ld.param.u32 %r0, [depth];\n"
             "mad.wide.u32 %d1, %r0, 4, %d0; red.global.add.u32 [%d1], 1;\n"
             "ld.global.u32 %r1, [%d0+32]; add.u32 %r1, %r1, 1;\n"
             "setp.lt.u32 %q0, %r1, %r0;\n"
             "@%q0 red.global.add.u32 [%d0+36], 1;\n"
             "mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; or.b32 %r2, %r2, %r3;\n"
             "setp.ne.u32 %q1, %r2, 0; setp.ge.u32 %q2, %r0, 3;\n"
             "or.pred %q1, %q1, %q2;\n"
             "@%q1 bra OUT;\n"
             "st.global.u32 [%d0+32], %r0; add.u32 %r4, %r0, 1; mov.u64 %d2, tree;\n"
             "mov.u64 %d3, 0; mov.u32 %r5, 2; mov.u32 %r6, 32;\n"
             "call (%r7), start, (%d2, %r5, %r6, %d3, %d0, %r4);\n"
             "call (%r8), start, (%d2, %r5, %r6, %d3, %d0, %r4);\n"
             "or.b32 %r7, %r7, %r8; red.global.add.u32 [%d0+40], %r7;\n"
             "OUT: ret;\n}\n"
             ".visible .entry leaf(.param .u64 p, .param .u32 n)\n{\n"
             ".reg .b64 %d<2>; ld.param.u64 %d0, [p]; red.global.add.u32 [%d0], 1; "
             "ret;\n}\n"
             /* One launch by each thread: what it says to each. */
             ".visible .entry one(.param .u64 p, .param .u64 f, .param .u32 grid, "
             ".param .u32 block, .param .u64 stream)\n{\n"
             ".reg .b64 %d<6>; .reg .b32 %r<6>; .reg .pred %q;\n"
             "ld.param.u64 %d0, [p]; ld.param.u64 %d1, [f];\n"
             "ld.param.u32 %r0, [grid]; ld.param.u32 %r1, [block];\n"
             "ld.param.u64 %d2, [stream]; mov.u64 %d3, leaf;\n"
             "setp.eq.u64 %q, %d1, 0; selp.b64 %d1, %d3, %d1, %q;\n"
             "mov.u32 %r2, %tid.x; mad.wide.u32 %d4, %r2, 4, %d0;\n"
             "call (%r3), start, (%d1, %r0, %r1, %d2, %d0, %r2);\n"
             "st.global.u32 [%d4+4], %r3; ret;\n}\n"
             /* One that may not run where it is: past the end of all memory. */
             ".visible .entry wild(.param .u64 p, .param .u32 n)\n{\n"
             ".reg .b64 %d<2>; mov.u64 %d0, 8; st.global.u32 [%d0], 1; ret;\n}\n"
             /* Each leaves its number behind those before it.  1 launches 9 behind all,
              * 2 and 3; 2 launches 8 behind all, and 4. */
             ".visible .entry order(.param .u64 p, .param .u32 n)\n{\n"
             ".reg .b64 %d<6>; .reg .b32 %r<10>; .reg .pred %q<3>;\n"
             "ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n];\n"
             "atom.global.add.u32 %r1, [%d0], 1; mad.wide.u32 %d1, %r1, 4, %d0;\n"
             "st.global.u32 [%d1+4], %r0; setp.gt.u32 %q0, %r0, 2;\n"
             "@%q0 bra OUT;\n"
             "mov.u64 %d2, order; mov.u64 %d3, 3; mov.u64 %d4, 0; mov.u32 %r2, 1;\n"
             "sub.u32 %r3, 10, %r0; shl.b32 %r4, %r0, 1; add.u32 %r5, %r4, 1;\n"
             "call (%r6), start, (%d2, %r2, %r2, %d3, %d0, %r3);\n"
             "call (%r7), start, (%d2, %r2, %r2, %d4, %d0, %r4);\n"
             "setp.eq.u32 %q1, %r0, 2;\n"
             "@%q1 bra OUT;\n"
             "call (%r8), start, (%d2, %r2, %r2, %d4, %d0, %r5);\n"
             "OUT: ret;\n}\n"
             ".visible .entry wide(.param .b8 p[8192])\n{\n ret;\n}\n"
             ".visible .entry address(.param .u64 p)\n{\n"
             ".reg .b64 %d<3>; ld.param.u64 %d0, [p]; mov.u64 %d1, wild; "
             "mov.u64 %d2, wide; st.global.v2.u64 [%d0], {%d1, %d2}; ret;\n}\n";

struct unit {
    CUcontext ctx;
    CUmodule module;
    CUdeviceptr p;
    unsigned v[16];
};

static void
begin(struct unit *u)
{
    CUlinkState link;
    void *image;
    size_t size;

    ok(cuInit(0));
    ok(cuCtxCreate_v2(&u->ctx, 0, 0));
    ok(cuLinkCreate_v2(0, NULL, NULL, &link));
    ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, tree, sizeof(tree), "t", 0, 0, 0));
    ok(cuLinkComplete(link, &image, &size));
    ok(cuModuleLoadData(&u->module, image));
    ok(cuLinkDestroy(link));
    ok(cuMemAlloc_v2(&u->p, sizeof(u->v)));
    ok(cuMemsetD8_v2(u->p, 0, sizeof(u->v)));
}

static void
end(struct unit *u)
{
    ok(cuCtxDestroy_v2(u->ctx));
}

static CUfunction
function(const struct unit *u, const char *name)
{
    CUfunction fn;

    ok(cuModuleGetFunction(&fn, u->module, name));
    return fn;
}

/* By @threads threads; what they were told is in u->v[1] and on. */
static void
one(struct unit *u, unsigned threads, uint64_t f, unsigned grid, unsigned block,
    uint64_t stream)
{
    void *args[] = {&u->p, &f, &grid, &block, &stream};

    ok(cuMemsetD8_v2(u->p, 0, sizeof(u->v)));
    ok(cuLaunchKernel(function(u, "one"), 1, 1, 1, threads, 1, 1, 0, NULL, args, NULL));
    ok(cuMemcpyDtoH_v2(u->v, u->p, sizeof(u->v)));
}

static void
launches_of_launches_end_with_the_first(void **state)
{
    struct unit u;
    unsigned depth = 0;
    void *args[] = {&u.p, &depth};

    (void)state;
    begin(&u);
    for (unsigned i = 1; i <= 3; i++) {
        ok(cuLaunchKernel(function(&u, "tree"), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        ok(cuMemcpyDtoH_v2(u.v, u.p, sizeof(u.v)));
        assert_int_equal(u.v[0], i);
        assert_int_equal(u.v[1], 2 * 64 * i);
        assert_int_equal(u.v[2], 4 * 64 * i);
        assert_int_equal(u.v[3], 8 * 64 * i);
        assert_int_equal(u.v[9], 0);  /* saw less than was written before */
        assert_int_equal(u.v[10], 0); /* errors */
    }
    end(&u);
}

static void
stream_goes_on_behind_the_last_of_them(void **state)
{
    struct unit u;
    unsigned depth = 0;
    void *args[] = {&u.p, &depth};
    CUgraphExec exec;
    CUstream stream;
    CUgraph graph;

    (void)state;
    begin(&u);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemsetD32Async(u.p, 0, 16, stream));
    ok(cuLaunchKernel(function(&u, "tree"), 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    ok(cuMemcpyDtoHAsync_v2(u.v, u.p, sizeof(u.v), stream));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned i = 0; i < 20; i++) {
        u.v[3] = 0;
        ok(cuGraphLaunch(exec, stream));
        ok(cuStreamSynchronize(stream));
        assert_int_equal(u.v[3], 8 * 64);
    }
    end(&u);
}

static void
launch_has_ended_when_all_that_it_launched_has(void **state)
{
    static const unsigned expected[] = {6, 1, 2, 4, 8, 3, 9};
    struct unit u;
    unsigned first = 1;
    void *args[] = {&u.p, &first};

    (void)state;
    begin(&u);
    ok(cuLaunchKernel(function(&u, "order"), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    ok(cuMemcpyDtoH_v2(u.v, u.p, sizeof(u.v)));
    assert_memory_equal(u.v, expected, sizeof(expected));
    end(&u);
}

static void
launches_that_cannot_be_are_refused_to_the_kernel(void **state)
{
    void *args[1];
    uint64_t addresses[2];
    struct unit u;

    (void)state;
    begin(&u);
    args[0] = &u.p;
    ok(cuLaunchKernel(function(&u, "address"), 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    ok(cuMemcpyDtoH_v2(addresses, u.p, sizeof(addresses)));
    one(&u, 1, addresses[1], 1, 1, 0); /* more parameters than a record holds */
    assert_int_equal(u.v[1], 1);
    one(&u, 2, 0, 3, 5, 0);
    assert_int_equal(u.v[0], 30);
    assert_int_equal(u.v[1] | u.v[2], 0);
    one(&u, 1, 0, 3, 5, 4); /* cudaStreamFireAndForget */
    assert_int_equal(u.v[0], 15);
    one(&u, 1, 0, 3, 2000, 0);
    assert_int_equal(u.v[1], 9); /* cudaErrorInvalidConfiguration */
    one(&u, 1, 0, 0, 1, 0);
    assert_int_equal(u.v[1], 9);
    one(&u, 1, 12345, 1, 1, 0);
    assert_int_equal(u.v[1], 98); /* cudaErrorInvalidDeviceFunction */
    one(&u, 1, 0, 1, 1, 5);       /* a stream that nobody made */
    assert_int_equal(u.v[1], 801);
    ok(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 3));
    one(&u, 5, 0, 1, 1, 0);
    assert_int_equal(u.v[0], 3);
    assert_int_equal(u.v[4], 69); /* cudaErrorLaunchPendingCountExceeded */
    assert_int_equal(u.v[5], 69);
    end(&u);
}

static void
fault_of_a_launched_kernel_is_the_first_ones(void **state)
{
    struct unit u;
    uint64_t f = 0, stream = 0;
    unsigned grid = 1, block = 1;
    void *args[] = {&u.p, &f, &grid, &block, &stream}, *where[] = {&u.p};

    (void)state;
    if (ut_sg_apart(__func__))
        return;
    begin(&u);
    ok(cuLaunchKernel(function(&u, "address"), 1, 1, 1, 1, 1, 1, 0, NULL, where, NULL));
    ok(cuMemcpyDtoH_v2(&f, u.p, sizeof(f)));
    ok(cuLaunchKernel(function(&u, "one"), 1, 1, 1, 4, 1, 1, 0, NULL, args, NULL));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    cuCtxDestroy_v2(u.ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_of_launches_end_with_the_first),
        cmocka_unit_test(stream_goes_on_behind_the_last_of_them),
        cmocka_unit_test(launch_has_ended_when_all_that_it_launched_has),
        cmocka_unit_test(launches_that_cannot_be_are_refused_to_the_kernel),
        cmocka_unit_test(fault_of_a_launched_kernel_is_the_first_ones),
    };
    int rc;

    ut_sg_cards("1", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
