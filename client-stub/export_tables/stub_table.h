/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private tables that cuGetExportTable hands to runtimes and libraries.
 *
 * A table is an array of words; the first is its size in bytes, except in the storage
 * table.  Each family has a file of its own (stub_table_*.c) that fills one struct
 * stub_table; stub_table.c has the list and refuses all other tables.  Tables are
 * constant and are never freed.  Only the slots that a runtime was seen to call are
 * filled.
 */
#ifndef STUB_TABLE_H
#define STUB_TABLE_H

#include "cuda_abi.h"

struct stub_table {
    const char *name;
    unsigned char id[16];
    const void *words;
};

/* The function in every slot that nothing is known to call: logs a line, once per
 * @table, and refuses.  A runtime that is newer than this stub gets an error instead
 * of a crash. */
CUresult stub_table_unserved(const struct stub_table *table);

extern const struct stub_table stub_table_cudart;   /* stub_table_cudart.c */
extern const struct stub_table stub_table_hooks;    /* stub_table_hooks.c */
extern const struct stub_table stub_table_thread;   /* stub_table_thread.c */
extern const struct stub_table stub_table_storage;  /* stub_table_storage.c */
extern const struct stub_table stub_table_ctxchk;   /* stub_table_ctx.c */
extern const struct stub_table stub_table_ctx;      /* stub_table_ctx.c */
extern const struct stub_table stub_table_module;   /* stub_table_module.c */
extern const struct stub_table stub_table_nvml;     /* stub_table_nvml.c */
extern const struct stub_table stub_table_profiler; /* stub_table_profiler.c */
extern const struct stub_table stub_table_cublas;   /* stub_table_cublas.c */
extern const struct stub_table stub_table_check;    /* stub_validity.c */

#endif
