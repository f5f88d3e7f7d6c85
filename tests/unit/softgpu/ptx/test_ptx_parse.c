/* SPDX-License-Identifier: Apache-2.0 */
/* What PTX text becomes: names, types, scopes, operands, literals. */
#include "ut_ptx.h"

static void
module_directives_are_kept(void **state)
{
    struct ptx_module *mod =
        ut_parse("// comment\n.version 12.34 /* any\n */ .target "
                 "sm_90a, texmode_independent, debug .address_size 64");

    assert_int_equal(mod->version_major, 12);
    assert_int_equal(mod->version_minor, 34);
    assert_int_equal(mod->sm, 90);
    assert_int_equal(mod->target_flags,
                     PTX_TARGET_ARCH | PTX_TARGET_DEBUG | PTX_TARGET_TEX_INDEPENDENT);
    assert_int_equal(mod->address_size, 64);
    ptx_module_free(mod);
}

static void
nul_padding_ends_the_text(void **state)
{
    static const char text[] = PTX_HEAD "\n\0\0\0 this is not PTX";
    struct ptx_module *mod = NULL;

    assert_int_equal(ptx_parse(text, sizeof(text), &mod, NULL), 0);
    ptx_module_free(mod);
}

static void
text_without_nul_is_not_read_beyond_its_length(void **state)
{
    char *text = strdup(PTX_HEAD ".visible .entry k(){ret;}");
    size_t len = strlen(text);
    char *tight = malloc(len); /* the sanitizer watches its end */
    struct ptx_module *mod = NULL;

    memcpy(tight, text, len);
    assert_int_equal(ptx_parse(tight, len, &mod, NULL), 0);
    assert_non_null(ptx_module_func(mod, "k"));
    ptx_module_free(mod);
    free(tight);
    free(text);
}

static void
register_ranges_make_what_is_used(void **state)
{
    struct ptx_module *mod =
        ut_body(".reg .b32 %r<1000000>;\n.reg.u64 %rd<4>, single;\n"
                "mov.u32 %r999999, %r0;\nmov.u64 single, %rd3;");
    const struct ptx_func *k = ptx_module_func(mod, "k");
    const struct ptx_reg *reg = ut_reg(mod, &ut_insn(mod, 0)->opds[0]);

    assert_int_equal(k->n_regs, 4);
    assert_string_equal(reg->name->name, "%r");
    assert_int_equal(reg->num, 999999);
    assert_int_equal(reg->type, PTX_W_b32);
    reg = ut_reg(mod, &ut_insn(mod, 1)->opds[0]);
    assert_string_equal(reg->name->name, "single");
    assert_int_equal(reg->num, PTX_REG_SINGLE);
    assert_int_equal(reg->type, PTX_W_u64);
    ptx_module_free(mod);
}

static void
range_prefix_may_end_in_a_digit(void **state)
{
    struct ptx_module *mod =
        ut_body(".reg .f32 %x1<11>;\n.reg .b64 %x<3>;\nadd.f32 %x10, %x110, %x12;\n"
                "mov.b64 %x2, %x1;");
    const struct ptx_insn *add = ut_insn(mod, 0);

    assert_int_equal(ut_reg(mod, &add->opds[0])->num, 0);
    assert_int_equal(ut_reg(mod, &add->opds[1])->num, 10);
    assert_int_equal(ut_reg(mod, &add->opds[2])->num, 2);
    assert_int_equal(ut_reg(mod, &add->opds[2])->type, PTX_W_f32);
    assert_int_equal(ut_reg(mod, &ut_insn(mod, 1)->opds[1])->type, PTX_W_b64);
    ptx_module_free(mod);
}

