/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_probe.h. */
#include "rk_probe.h"

#include "rk_card.h"
#include "rk_forms.h"
#include "rk_operands.h"
#include "rk_ops.h"
#include "rk_ops_float.h"
#include "rk_run.h"

#include "gp_base.h"
#include "gp_err.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 128
#define OUT_WORDS 4
#define SHOWN 5

/* One process. */
struct probe {
    struct rk_card *card; /* NULL: the reference instead */
    struct rk_run *run;
    uint64_t *in, *got; /* the executor's memory */
    uint64_t *want;     /* what the card or the reference gives */
    char kinds[9];      /* that @in is filled for */
    int lock;
    FILE *rows; /* every row that differs */
};

/* What the processes share. */
struct sum {
    unsigned forms, differ, refused, next;
};

/* ---- the kernel --------------------------------------------------------------------
 */

static const char *
letter_of(char kind)
{
    char class = rk_kind_class(kind);

    return class == 'D' ? "d" : class == 'H' ? "h" : class == 'P' ? "p" : "w";
}

static void
print_loads(FILE *f, const struct rk_form *form)
{
    bool matrix = form->sources[0] >= '1' && form->sources[0] <= '8';

    for (unsigned i = 0; form->sources[i]; i++) {
        char class = rk_kind_class(form->sources[i]);
        if (matrix)
            fprintf(f,
                    "ld.global.b64 %%f%u, [%%in+%u]; mov.b64 {%%r%u, %%r%u}, %%f%u;\n",
                    i, i * 8, 2 * i, 2 * i + 1, i);
        else if (class == 'P')
            fprintf(f, "ld.global.u32 %%t0, [%%in+%u]; setp.ne.u32 %%ps%u, %%t0, 0;\n",
                    i * 8, i);
        else
            fprintf(f, "ld.global.b%u %%%ss%u, [%%in+%u];\n", rk_class_bits(class),
                    letter_of(form->sources[i]), i, i * 8);
    }
}

static void
print_form(FILE *f, const struct rk_form *form)
{
    static const char letters[] = "abce";

    for (const char *c = form->text; *c; c++) {
        const char *at = *c == '%' ? strchr(letters, c[1]) : NULL;
        bool word = c[1] && c[2] >= 'a' && c[2] <= 'z';
        if (*c != '%' || word || (c[1] != 'd' && (!at || !*at))) {
            fputc(*c, f);
            continue;
        }
        c++;
        if (*c == 'd')
            fprintf(f, "%%%sr", letter_of(form->result));
        else if (*c == 'b' && form->op && form->op->nonzero)
            fputs(form->op->bits == 64   ? "%u0"
                  : form->op->bits == 32 ? "%t0"
                                         : "%v0",
                  f);
        else
            fprintf(f, "%%%ss%u", letter_of(form->sources[at - letters]),
                    (unsigned)(at - letters));
    }
    fputc('\n', f);
}

static void
print_store(FILE *f, const struct rk_form *form)
{
    if (form->sources[0] >= '1' && form->sources[0] <= '8') {
        for (unsigned i = 0; i < form->words; i++)
            if (form->result == 'd')
                fprintf(f, "st.global.f64 [%%out+%u], %%fd%u;\n", i * 8, i);
            else
                fprintf(f, "st.global.v2.b32 [%%out+%u], {%%rd%u, %%rd%u};\n", i * 8,
                        2 * i, 2 * i + 1);
        return;
    }
    switch (rk_kind_class(form->result)) {
    case 'D':
        fputs("st.global.b64 [%out], %dr;\n", f);
        break;
    case 'H':
        fputs("st.global.b16 [%out], %hr;\n", f);
        break;
    case 'P':
        fputs("selp.u32 %t0, 1, 0, %pr; st.global.b32 [%out], %t0;\n", f);
        break;
    default:
        fputs("st.global.b32 [%out], %wr;\n", f);
    }
}

