/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_unit.h"

#include <stdlib.h>

void
sg_unit_free(struct sg_unit *unit)
{
    if (!unit)
        return;
    if (unit->native_end)
        unit->native_end(unit);
    for (uint32_t i = 0; unit->funcs && i < unit->n_funcs; i++)
        free(unit->funcs[i].consts);
    free(unit->funcs);
    free(unit->ops);
    free(unit->lines);
    free(unit->tables);
    free(unit->lists);
    free(unit->func_by_id);
    free(unit);
}