static void
nested_scopes_hide_and_restore_registers(void **state)
{
    struct ptx_module *mod =
        ut_body(".reg .b32 %r<8>, a;\n"
                "mov.b32 %r1, a;\n"
                "{ .reg .f32 %r<4>; .reg .f64 a;\n"
                "  mov.f32 %r1, %r2; mov.f64 a, a;\n"
                "  { .reg .pred %r1; mov.pred %r1, %r1; } mov.f32 %r1, "
                "%r3; mov.b32 %r5, %r5; }\n"
                "mov.b32 %r1, a;");
    static const unsigned types[] = {PTX_W_b32, PTX_W_f32, PTX_W_f64, PTX_W_pred,
                                     PTX_W_f32, PTX_W_b32, PTX_W_b32};

    for (uint32_t i = 0; i < ARRAY_SIZE(types); i++)
        assert_int_equal(ut_reg(mod, &ut_insn(mod, i)->opds[0])->type, types[i]);
    assert_int_equal(ut_insn(mod, 0)->opds[0].reg, ut_insn(mod, 6)->opds[0].reg);
    assert_int_equal(ut_insn(mod, 1)->opds[0].reg, ut_insn(mod, 4)->opds[0].reg);
    assert_int_not_equal(ut_insn(mod, 0)->opds[0].reg, ut_insn(mod, 1)->opds[0].reg);
    ptx_module_free(mod);
}

static void
inner_explicit_register_hides_outer_range_and_back(void **state)
{
    /* %r1 of the outer range is first used inside: it must live outside */
    struct ptx_module *mod =
        ut_body(".reg .b32 %r<8>;\n{ mov.b32 %r1, 0; }\n"
                "mov.b32 %r1, 1;\n{ .reg .f32 %r1; mov.f32 %r1, 0f00000000; }");

    assert_int_equal(ut_insn(mod, 0)->opds[0].reg, ut_insn(mod, 1)->opds[0].reg);
    assert_int_equal(ut_reg(mod, &ut_insn(mod, 2)->opds[0])->type, PTX_W_f32);
    ptx_module_free(mod);
}

static void
labels_belong_to_their_block(void **state)
{
    struct ptx_module *mod = ut_body("{ bra L; L: ret; }\n"
                                     "{ L: bra.uni L; }\n"
                                     "bra OUT; { bra OUT; } OUT: exit; END:");
    const struct ptx_func *k = ptx_module_func(mod, "k");

    assert_int_equal(ut_insn(mod, 0)->opds[0].kind, PTX_OPD_LABEL);
    assert_int_equal(ut_insn(mod, 0)->opds[0].label->at, 1);
    assert_int_equal(ut_insn(mod, 2)->opds[0].label->at, 2);
    assert_ptr_not_equal(ut_insn(mod, 0)->opds[0].label,
                         ut_insn(mod, 2)->opds[0].label);
    assert_ptr_equal(ut_insn(mod, 3)->opds[0].label, ut_insn(mod, 4)->opds[0].label);
    assert_int_equal(ut_insn(mod, 3)->opds[0].label->at, 5);
    assert_int_equal(k->n_labels, 4);
    assert_int_equal(k->labels[3]->at, k->n_insns);
    ptx_module_free(mod);
}

static void
inner_label_wins_over_outer_one(void **state)
{
    struct ptx_module *mod = ut_body("L: { bra L; ret; L: exit; } bra L;");

    assert_int_equal(ut_insn(mod, 0)->opds[0].label->at, 2);
    assert_int_equal(ut_insn(mod, 3)->opds[0].label->at, 0);
    ptx_module_free(mod);
}

static void
guards_and_modifiers_keep_their_order(void **state)
{
    struct ptx_module *mod =
        ut_body(".reg .pred %p<3>; .reg .b32 %r<4>;\n"
                "@%p1 bra.uni L;\n@!%p2 vote.ballot.sync.b32 %r1, %p1, -1;\n"
                "red.and.release.cta.b32 [p0], %r1;\nL: ret;");
    const struct ptx_insn *bra = ut_insn(mod, 0), *vote = ut_insn(mod, 1);
    const struct ptx_insn *red = ut_insn(mod, 2);
    static const uint16_t red_mods[] = {PTX_W_and, PTX_W_release, PTX_W_cta, PTX_W_b32};

    assert_int_equal(bra->op, PTX_W_bra);
    assert_int_equal(bra->flags, PTX_INSN_GUARD);
    assert_int_equal(bra->line, 7);
    assert_int_equal(vote->flags, PTX_INSN_GUARD | PTX_INSN_NEG);
    assert_int_equal(vote->n_mods, 3);
    assert_int_equal(vote->mods[0], PTX_W_ballot);
    assert_int_equal((int64_t)vote->opds[2].imm, -1);
    assert_int_equal(red->guard, PTX_REG_NONE);
    assert_memory_equal(red->mods, red_mods, sizeof(red_mods));
    ptx_module_free(mod);
}

