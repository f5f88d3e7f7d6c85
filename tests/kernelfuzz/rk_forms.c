/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_forms.h. */
#include "rk_forms.h"

#include "rk_operands.h"
#include "rk_ops.h"
#include "sg_ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FORMS 8000

static struct rk_form *forms;
static unsigned n_forms;

static struct rk_form *
add(char result, const char *sources, const char *text)
{
    struct rk_form *form = &forms[n_forms];

    for (unsigned i = 0; i < n_forms; i++)
        if (rk_kind_class(forms[i].result) == rk_kind_class(result) &&
            strcmp(forms[i].text, text) == 0)
            return &forms[i];
    if (++n_forms == MAX_FORMS || strlen(text) >= sizeof(form->text) ||
        strlen(sources) >= sizeof(form->sources))
        abort();
    form->result = result;
    snprintf(form->sources, sizeof(form->sources), "%s", sources);
    snprintf(form->text, sizeof(form->text), "%s", text);
    form->words = strstr(text, "%own") ? 2 : 1;
    return form;
}

/* @text with each {x|y|..} replaced by every one of its alternatives. */
static void
expand(char result, const char *sources, const char *text)
{
    const char *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL;
    char one[512];

    if (!close) {
        add(result, sources, text);
        return;
    }
    for (const char *at = open + 1; at <= close; at += strcspn(at, "|}") + 1) {
        int n = snprintf(one, sizeof(one), "%.*s%.*s%s", (int)(open - text), text,
                         (int)strcspn(at, "|}"), at, close + 1);
        if (n < 0 || n >= (int)sizeof(one))
            abort();
        expand(result, sources, one);
    }
}

/* ---- the operations of random kernels ----------------------------------------------
 */

static char
kind_of(char class, const struct ref_fmt *fmt)
{
    switch (class) {
    case 'W':
        return fmt == &ref_f32    ? 'f'
               : fmt == &ref_f16  ? 'g'
               : fmt == &ref_bf16 ? 'c'
                                  : 'i';
    case 'D':
        return fmt == &ref_f64 ? 'd' : 'l';
    case 'H':
        return fmt == &ref_f16 ? 'h' : fmt == &ref_bf16 ? 'b' : 's';
    default:
        return 'p';
    }
}

static void
add_op(const struct rk_op *op)
{
    const struct ref_fmt *from = op->from_bits ? op->from_fmt : op->fmt;
    char sources[RK_MAX_SOURCES + 1] = "", text[200];
    unsigned n = 0;
    int at = snprintf(text, sizeof(text), "%s %%d", op->name);
    struct rk_form *form;

    for (unsigned i = 0; op->sig[i + 1]; i++) {
        if (op->sig[i + 1] == '8') {
            at += snprintf(text + at, sizeof(text) - (size_t)at, ", 0x1b");
            continue;
        }
        sources[n++] = kind_of(op->sig[i + 1], from);
        at += snprintf(text + at, sizeof(text) - (size_t)at, ", %%%c", "abce"[i]);
    }
    snprintf(text + at, sizeof(text) - (size_t)at, ";");
    form = add(kind_of(op->sig[0], op->fmt), sources, op->form ? op->form : text);
    form->op = op;
}

static void
add_ops(void)
{
    rk_ops_init();
    for (unsigned family = 0; family < rk_ops_families(); family++) {
        unsigned n;
        const struct rk_op *ops = rk_ops_family(family, &n);
        for (unsigned i = 0; i < n; i++)
            add_op(&ops[i]);
    }
}

/* ---- conversions -------------------------------------------------------------------
 */

static const struct {
    const char *name;
    char kind;
    uint8_t bits;
    bool is_float;
} types[] = {{"u8", 's', 8, false},   {"s8", 's', 8, false},   {"u16", 's', 16, false},
             {"s16", 's', 16, false}, {"u32", 'i', 32, false}, {"s32", 'i', 32, false},
             {"u64", 'l', 64, false}, {"s64", 'l', 64, false}, {"f16", 'h', 16, true},
             {"bf16", 'b', 16, true}, {"f32", 'f', 32, true},  {"f64", 'd', 64, true}};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static void