static char *
print_kernel(const struct rk_form *form)
{
    size_t size;
    char *text = NULL;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        abort();
    fputs(
        ".version 8.7\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .b32 %wr, %ws<4>; .reg .b64 %dr, %ds<4>; .reg .b16 %hr, %hs<4>;\n"
        ".reg .pred %pr, %ps<4>; .reg .b32 %t<3>; .reg .b64 %u<2>; .reg .b16 %v<1>;\n"
        ".reg .b16 %h0; .reg .pred %q<2>; .reg .b32 %r<16>; .reg .b64 %f<8>;\n"
        ".reg .b32 %rd<4>; .reg .b64 %fd<4>; .reg .b64 %in, %out, %own; .reg .b32 %sh, "
        "%gid;\n",
        f);
    fprintf(f, ".shared .align 8 .b8 cells[%u];\n", BLOCK * 8);
    fprintf(f,
            "mov.u32 %%t0, %%ctaid.x; mov.u32 %%t1, %%tid.x;\n"
            "mad.lo.u32 %%gid, %%t0, %u, %%t1;\n"
            "ld.param.u64 %%in, [in]; mad.wide.u32 %%in, %%gid, %u, %%in;\n"
            "ld.param.u64 %%out, [out]; mad.wide.u32 %%out, %%gid, %u, %%out;\n"
            "mov.u32 %%sh, cells; mad.lo.u32 %%sh, %%t1, 8, %%sh;\n"
            "add.u64 %%own, %%out, 8; mov.u64 %%u0, 0;\n",
            BLOCK, RK_ROW_WORDS * 8, OUT_WORDS * 8);
    for (unsigned i = 0; i < OUT_WORDS; i++)
        fprintf(f, "st.global.u64 [%%out+%u], %%u0;\n", i * 8);
    print_loads(f, form);
    if (form->op && form->op->nonzero)
        fprintf(f, "or.b%u %s, %%%ss1, 1;\n", form->op->bits,
                form->op->bits == 64   ? "%u0"
                : form->op->bits == 32 ? "%t0"
                                       : "%v0",
                letter_of(form->sources[1]));
    print_form(f, form);
    print_store(f, form);
    fputs("ret;\n}\n", f);
    fclose(f);
    return text;
}

/* FNV-1a, by words. */
static uint64_t
hash_rows(const struct rk_form *form, const uint64_t *out, unsigned rows)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (unsigned r = 0; r < rows; r++)
        for (unsigned w = 0; w < form->words; w++)
            h = (h ^ out[(size_t)r * OUT_WORDS + w]) * UINT64_C(0x100000001b3);
    return h;
}

int
rk_probe_hash(struct rk_run *run, const struct rk_form *form, uint64_t *in,
              uint64_t *out, uint64_t *ret)
{
    CLEANUP_FREE char *text = print_kernel(form);
    const uint64_t params[] = {(uintptr_t)in, (uintptr_t)out};
    unsigned rows = rk_operands_rows(form->sources);
    int r;

    rk_operands_fill(form->sources, rows, in);
    r = rk_run_text(run, text, rows / BLOCK, BLOCK, params, ARRAY_SIZE(params), NULL);
    if (r == 0)
        *ret = hash_rows(form, out, rows);
    return r;
}

/* ---- both sides --------------------------------------------------------------------
 */

/* A reference that does not say which NaN comes makes all one; so does this with what
 * the executor gave. */
static void
by_reference(struct probe *p, const struct rk_form *form, unsigned rows)
{
    memset(p->want, 0, sizeof(*p->want) * OUT_WORDS * rows);
    for (unsigned r = 0; r < rows; r++) {
        uint64_t x[RK_MAX_SOURCES] = {0};
        const uint64_t *row = p->in + (size_t)r * RK_ROW_WORDS;
        unsigned n = 0;

        for (; form->sources[n]; n++)
            x[n] = row[n] & UINT64_MAX >> (64 - rk_class_bits(form->op->sig[n + 1]));
        if (form->op->sig[n + 1] == '8')
            x[n] = 0x1b;
        p->want[(size_t)r * OUT_WORDS] = rk_op_eval(form->op, x);
    }
    if (form->op->any_nan)
        for (unsigned r = 0; r < rows; r++)
            p->got[(size_t)r * OUT_WORDS] =
                rk_one_nan(form->op->bits, p->got[(size_t)r * OUT_WORDS]);
}

/* Both sides' results of all rows.  1: the form is refused by both, which the file
 * says, or has no reference; < 0: one side refuses it, and @words say which. */
