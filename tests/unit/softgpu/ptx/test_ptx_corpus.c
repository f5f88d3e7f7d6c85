/* SPDX-License-Identifier: Apache-2.0 */
/* PTX that others wrote: GCC's nvptx libraries, clang, nvcc where it is installed.
 * Everything must parse, and hold no word that we have no number for.  And the pool
 * server, which reads nothing but the parameters of kernels and the sizes of variables,
 * must find the same. */
#include "ut_ptx.h"

#include "image_variables.h"
#include "kernel_params.h"

#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define GCC_LIBS "/usr/lib/gcc/*/*/accel/nvptx-none/*.a"
#define TOOLKIT_NVCC "/usr/local/cuda/bin/nvcc"

extern char **environ;

struct totals {
    uint32_t modules;
    uint64_t insns;
};

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
    data[st.st_size] = 0;
    *ret_len = (size_t)st.st_size;
    return data;
}

static void
check_words(const struct ptx_module *mod, const struct ptx_insn *insn,
            const char *where)
{
    bool known = insn->op < PTX_W_COUNT && !(insn->flags & PTX_INSN_OPAQUE);

    for (unsigned m = 0; m < insn->n_mods; m++)
        known &= insn->mods[m] < PTX_W_COUNT;
    if (!known)
        print_error("%s:%u: %s with a word that has no number\n", where, insn->line,
                    ptx_word_name(mod, insn->op));
    assert_true(known);
}

/* Cards of 10.0 and newer count a parameter's alignment as the parser does. */
static void
check_layouts(const struct ptx_module *mod, const char *text, size_t len)
{
    struct kernel_params_set all = {0};

    assert_int_equal(kernel_params_ptx(text, len, 100, &all, NULL), 0);
    for (uint32_t f = 0; f < mod->n_funcs; f++) {
        const struct ptx_func *func = mod->funcs[f];
        const struct kernel_params *l = kernel_params_find(&all, func->name->name);

        if (!func->is_entry) {
            assert_null(l);
            continue;
        }
        assert_non_null(l);
        assert_null(l->why);
        assert_int_equal(l->n_params, func->n_params);
        assert_int_equal(l->param_bytes, func->param_bytes);
        for (uint32_t i = 0; i < func->n_params; i++) {
            assert_int_equal(l->params[i].offset, func->params[i]->offset);
            assert_int_equal(l->params[i].size, func->params[i]->size);
        }
    }
    kernel_params_fini(&all);
}

/* In the order of the text, each at its alignment. */
static void
check_variables(const struct ptx_module *mod, const char *text, size_t len)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < mod->n_vars; i++) {
        const struct ptx_var *var = mod->vars[i];

        if (var->linkage == PTX_LINK_EXTERN ||
            (var->space != PTX_SPACE_GLOBAL && var->space != PTX_SPACE_CONST))
            continue;
        bytes = (bytes + var->align - 1) / var->align * var->align + var->size;
    }
    assert_true(image_variables_ptx(text, len, false) >= bytes);
    assert_true(image_variables_ptx(text, len, false) <=
                bytes + 256 * (uint64_t)mod->n_vars);
}

static void
check_text(const char *text, size_t len, const char *where, struct totals *totals)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};

    if (ptx_parse(text, len, &mod, &err) < 0)
        print_error("%s: %s\n", where, err.msg);
    assert_non_null(mod);
    for (uint32_t f = 0; f < mod->n_funcs; f++) {
        const struct ptx_func *func = mod->funcs[f];

        for (uint32_t i = 0; i < func->n_insns; i++)
            check_words(mod, &func->insns[i], where);
        totals->insns += func->n_insns;
    }
    check_layouts(mod, text, len);
    check_variables(mod, text, len);
    totals->modules++;
    ptx_module_free(mod);
}

static bool
is_ptx(const char *data, size_t len)
{
    return len > 20 && (memcmp(data, "//", 2) == 0 || memcmp(data, ".version", 8) == 0);
}

/* Members of an ar archive: 60 bytes of text header, then the data, even. */
static void
check_archive(const char *path, struct totals *totals)
{
    size_t len, at = 8;
    char *data = read_file(path, &len);

    assert_memory_equal(data, "!<arch>\n", 8);
    while (at + 60 <= len) {
        size_t size = strtoul(data + at + 48, NULL, 10);

        at += 60;
        assert_true(size <= len - at);
        if (is_ptx(data + at, size))
            check_text(data + at, size, path, totals);
        at += size + (size & 1);
    }
    free(data);
}

