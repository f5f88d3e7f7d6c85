/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running one PTX kernel in a test: text in, buffers in and out.
 *
 * A fixture holds the module, its instance and a memory view; buffers are real mappings
 * in it.  One thread per CTA object; ut_sgx_run() runs all CTAs on one thread in order,
 * ut_sgx_run_threads() on several.
 */
#ifndef UT_SGX_H
#define UT_SGX_H

#include "sg_exec.h"

#include <stdbool.h>

#define UT_SGX_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define UT_SGX_MAX_BUFS 8

struct ut_sgx {
    struct ptx_module *mod;
    struct sg_prog *prog;
    struct sg_inst *inst;
    struct sg_memview *view;
    struct sg_launch launch;
    struct sg_hooks hooks;
    uint64_t params[32];
    void *bufs[UT_SGX_MAX_BUFS + 16];
    size_t n_bufs;
    char printed[4096];
    size_t n_printed;
    int cancel;
    struct sg_finding found[8]; /* of checks; on one thread only */
    size_t n_found;
};

/* Fails the test on any error.  The kernel is "k". */
void ut_sgx_open(struct ut_sgx *u, const char *ptx);
/* The same with a module that is parsed already; ut_sgx_close() frees it. */
void ut_sgx_open_module(struct ut_sgx *u, struct ptx_module *mod);
/* With checks: SG_CHECK_*. */
void ut_sgx_open_checked(struct ut_sgx *u, const char *ptx, unsigned check);
void ut_sgx_close(struct ut_sgx *u);

/* Of a launch with checks that has ended, and @u is closed: nothing was found in a
 * kernel that keeps to the rules; or among what was found there is this. */
void ut_sgx_is_clean(struct ut_sgx *u, const char *ptx);
void ut_sgx_has(struct ut_sgx *u, enum sg_finding_kind kind, const char *words);
/* Zeroed device memory of exactly @bytes; out of range right behind it. */
void *ut_sgx_buf(struct ut_sgx *u, size_t bytes);
void ut_sgx_param(struct ut_sgx *u, unsigned index, uint64_t value);
void ut_sgx_shape(struct ut_sgx *u, unsigned grid, unsigned block);
/* The state of the last CTA that ran; stops at the first that is not DONE. */
enum sg_cta_state ut_sgx_run(struct ut_sgx *u);
enum sg_cta_state ut_sgx_run_threads(struct ut_sgx *u, unsigned threads);
/* All CTAs resident, a slice of @budget each in turn, as cooperative launches need. */
enum sg_cta_state ut_sgx_run_resident(struct ut_sgx *u, uint64_t budget);
/* What ut_sgx_open() would fail with: the error of preparing "k". */
int ut_sgx_prepare_error(const char *ptx, char *words, size_t size);

#endif
