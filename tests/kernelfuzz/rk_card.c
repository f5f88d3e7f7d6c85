/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_card.h. */
#include "rk_card.h"

#include "cuda_api.h"
#include "gp_err.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a failed compilation says. */
#define LOG_BYTES 1024

enum { IN, TABLE, OWN, OUT, CELLS, N_BUFFERS };

struct rk_card {
    void *lib;
    bool lost;
    /* Of rk_card_run_text(), and how much of it. */
    CUdeviceptr text_in, text_out;
    size_t n_text_in, n_text_out;
    CUcontext ctx;
    CUdeviceptr at[N_BUFFERS];
    CUresult (*init)(unsigned);
    CUresult (*device)(CUdevice *, int);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*up)(CUdeviceptr, const void *, size_t);
    CUresult (*down)(void *, CUdeviceptr, size_t);
    CUresult (*load)(CUmodule *, const void *, unsigned, CUjit_option *, void **);
    CUresult (*unload)(CUmodule);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*global)(CUdeviceptr *, size_t *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, unsigned, CUstream, void **, void **);
    CUresult (*synchronize)(void);
};

static int
symbol(struct rk_card *card, const char *name, void *ret, struct gp_err *err)
{
    void *at = dlsym(card->lib, name);

    memcpy(ret, &at, sizeof(at));
    return at ? 0 : gp_err_set(err, -ENOSYS, "the driver has no %s", name);
}

static int
load_symbols(struct rk_card *card, struct gp_err *err)
{
    const struct {
        const char *name;
        void *at;
    } all[] = {
        {"cuInit", &card->init},
        {"cuDeviceGet", &card->device},
        {"cuDevicePrimaryCtxRetain", &card->retain},
        {"cuCtxSetCurrent", &card->set},
        {"cuMemAlloc_v2", &card->alloc},
        {"cuMemcpyHtoD_v2", &card->up},
        {"cuMemcpyDtoH_v2", &card->down},
        {"cuModuleLoadDataEx", &card->load},
        {"cuModuleUnload", &card->unload},
        {"cuModuleGetFunction", &card->function},
        {"cuModuleGetGlobal_v2", &card->global},
        {"cuLaunchKernel", &card->launch},
        {"cuCtxSynchronize", &card->synchronize},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
        r = symbol(card, all[i].name, all[i].at, err);
    return r;
}

static int
failed(const char *what, CUresult r, struct gp_err *err)
{
    return r == CUDA_SUCCESS ? 0 : gp_err_set(err, -EIO, "%s: error %d", what, (int)r);
}

static int
take_card(struct rk_card *card, struct gp_err *err)
{
    static const size_t sizes[N_BUFFERS] = {
        [IN] = sizeof(uint64_t) * RK_MAX_THREADS * RK_IN_WORDS,
        [TABLE] = sizeof(uint64_t) * RK_TABLE,
        [OWN] = (size_t)RK_MAX_THREADS * RK_OWN_BYTES,
        [OUT] = sizeof(uint64_t) * RK_MAX_THREADS * RK_OUT_WORDS,
        [CELLS] = sizeof(uint64_t) * RK_CELLS,
    };
    CUdevice device = 0;
    int r = failed("cuInit", card->init(0), err);

    if (r == 0)
        r = failed("cuDeviceGet", card->device(&device, 0), err);
    if (r == 0)
        r = failed("cuDevicePrimaryCtxRetain", card->retain(&card->ctx, device), err);
    if (r == 0)
        r = failed("cuCtxSetCurrent", card->set(card->ctx), err);
    for (unsigned i = 0; r == 0 && i < N_BUFFERS; i++)
        r = failed("cuMemAlloc", card->alloc(&card->at[i], sizes[i]), err);
    return r;
}

int
rk_card_new(const char *path, struct rk_card **ret, struct gp_err *err)
{
    struct rk_card *card = calloc(1, sizeof(*card));
    int r;

    if (!card)
        abort();
    card->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    r = card->lib ? load_symbols(card, err)
                  : gp_err_set(err, -ENOENT, "driver: %s", dlerror());
    if (r == 0)
        r = take_card(card, err);
    if (r < 0) {
        rk_card_free(card);
        return r;
    }
    *ret = card;
    return 0;
}

/* The driver's context ends with the process. */
void
rk_card_free(struct rk_card *card)
{
    free(card);
}

struct part {
    unsigned which;
    void *host;
    size_t bytes;
};

static int
copy_up(struct rk_card *card, const struct part *parts, unsigned n, struct gp_err *err)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < n; i++)
        r = failed("cuMemcpyHtoD",
                   card->up(card->at[parts[i].which], parts[i].host, parts[i].bytes),
                   err);
    return r;
}