add_conversion(unsigned to, unsigned from)
{
    bool rounds = types[to].is_float &&
                  (!types[from].is_float || types[to].bits < types[from].bits);
    bool integral = types[from].is_float && (!types[to].is_float || to == from);
    bool ftz = types[to].kind == 'f' || types[from].kind == 'f';
    char text[200], sources[2] = {types[from].kind, 0};

    snprintf(text, sizeof(text), "cvt%s%s{|.sat%s}.%s.%s %%d, %%a;",
             integral ? "{.rni|.rzi|.rmi|.rpi}"
             : rounds ? "{.rn|.rz|.rm|.rp}"
                      : "{|.rn}",
             ftz ? "{|.ftz}" : "", types[to].is_float ? "|.relu|.satfinite" : "",
             types[to].name, types[from].name);
    expand(types[to].kind, sources, text);
}

static void
add_conversions(void)
{
    for (unsigned to = 0; to < N_TYPES; to++)
        for (unsigned from = 0; from < N_TYPES; from++)
            add_conversion(to, from);
    expand('f', "f", "cvt{.rna|.rn|.rz}{|.relu}{|.satfinite}.tf32.f32 %d, %a;");
    expand('g', "ff", "cvt{.rn|.rz}{|.relu}{|.satfinite}.f16x2.f32 %d, %a, %b;");
    expand('c', "ff", "cvt{.rn|.rz}{|.relu}{|.satfinite}.bf16x2.f32 %d, %a, %b;");
    expand('s', "ff", "cvt.rn.satfinite{|.relu}.{e4m3x2|e5m2x2}.f32 %d, %a, %b;");
    expand('s', "g", "cvt.rn.satfinite{|.relu}.{e4m3x2|e5m2x2}.f16x2 %d, %a;");
    expand('g', "x", "cvt.rn{|.relu}.f16x2.{e4m3x2|e5m2x2} %d, %a;");
    expand('i', "ii", "cvt.pack.sat.{s16|u16}.s32 %d, %a, %b;");
    expand('i', "iii", "cvt.pack.sat.{s8|u8|s4|u4|s2|u2}.s32.b32 %d, %a, %b, %c;");
}

/* ---- arithmetic --------------------------------------------------------------------
 */