static void
literals_keep_every_bit(void **state)
{
    static const struct {
        const char *text;
        unsigned kind;
        uint64_t bits;
    } cases[] = {
        {"0", PTX_OPD_INT, 0},
        {"017", PTX_OPD_INT, 15},
        {"0b1011", PTX_OPD_INT, 11},
        {"0xFFFFFFFFFFFFFFFF", PTX_OPD_INT, UINT64_MAX},
        {"18446744073709551615U", PTX_OPD_INT, UINT64_MAX},
        {"-9223372036854775808", PTX_OPD_INT, (uint64_t)1 << 63},
        {"-1", PTX_OPD_INT, UINT64_MAX},
        {"~0", PTX_OPD_INT, UINT64_MAX},
        {"!0", PTX_OPD_INT, 1},
        {"WARP_SZ", PTX_OPD_INT, 32},
        {"WARP_SZ-1", PTX_OPD_INT, 31},
        {"(1+2)*3-4/2", PTX_OPD_INT, 7},
        {"1<<4|3", PTX_OPD_INT, 19},
        {"5>3?7:9", PTX_OPD_INT, 7},
        {"7 % (4)", PTX_OPD_INT, 3},
        {"-8>>1", PTX_OPD_INT, (uint64_t)-4},
        {"(.u64)-8>>1", PTX_OPD_INT, ((uint64_t)-8) >> 1},
        {"0xffffffff00000000 == 1", PTX_OPD_INT, 0},
        {"0f3f800000", PTX_OPD_F32, 0x3f800000},
        {"0F7FA00001", PTX_OPD_F32, 0x7fa00001},
        {"0d3FF0000000000000", PTX_OPD_F64, 0x3ff0000000000000},
        {"1.5", PTX_OPD_F64, 0x3ff8000000000000},
        {"-1.5", PTX_OPD_F64, 0xbff8000000000000},
        {"1e3", PTX_OPD_F64, 0x408f400000000000},
        {"1.e-1", PTX_OPD_F64, 0x3fb999999999999a},
        {"2.5*2", PTX_OPD_F64, 0x4014000000000000},
    };
    char body[200];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ptx_module *mod;

        snprintf(body, sizeof(body), ".reg .b64 %%d; mov.b64 %%d, %s;", cases[i].text);
        mod = ut_body(body);
        assert_int_equal(ut_insn(mod, 0)->opds[1].kind, cases[i].kind);
        if (ut_insn(mod, 0)->opds[1].imm != cases[i].bits)
            print_error("%s is %llx\n", cases[i].text,
                        (unsigned long long)ut_insn(mod, 0)->opds[1].imm);
        assert_true(ut_insn(mod, 0)->opds[1].imm == cases[i].bits);
        ptx_module_free(mod);
    }
}

