/* SPDX-License-Identifier: Apache-2.0 */
#include "smi_nvml.h"
#include "cli.h"
#include "gp_err.h"
#include "gp_str.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

struct smi_nvml smi_nvml;

static bool
in_session(void)
{
    return getenv("GPUPOOL_SESSION_FILE") || getenv("GPUPOOL_TICKET") ||
           getenv("GPUPOOL_SERVER");
}

/* The loader's first choice; else the one of this installation, which says best what is
 * missing. */
static void *
library(void)
{
    void *found = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    CLEANUP_FREE char *folder = found ? NULL : cli_path_lib();
    CLEANUP_FREE char *file =
        folder ? gp_str_printf("%s/libnvidia-ml.so.1", folder) : NULL;

    return file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : found;
}

int
smi_nvml_open(struct gp_err *err)
{
    void *lib = library();
    int r;

    if (!lib)
        return gp_err_set(err, -ENOENT,
                          "there is no libnvidia-ml.so.1; in a session there is one: "
                          "gpupool run --core 10 --memory 1GiB -- nvidia-smi");
#define X(name, parameters) smi_nvml.name = (int(*) parameters)dlsym(lib, #name);
    SMI_NVML_FUNCTIONS(X)
#undef X
    r = SMI_CALL(nvmlInit_v2);
    if (r == NVML_SUCCESS)
        return 0;
    if (!in_session())
        return gp_err_set(err, -ENODEV,
                          "this is not a session, and this machine has no card; "
                          "`gpupool run --core 10 --memory 1GiB -- nvidia-smi` shows a "
                          "slice, `gpupool status` the whole pool");
    return gp_err_set(err, -ENODEV,
                      "the session has no card (NVML error %d); `gpupool doctor` says "
                      "what is wrong",
                      r);
}
