/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_seal.h"

#include "gp_err.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* From the linker: where the section begins and ends. */
extern char __start_wrk_sealed[], __stop_wrk_sealed[];

int
wrk_seal(struct gp_err *err)
{
    size_t len = (size_t)(__stop_wrk_sealed - __start_wrk_sealed);

    if (mprotect(__start_wrk_sealed, len, PROT_READ) < 0)
        return gp_err_set(err, -errno, "the driver's table stays writable: %s",
                          strerror(errno));
    return 0;
}