static int
run_both(struct probe *p, const struct rk_form *form, unsigned rows, char *words,
         size_t size)
{
    CLEANUP_FREE char *text = print_kernel(form);
    const uint64_t params[] = {(uintptr_t)p->in, (uintptr_t)p->got};
    struct gp_err ours = {0}, theirs = {0};
    int r, r_card;

    if (!p->card && !form->op)
        return 1;
    r = rk_run_text(p->run, text, rows / BLOCK, BLOCK, params, ARRAY_SIZE(params),
                    &ours);
    if (!p->card) {
        if (r == 0)
            by_reference(p, form, rows);
        snprintf(words, size, "refused: %s", gp_err_msg(&ours, r));
        return r;
    }
    r_card = rk_card_run_text(p->card, text, rows / BLOCK, BLOCK, p->in,
                              (size_t)rows * RK_ROW_WORDS * 8, p->want,
                              (size_t)rows * OUT_WORDS * 8, &theirs);
    snprintf(words, size, "refused by %s: %s",
             r == 0        ? "the card alone"
             : r_card == 0 ? "the executor alone"
                           : "both",
             r < 0 ? gp_err_msg(&ours, r) : gp_err_msg(&theirs, r_card));
    for (char *c = words; *c; c++)
        if (*c == '\n')
            *c = ' ';
    if (r < 0 && r_card < 0) {
        flock(p->lock, LOCK_EX);
        fprintf(p->rows, "%s %s\n", form->text, words);
        fflush(p->rows);
        flock(p->lock, LOCK_UN);
        return 1;
    }
    return r < 0 ? r : r_card;
}

/* ---- the comparison ----------------------------------------------------------------
 */

struct difference {
    unsigned rows, nans, bits; /* rows that differ; only in which NaN; NaN or number */
    uint64_t ulp;              /* the largest distance of numbers */
    unsigned ulp_row;
};

static bool
is_float_kind(char kind)
{
    return strchr("fdhbgc", kind) != NULL;
}

/* The number of the float on the line of all of them; NaN: false. */
static bool
place(char kind, uint64_t v, int64_t *ret)
{
    unsigned bits = rk_kind_lane_bits(kind);
    unsigned mant = bits == 64 ? 52 : bits == 32 ? 23 : strchr("hg", kind) ? 10 : 7;
    uint64_t sign = UINT64_C(1) << (bits - 1), mag = v & (sign - 1);

    *ret = v & sign ? -(int64_t)mag : (int64_t)mag;
    return mag <= (sign - 1) >> mant << mant;
}

static void
compare_lane(char kind, uint64_t a, uint64_t b, unsigned row, struct difference *d,
             bool *only_nans)
{
    int64_t x, y;
    bool x_number, y_number;

    if (a == b)
        return;
    if (!is_float_kind(kind)) {
        *only_nans = false;
        return;
    }
    x_number = place(kind, a, &x);
    y_number = place(kind, b, &y);
    if (!x_number && !y_number)
        return;
    *only_nans = false;
    if (x_number != y_number) {
        d->bits++;
    } else {
        uint64_t far = x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
        if (far > d->ulp || d->ulp == 0)
            d->ulp = far, d->ulp_row = row;
    }
}

static bool
compare_row(const struct rk_form *form, const uint64_t *a, const uint64_t *b,
            unsigned row, struct difference *d)
{
    unsigned bits = rk_kind_lane_bits(form->result);
    bool only_nans = true;

    if (memcmp(a, b, sizeof(*a) * form->words) == 0)
        return true;
    for (unsigned w = 0; w < form->words; w++)
        for (unsigned at = 0; at < 64; at += bits)
            compare_lane(form->result, a[w] >> at & UINT64_MAX >> (64 - bits),
                         b[w] >> at & UINT64_MAX >> (64 - bits), row, d, &only_nans);
    d->rows++;
    d->nans += only_nans;
    return false;
}

static void
print_row(FILE *f, const struct probe *p, const struct rk_form *form, unsigned row)
{
    const uint64_t *in = p->in + (size_t)row * RK_ROW_WORDS;
    const uint64_t *got = p->got + (size_t)row * OUT_WORDS;
    const uint64_t *want = p->want + (size_t)row * OUT_WORDS;

    for (unsigned i = 0; form->sources[i]; i++)
        fprintf(f, "%s%" PRIx64, i ? " " : "", in[i]);
    fputs(" ->", f);
    for (unsigned i = 0; i < form->words; i++)
        fprintf(f, " %" PRIx64, want[i]);
    fputs(" not", f);
    for (unsigned i = 0; i < form->words; i++)
        fprintf(f, " %" PRIx64, got[i]);
}

/* Rows that differ: all to the file, some of them, far from each other, to the output.
 */
static void
print_rows(struct probe *p, const struct rk_form *form, unsigned rows,
           const struct difference *d)
{
    unsigned n = 0, shown = 0;
    struct difference none = {0};

    fprintf(p->rows, "%s\n", form->text);
    for (unsigned r = 0; r < rows; r++) {
        if (compare_row(form, p->want + (size_t)r * OUT_WORDS,
                        p->got + (size_t)r * OUT_WORDS, r, &none))
            continue;
        print_row(p->rows, p, form, r);
        fputc('\n', p->rows);
        if (n++ == (uint64_t)d->rows * shown / SHOWN && shown < SHOWN) {
            printf("%s ", shown ? ";" : ":");
            print_row(stdout, p, form, r);
            shown++;
        }
    }
    if (d->ulp && is_float_kind(form->result)) {
        printf("; farthest ");
        print_row(stdout, p, form, d->ulp_row);
    }
    printf("\n");
}

