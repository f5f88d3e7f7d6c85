/* SPDX-License-Identifier: Apache-2.0 */
/* The web page and the API's description, which are part of the program. */
#ifndef VIEW_FILES_H
#define VIEW_FILES_H

#include <stddef.h>

struct view_file {
    const char *path, *type; /* in a URL; Content-Type */
    const char *data, *end;
};

/* NULL: there is no such file. */
const struct view_file *view_file_find(const char *path);

#endif