static void
operand_forms_are_told_apart(void **state)
{
    struct ptx_module *mod = ut_body(
        ".reg .b32 %r<9>; .reg .pred p, q; .reg .b64 %rd<3>;\n"
        "mov.b64 %rd1, {%r1, 0};\nmov.b64 {_, %r2}, %rd1;\n"
        "setp.lt.and.s32 p|q, %r1, %r2, !p;\nshfl.sync.idx.b32 %r1|p, %r2, 0, 31, -1;\n"
        "atom.add.u32 _, [%rd1+-8], 1;\nmov.u32 %r1, %tid.x;\nmov.u32 %r1, "
        "%envreg17;\nvadd.u32.u32.u32 %r1, %r2.b0, -%r3.h1;\n");
    const struct ptx_insn *in = ut_insn(mod, 0);

    assert_int_equal(in->opds[1].kind, PTX_OPD_VEC);
    assert_int_equal(in->opds[1].n, 2);
    assert_int_equal(in->opds[1].sub[0].kind, PTX_OPD_REG);
    assert_int_equal(in->opds[1].sub[1].kind, PTX_OPD_INT);
    in = ut_insn(mod, 1);
    assert_int_equal(in->opds[0].sub[0].kind, PTX_OPD_SINK);
    in = ut_insn(mod, 2);
    assert_int_equal(in->opds[0].kind, PTX_OPD_PAIR);
    assert_int_equal(in->opds[3].flags, PTX_OPF_NOT);
    in = ut_insn(mod, 3);
    assert_int_equal(in->opds[0].kind, PTX_OPD_PAIR);
    assert_int_equal(in->n_opds, 5);
    in = ut_insn(mod, 4);
    assert_int_equal(in->opds[0].kind, PTX_OPD_SINK);
    assert_int_equal(in->opds[1].kind, PTX_OPD_ADDR);
    assert_int_equal(in->opds[1].base, PTX_OPD_REG);
    assert_int_equal((int64_t)in->opds[1].imm, -8);
    in = ut_insn(mod, 5);
    assert_int_equal(in->opds[1].kind, PTX_OPD_SREG);
    assert_int_equal(in->opds[1].reg, PTX_SREG_tid);
    assert_int_equal(in->opds[1].comp, PTX_COMP_X);
    in = ut_insn(mod, 6);
    assert_int_equal(in->opds[1].reg, PTX_SREG_envreg);
    assert_int_equal(in->opds[1].imm, 17);
    in = ut_insn(mod, 7);
    assert_int_equal(in->opds[1].comp, PTX_COMP_B0);
    assert_int_equal(in->opds[2].comp, PTX_COMP_H1);
    assert_int_equal(in->opds[2].flags, PTX_OPF_NEG);
    ptx_module_free(mod);
}

static void
every_special_register_is_known(void **state)
{
    static const char *const names[] = {
#define NAME(id, text, comps) "%" text,
        PTX_SREGS(NAME)
#undef NAME
    };
    char body[200];

    for (unsigned i = 0; i < PTX_SREG_COUNT; i++) {
        bool indexed = i == PTX_SREG_envreg || i == PTX_SREG_pm ||
                       i == PTX_SREG_reserved_smem_offset;
        struct ptx_module *mod;

        snprintf(body, sizeof(body), ".reg .b64 %%d; mov.u32 %%d, %s%s%s;",
                 i == PTX_SREG_pm_64 ? "%pm3_64" : names[i], indexed ? "1" : "",
                 ptx_sreg_comps(i) ? ".z" : "");
        mod = ut_body(body);
        assert_int_equal(ut_insn(mod, 0)->opds[1].kind, PTX_OPD_SREG);
        assert_int_equal(ut_insn(mod, 0)->opds[1].reg, i);
        if (i == PTX_SREG_pm_64)
            assert_int_equal(ut_insn(mod, 0)->opds[1].imm, 3);
        assert_string_equal(ptx_sreg_name(i), names[i]);
        ptx_module_free(mod);
    }
}

