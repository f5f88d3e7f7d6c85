/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of users, as the scheduler's file of users (--users-file) and
 * `gpupool init --users` name them.  Values only; any thread.
 */
#ifndef CTL_RIGHTS_H
#define CTL_RIGHTS_H

#include <errno.h>
#include <string.h>

enum ctl_right {
    CTL_RIGHT_OPEN,
    CTL_RIGHT_READ,
    CTL_RIGHT_END,
    CTL_RIGHT_DRAIN,
    CTL_RIGHT_FORWARD,
    CTL_RIGHTS
};

#define CTL_RIGHT_WORDS "open, read, end, drain or forward"

/* Which right @word names; -EINVAL: none. */
static inline int
ctl_right_parse(const char *word)
{
    static const char *const names[CTL_RIGHTS] = {"open", "read", "end", "drain",
                                                  "forward"};

    for (int i = 0; i < CTL_RIGHTS; i++)
        if (!strcmp(word, names[i]))
            return i;
    return -EINVAL;
}

#endif
