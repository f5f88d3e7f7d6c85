/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real code through all of it: the C library's mathematics as GCC compiled it for
 * nvptx, linked by ptx_link() with a kernel that calls it, executed, and compared
 * with the host's C library.  Needs Debian's gcc-12-offload-nvptx.
 */
#include "ut_ptx.h"
#include "ut_sgx.h"

#include "ptx_link.h"

#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <sys/stat.h>

#define LIB_DIR "/usr/lib/gcc/*/*/accel/nvptx-none/"
#define MAX_MEMBERS 4096
#define THREADS 512u

/* ---- the archives as a table of functions ---- */

struct member {
    const char *text;
    size_t len;
    bool taken;
};

static struct member members[MAX_MEMBERS];
static size_t n_members;

static char *
read_file(const char *path, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *data;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    data = malloc((size_t)st.st_size + 1);
    assert_non_null(data);
    assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
    close(fd);
    *ret_len = (size_t)st.st_size;
    return data;
}

/* The archive stays in memory: members point into it. */
static void
add_archive(const char *path)
{
    size_t len, at = 8;
    char *data = read_file(path, &len);

    while (at + 60 <= len) {
        size_t size = strtoul(data + at + 48, NULL, 10);

        at += 60;
        assert_true(size <= len - at);
        if (size > 20 && memcmp(data + at, "//", 2) == 0 &&
            memmem(data + at, size, ".version", 8)) {
            assert_true(n_members < MAX_MEMBERS);
            members[n_members++] = (struct member){data + at, size, false};
        }
        at += size + (size & 1);
    }
}

static void
open_libraries(void)
{
    static const char *const names[] = {"libm.a", "libc.a", "libgcc.a"};

    for (size_t i = 0; i < ARRAY_SIZE(names) && n_members < MAX_MEMBERS; i++) {
        char pattern[200];
        glob_t found;

        snprintf(pattern, sizeof(pattern), LIB_DIR "%s", names[i]);
        if (glob(pattern, 0, NULL, &found) != 0) {
            print_message("skip: gcc-12-offload-nvptx is not installed\n");
            skip();
        }
        add_archive(found.gl_pathv[0]);
        globfree(&found);
    }
}

/* Does the member define @name?  GCC says so in a comment. */
static bool
defines(const struct member *m, const char *name)
{
    static const char *const forms[] = {"BEGIN GLOBAL FUNCTION DEF: %s\n",
                                        "BEGIN GLOBAL VAR DEF: %s\n"};
    char line[200];

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        int n = snprintf(line, sizeof(line), i ? forms[1] : forms[0], name);

        if (n > 0 && (size_t)n < sizeof(line) &&
            memmem(m->text, m->len, line, (size_t)n))
            return true;
    }
    return false;
}

static struct member *
member_defining(const char *name)
{
    for (size_t i = 0; i < n_members; i++) {
        if (defines(&members[i], name))
            return &members[i];
    }
    return NULL;
}

/* ---- linking with what is needed ---- */

struct closure {
    struct ptx_module *mods[256];
    uint32_t n;
};

static void
take(struct closure *cl, const char *text, size_t len)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};

    if (ptx_parse(text, len, &mod, &err) < 0)
        print_error("%s\n", err.msg);
    assert_non_null(mod);
    assert_true(cl->n < ARRAY_SIZE(cl->mods));
    cl->mods[cl->n++] = mod;
}

static void
take_name(struct closure *cl, const struct ptx_sym *sym)
{
    struct member *m = member_defining(sym->name);

    for (uint32_t i = 0; i < cl->n; i++) {
        const struct ptx_func *func = ptx_module_func(cl->mods[i], sym->name);

        if (func && func->has_body)
            return;
    }
    if (!m || m->taken)
        return; /* ptx_link() says so if it matters */
    m->taken = true;
    take(cl, m->text, m->len);
}

/* The module and, as far as the archives have it, all that it names. */
static struct ptx_module *
link_with_libraries(const char *kernel)
{
    struct ptx_module *out = NULL;
    struct closure cl = {.n = 0};
    struct gp_err err = {0};
    int r;

    for (size_t i = 0; i < n_members; i++)
        members[i].taken = false;
    take(&cl, kernel, strlen(kernel));
    for (uint32_t i = 0; i < cl.n; i++) {
        const struct ptx_module *mod = cl.mods[i];

        for (uint32_t f = 0; f < mod->n_funcs; f++) {
            if (!mod->funcs[f]->has_body)
                take_name(&cl, mod->funcs[f]->name);
        }
        for (uint32_t v = 0; v < mod->n_vars; v++) {
            if (mod->vars[v]->linkage == PTX_LINK_EXTERN)
                take_name(&cl, mod->vars[v]->name);
        }
    }
    r = ptx_link(cl.mods, cl.n, &out, &err);
    if (r < 0)
        print_error("%s\n", err.msg);
    assert_int_equal(r, 0);
    return out;
}