static const struct {
    char result;
    const char *sources, *text;
} rows[] = {
    /* f32 and f64 */
    {'f', "ff", "div.{approx|full}{|.ftz}.f32 %d, %a, %b;"},
    {'f', "f", "{rcp|sqrt|rsqrt|sin|cos|lg2|ex2}.approx{|.ftz}.f32 %d, %a;"},
    {'f', "f", "tanh.approx.f32 %d, %a;"},
    {'d', "d", "{rcp|rsqrt}.approx.ftz.f64 %d, %a;"},
    {'d', "d", "rsqrt.approx.f64 %d, %a;"},
    {'f', "fff", "mad{.rn|.rz|.rm|.rp}{|.ftz}{|.sat}.f32 %d, %a, %b, %c;"},
    {'d', "ddd", "mad{.rn|.rz|.rm|.rp}.f64 %d, %a, %b, %c;"},
    {'f', "ff", "{min|max}{|.ftz}{|.NaN}{|.xorsign.abs}.f32 %d, %a, %b;"},
    {'d', "dd", "{add|sub|mul}.f64 %d, %a, %b;"},
    {'f', "ff", "{add|sub|mul}{|.ftz}{|.sat}.f32 %d, %a, %b;"},
    {'f', "ffi", "slct{|.ftz}.f32.s32 %d, %a, %b, %c;"},
    {'f', "fff", "slct{|.ftz}.f32.f32 %d, %a, %b, %c;"},
    /* halves */
    {'h', "h", "{neg|abs}{|.ftz}.f16 %d, %a;"},
    {'g', "g", "{neg|abs}{|.ftz}.f16x2 %d, %a;"},
    {'b', "b", "{neg|abs}.bf16 %d, %a;"},
    {'c', "c", "{neg|abs}.bf16x2 %d, %a;"},
    {'h', "hh", "{add|sub|mul}{|.rn}{|.ftz}{|.sat}.f16 %d, %a, %b;"},
    {'g', "gg", "{add|sub|mul}{|.rn}{|.ftz}{|.sat}.f16x2 %d, %a, %b;"},
    {'b', "bb", "{add|sub|mul}{|.rn}.bf16 %d, %a, %b;"},
    {'c', "cc", "{add|sub|mul}{|.rn}.bf16x2 %d, %a, %b;"},
    {'h', "hhh", "fma.rn{|.ftz}{|.sat|.relu}.f16 %d, %a, %b, %c;"},
    {'g', "ggg", "fma.rn{|.ftz}{|.sat|.relu}.f16x2 %d, %a, %b, %c;"},
    {'b', "bbb", "fma.rn{|.relu}.bf16 %d, %a, %b, %c;"},
    {'c', "ccc", "fma.rn{|.relu}.bf16x2 %d, %a, %b, %c;"},
    {'h', "hhh", "fma.rn.oob{|.relu}.f16 %d, %a, %b, %c;"},
    {'g', "ggg", "fma.rn.oob{|.relu}.f16x2 %d, %a, %b, %c;"},
    {'b', "bbb", "fma.rn.oob{|.relu}.bf16 %d, %a, %b, %c;"},
    {'c', "ccc", "fma.rn.oob{|.relu}.bf16x2 %d, %a, %b, %c;"},
    /* which NaN is out of bounds: every half */
    {'h', "h",
     "mov.b16 %v0, 0x3c00; fma.rn.oob{|.relu}.f16 %d, {%a, %v0|%v0, %a}, %v0;"},
    {'b', "b", "mov.b16 %v0, 0x3f80; fma.rn.oob.bf16 %d, {%a, %v0|%v0, %a}, %v0;"},
    {'g', "g", "mov.b32 %t0, 0x3c003c00; fma.rn.oob.f16x2 %d, {%a, %t0|%t0, %a}, %t0;"},
    /* products next to the least normal number: tiny before rounding or behind it */
    {'f', "i",
     "and.b32 %t0, %a, 0x800007ff; xor.b32 %t0, %t0, 0x1f800400; shr.u32 %t1, %a, 11; "
     "and.b32 %t1, %t1, 0x7ff; xor.b32 %t1, %t1, 0x207ff800; "
     "{mul.rn|mul.rz|mul.rm|mul.rp}.ftz.f32 %d, %t0, %t1;"},
    {'f', "i",
     "and.b32 %t0, %a, 0x800007ff; xor.b32 %t0, %t0, 0x1f800400; shr.u32 %t1, %a, 11; "
     "and.b32 %t1, %t1, 0x7ff; xor.b32 %t1, %t1, 0x207ff800; mov.b32 %t2, 0x80000000; "
     "fma{.rn|.rz|.rm|.rp}.ftz.f32 %d, %t0, %t1, %t2;"},
    {'f', "i",
     "and.b32 %t0, %a, 0x800007ff; xor.b32 %t0, %t0, 0x00800000; shr.u32 %t1, %a, 11; "
     "and.b32 %t1, %t1, 0x7ff; xor.b32 %t1, %t1, 0x3f800000; "
     "div{.rn|.rz|.rm|.rp}.ftz.f32 %d, %t0, %t1;"},
    {'h', "h",
     "mov.b16 %v0, {0x1fe0|0x1ff0|0x13ff|0x3bff}; {mul|mul.sat}.ftz.f16 %d, %a, %v0;"},
    {'h', "h",
     "mov.b16 %v0, {0x1fe0|0x13ff}; mov.b16 %h0, 0x8000; "
     "fma.rn.ftz.f16 %d, %a, %v0, %h0;"},
    {'h', "hh", "{min|max}{|.ftz}{|.NaN}{|.xorsign.abs}.f16 %d, %a, %b;"},
    {'g', "gg", "{min|max}{|.ftz}{|.NaN}{|.xorsign.abs}.f16x2 %d, %a, %b;"},
    {'b', "bb", "{min|max}{|.NaN}{|.xorsign.abs}.bf16 %d, %a, %b;"},
    {'c', "cc", "{min|max}{|.NaN}{|.xorsign.abs}.bf16x2 %d, %a, %b;"},
    {'h', "h", "{ex2|tanh}.approx.f16 %d, %a;"},
    {'g', "g", "{ex2|tanh}.approx.f16x2 %d, %a;"},
    {'b', "b", "{ex2.approx.ftz|tanh.approx}.bf16 %d, %a;"},
    {'c', "c", "{ex2.approx.ftz|tanh.approx}.bf16x2 %d, %a;"},
    {'h', "hh", "set.{eq|ne|lt|leu|gt|geu|num|nan}{|.ftz}.f16.f16 %d, %a, %b;"},
    {'g', "gg", "set.{eq|ne|lt|leu|gt|geu|num|nan}{|.ftz}.f16x2.f16x2 %d, %a, %b;"},
    {'b', "bb", "set.{eq|ne|lt|leu|gt|geu|num|nan}.bf16.bf16 %d, %a, %b;"},
    {'c', "cc", "set.{eq|ne|lt|leu|gt|geu|num|nan}.bf16x2.bf16x2 %d, %a, %b;"},
    {'s', "hh", "set.{eq|leu}{|.ftz}.{u16|s16}.f16 %d, %a, %b;"},
    {'i', "hh", "set.{eq|leu}{|.ftz}.{u32|s32}.f16 %d, %a, %b;"},
    {'h', "ii", "set.{eq|lt}.f16.{u32|s32} %d, %a, %b;"},
    {'h', "ff", "set.{eq|ltu}{|.ftz}.f16.f32 %d, %a, %b;"},
    {'i', "gg",
     "setp.{eq|ne|lt|leu|gt|geu|num|nan}{|.ftz}.f16x2 %q0|%q1, %a, %b; "
     "selp.u32 %t0, 1, 0, %q0; selp.u32 %t1, 2, 0, %q1; or.b32 %d, %t0, %t1;"},
    {'i', "cc",
     "setp.{eq|ne|lt|leu|gt|geu|num|nan}.bf16x2 %q0|%q1, %a, %b; "
     "selp.u32 %t0, 1, 0, %q0; selp.u32 %t1, 2, 0, %q1; or.b32 %d, %t0, %t1;"},
    {'p', "bb", "setp.{eq|ne|lt|leu|gt|geu|num|nan}.bf16 %d, %a, %b;"},
    /* integers */
    {'i', "iii",
     "add.cc.{u32|s32} %t0, %a, %b; addc.cc.u32 %t1, %a, %c; addc.u32 %d, %b, %c;"},
    {'i', "iii",
     "sub.cc.{u32|s32} %t0, %a, %b; subc.cc.u32 %t1, %c, %b; subc.u32 %d, %a, %c;"},
    {'i', "iii",
     "mad.{lo|hi}.cc.{u32|s32} %t0, %a, %b, %c; madc.{lo|hi}.cc.{u32|s32} %t1, %b, %c, "
     "%a; madc.{lo|hi}.{u32|s32} %d, %a, %c, %b; xor.b32 %d, %d, %t1;"},
    {'l', "lll",
     "add.cc.u64 %u0, %a, %b; addc.cc.u64 %u1, %a, %c; addc.u64 %d, %b, %c;"},
    {'l', "lll",
     "sub.cc.u64 %u0, %a, %b; subc.cc.u64 %u1, %c, %b; subc.u64 %d, %a, %c;"},
    {'l', "lll",
     "mad.lo.cc.u64 %u0, %a, %b, %c; madc.{lo|hi}.cc.u64 %u1, %b, %c, %a; "
     "madc.hi.{u64|s64} %d, %a, %c, %b; xor.b64 %d, %d, %u1;"},
    {'i', "iii", "mad24.hi.sat.s32 %d, %a, %b, %c;"},
    {'i', "ii", "{min|max}.relu.{s32|s16x2} %d, %a, %b;"},
    {'i', "iii",
     "lop3.b32 %d, %a, %b, %c, {0x00|0x01|0x96|0xca|0xe8|0xfe|0x80|0x3c|0x35};"},
    {'i', "imn", "fns.b32 %d, %a, %b, %c;"},
    {'l', "lli", "slct.{u64|b64}.s32 %d, %a, %b, %c;"},
    /* Video instructions, of which ptxas 13.0 makes a dozen machine instructions.  Left
     * out is what it gets wrong where nothing else says so: .sat to u32, .min and .max
     * of c, d.h1, and .sat and shifts of vmad beyond s32. */
    {'i', "ii",
     "{vadd|vsub|vabsdiff|vmin|vmax}.{u32|s32}.{u32|s32}.{u32|s32} %d, %a, %b;"},
    {'i', "ii",
     "{vadd|vsub|vabsdiff|vmin|vmax}.s32.{u32|s32}.{u32|s32}.sat %d, %a, %b;"},
    {'i', "iii",
     "{vadd|vsub|vabsdiff|vmin|vmax}.s32.{u32|s32}.{u32|s32}{|.sat}.add %d, %a, %b, "
     "%c;"},
    {'i', "iii",
     "{vadd|vsub|vabsdiff|vmin|vmax}.{u32|s32}.{u32|s32}.{u32|s32} %d.b1, %a.b2, "
     "%b.h0, "
     "%c;"},
    {'i', "ii", "{vshl|vshr}.{u32|s32}.{u32|s32}.u32.{clamp|wrap} %d, %a, %b;"},
    {'i', "iii",
     "{vshl|vshr}.{u32|s32}.{u32|s32}.u32.{clamp|wrap}.add %d, %a.h1, %b.b0, %c;"},
    {'i', "ii", "vset.{u32|s32}.{u32|s32}.{eq|ne|lt|le|gt|ge} %d, %a, %b.h1;"},
    {'i', "iii", "vset.{u32|s32}.{u32|s32}.{eq|ne|lt|le|gt|ge}.add %d, %a.b3, %b, %c;"},
    {'i', "iii", "vmad.{u32|s32}.{u32|s32}.{u32|s32} %d, %a, %b.h0, %c;"},
    {'i', "iii", "vmad.s32.s32.s32{|.sat}{|.shr7|.shr15} %d, %a, %b, {|-}%c;"},
    {'i', "iii", "vmad.{u32|s32}.{u32|s32}.{u32|s32}.po %d, %a.h1, %b.b2, %c;"},
    {'i', "iii",
     "{vadd2|vsub2|vavrg2|vabsdiff2|vmin2|vmax2|vadd4|vsub4|vavrg4|vabsdiff4|vmin4|"
     "vmax4}.{u32|s32}.{u32|s32}.{u32|s32}{|.sat|.add} %d, %a, %b, %c;"},
    {'i', "iii",
     "{vset2|vset4}.{u32|s32}.{u32|s32}.{eq|ne|lt|le|gt|ge}{|.add} %d, %a, %b, %c;"},
};

