/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_list_next.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OF_LEADER 'l'

static bool
is_by_server(const Gpupool__Ctl__CtlList *want)
{
    return want->kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS ||
           want->kind == GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS;
}

bool
sched_list_next_is_of_copy(const Gpupool__Ctl__CtlList *want)
{
    return is_by_server(want) && *want->next && *want->next != OF_LEADER;
}

bool
sched_list_next_is_of_leader(const Gpupool__Ctl__CtlList *want)
{
    return is_by_server(want) && *want->next == OF_LEADER;
}

void
sched_list_next_write(char text[CTL_LIST_NEXT_MAX], uint64_t a, uint64_t b,
                      bool of_leader)
{
    static const char mark[] = {OF_LEADER, '\0'};

    snprintf(text, CTL_LIST_NEXT_MAX, "%s%" PRIx64 ".%" PRIx64, of_leader ? mark : "",
             a, b);
}

static bool
hex_number(const char **text, char end, uint64_t *ret)
{
    const char *at = *text;

    *ret = 0;
    for (unsigned digits = 0;; digits++, at++) {
        const char *digit = *at ? strchr("0123456789abcdef", *at) : NULL;

        if (!digit) {
            *text = at + 1;
            return digits && *at == end;
        }
        if (digits == 16)
            return false;
        *ret = *ret << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
}

bool
sched_list_next_read(const char *text, uint64_t ret[2])
{
    ret[0] = ret[1] = 0;
    if (!*text)
        return true;
    text += *text == OF_LEADER;
    return hex_number(&text, '.', &ret[0]) && hex_number(&text, 0, &ret[1]);
}