/* ---- running and comparing ---- */

struct function {
    const char *name;
    double (*host)(double);
    double lo, hi; /* arguments */
    double bound;  /* relative */
};

static double
argument(const struct function *fn, unsigned i)
{
    return fn->lo + (fn->hi - fn->lo) * ((double)i + 0.37) / THREADS;
}

static void
check_results(const struct function *fn, const double *got)
{
    double worst = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        double want = fn->host(argument(fn, i));
        double off = fabs(got[i] - want) / fmax(fabs(want), 0x1p-1000);

        if (!(off <= fn->bound) && !(isnan(want) && isnan(got[i])))
            print_error("%s(%.17g) is %.17g, the host says %.17g\n", fn->name,
                        argument(fn, i), got[i], want);
        worst = fmax(worst, off);
    }
    if (!(worst <= fn->bound))
        print_error("%s: off by %g\n", fn->name, worst);
    assert_true(worst <= fn->bound);
}

/* The libraries' own errno and assert() bring all of stdio along. */
#define SMALL_LIBC                                                                     \
    ".visible .global .align 4 .u32 errno_word;\n"                                     \
    ".visible .func (.param .u64 %%value_out) __errno\n"                               \
    "{ .reg .u64 %%r; mov.u64 %%r, errno_word; cvta.global.u64 %%r, %%r;\n"            \
    "  st.param.u64 [%%value_out], %%r; ret; }\n"

static void
check_function(const struct function *fn)
{
    char text[2000];
    struct ut_sgx u;
    double *in, *out;

    snprintf(text, sizeof(text),
             UT_SGX_HEAD SMALL_LIBC
             ".extern .func (.param .f64 %%value_out) %s (.param .f64 %%in_ar0);\n"
             ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b64 %%rd<5>; .reg .f64 %%d; .reg .b32 %%r;\n"
             ".param .f64 arg; .param .f64 res;\n"
             "mov.u32 %%r, %%tid.x; mul.wide.u32 %%rd1, %%r, 8;\n"
             "ld.param.u64 %%rd2, [in]; ld.param.u64 %%rd3, [out];\n"
             "add.u64 %%rd2, %%rd2, %%rd1; add.u64 %%rd3, %%rd3, %%rd1;\n"
             "ld.global.f64 %%d, [%%rd2]; st.param.f64 [arg], %%d;\n"
             "call (res), %s, (arg);\n"
             "ld.param.f64 %%d, [res]; st.global.f64 [%%rd3], %%d; ret;\n}\n",
             fn->name, fn->name);
    ut_sgx_open_module(&u, link_with_libraries(text));
    in = ut_sgx_buf(&u, THREADS * sizeof(double));
    out = ut_sgx_buf(&u, THREADS * sizeof(double));
    for (unsigned i = 0; i < THREADS; i++)
        in[i] = argument(fn, i);
    ut_sgx_param(&u, 0, (uint64_t)(uintptr_t)in);
    ut_sgx_param(&u, 1, (uint64_t)(uintptr_t)out);
    ut_sgx_shape(&u, 1, THREADS);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    check_results(fn, out);
    ut_sgx_close(&u);
}

static void
library_functions_agree_with_the_host(void **state)
{
    static const struct function list[] = {
        {"sin", sin, -100, 100, 1e-13},    {"cos", cos, -100, 100, 1e-13},
        {"tan", tan, -1.5, 1.5, 1e-14},    {"exp", exp, -700, 700, 1e-15},
        {"log", log, 1e-3, 1e6, 1e-14},    {"sqrt", sqrt, 0, 1e9, 0},
        {"cbrt", cbrt, -1e6, 1e6, 1e-15},  {"atan", atan, -50, 50, 1e-15},
        {"asin", asin, -1, 1, 1e-15},      {"acos", acos, -1, 1, 1e-15},
        {"sinh", sinh, -20, 20, 1e-15},    {"tanh", tanh, -5, 5, 1e-15},
        {"erf", erf, -4, 4, 1e-14},        {"tgamma", tgamma, 0.5, 20, 1e-13},
        {"log1p", log1p, -0.5, 10, 1e-15}, {"expm1", expm1, -5, 5, 1e-14},
        {"floor", floor, -1e9, 1e9, 0},    {"rint", rint, -1e3, 1e3, 0},
        {"trunc", trunc, -1e3, 1e3, 0},    {"round", round, -1e3, 1e3, 0},
        {"j0", j0, 0.1, 30, 1e-11},        {"asinh", asinh, -100, 100, 1e-15},
    };

    open_libraries();
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        check_function(&list[i]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_functions_agree_with_the_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