static void
every_module_of_gcc_libraries_parses(void **state)
{
    struct totals totals = {0};
    glob_t found;

    if (glob(GCC_LIBS, 0, NULL, &found) != 0) {
        print_message("skip: gcc-12-offload-nvptx is not installed\n");
        skip();
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_archive(found.gl_pathv[i], &totals);
    globfree(&found);
    print_message("%u modules, %llu instructions\n", totals.modules,
                  (unsigned long long)totals.insns);
    assert_true(totals.modules > 100);
}

/* Run a compiler; false: it is not there, or refuses. */
static bool
run(char *const argv[])
{
    posix_spawn_file_actions_t actions;
    int status = 1, r;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r != 0)
        return false;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char clang_source[] =
    "#define GLOBAL __attribute__((address_space(1)))\n"
    "#define SHARED __attribute__((address_space(3)))\n"
    "#define CONST __attribute__((address_space(4)))\n"
    "static SHARED float tile[16][16];\n"
    "CONST int primes[5] = {2, 3, 5, 7, 11};\n"
    "GLOBAL double matrix[2][3] = {{1, 2.5}, {-3}};\n"
    "GLOBAL int *GLOBAL where = (GLOBAL int *)&matrix[1][1];\n"
    "struct pair { char c; long l; short s[3]; };\n"
    "GLOBAL struct pair pairs[2] = {{'a', -1, {1, 2, 3}}, {'b'}};\n"
    "__attribute__((noinline)) int twice(int x) { return x < 2 ? x : 2 * twice(x - 1); "
    "}\n"
    "int (*table[2])(int) = {twice, twice};\n"
    "float half(float x) { switch ((int)x) { case 0: return 1; case 1: return 7; case "
    "2: "
    "return 3; case 3: return 9; case 4: return -4; } return x / 2; }\n"
    "void k(GLOBAL float *out, GLOBAL const float *in, int n,\n"
    "    struct pair by_value)\n{\n"
    "  int x = __nvvm_read_ptx_sreg_tid_x(), y = __nvvm_read_ptx_sreg_ctaid_y();\n"
    "  float sum = 0; volatile char local[40];\n"
    "  tile[x & 15][y & 15] = in[x]; __nvvm_bar_sync(0);\n"
    "  for (int i = 0; i < n; i++) sum += tile[i & 15][x & 15] * primes[i % 5];\n"
    "  local[x & 31] = by_value.c; sum += local[y & 31] + table[x & 1](n) + "
    "half(sum);\n"
    "  __atomic_fetch_add((GLOBAL int *)out, 1, __ATOMIC_RELAXED);\n"
    "  if (sum > 1.0f) out[x] = __builtin_fmaf(sum, sum, by_value.l);\n}\n";

/* Write @source to a file, compile it, check the PTX. */
static bool
compile_and_check(const char *source, const char *suffix, char *const argv[],
                  size_t argc)
{
    char dir[] = "/tmp/ptx_corpus.XXXXXX", in[100], out[100];
    const char *args[32] = {0};
    struct totals totals = {0};
    FILE *file;
    char *text;
    size_t len;
    bool ok;

    assert_non_null(mkdtemp(dir));
    snprintf(in, sizeof(in), "%s/in.%s", dir, suffix);
    snprintf(out, sizeof(out), "%s/out.ptx", dir);
    file = fopen(in, "w");
    assert_non_null(file);
    fputs(source, file);
    fclose(file);
    memcpy(args, argv, argc * sizeof(args[0]));
    args[argc] = in;
    args[argc + 1] = "-o";
    args[argc + 2] = out;
    ok = run((char *const *)(uintptr_t)args);
    if (ok) {
        text = read_file(out, &len);
        check_text(text, len, out, &totals);
        assert_true(totals.insns > 0);
        free(text);
    }
    unlink(in);
    unlink(out);
    rmdir(dir);
    return ok;
}

/* Kernels, which clang knows only as CUDA. */
static const char clang_cuda_source[] =
    "#define GLOBAL __attribute__((global))\n#define DEVICE __attribute__((device))\n"
    "DEVICE int (*volatile which)(int); extern __attribute__((shared)) float dyn[];\n"
    "extern \"C\" DEVICE int vprintf(const char *, void *);\n"
    "struct by_value { char c; double d[3]; };\n"
    "GLOBAL void __attribute__((launch_bounds(256, 2))) k(float *p, by_value v, char "
    "c) {\n"
    "  int x = __nvvm_read_ptx_sreg_tid_x() + __nvvm_read_ptx_sreg_ctaid_z();\n"
    "  dyn[x] = p[x] + v.d[x % 3]; __syncthreads();\n"
    "  p[x] = dyn[x ^ 1] + which(c); if (x == 7) vprintf(\"seven\", p);\n"
    "  p[1] += __nvvm_shfl_sync_down_i32(-1, x, 1, 31);\n"
    "  __nvvm_atom_add_gen_i((int *)p, 3); }\n";

static void
check_clang_kernels(const char *clang)
{
    const char *argv[] = {clang,
                          "-x",
                          "cuda",
                          "-nocudainc",
                          "-nocudalib",
                          "--cuda-device-only",
                          "-S",
                          "-O2",
                          "--cuda-gpu-arch=sm_70",
                          "-Xclang",
                          "-target-feature",
                          "-Xclang",
                          "+ptx64",
                          "-Wno-unknown-cuda-version"};

    assert_true(compile_and_check(clang_cuda_source, "cu",
                                  (char *const *)(uintptr_t)argv, ARRAY_SIZE(argv)));
}

static void
what_clang_emits_parses(void **state)
{
    static const char *const names[] = {"clang", "clang-14"};
    static const char *const levels[] = {"-O0", "-O1", "-O2", "-Os"};
    unsigned n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names) && !n; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(levels); k++) {
            const char *argv[] = {names[i],       "--target=nvptx64-nvidia-cuda",
                                  "-nocudalib",   "-S",
                                  "-march=sm_70", "-ffreestanding",
                                  levels[k]};

            n += compile_and_check(clang_source, "c", (char *const *)(uintptr_t)argv,
                                   ARRAY_SIZE(argv));
        }
        if (n)
            check_clang_kernels(names[i]);
    }
    if (!n) {
        print_message("skip: clang-14 is not installed\n");
        skip();
    }
    assert_int_equal(n, ARRAY_SIZE(levels));
}