/* ---- memory ------------------------------------------------------------------------
 */

static void
add_atomic(char kind, const char *word, const char *type)
{
    bool wide = rk_kind_class(kind) == 'D', half = rk_kind_class(kind) == 'H';
    const char *bits = wide ? "b64" : half ? "b16" : "b32";
    const char *temp = wide ? "%u0" : half ? "%v0" : "%t0";
    bool cas = strcmp(word, "cas") == 0;
    char sources[4] = {kind, kind, cas ? kind : 0, 0}, text[320];

    snprintf(text, sizeof(text),
             "st.global.%s [%%own], %%a; atom.global.%s.%s %%d, [%%own], %%b%s;", bits,
             word, type, cas ? ", %c" : "");
    add(kind, sources, text);
    snprintf(text, sizeof(text),
             "st.shared.%s [%%sh], %%a; atom.shared.%s.%s %%d, [%%sh], %%b%s; "
             "ld.shared.%s %s, [%%sh]; st.global.%s [%%own], %s;",
             bits, word, type, cas ? ", %c" : "", bits, temp, bits, temp);
    add(kind, sources, text);
    if (cas || strcmp(word, "exch") == 0)
        return;
    snprintf(
        text, sizeof(text),
        "mov.%s %%d, %%a; st.global.%s [%%own], %%a; red.global.%s.%s [%%own], %%b;",
        bits, bits, word, type);
    add(kind, sources, text);
    snprintf(text, sizeof(text),
             "mov.%s %%d, %%a; st.shared.%s [%%sh], %%a; red.shared.%s.%s [%%sh], %%b; "
             "ld.shared.%s %s, [%%sh]; st.global.%s [%%own], %s;",
             bits, bits, word, type, bits, temp, bits, temp);
    add(kind, sources, text);
}

