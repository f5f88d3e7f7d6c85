/* SPDX-License-Identifier: Apache-2.0 */
#include "view_files.h"

#include "gp_base.h"

#include <string.h>

/* The bytes of a file, from NAME_data up to NAME_end.  The build runs in the
 * repository's root, and build.mk says what this object depends on. */
#define EMBED(name, file)                                                              \
    __asm__(".section .rodata\n" #name "_data: .incbin \"" file "\"\n" #name           \
            "_end: .byte 0\n"                                                          \
            ".previous\n");                                                            \
    extern const char name##_data[] __attribute__((visibility("hidden")));             \
    extern const char name##_end[] __attribute__((visibility("hidden")))

EMBED(view_html, "pool-scheduler/web/index.html");
EMBED(view_css, "pool-scheduler/web/page.css");
EMBED(view_js, "pool-scheduler/web/page.js");
EMBED(view_openapi, "docs/openapi.json");

const struct view_file *
view_file_find(const char *path)
{
    static const struct view_file files[] = {
        {"/", "text/html; charset=utf-8", view_html_data, view_html_end},
        {"/page.css", "text/css; charset=utf-8", view_css_data, view_css_end},
        {"/page.js", "text/javascript; charset=utf-8", view_js_data, view_js_end},
        {"/api/v1/openapi.json", "application/json", view_openapi_data,
         view_openapi_end},
    };

    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (!strcmp(files[i].path, path))
            return &files[i];
    return NULL;
}
