/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_private.h"

#include <sys/prctl.h>

/* Neither call can fail: the limit only goes down, and any process may stop being
 * dumpable. */
void
gp_private_begin(struct rlimit *ret_core)
{
    struct rlimit none = {0};

    if (ret_core) {
        getrlimit(RLIMIT_CORE, ret_core);
        none.rlim_max = ret_core->rlim_max;
    }
    setrlimit(RLIMIT_CORE, &none);
#ifndef GP_SANITIZED
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

void
gp_private_restore(const struct rlimit *core)
{
    setrlimit(RLIMIT_CORE, core);
}
