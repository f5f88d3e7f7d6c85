/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering and execution against hostile PTX: whatever a kernel does, it reads and
 * writes the two buffers of its memory view and the module's globals, or it faults;
 * and it ends soon after it is cancelled.  The sanitizer guards everything else. */
#include "gp_err.h"
#include "ptx_ast.h"
#include "sg_cta.h"
#include "sg_exec.h"
#include "sg_native.h"
#include "sg_tmap.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max); /* libFuzzer's own */

#define BUFFER 4096u
#define MAX_GLOBALS 8u
#define MAX_GLOBAL_BYTES 65536u
#define MAX_KERNELS 4u
/* Pieces of work until the kernel is cancelled, and until it must have ended. */
#define PIECES 20u
#define PIECES_TO_END 20u
#define PIECE 250u
#define CLUSTERS 2u
#define MEMBERS 2u

/* One build of the interpreter is enough to fuzz, and two minutes less to compile. */
enum sg_stop
sg_interp_v3(struct sg_cta *cta, struct sg_warp *warp)
{
    return sg_interp_v2(cta, warp);
}

enum sg_stop
sg_interp_v4(struct sg_cta *cta, struct sg_warp *warp)
{
    return sg_interp_v2(cta, warp);
}

/* Machine code asks for these, and is never on here: it needs the higher builds. */
bool
sg_native_mem_v3(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                 uint32_t code, const void *a, const void *b, void *v, uint32_t m)
{
    (void)cta, (void)warp, (void)op, (void)code, (void)a, (void)b, (void)v, (void)m;
    abort();
}

bool
sg_native_mem_v4(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
                 uint32_t code, const void *a, const void *b, void *v, uint32_t m)
{
    return sg_native_mem_v3(cta, warp, op, code, a, b, v, m);
}

void
sg_native_scalar_v3(const struct sg_insn *op, void *d, const void *a, const void *b,
                    const void *c, uint32_t m)
{
    sg_native_scalar(op, d, a, b, c, m);
}

void
sg_native_scalar_v4(const struct sg_insn *op, void *d, const void *a, const void *b,
                    const void *c, uint32_t m)
{
    sg_native_scalar(op, d, a, b, c, m);
}

struct world {
    struct sg_memview *view;
    void *bufs[2];
    void *globals[MAX_GLOBALS];
    uint64_t addrs[MAX_GLOBALS];
    uint32_t n_globals;
};

static void *
memory_new(struct sg_memview *view, size_t size)
{
    void *memory = calloc(1, size);

    if (!memory || sg_memview_add(view, (uint64_t)(uintptr_t)memory, size, 0) < 0)
        abort();
    return memory;
}

/* A tensor map, which kernels may spoil: 16 x 16 halves of the first buffer. */
static void
map_init(struct sg_tmap *map, const void *tensor)
{
    *map = (struct sg_tmap){.magic = SG_TMAP_MAGIC,
                            .mode = SG_TMAP_TILED,
                            .type = 6,
                            .rank = 2,
                            .base = (uint64_t)(uintptr_t)tensor,
                            .stride = {32},
                            .last = {15, 15},
                            .box = {8, 8, 1, 1, 1},
                            .step = {1, 1, 1, 1, 1}};
}

static bool
world_open(struct world *w, const struct sg_prog *prog)
{
    uint32_t n = sg_prog_n_globals(prog);

    if (n > MAX_GLOBALS)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (sg_prog_global(prog, i)->size > MAX_GLOBAL_BYTES)
            return false;
    }
    if (sg_memview_new(&w->view) < 0)
        return false;
    for (int i = 0; i < 2; i++)
        w->bufs[i] = memory_new(w->view, BUFFER);
    map_init(w->bufs[1], w->bufs[0]);
    for (; w->n_globals < n; w->n_globals++) {
        uint64_t size = sg_prog_global(prog, w->n_globals)->size;

        w->globals[w->n_globals] = memory_new(w->view, size ? size : 1);
        w->addrs[w->n_globals] = (uint64_t)(uintptr_t)w->globals[w->n_globals];
    }
    return true;
}

static void
world_close(struct world *w)
{
    if (w->view)
        sg_memview_free(w->view);
    free(w->bufs[0]);
    free(w->bufs[1]);
    for (uint32_t i = 0; i < w->n_globals; i++)
        free(w->globals[i]);
}