static void
report(struct probe *p, const struct rk_form *form, unsigned rows,
       const struct difference *d)
{
    printf("%s %u of %u rows differ", form->text, d->rows, rows);
    if (is_float_kind(form->result))
        printf(" (%u only in which NaN, %u NaN or number, %" PRIu64 " ulp)", d->nans,
               d->bits, d->ulp);
    print_rows(p, form, rows, d);
}

static void
look(struct probe *p, const struct rk_form *form, struct sum *sum)
{
    unsigned rows = rk_operands_rows(form->sources);
    struct difference d = {0};
    char words[1024];
    int r;

    if (strcmp(p->kinds, form->sources) != 0) {
        rk_operands_fill(form->sources, rows, p->in);
        snprintf(p->kinds, sizeof(p->kinds), "%s", form->sources);
    }
    r = run_both(p, form, rows, words, sizeof(words));
    if (r > 0)
        return;
    __atomic_add_fetch(&sum->forms, 1, __ATOMIC_RELAXED);
    for (unsigned row = 0; r == 0 && row < rows; row++)
        compare_row(form, p->want + (size_t)row * OUT_WORDS,
                    p->got + (size_t)row * OUT_WORDS, row, &d);
    if (r == 0 && d.rows == 0)
        return;
    flock(p->lock, LOCK_EX);
    if (r < 0)
        printf("%s %s\n", form->text, words);
    else
        report(p, form, rows, &d);
    fflush(stdout);
    fflush(p->rows);
    flock(p->lock, LOCK_UN);
    __atomic_add_fetch(r < 0 ? &sum->refused : &sum->differ, 1, __ATOMIC_RELAXED);
}

/* ---- the processes -----------------------------------------------------------------
 */

/* Forms are taken one by one: a process that a fault of its context ends is followed by
 * another one, which takes the form behind. */
static int
work(const char *driver, const char *file, struct sum *sum)
{
    struct probe p = {.run = rk_run_new(), .lock = open("/proc/self/exe", O_RDONLY)};
    const struct rk_form *forms;
    struct gp_err err = {0};
    unsigned n = rk_forms(&forms), at;

    p.in = rk_run_memory(p.run, RK_PROBE_IN_BYTES);
    p.got = rk_run_memory(p.run, RK_PROBE_OUT_BYTES);
    p.want = malloc(RK_PROBE_OUT_BYTES);
    p.rows = fopen(file, "a");
    if (!p.want || !p.rows) {
        perror(file);
        return 2;
    }
    if (driver && rk_card_new(driver, &p.card, &err) < 0) {
        fprintf(stderr, "kernelfuzz: %s\n", gp_err_msg(&err, -1));
        return 2;
    }
    while ((at = __atomic_fetch_add(&sum->next, 1, __ATOMIC_RELAXED)) < n) {
        look(&p, &forms[at], sum);
        if (p.card && rk_card_is_lost(p.card))
            return 3;
    }
    fclose(p.rows);
    free(p.want);
    rk_card_free(p.card);
    rk_run_free(p.run);
    return 0;
}

static void
start(const char *driver, const char *file, struct sum *sum)
{
    fflush(stdout);
    if (fork() == 0) {
        int r = work(driver, file, sum);
        fflush(stdout);
        _exit(r);
    }
}

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int
rk_probe(const char *driver, const char *file, unsigned jobs)
{
    struct sum *sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double begin = now();
    int status, failed = 0;

    if (sum == MAP_FAILED)
        abort();
    if (truncate(file, 0) < 0 && errno != ENOENT) {
        perror(file);
        return 2;
    }
    rk_forms_init();
    for (unsigned i = 0; i < jobs; i++)
        start(driver, file, sum);
    while (wait(&status) > 0) {
        if (WIFEXITED(status) && WEXITSTATUS(status) != 3) {
            failed |= WEXITSTATUS(status);
            continue;
        }
        if (WIFSIGNALED(status))
            printf("a process ended by signal %d\n", WTERMSIG(status));
        start(driver, file, sum);
    }
    printf("%u forms, %u differ, %u are refused by one side, %.1f s\n", sum->forms,
           sum->differ, sum->refused, now() - begin);
    failed |= sum->differ || sum->refused;
    munmap(sum, sizeof(*sum));
    return failed;
}