static void
addresses_of_variables(void **state)
{
    struct ptx_module *mod = ut_body(
        ".shared .align 16 .b32 s[8]; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n"
        "ld.shared.u32 %r1, [s+4];\nld.shared.u32 %r1, [s];\nld.shared.u32 %r1, "
        "s[3];\nmov.u32 %r1, s;\nld.shared.u32 %r1, [s+%r2];\nld.shared.u32 %r1, "
        "s[%r2+1];\nld.global.u32 %r1, [64];\nld.param.u64 %rd1, [p0];\nmov.u64 "
        "%rd1, s+8;\nld.shared.u32 %r1, [s[2]];");
    const struct ptx_var *s = ptx_module_func(mod, "k")->vars[0];
    const struct ptx_opd *opd;

    opd = &ut_insn(mod, 0)->opds[1];
    assert_int_equal(opd->kind, PTX_OPD_ADDR);
    assert_int_equal(opd->base, PTX_OPD_VAR);
    assert_ptr_equal(opd->var, s);
    assert_int_equal(opd->imm, 4);
    assert_int_equal(opd->reg, PTX_REG_NONE);
    opd = &ut_insn(mod, 2)->opds[1];
    assert_int_equal(opd->kind, PTX_OPD_VAR);
    assert_int_equal(opd->imm, 12);
    assert_int_equal(ut_insn(mod, 3)->opds[1].kind, PTX_OPD_VAR);
    opd = &ut_insn(mod, 4)->opds[1];
    assert_int_equal(ptx_opd_scale(opd), 1);
    assert_int_not_equal(opd->reg, PTX_REG_NONE);
    opd = &ut_insn(mod, 5)->opds[1];
    assert_int_equal(opd->kind, PTX_OPD_ADDR);
    assert_int_equal(ptx_opd_scale(opd), 4);
    assert_int_equal(opd->imm, 4);
    opd = &ut_insn(mod, 6)->opds[1];
    assert_int_equal(opd->base, PTX_OPD_INT);
    assert_int_equal(opd->imm, 64);
    opd = &ut_insn(mod, 7)->opds[1];
    assert_ptr_equal(opd->var, ptx_module_func(mod, "k")->params[0]);
    opd = &ut_insn(mod, 8)->opds[1];
    assert_int_equal(opd->kind, PTX_OPD_VAR);
    assert_int_equal(opd->imm, 8);
    assert_int_equal(ut_insn(mod, 9)->opds[1].imm, 8);
    assert_int_equal(s->align, 16);
    assert_int_equal(s->size, 32);
    assert_ptr_equal(s->func, ptx_module_func(mod, "k"));
    ptx_module_free(mod);
}

static void
texture_addresses_hold_their_coordinates(void **state)
{
    struct ptx_module *mod = ut_body(
        ".reg .f32 %f<9>; .reg .b64 %rd<3>; .reg .b32 %r<4>;\n"
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5,%f6}];\n"
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, %rd2, {%f5,%f6}], {%r1,%r2};\n"
        "sust.b.1d.b32.trap [%rd1, {%r1}], {%r2};\nld.global.u32 %r1, [%rd1].unified;");
    const struct ptx_opd *opd = &ut_insn(mod, 0)->opds[1];

    assert_int_equal(opd->kind, PTX_OPD_TEXADDR);
    assert_int_equal(opd->n, 2);
    assert_int_equal(opd->sub[0].kind, PTX_OPD_ADDR);
    assert_int_equal(opd->sub[1].kind, PTX_OPD_VEC);
    opd = &ut_insn(mod, 1)->opds[1];
    assert_int_equal(opd->n, 3);
    assert_int_equal(ut_insn(mod, 1)->n_opds, 3);
    assert_int_equal(ut_insn(mod, 2)->opds[0].kind, PTX_OPD_TEXADDR);
    assert_int_equal(ut_insn(mod, 3)->opds[1].flags, PTX_OPF_UNIFIED);
    ptx_module_free(mod);
}

static void
calls_direct_indirect_and_by_prototype(void **state)
{
    struct ptx_module *mod = ut_parse(
        PTX_HEAD ".extern .func (.param .b32 r) f (.param .b32 a, .param .b64 b);\n"
                 ".func g() { ret; }\n"
                 ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %rd<2>;\n"
                 "{ .param .b32 a; .param .b64 b; .param .b32 ret0;\n"
                 "call.uni (ret0),\n f,\n (\n a,\n b\n );\n}\n"
                 "call g;\ncall g, ();\n"
                 "{ .param .b32 a; .param .b32 ret0;\n"
                 "proto : .callprototype (.param .b32 _) _ (.param .b32 _) .noreturn;\n"
                 "call (ret0), %rd1, (a), proto;\n}\n"
                 "tgt: .calltargets f, g;\n"
                 "ts: .branchtargets A, B;\nbrx.idx %rd1, ts;\nA: ret; B: ret;\n}");
    const struct ptx_insn *call = ut_insn(mod, 0);
    const struct ptx_label *label;

    assert_int_equal(call->n_opds, 3);
    assert_int_equal(call->opds[0].kind, PTX_OPD_LIST);
    assert_int_equal(call->opds[1].kind, PTX_OPD_FUNC);
    assert_string_equal(call->opds[1].func->name->name, "f");
    assert_int_equal(call->opds[2].n, 2);
    assert_int_equal(call->opds[2].sub[1].kind, PTX_OPD_VAR);
    assert_int_equal(ut_insn(mod, 2)->opds[1].n, 0);
    call = ut_insn(mod, 3);
    assert_int_equal(call->opds[1].kind, PTX_OPD_REG);
    label = call->opds[3].label;
    assert_int_equal(call->opds[3].kind, PTX_OPD_LABEL);
    assert_int_equal(label->kind, PTX_LABEL_PROTOTYPE);
    assert_int_equal(label->proto->n_params, 1);
    assert_null(label->proto->params[0]->name);
    assert_true(label->proto->noreturn);
    label = ut_insn(mod, 4)->opds[1].label;
    assert_int_equal(label->kind, PTX_LABEL_BRANCHES);
    assert_int_equal(label->n, 2);
    assert_string_equal(label->labels[1]->name->name, "B");
    assert_int_equal(label->labels[1]->at, 6);
    label = ptx_module_func(mod, "k")->labels[1];
    assert_int_equal(label->kind, PTX_LABEL_CALLS);
    assert_string_equal(label->funcs[1]->name->name, "g");
    ptx_module_free(mod);
}

