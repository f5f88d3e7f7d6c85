/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it wants in front of it, for every unit test. */
#ifndef UT_H
#define UT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#endif
