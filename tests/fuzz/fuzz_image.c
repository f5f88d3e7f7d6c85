/* SPDX-License-Identifier: Apache-2.0 */
/* Containers against hostile bytes: measuring, walking, unpacking, choosing. */
#include "gp_err.h"
#include "gp_fatbin.h"
#include "gp_image.h"
#include "ptx_ast.h"
#include "sg_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
walk_entries(const struct gp_image *image)
{
    struct gp_fatbin_entry entry;
    size_t pos = 0;

    while (gp_fatbin_next(image->data, image->len, &pos, &entry, NULL) == 1) {
        size_t len;
        char *text;

        if (gp_fatbin_unpack(&entry, &text, &len, NULL) == 0)
            free(text);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module *mod = NULL;
    struct gp_image image;
    struct gp_err err = {0};

    if (gp_image_measure(data, size, &image, NULL) == 0) {
        if (image.len > size)
            __builtin_trap();
        if (image.kind == GP_IMAGE_FATBIN)
            walk_entries(&image);
    }
    if (sg_image_parse(data, size, 86, &mod, &err) < 0 && !err.msg[0])
        __builtin_trap(); /* a refusal without words */
    ptx_module_free(mod);
    return 0;
}