static void
add_atomics(void)
{
    static const struct {
        char kind;
        const char *words, *types;
    } sets[] = {
        {'f', "add", "f32"},
        {'d', "add", "f64"},
        {'h', "add.noftz", "f16"},
        {'g', "add.noftz", "f16x2"},
        {'b', "add.noftz", "bf16"},
        {'c', "add.noftz", "bf16x2"},
        {'i', "add min max", "u32 s32"},
        {'i', "inc dec", "u32"},
        {'i', "and or xor exch cas", "b32"},
        {'l', "add min max", "u64 s64"},
        {'l', "and or xor exch cas", "b64"},
        {'s', "cas", "b16"},
    };

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        for (const char *w = sets[i].words; *w; w += strspn(w, " "))
            for (const char *t = (w += strcspn(w, " "), sets[i].types); *t;
                 t += strspn(t, " ")) {
                const char *first = w;
                char word[16], type[16];
                while (first > sets[i].words && first[-1] != ' ')
                    first--;
                snprintf(word, sizeof(word), "%.*s", (int)(w - first), first);
                snprintf(type, sizeof(type), "%.*s", (int)strcspn(t, " "), t);
                add_atomic(sets[i].kind, word, type);
                t += strcspn(t, " ");
            }
}

/* ---- matrices ----------------------------------------------------------------------
 */

