/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the name of every attack: a test goes through all of them. */
#include "hostile.h"

#include <stdio.h>

int
main(void)
{
    for (unsigned i = 0; hostile_name(i); i++)
        puts(hostile_name(i));
    return 0;
}
