/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of objects that come one by one and leave in any order, at a cost that does not
 * depend on how many there are.
 *
 * A list is a pointer to its newest object, NULL when it is empty.  The objects have
 * two fields of their type T for one list: `struct T *next`, and `struct T **at`, which
 * is where the pointer to the object is while it is in the list.  Who walks a list
 * follows next.  The list does not move; it and the locks are the owner's.
 */
#ifndef GP_LIST_H
#define GP_LIST_H

#include <stddef.h>

/* @e becomes the first of the list at @list. */
#define GP_LIST_ADD(list, e)                                                           \
    do {                                                                               \
        (e)->next = *(list);                                                           \
        (e)->at = (list);                                                              \
        if ((e)->next)                                                                 \
            (e)->next->at = &(e)->next;                                                \
        *(list) = (e);                                                                 \
    } while (0)

/* @e leaves the list that it is in, if it is in one. */
#define GP_LIST_DROP(e)                                                                \
    do {                                                                               \
        if (!(e)->at)                                                                  \
            break;                                                                     \
        *(e)->at = (e)->next;                                                          \
        if ((e)->next)                                                                 \
            (e)->next->at = (e)->at;                                                   \
        (e)->at = NULL;                                                                \
    } while (0)

#endif