static int
copy_down(struct rk_card *card, const struct part *parts, unsigned n,
          struct gp_err *err)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < n; i++)
        r = failed("cuMemcpyDtoH",
                   card->down(parts[i].host, card->at[parts[i].which], parts[i].bytes),
                   err);
    return r;
}

static int
compile(struct rk_card *card, const char *text, CUmodule *ret, struct gp_err *err)
{
    char log[LOG_BYTES] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    CUresult r = card->load(ret, text, ARRAY_SIZE(options), options, values);

    log[sizeof(log) - 1] = 0;
    return r == CUDA_SUCCESS
               ? 0
               : gp_err_set(err, -EINVAL, "cuModuleLoadDataEx: error %d: %s", (int)r,
                            log);
}

/* A kernel that calls no function has no gtab left, maybe. */
static int
set_table(struct rk_card *card, CUmodule mod, struct gp_err *err)
{
    CUdeviceptr at = 0;
    size_t size = 0;

    if (card->global(&at, &size, mod, "gtab") != CUDA_SUCCESS)
        return 0;
    return failed("gtab", card->up(at, &card->at[TABLE], sizeof(card->at[TABLE])), err);
}

static int
launch(struct rk_card *card, CUmodule mod, unsigned grid, unsigned block, void **params,
       struct gp_err *err)
{
    CUfunction function = NULL;
    int r = failed("cuModuleGetFunction", card->function(&function, mod, "k"), err);

    if (r == 0)
        r = failed(
            "cuLaunchKernel",
            card->launch(function, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL),
            err);
    if (r == 0) {
        r = failed("cuCtxSynchronize", card->synchronize(), err);
        card->lost = r < 0;
    }
    return r;
}

int
rk_card_run(struct rk_card *card, const struct rk_kernel *k, struct rk_memory *m,
            struct gp_err *err)
{
    const struct part parts[] = {
        {IN, m->in, m->n_in * sizeof(*m->in)},
        {TABLE, m->table, RK_TABLE * sizeof(*m->table)},
        {OWN, m->own, m->n_own},
        {OUT, m->out, m->n_out * sizeof(*m->out)},
        {CELLS, m->cells, RK_CELLS * sizeof(*m->cells)},
    };
    CLEANUP_FREE char *text = rk_print(k);
    uint32_t word = k->param_word;
    uint64_t longer = k->param_long;
    void *params[] = {&card->at[IN],  &card->at[TABLE], &card->at[OWN],
                      &card->at[OUT], &card->at[CELLS], &word,
                      &longer};
    CUmodule mod = NULL;
    int r = compile(card, text, &mod, err);

    if (r < 0)
        return r;
    r = copy_up(card, parts, ARRAY_SIZE(parts), err);
    if (r == 0)
        r = set_table(card, mod, err);
    if (r == 0)
        r = launch(card, mod, k->grid, k->block, params, err);
    if (r == 0)
        r = copy_down(card, parts + OWN, ARRAY_SIZE(parts) - OWN, err);
    card->unload(mod);
    return r;
}

/* At least so many bytes; what it was is lost, and its memory stays with the process.
 */
static int
make_room(struct rk_card *card, CUdeviceptr *at, size_t *n, size_t wanted,
          struct gp_err *err)
{
    int r = 0;

    if (*n < wanted) {
        r = failed("cuMemAlloc", card->alloc(at, wanted), err);
        *n = r == 0 ? wanted : 0;
    }
    return r;
}

int
rk_card_run_text(struct rk_card *card, const char *text, unsigned grid, unsigned block,
                 const void *in, size_t n_in, void *out, size_t n_out,
                 struct gp_err *err)
{
    void *params[] = {&card->text_in, &card->text_out};
    CUmodule mod = NULL;
    int r = compile(card, text, &mod, err);

    if (r < 0)
        return r;
    r = make_room(card, &card->text_in, &card->n_text_in, n_in, err);
    if (r == 0)
        r = make_room(card, &card->text_out, &card->n_text_out, n_out, err);
    if (r == 0)
        r = failed("cuMemcpyHtoD", card->up(card->text_in, in, n_in), err);
    if (r == 0)
        r = launch(card, mod, grid, block, params, err);
    if (r == 0)
        r = failed("cuMemcpyDtoH", card->down(out, card->text_out, n_out), err);
    card->unload(mod);
    return r;
}

bool
rk_card_is_lost(const struct rk_card *card)
{
    return card->lost;
}
