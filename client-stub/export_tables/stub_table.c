/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetExportTable: which private tables there are.
 *
 * Two known tables are refused on purpose: the one that runtimes 13.0 ask for before
 * cuInit (any error will do), and the compiler's (served, NVRTC produces empty images).
 */
#include "stub_table.h"

#include "gp_base.h"
#include "gp_log.h"
#include "gp_str.h"
#include "stub_manual.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

static const struct stub_table *const tables[] = {
    &stub_table_cudart,   &stub_table_hooks,  &stub_table_thread, &stub_table_storage,
    &stub_table_ctxchk,   &stub_table_ctx,    &stub_table_module, &stub_table_nvml,
    &stub_table_profiler, &stub_table_cublas,
#ifndef STUB_NO_VALIDITY
    &stub_table_check,
#endif
};

#ifdef STUB_NO_VALIDITY
/* A runtime's own error does not say why: this library's builder decided it. */
static bool
table_is_left_out(const char *id)
{
    static const char check_id[] = "d4082055bde6704b8d34ba123c66e1f2";

    if (strcmp(id, check_id) != 0)
        return false;
    gp_log_error("stub",
                 "this libcuda.so.1 is built without the check that the CUDA runtime "
                 "asks for (VALIDITY=no): only programs of the driver API run");
    return true;
}
#else
static bool
table_is_left_out(const char *id)
{
    return false;
}
#endif

CUresult
stub_table_unserved(const struct stub_table *table)
{
    static atomic_uint said;
    unsigned int bit = 0;

    while (bit < ARRAY_SIZE(tables) && tables[bit] != table)
        bit++;
    if (!(atomic_fetch_or(&said, 1u << bit) & 1u << bit))
        gp_log_error(
            "stub",
            "the program's CUDA runtime called a private function of table "
            "\"%s\" that this libcuda.so.1 does not have: the runtime is newer",
            table->name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
stub_impl_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    char id[2 * sizeof(pExportTableId->bytes) + 1];

    if (!ppExportTable || !pExportTableId)
        return CUDA_ERROR_INVALID_VALUE;
    *ppExportTable = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        if (memcmp(pExportTableId->bytes, tables[i]->id, sizeof(tables[i]->id)) == 0) {
            *ppExportTable = tables[i]->words;
            return CUDA_SUCCESS;
        }
    }
    gp_str_hex(id, pExportTableId->bytes, sizeof(pExportTableId->bytes));
    if (!table_is_left_out(id))
        gp_log_info("stub", "cuGetExportTable: table %s is not served", id);
    return CUDA_ERROR_INVALID_VALUE;
}