/* Parameters: the buffers' addresses in turn, then small numbers. */
static void *
params_new(const struct world *w, const struct sg_kernel *kernel)
{
    size_t words = kernel->param_bytes / 8 + 1;
    uint64_t *params = calloc(words, 8);

    for (size_t i = 0; params && i < words; i++)
        params[i] = i < 2 ? (uint64_t)(uintptr_t)w->bufs[i] : 64 + i;
    return params;
}

static void
run_members(struct sg_cta **ctas, struct sg_launch *launch, int *cancel)
{
    enum sg_cta_state state = SG_CTA_YIELD;
    bool left = true;

    for (unsigned n = 0; left && state != SG_CTA_FAULT; n++) {
        if (n == PIECES)
            *cancel = 1;
        if (n == PIECES + PIECES_TO_END)
            __builtin_trap(); /* cancelled and still running */
        left = false;
        for (unsigned i = 0; i < MEMBERS && state != SG_CTA_FAULT; i++) {
            state = sg_cta_run(ctas[i], PIECE);
            left |= state == SG_CTA_YIELD || state == SG_CTA_STALLED;
        }
    }
    if (state == SG_CTA_FAULT && launch->fault.code == SG_FAULT_NONE)
        __builtin_trap(); /* a fault that says nothing */
}

/* One cluster, its members in turns, twice: the second time with launch constants that
 * the first one left. */
