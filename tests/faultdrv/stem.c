/* SPDX-License-Identifier: Apache-2.0 */
#include "faultdrv.h"

#include <stdbool.h>
#include <string.h>

static bool
cut(char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);

    if (n <= t || strcmp(name + n - t, tail) != 0)
        return false;
    name[n - t] = 0;
    return true;
}

void
faultdrv_stem(char *name)
{
    static const char *const tails[] = {"_ptsz", "_ptds", "_v2",       "_v3",
                                        "Async", "Ex",    "WithFlags", "WithPriority"};
    bool again = true;

    while (again) {
        again = false;
        for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
            again = cut(name, tails[i]) || again;
    }
}