static unsigned
list_registers(char *text, size_t size, const char *names, unsigned first, unsigned n)
{
    unsigned at = (unsigned)snprintf(text, size, "{");

    for (unsigned i = 0; i < n; i++)
        at += (unsigned)snprintf(text + at, size - at, "%s%s%u", i ? ", " : "", names,
                                 first + i);
    return at + (unsigned)snprintf(text + at, size - at, "}");
}

/* D = A * B + C; registers of A, B and C one behind the other in %r, or %f of 64 bits.
 */
static void
add_matrix(const char *name, const char *kinds, char result, unsigned a, unsigned b,
           unsigned c)
{
    const char *names = result == 'd' ? "%f" : "%r";
    char text[320], lists[4][48];
    unsigned pairs = result == 'd' ? 1 : 2;
    struct rk_form *form;

    /* Each of the three begins with a word of its own. */
    unsigned at_b = (a + pairs - 1) / pairs * pairs;
    unsigned at_c = at_b + (b + pairs - 1) / pairs * pairs;

    list_registers(lists[0], sizeof(lists[0]), result == 'd' ? "%fd" : "%rd", 0, c);
    list_registers(lists[1], sizeof(lists[1]), names, 0, a);
    list_registers(lists[2], sizeof(lists[2]), names, at_b, b);
    list_registers(lists[3], sizeof(lists[3]), names, at_c, c);
    snprintf(text, sizeof(text), "mma.sync.aligned.%s %s, %s, %s, %s;", name, lists[0],
             lists[1], lists[2], lists[3]);
    form = add(result, kinds, text);
    form->words = (c + pairs - 1) / pairs;
}