static void
run_cluster(struct sg_launch *launch, int *cancel)
{
    struct sg_cta *ctas[MEMBERS] = {NULL};
    struct sg_cluster *cluster = NULL;
    bool ok = true;

    for (unsigned i = 0; ok && i < MEMBERS; i++)
        ok = sg_cta_new(&ctas[i]) == 0;
    for (unsigned c = 0; ok && c < CLUSTERS && !launch->fault.code && !*cancel; c++) {
        for (unsigned i = 0; ok && i < MEMBERS; i++)
            ok = sg_cta_start(ctas[i], launch, sg_cluster_member(launch, c, i), 0) == 0;
        ok = ok && sg_cluster_join(ctas, MEMBERS, &cluster) == 0;
        if (ok)
            run_members(ctas, launch, cancel);
        sg_cluster_free(cluster);
        cluster = NULL;
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        sg_cta_free(ctas[i]);
}

static void
run_kernel(const struct world *w, const struct sg_inst *inst,
           const struct sg_kernel *kernel)
{
    CLEANUP_FREE void *params = params_new(w, kernel);
    struct gp_err err = {0};
    int cancel = 0;
    struct sg_launch launch = {
        .inst = inst,
        .kernel = kernel,
        .grid = {CLUSTERS * MEMBERS, 1, 1},
        .block = {40, 1, 1},
        .cluster = {MEMBERS, 1, 1},
        .dyn_shared = 64,
        .stack_bytes = 1024,
        .params = params,
        .view = w->view,
        .cancel = &cancel,
        .n_sms = 1,
    };

    if (!params)
        return;
    if (sg_kernel_prepare(kernel, &err) < 0 || sg_launch_init(&launch, &err) < 0) {
        if (!err.msg[0])
            __builtin_trap(); /* a refusal without words */
        return;
    }
    run_cluster(&launch, &cancel);
    sg_launch_end(&launch);
}

static void
run_module(const struct ptx_module *mod, unsigned check)
{
    const struct sg_target target = {9, 0, 1024, 48 << 10, 128, 64 << 10, 4096, check};
    CLEANUP(sg_prog_freep) struct sg_prog *prog = NULL;
    CLEANUP(sg_inst_freep) struct sg_inst *inst = NULL;
    struct world w = {0};

    if (sg_prog_new(mod, &target, &prog, NULL) < 0)
        return;
    if (world_open(&w, prog) &&
        sg_inst_new(prog, w.addrs, w.n_globals, &inst, NULL) == 0) {
        for (uint32_t i = 0; i < w.n_globals; i++)
            sg_inst_init_global(inst, i, w.globals[i], NULL);
        for (uint32_t i = 0; i < sg_prog_n_kernels(prog) && i < MAX_KERNELS; i++)
            run_kernel(&w, inst, sg_prog_kernel(prog, i));
    }
    world_close(&w);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module *mod = NULL;

    if (ptx_parse((const char *)data, size, &mod, NULL) == 0)
        run_module(mod, size & 1 ? SG_CHECK_FAULTS | SG_CHECK_INIT | SG_CHECK_RACES |
                                       SG_CHECK_BARRIERS
                                 : 0);
    ptx_module_free(mod);
    return 0;
}

/* ---- mutation: statements and numbers, so that most of it still parses ---- */

static uint32_t
next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The statement around @at: from behind a `;`, `{` or `}` to its own `;`. */
static size_t
statement_at(const uint8_t *data, size_t size, size_t at, size_t *ret_len)
{
    size_t start = at, end = at;

    while (start > 0 && !strchr(";{}", data[start - 1]))
        start--;
    while (end < size && !strchr(";{}", data[end]))
        end++;
    *ret_len = end - start + (end < size && data[end] == ';');
    return start;
}

/* Put a copy of one statement in front of another. */
static size_t
copy_statement(uint8_t *data, size_t size, size_t max, uint32_t *state)
{
    size_t len, other_len;
    size_t from = statement_at(data, size, next_random(state) % size, &len);
    size_t to = statement_at(data, size, next_random(state) % size, &other_len);
    uint8_t copy[512];

    if (len > sizeof(copy) || size + len > max)
        return size;
    memcpy(copy, data + from, len);
    memmove(data + to + len, data + to, size - to);
    memcpy(data + to, copy, len);
    return size + len;
}

static size_t
delete_statement(uint8_t *data, size_t size, uint32_t *state)
{
    size_t len, at = statement_at(data, size, next_random(state) % size, &len);

    if (len == size)
        return size;
    memmove(data + at, data + at + len, size - at - len);
    return size - len;
}

/* A token of the class [name or number] somewhere: its start and length. */
static size_t
token_at(const uint8_t *data, size_t size, size_t at, size_t *ret_len)
{
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_$%";
    size_t end;

    while (at < size && !strchr(inside, data[at]))
        at++;
    for (end = at; end < size && data[end] && strchr(inside, data[end]); end++)
        ;
    *ret_len = end - at;
    return at;
}

static size_t
replace(uint8_t *data, size_t size, size_t max, size_t at, size_t len,
        const uint8_t *with, size_t with_len)
{
    if (size - len + with_len > max)
        return size;
    memmove(data + at + with_len, data + at + len, size - at - len);
    memcpy(data + at, with, with_len);
    return size - len + with_len;
}

/* One register, word or number becomes another of the same text, or an edge. */
static size_t
swap_token(uint8_t *data, size_t size, size_t max, uint32_t *state)
{
    static const char *const edges[] = {
        "0",
        "-1",
        "1",
        "31",
        "32",
        "64",
        "4096",
        "-4096",
        "65536",
        "7",
        "%tid.x",
        "0x7fffffff",
        "4095",
        "0x80000000",
        "%r1",
        "%rd1",
        "v2",
        "v4",
        "b64",
        "u8",
        "b32",
        "s64",
        "shared",
        "local",
        "global",
        "f64",
        "0x1000000000",
        "0x1100000000",
        "0xffffffffffffffff",
    };
    size_t len, other_len, at = token_at(data, size, next_random(state) % size, &len);
    uint8_t copy[64];

    if (next_random(state) % 2) {
        const char *edge = edges[next_random(state) % ARRAY_SIZE(edges)];

        return replace(data, size, max, at, len, (const uint8_t *)edge, strlen(edge));
    }
    at = token_at(data, size, next_random(state) % size, &other_len);
    if (other_len > sizeof(copy))
        return size;
    memcpy(copy, data + at, other_len);
    at = token_at(data, size, next_random(state) % size, &len);
    return replace(data, size, max, at, len, copy, other_len);
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    uint32_t state = seed;

    if (size == 0 || next_random(&state) % 8 == 0)
        return LLVMFuzzerMutate(data, size, max);
    for (unsigned n = next_random(&state) % 3; n < 3 && size; n++) {
        switch (next_random(&state) % 6) {
        case 0:
            size = copy_statement(data, size, max, &state);
            break;
        case 1:
            size = delete_statement(data, size, &state);
            break;
        default:
            size = swap_token(data, size, max, &state);
            break;
        }
    }
    return size;
}
