/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_tls.h"

#include "tls.h"

#include <errno.h>

int
wrk_tls_layer(const struct tls_keys *keys, struct gp_wire **ret, struct gp_err *err)
{
    const struct tls_api *tls;

    *ret = NULL;
    if (!keys->suite)
        return 0;
    tls = tls_found(err);
    return tls ? tls->wire_new(keys, ret, err) : -ENOENT;
}