static void
add_matrices(void)
{
    add_matrix("m16n8k8.row.col.f16.f16.f16.f16", "111", 'g', 2, 1, 2);
    add_matrix("m16n8k16.row.col.f16.f16.f16.f16", "1111", 'g', 4, 2, 2);
    add_matrix("m16n8k8.row.col.f32.f16.f16.f32", "1133", 'f', 2, 1, 4);
    add_matrix("m16n8k16.row.col.f32.f16.f16.f32", "11133", 'f', 4, 2, 4);
    add_matrix("m16n8k8.row.col.f32.bf16.bf16.f32", "2233", 'f', 2, 1, 4);
    add_matrix("m16n8k16.row.col.f32.bf16.bf16.f32", "22233", 'f', 4, 2, 4);
    add_matrix("m16n8k4.row.col.f32.tf32.tf32.f32", "3333", 'f', 2, 1, 4);
    add_matrix("m16n8k8.row.col.f32.tf32.tf32.f32", "33333", 'f', 4, 2, 4);
    add_matrix("m16n8k32.row.col.f32.e4m3.e4m3.f32", "66633", 'f', 4, 2, 4);
    add_matrix("m16n8k32.row.col.f32.e4m3.e5m2.f32", "66733", 'f', 4, 2, 4);
    add_matrix("m16n8k32.row.col.f32.e5m2.e5m2.f32", "77733", 'f', 4, 2, 4);
    add_matrix("m16n8k16.row.col.f32.e4m3.e4m3.f32", "6633", 'f', 2, 1, 4);
    add_matrix("m16n8k32.row.col.f16.e4m3.e4m3.f16", "6661", 'g', 4, 2, 2);
    add_matrix("m8n8k4.row.col.f64.f64.f64.f64", "4444", 'd', 1, 1, 2);
    add_matrix("m16n8k4.row.col.f64.f64.f64.f64", "4444444", 'd', 2, 1, 4);
    for (int i = 0; i < 8; i++) {
        char name[80];
        const char *sat = i & 1 ? ".satfinite" : "", *a = i & 2 ? "u8" : "s8";
        const char *b = i & 4 ? "u8" : "s8";
        snprintf(name, sizeof(name), "m8n8k16.row.col%s.s32.%s.%s.s32", sat, a, b);
        add_matrix(name, "555", 'i', 1, 1, 2);
        snprintf(name, sizeof(name), "m16n8k32.row.col%s.s32.%s.%s.s32", sat, a, b);
        add_matrix(name, "55555", 'i', 4, 2, 4);
    }
    add_matrix("m16n8k64.row.col.s32.s4.u4.s32", "55555", 'i', 4, 2, 4);
    add_matrix("m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "55555", 'i', 4, 2, 4);
    add_matrix("m16n8k256.row.col.s32.b1.b1.s32.and.popc", "55555", 'i', 4, 2, 4);
}

void
rk_forms_init(void)
{
    if (n_forms)
        return;
    forms = calloc(MAX_FORMS, sizeof(*forms));
    if (!forms)
        abort();
    add_ops();
    add_conversions();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expand(rows[i].result, rows[i].sources, rows[i].text);
    add_atomics();
    add_matrices();
}

unsigned
rk_forms(const struct rk_form **ret)
{
    *ret = forms;
    return n_forms;
}