static void
definition_replaces_declaration_in_place(void **state)
{
    struct ptx_module *mod = ut_parse(
        PTX_HEAD
        ".extern .global .align 4 .b8 v[];\n.visible .func (.param .b32 r) f (.param "
        ".b32 x);\n.visible .entry k(){ .reg .b64 %d; .param .b32 a, b; call (a), f, "
        "(b); mov.u64 %d, v; }\n.visible .func (.param .b32 out) f (.param .b32 "
        "in){ret;}\n.visible .global .align 4 .b8 v[8];\n.visible .func (.param .b32 "
        "r) f (.param .b32 x);");
    const struct ptx_func *f = ptx_module_func(mod, "f");

    assert_int_equal(mod->n_funcs, 2);
    assert_true(f->has_body);
    assert_ptr_equal(ut_insn(mod, 0)->opds[1].func, f);
    assert_string_equal(f->params[0]->name->name, "in");
    assert_ptr_equal(f->params[0]->func, f);
    assert_int_equal(mod->n_vars, 1);
    assert_int_equal(mod->vars[0]->size, 8);
    assert_int_equal(mod->vars[0]->linkage, PTX_LINK_VISIBLE);
    assert_ptr_equal(ut_insn(mod, 1)->opds[1].var, mod->vars[0]);
    ptx_module_free(mod);
}

static void
kernel_parameters_are_laid_out_like_c(void **state)
{
    struct ptx_module *mod = ut_parse(
        PTX_HEAD
        ".visible .entry k(.param .u8 a, .param .u16 b, .param .align 8 .b8 s[20],\n"
        ".param .u64 .ptr .global .align 16 p, .param .f32 f, .param .v4 .f32 v,\n"
        ".param .u8 z) .maxntid 256, 2 .minnctapersm 4 .maxnreg 32 .reqntid 8,4,2\n"
        ".some_new_hint 3, 4 { ret; }");
    static const struct ptx_param_info wanted[] = {{0, 1, 1},  {2, 2, 2},  {8, 20, 8},
                                                   {32, 8, 8}, {40, 4, 4}, {48, 16, 16},
                                                   {64, 1, 1}};
    const struct ptx_func *k = ptx_module_func(mod, "k");
    struct ptx_param_info info;

    for (uint32_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        assert_int_equal(ptx_func_param(k, i, &info), 0);
        assert_memory_equal(&info, &wanted[i], sizeof(info));
    }
    assert_int_equal(ptx_func_param(k, 7, &info), -EINVAL);
    assert_int_equal(k->param_bytes, 65);
    assert_true(k->params[3]->is_ptr);
    assert_int_equal(k->params[3]->ptr_space, PTX_SPACE_GLOBAL);
    assert_int_equal(k->params[3]->ptr_align, 16);
    assert_int_equal(k->maxntid[0], 256);
    assert_int_equal(k->maxntid[1], 2);
    assert_int_equal(k->maxntid[2], 1);
    assert_int_equal(k->reqntid[2], 2);
    assert_int_equal(k->minnctapersm, 4);
    assert_int_equal(k->maxnreg, 32);
    ptx_module_free(mod);
}

