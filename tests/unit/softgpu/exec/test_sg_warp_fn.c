/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions over whole warps (exec_warp_fn.def): on each level of the processor
 * they give, for the lanes of a mask and no others, what the function of one lane
 * gives.  That one is compared with a reference by test_sg_golden_*.
 */
#include "exec_lane.h"
#include "exec_warp_fn.h"
#include "sg_exec.h"
#include "ut.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 400

static uint64_t state = 88172645463325252u;

static uint64_t
random_word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 2685821657736338717u;
}

/* Any bits, numbers of any length, halves, floats around the ends of integers. */
static uint64_t
operand(bool wide)
{
    static const double ends[] = {0.0,     -0.0,         1.0,          0.5,
                                  2.5,     65504.0,      65520.0,      1e300,
                                  0x1p-24, 0x1p-25,      2147483648.0, -0x1.00p31,
                                  0x1p63,  4294967296.0, 0x1p64,       3.4e38};
    uint64_t r = random_word();
    double v = ends[r >> 8 & 15];

    switch (r & 7) {
    case 0:
        return random_word() >> (r >> 16 & 63);
    case 1:
        return ~(random_word() >> (r >> 16 & 63));
    case 2:
        v = r >> 20 & 1 ? v : -v;
        return wide ? lane_bits64(v) + (r >> 32 & 3) - 1 : lane_bits32((float)v);
    case 3:
        return wide ? 0x7ff0000000000000u | (r & 0x8000000000000000u) | r >> 40
                    : 0x7f800000u | (r >> 32 & 0x80000fffu);
    case 4:
        return r >> 16 & 0x7c007c00u;
    default:
        return random_word();
    }
}

struct rows {
    uint64_t raw[3][SG_LANES];
    _Alignas(64) uint64_t row[3][SG_LANES];
};

static void
fill(struct rows *in, const char *sig)
{
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < SG_LANES; i++) {
            uint64_t v = sig[1 + k] == '-' ? 0 : operand(sig[1 + k] == 'D');
            if (sig[1 + k] == 'D')
                in->row[k][i] = v;
            else
                ((uint32_t *)in->row[k])[i] = (uint32_t)v;
            in->raw[k][i] = sig[1 + k] == 'D' ? v : (uint32_t)v;
        }
}

static void
compare(const struct sg_fn_info *info, sg_warp_fn *fn, uint32_t m)
{
    _Alignas(64) uint64_t out[SG_LANES];
    const bool wide = info->sig[0] == 'D';
    struct rows in;

    fill(&in, info->sig);
    memset(out, 0x5a, sizeof(out));
    fn(out, in.row[0], in.row[1], in.row[2], m);
    for (int i = 0; i < SG_LANES; i++) {
        uint64_t got = wide ? out[i] : ((uint32_t *)out)[i];
        uint64_t want = info->fn(in.raw[0][i], in.raw[1][i], in.raw[2][i]);
        want = (m >> i & 1) ? want : 0x5a5a5a5a5a5a5a5au;
        want = wide ? want : (uint32_t)want;
        if (got != want)
            fail_msg("%s, lane %d of %08x: %llx of %llx %llx %llx is %llx", info->name,
                     i, m, (unsigned long long)got, (unsigned long long)in.raw[0][i],
                     (unsigned long long)in.raw[1][i], (unsigned long long)in.raw[2][i],
                     (unsigned long long)want);
    }
}

static void
every_function_is_the_lanes_own(void **ctx)
{
    sg_warp_fn *const *const tables[] = {
        sg_warp_fns_v2,
#if defined(__x86_64__)
        sg_warp_fns_v3,
        sg_warp_fns_v4,
#endif
    };
    const char *isa = sg_exec_isa();
    const unsigned n = isa[0] == 'v' ? (unsigned)(isa[1] - '1') : 1;
    unsigned functions = 0;

    (void)ctx;
    for (unsigned t = 0; t < n; t++)
        for (int f = 0; f < SG_N_FNS; f++)
            for (int k = 0; tables[t][f] && k < ROUNDS; k++) {
                functions += t == 0 && k == 0;
                compare(&sg_fns[f], tables[t][f],
                        k & 1 ? (uint32_t)random_word() : UINT32_MAX);
            }
    printf("%u functions on %u levels\n", functions, n);
    assert_true(functions > 70);
}

/* The result may be an operand's register. */
static void
result_in_place(void **ctx)
{
    _Alignas(64) uint32_t d[SG_LANES];

    (void)ctx;
    for (uint32_t i = 0; i < SG_LANES; i++)
        d[i] = 0x3c003c00u; /* ones */
    sg_warp_fns_v2[SG_FN_add_f16x2](d, d, d, NULL, 0x0000ffffu);
    for (uint32_t i = 0; i < SG_LANES; i++)
        assert_int_equal(d[i], i < 16 ? 0x40004000u : 0x3c003c00u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_the_lanes_own),
        cmocka_unit_test(result_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
