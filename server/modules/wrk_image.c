/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_image.h"

#include "gp_err.h"
#include "gp_image.h"
#include "gp_log.h"
#include "wire_result.h"
#include "wrk.h"
#include "wrk_images.h"
#include "wrk_transfer.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

/* What another session's worker says of an image is accepted up to here. */
#define FOREIGN_VARIABLES_MAX (UINT64_C(1) << 20)

/* What the client named last and is to send now; 0: nothing. */
static uint64_t wanted_len;

/* ---- bytes ---- */

/* Straight into a file that can be handed on as it is. */
static bool
map_new(struct wrk_image *image, uint64_t len)
{
    void *bytes;
    int fd = wrk_images_file(len);

    if (fd < 0)
        return false;
    bytes = mmap(NULL, len + 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        close(fd);
        return false;
    }
    image->bytes = bytes;
    image->file = fd;
    image->mapped = true;
    return true;
}

static CUresult
receive(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
        const uint8_t *inside, uint64_t len)
{
    if (len == 0 || len > WRK_IMAGE_MAX)
        return CUDA_ERROR_INVALID_IMAGE;
    image->wanted = wanted_len == len && !inside && map_new(image, len);
    wanted_len = 0;
    if (!image->bytes)
        image->bytes = malloc(len + 1);
    if (!image->bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    image->len = len;
    image->bytes[len] = 0; /* the end of a PTX text */
    if (inside)
        memcpy(image->bytes, inside, len);
    else if (rep->bulk != len || wrk_transfer_receive(w, rep, image->bytes) < 0)
        return CUDA_ERROR_INVALID_IMAGE;
    return CUDA_SUCCESS;
}

/* Another session's worker brought it: it may have been taken over, and lie. */
static bool
is_named(const struct wrk_image *image, const struct wire_image_ref *ref,
         const unsigned long long *parts, uint32_t n_parts)
{
    struct iovec pieces[WRK_IMAGE_PIECES] = {{image->bytes, image->len}};
    struct wire_image_id id;
    uint64_t at = 0;

    for (uint32_t i = 0; i < n_parts; i++) {
        if (parts[i] > image->len - at)
            return false;
        pieces[i] = (struct iovec){image->bytes + at, parts[i]};
        at += parts[i];
    }
    wire_image_identify(pieces, n_parts ? n_parts : 1, &id);
    return wire_image_same(id.name, ref->name);
}

static CUresult
find(struct wrk *w, struct wrk_image *image, const struct wire_image_ref *ref,
     const unsigned long long *parts, uint32_t n_parts)
{
    bool own = false;
    void *bytes;
    int fd;

    if (ref->len < WIRE_IMAGE_NAMED_MIN || ref->len > WRK_IMAGE_MAX ||
        n_parts > WRK_IMAGE_PIECES)
        return CUDA_ERROR_INVALID_IMAGE;
    wanted_len = ref->len;
    fd = wrk_images_find(w, ref, &own);
    if (fd < 0)
        return WIRE_RESULT_WANT_IMAGE;
    bytes = mmap(NULL, ref->len + 1, PROT_READ, MAP_PRIVATE, fd, 0);
    if (pread(fd, &image->note, sizeof(image->note), (off_t)ref->len + 1) !=
        (ssize_t)sizeof(image->note))
        image->note = (struct wrk_images_note){0};
    close(fd);
    if (bytes == MAP_FAILED)
        return WIRE_RESULT_WANT_IMAGE;
    image->bytes = bytes;
    image->file = -1;
    image->mapped = true;
    image->len = ref->len;
    image->own = own;
    /* A session knows what it has brought, but its client says where pieces end. */
    if (image->bytes[ref->len] != 0 ||
        ((!own || n_parts) && !is_named(image, ref, parts, n_parts)))
        return WIRE_RESULT_WANT_IMAGE;
    wanted_len = 0;
    return CUDA_SUCCESS;
}

static bool
is_ref(struct wrk *w, const uint8_t *inside, uint64_t len, struct wire_image_ref *ret)
{
    if (!inside || len != sizeof(*ret) || !w->priv->conf.images)
        return false;
    memcpy(ret, inside, sizeof(*ret));
    return ret->magic == WIRE_IMAGE_REF_MAGIC;
}

/* ---- what the driver gets ---- */

/* One image must be inside its bytes and must not be a wrapper: that is pointers.  A
 * driver reads a text up to its NUL, so @ends: there must be one. */
static CUresult
check_one(const uint8_t *bytes, uint64_t len, bool ends)
{
    struct gp_err err = {0};
    struct gp_image found;
    int r = gp_image_measure(bytes, len, &found, &err);

    if (r < 0 || found.kind == GP_IMAGE_WRAPPER) {
        gp_log_warn("image", "refused: %s",
                    r < 0 ? gp_err_msg(&err, r) : "a wrapper, which is only pointers");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (ends && found.kind == GP_IMAGE_PTX && found.len == len) {
        gp_log_warn("image", "refused: a text that goes on in the next piece");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_SUCCESS;
}

/* Pieces: the linked image, then each unit's own; the driver gets a wrapper of the
 * second version around them. */
static CUresult
wrap(struct wrk_image *image, uint64_t len, const unsigned long long *parts,
     uint32_t n_parts)
{
    uint64_t at = 0;

    if (n_parts > WRK_IMAGE_PIECES)
        return CUDA_ERROR_INVALID_IMAGE;
    for (uint32_t i = 0; i < n_parts; i++) {
        CUresult r;

        if (parts[i] > len - at)
            return CUDA_ERROR_INVALID_IMAGE;
        r = check_one(image->bytes + at, parts[i], i + 1 < n_parts);
        if (r != CUDA_SUCCESS)
            return r;
        image->parts[i] = image->bytes + at;
        at += parts[i];
    }
    if (at != len)
        return CUDA_ERROR_INVALID_IMAGE;
    image->parts[n_parts] = NULL;
    image->wrapper.magic = GP_IMAGE_WRAPPER_MAGIC;
    image->wrapper.version = 2;
    image->wrapper.data = image->parts[0];
    image->wrapper.parts = image->parts + 1;
    image->code = &image->wrapper;
    return CUDA_SUCCESS;
}

static CUresult
take(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
     const uint8_t *inside, uint64_t len, const unsigned long long *parts,
     uint32_t n_parts)
{
    struct wire_image_ref ref;

    return is_ref(w, inside, len, &ref) ? find(w, image, &ref, parts, n_parts)
                                        : receive(w, rep, image, inside, len);
}

static CUresult
check_input(const struct wrk_image *image, CUjitInputType type)
{
    uint32_t magic = 0;

    memcpy(&magic, image->bytes, gp_min(image->len, (uint64_t)sizeof(magic)));
    switch ((int)type) {
    case CU_JIT_INPUT_CUBIN:
    case CU_JIT_INPUT_PTX:
    case CU_JIT_INPUT_FATBINARY:
        if (magic == GP_IMAGE_WRAPPER_MAGIC)
            return CUDA_ERROR_INVALID_IMAGE;
        /* What has no lengths inside leads no driver beyond its end, and what is wrong
         * with it is for the driver to say, in the program's log as well. */
        if (type != CU_JIT_INPUT_CUBIN && magic != GP_IMAGE_FATBIN_MAGIC &&
            memcmp(&magic, ELFMAG, SELFMAG) != 0)
            return CUDA_SUCCESS;
        if (check_one(image->bytes, image->len, false) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        /* A linker's word for what is none of its inputs. */
        return type == CU_JIT_INPUT_PTX ? CUDA_ERROR_INVALID_PTX
                                        : CUDA_ERROR_NO_BINARY_FOR_GPU;
    default:
        return magic == GP_IMAGE_WRAPPER_MAGIC ? CUDA_ERROR_INVALID_IMAGE
                                               : CUDA_SUCCESS;
    }
}

CUresult
wrk_image_take_input(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
                     CUjitInputType type, const uint8_t *inside, uint64_t len)
{
    CUresult r = take(w, rep, image, inside, len, NULL, 0);

    image->code = image->bytes;
    return r == CUDA_SUCCESS ? check_input(image, type) : r;
}

CUresult
wrk_image_take(struct wrk *w, struct wrk_reply *rep, struct wrk_image *image,
               const uint8_t *inside, uint64_t len, const unsigned long long *parts,
               uint32_t n_parts)
{
    CUresult r = take(w, rep, image, inside, len, parts, n_parts);

    if (r != CUDA_SUCCESS)
        return r;
    if (n_parts)
        return wrap(image, image->len, parts, n_parts);
    image->code = image->bytes;
    return check_one(image->bytes, image->len, false);
}

size_t
wrk_image_pieces(const struct wrk_image *image, const unsigned long long *parts,
                 uint32_t n_parts, struct iovec *ret)
{
    uint64_t at = 0;

    if (!n_parts) {
        ret[0] = (struct iovec){image->bytes, image->len};
        return 1;
    }
    for (uint32_t i = 0; i < n_parts; i++) {
        ret[i] = (struct iovec){image->bytes + at, parts[i]};
        at += parts[i];
    }
    return n_parts;
}

/* Of one image, or of pieces, whose name says where each of them ends. */
static uint64_t
note_of(const struct wrk_image *image, unsigned sm)
{
    return sm | (image->code == &image->wrapper ? UINT64_C(1) << 32 : 0);
}

bool
wrk_image_variables_known(const struct wrk_image *image, unsigned sm, uint64_t *ret)
{
    if (image->note.sm != note_of(image, sm) ||
        (!image->own && image->note.bytes > FOREIGN_VARIABLES_MAX))
        return false;
    *ret = image->note.bytes;
    return true;
}

void
wrk_image_variables_found(struct wrk_image *image, unsigned sm, uint64_t bytes)
{
    struct wrk_images_note note = {note_of(image, sm), bytes};

    if (image->wanted && pwrite(image->file, &note, sizeof(note),
                                (off_t)image->len + 1) != (ssize_t)sizeof(note))
        gp_log_debug("image", "what it needs of a card was not noted");
}

void
wrk_image_keep(struct wrk_image *image, const unsigned long long *parts,
               uint32_t n_parts)
{
    if (!image->wanted)
        return;
    /* A file that is mapped for writing cannot be sealed. */
    munmap(TAKE_PTR(image->bytes), image->len + 1);
    image->mapped = image->wanted = false;
    wrk_images_keep(image->file, image->len, parts, n_parts);
}

void
wrk_image_fini(struct wrk_image *image)
{
    if (!image->mapped) {
        free(image->bytes);
        return;
    }
    munmap(image->bytes, image->len + 1);
    if (image->file >= 0)
        close(image->file);
}