static void
register_parameters_of_functions(void **state)
{
    struct ptx_module *mod =
        ut_parse(PTX_HEAD ".func (.reg .u32 %out) k (.reg.u32 %in0, .reg.u64 %in1)"
                          " { add.u32 %out, %in0, 1; ret; }");
    const struct ptx_func *k = ptx_module_func(mod, "k");

    assert_false(k->is_entry);
    assert_int_equal(k->params[1]->space, PTX_SPACE_REG);
    assert_int_equal(k->params[0]->reg, ut_insn(mod, 0)->opds[1].reg);
    assert_int_equal(k->rets[0]->reg, ut_insn(mod, 0)->opds[0].reg);
    assert_int_equal(k->regs[k->params[1]->reg].type, PTX_W_u64);
    ptx_module_free(mod);
}

static void
names_may_hold_dollar_and_percent(void **state)
{
    struct ptx_module *mod =
        ut_body(".reg .u64 %$x, $y, _z, %_; .shared .b8 __local$0[4];\n"
                "mov.u64 %$x, $y; mov.u64 _z, %_;\n$L__BB0_1: bra $L__BB0_1;");

    assert_int_equal(ut_insn(mod, 2)->opds[0].label->at, 2);
    ptx_module_free(mod);
}

static void
debug_and_pragma_lines_change_nothing(void **state)
{
    struct ptx_module *mod = ut_parse(
        PTX_HEAD
        ".file 1 \"a \\\" b.cu\", 1234567, 99\n@@DWARF .byte 1\n"
        ".visible .entry k() .pragma \"x\"; {\n.loc 1 12 5\n.pragma \"nounroll\", "
        "\"b\";\n.loc 1 13 2, function_name $L__info+12, inlined_at 1 7 3\n"
        "@@DWARF .4byte 3\nret;\n}\n"
        ".section .debug_str { $L__info: .b8 47,48 .b64 $a-$b .b32 .debug { } }\n"
        ".file 2 \"b\"\n");

    assert_int_equal(ptx_module_func(mod, "k")->n_insns, 1);
    ptx_module_free(mod);
}

static void
unknown_instruction_is_kept(void **state)
{
    struct ptx_module *mod =
        ut_body(".reg .b32 %r<4>;\nfrobnicate.new::thing.u32 %r1, %r2;\n"
                "ret;");
    const struct ptx_insn *in = ut_insn(mod, 0);

    assert_true(in->op >= PTX_W_COUNT);
    assert_string_equal(ptx_word_name(mod, in->op), "frobnicate");
    assert_string_equal(ptx_word_name(mod, in->mods[0]), "new::thing");
    assert_int_equal(in->mods[1], PTX_W_u32);
    assert_int_equal(in->n_opds, 2);
    ptx_module_free(mod);
}

static void
unknown_instruction_with_strange_operands_is_opaque(void **state)
{
    struct ptx_module *mod =
        ut_body("zip.u32 what <- (1 : 2), nowhere;\nzap nowhere;\nret;");

    assert_int_equal(ut_insn(mod, 0)->flags, PTX_INSN_OPAQUE);
    assert_int_equal(ut_insn(mod, 0)->n_opds, 0);
    assert_int_equal(ut_insn(mod, 1)->flags, 0);
    assert_int_equal(ut_insn(mod, 1)->opds[0].kind, PTX_OPD_SYM);
    assert_int_equal(ut_insn(mod, 2)->op, PTX_W_ret);
    ptx_module_free(mod);
}

static void
alias_points_to_its_function(void **state)
{
    struct ptx_module *mod =
        ut_parse(PTX_HEAD ".visible .func f(){ret;}\n.visible .func g();\n"
                          ".alias g, f;");

    assert_ptr_equal(ptx_module_func(mod, "g")->alias, ptx_module_func(mod, "f"));
    ptx_module_free(mod);
}

