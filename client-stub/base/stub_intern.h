/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings that live as long as the process, one copy of each: names of kernels and the
 * like, which the driver hands out as pointers that nobody frees.  Any thread.
 */
#ifndef STUB_INTERN_H
#define STUB_INTERN_H

/* The one copy of @text; "" when there is no memory for it. */
const char *stub_intern(const char *text);

#endif
