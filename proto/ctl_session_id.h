/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's id as text: "0x" and 16 hexadecimal digits.
 *
 * Ids are larger than 2^53, so programs that read JSON's numbers as doubles round them,
 * to what may be the id of another session.  Text is not rounded, and no number that
 * was rounded is taken for it.  Pure functions.
 */
#ifndef CTL_SESSION_ID_H
#define CTL_SESSION_ID_H

#include "gp_base.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CTL_SESSION_ID_TEXT 19 /* with the NUL */

static inline void
ctl_session_id_format(uint64_t id, char text[CTL_SESSION_ID_TEXT])
{
    snprintf(text, CTL_SESSION_ID_TEXT, "0x%016" PRIx64, id);
}

/* False: @text is no id; *ret_id is then untouched. */
static inline bool
ctl_session_id_parse(const char *text, uint64_t *ret_id)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t id = 0;

    if (strlen(text) != CTL_SESSION_ID_TEXT - 1 || memcmp(text, "0x", 2) != 0)
        return false;
    for (const char *c = text + 2; *c; c++) {
        const char *digit = strchr(digits, *c);

        if (!digit)
            return false;
        id = id << 4 | (uint64_t)(digit - digits);
    }
    *ret_id = id;
    return true;
}

#endif