static void
word_numbers_and_texts_agree(void **state)
{
    struct ptx_module *mod = ut_parse(PTX_HEAD);

    for (unsigned word = 1; word < PTX_W_COUNT; word++)
        assert_true(*ptx_word_name(mod, word) != 0);
    assert_string_equal(ptx_word_name(mod, PTX_W_shared__cta), "shared::cta");
    assert_string_equal(ptx_word_name(mod, PTX_W_1d), "1d");
    assert_string_equal(ptx_word_name(mod, PTX_W_COUNT), "?");
    assert_int_equal(ptx_type_size(PTX_W_f64), 8);
    assert_int_equal(ptx_type_size(PTX_W_add), 0);
    assert_true(ptx_word_is_type(PTX_W_surfref));
    assert_false(ptx_word_is_type(PTX_W_reg));
    ptx_module_free(mod);
}

/* A file may be named behind the functions, as some compilers do. */
static void
lines_of_the_source_are_known(void **state)
{
    struct ptx_module *mod =
        ut_parse(PTX_HEAD ".file 1 \"a.cu\"\n.loc 1 99 0\n" /* line 4: outside */
                          ".visible .entry k()\n{\n"        /* 6 */
                          "bar.sync 0;\n"
                          ".loc 1 40 3\n"
                          "bar.sync 0;\n" /* 10 */
                          ".loc 2 7 1, function_name name, inlined_at 1 41 2\n"
                          "bar.sync 0;\n"
                          ".loc 3 8 1\nret;\n}\n" /* 13 to 15 */
                          ".visible .entry other()\n{\nret;\n}\n"
                          ".file 2 \"dir/b.cuh\", 1, 2\n");
    const struct ptx_func *k = ptx_module_func(mod, "k");
    const char *file = NULL;
    uint32_t line = 0;

    assert_false(ptx_func_source(k, 8, &file, &line));
    assert_true(ptx_func_source(k, 10, &file, &line));
    assert_string_equal(file, "a.cu");
    assert_int_equal(line, 40);
    assert_true(ptx_func_source(k, 12, &file, &line));
    assert_string_equal(file, "dir/b.cuh");
    assert_int_equal(line, 7);
    assert_true(ptx_func_source(k, 14, &file, &line));
    assert_string_equal(file, "?");
    assert_int_equal(line, 8);
    assert_false(ptx_func_source(ptx_module_func(mod, "other"), 18, &file, &line));
    ptx_module_free(mod);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(module_directives_are_kept),
        cmocka_unit_test(nul_padding_ends_the_text),
        cmocka_unit_test(text_without_nul_is_not_read_beyond_its_length),
        cmocka_unit_test(register_ranges_make_what_is_used),
        cmocka_unit_test(range_prefix_may_end_in_a_digit),
        cmocka_unit_test(nested_scopes_hide_and_restore_registers),
        cmocka_unit_test(inner_explicit_register_hides_outer_range_and_back),
        cmocka_unit_test(labels_belong_to_their_block),
        cmocka_unit_test(inner_label_wins_over_outer_one),
        cmocka_unit_test(guards_and_modifiers_keep_their_order),
        cmocka_unit_test(literals_keep_every_bit),
        cmocka_unit_test(operand_forms_are_told_apart),
        cmocka_unit_test(every_special_register_is_known),
        cmocka_unit_test(addresses_of_variables),
        cmocka_unit_test(texture_addresses_hold_their_coordinates),
        cmocka_unit_test(calls_direct_indirect_and_by_prototype),
        cmocka_unit_test(definition_replaces_declaration_in_place),
        cmocka_unit_test(kernel_parameters_are_laid_out_like_c),
        cmocka_unit_test(register_parameters_of_functions),
        cmocka_unit_test(names_may_hold_dollar_and_percent),
        cmocka_unit_test(debug_and_pragma_lines_change_nothing),
        cmocka_unit_test(unknown_instruction_is_kept),
        cmocka_unit_test(unknown_instruction_with_strange_operands_is_opaque),
        cmocka_unit_test(alias_points_to_its_function),
        cmocka_unit_test(lines_of_the_source_are_known),
        cmocka_unit_test(word_numbers_and_texts_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