static const char cuda_source[] =
    "#include <cuda_fp16.h>\n#include <mma.h>\n#include <cooperative_groups.h>\n"
    "#include <cstdio>\n#include <cassert>\n"
    "namespace cg = cooperative_groups;\nusing namespace nvcuda;\n"
    "struct base { __device__ virtual int f(int x) { return x; } };\n"
    "struct derived : base { __device__ int f(int x) override { return 2 * x; } };\n"
    "__managed__ int counter;\n__device__ const char *const text[] = {\"a\", \"b\"};\n"
    "__global__ void k(int *p, half *h, float *o, cudaTextureObject_t t) {\n"
    "  extern __shared__ int dyn[]; derived d; base *b = p[0] ? &d : new derived;\n"
    "  dyn[threadIdx.x] = b->f(p[1]); __syncthreads();\n"
    "  p[2] = __shfl_down_sync(~0u, dyn[0], 3) + __ballot_sync(~0u, p[3]);\n"
    "  atomicAdd(&counter, 1); printf(\"%d %s\\n\", p[0], text[p[4] & 1]); "
    "assert(p[5]);\n"
    "  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;\n"
    "  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> m;\n"
    "  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;\n"
    "  wmma::load_matrix_sync(a, h, 16); wmma::load_matrix_sync(m, h, 16);\n"
    "  wmma::fill_fragment(c, 0); wmma::mma_sync(c, a, m, c);\n"
    "  wmma::store_matrix_sync(o, c, 16, wmma::mem_row_major);\n"
    "  o[1] = tex2D<float>(t, 1.f, 2.f) + sinf(o[2]) + (float)exp((double)o[3]);\n"
    "  cg::this_grid().sync(); auto g = "
    "cg::tiled_partition<8>(cg::this_thread_block());\n"
    "  o[4] = g.shfl(o[5], 2);\n}\n";

static void
what_nvcc_emits_parses(void **state)
{
    static const char *const archs[] = {"compute_75", "compute_90a", "compute_120"};

    if (access(TOOLKIT_NVCC, X_OK) != 0) {
        print_message("skip: no CUDA toolkit is installed\n");
        skip();
    }
    for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
        const char *argv[] = {TOOLKIT_NVCC, "-ptx",   "-std=c++17",
                              "-arch",      archs[i], i & 1 ? "-G" : "-lineinfo"};

        assert_true(compile_and_check(cuda_source, "cu", (char *const *)(uintptr_t)argv,
                                      ARRAY_SIZE(argv)));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_module_of_gcc_libraries_parses),
        cmocka_unit_test(what_clang_emits_parses),
        cmocka_unit_test(what_nvcc_emits_parses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
