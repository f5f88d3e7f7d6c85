/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_cond.h"

#include "sg_handle.h"
#include "sg_lock.h"

#include <stdlib.h>

struct sg_cond *
sg_cond_ref(struct sg_cond *cond)
{
    cond->refs++;
    return cond;
}

void
sg_cond_unref(struct sg_cond *cond)
{
    if (!cond || --cond->refs)
        return;
    sg_handle_drop(cond->handle);
    free(cond);
}

void
sg_cond_hook(void *user, uint64_t handle, uint32_t value)
{
    struct sg_cond *cond;

    (void)user;
    sg_lock();
    cond = sg_handle_get(SG_KIND_COND, handle);
    if (cond) /* a handle that names nothing is undefined to set: nothing happens */
        cond->value = value;
    sg_unlock();
}
