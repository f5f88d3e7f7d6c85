/* SPDX-License-Identifier: Apache-2.0 */
/* Images kept by content: who gets one, which go first, what is not taken. */
#include "ut.h"

#include "srv_disposal.h"
#include "srv_images.h"
#include "wrk_request.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

#ifndef F_SEAL_EXEC /* Linux 6.3, which sets it itself where vm.memfd_noexec is set */
#define F_SEAL_EXEC 0x0020
#endif
/* Of a file: the image and what is behind it. */
#define SIZE (WIRE_IMAGE_NAMED_MIN + WRK_REQUEST_IMAGE_TAIL)

static const uint8_t nonce[WIRE_IMAGE_NONCE] = "one attachment";
static const uint8_t other_nonce[WIRE_IMAGE_NONCE] = "another attachment";

static struct wire_image_id
id_of(uint8_t number)
{
    struct wire_image_id id;

    memset(id.name, number, sizeof(id.name));
    memset(id.secret, 100 + number, sizeof(id.secret));
    return id;
}

static int
file_new(off_t size, int seals)
{
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
        assert_int_equal(errno, EINVAL);
        assert_true(seals & F_SEAL_EXEC);
        print_message("skip: this kernel knows no F_SEAL_EXEC\n");
        skip();
    }
    return fd;
}

static void
keep(struct srv_images *images, uint8_t number, uint64_t session)
{
    struct wire_image_id id = id_of(number);

    srv_images_keep(images, &id, file_new(SIZE, SEALS), session, 1);
}

static void
keep_of(struct srv_images *images, uint8_t number, uint64_t owner)
{
    struct wire_image_id id = id_of(number);

    srv_images_keep(images, &id, file_new(SIZE, SEALS), 7, owner);
}

static int
find(struct srv_images *images, uint8_t number, const uint8_t *with, bool *own)
{
    struct wire_image_id id = id_of(number);
    uint8_t proof[GP_BLAKE3_SIZE];

    wire_image_prove(id.secret, with, proof);
    return srv_images_find(images, id.name, proof, nonce, 7, own);
}

static void
image_is_found_by_who_proves_to_have_it(void **state)
{
    struct srv_images *images = NULL;
    bool own = true;

    assert_int_equal(srv_images_new(10 * SIZE, &images), 0);
    assert_int_equal(find(images, 1, nonce, &own), -1);
    keep(images, 1, 8);
    assert_true(find(images, 1, nonce, &own) >= 0);
    assert_false(own);
    keep(images, 2, 7);
    assert_true(find(images, 2, nonce, &own) >= 0);
    assert_true(own);
    assert_int_equal(srv_images_stats(images)->hits, 2);
    assert_int_equal(srv_images_stats(images)->misses, 1);
    assert_int_equal(srv_images_stats(images)->saved, 2 * WIRE_IMAGE_NAMED_MIN);
    srv_images_free(images);
}

/* The name travels and may leak; a proof may be overheard on another attachment. */
static void
name_alone_or_a_proof_of_another_attachment_opens_nothing(void **state)
{
    struct srv_images *images = NULL;
    struct wire_image_id id = id_of(1);
    bool own;

    assert_int_equal(srv_images_new(10 * SIZE, &images), 0);
    keep(images, 1, 7);
    assert_int_equal(srv_images_find(images, id.name, id.name, nonce, 7, &own), -1);
    assert_int_equal(srv_images_find(images, id.name, id.secret, nonce, 7, &own), -1);
    assert_int_equal(find(images, 1, other_nonce, &own), -1);
    assert_int_equal(srv_images_stats(images)->refused, 3);
    assert_int_equal(srv_images_stats(images)->hits, 0);
    srv_images_free(images);
}

static void
least_recently_used_goes_first_and_the_bound_holds(void **state)
{
    struct srv_images *images = NULL;
    bool own;

    assert_int_equal(srv_images_new(3 * SIZE + 5, &images), 0);
    for (uint8_t i = 1; i <= 3; i++)
        keep(images, i, 7);
    assert_true(find(images, 1, nonce, &own) >= 0);
    keep(images, 4, 7);
    assert_int_equal(srv_images_stats(images)->bytes, 3 * SIZE);
    assert_int_equal(srv_images_stats(images)->evicted, 1);
    assert_int_equal(find(images, 2, nonce, &own), -1);
    assert_true(find(images, 1, nonce, &own) >= 0);
    assert_true(find(images, 3, nonce, &own) >= 0);
    assert_true(find(images, 4, nonce, &own) >= 0);
    srv_images_free(images);
}

/* Who brings one image behind the other has only its own evicted. */
static void
owner_with_most_pays_for_what_comes(void **state)
{
    struct srv_images *images = NULL;
    bool own;

    (void)state;
    assert_int_equal(srv_images_new(6 * SIZE, &images), 0);
    keep_of(images, 1, 1);
    keep_of(images, 2, 1);
    for (uint8_t i = 10; i < 60; i++)
        keep_of(images, i, 2);
    assert_true(find(images, 1, nonce, &own) >= 0);
    assert_true(find(images, 2, nonce, &own) >= 0);
    assert_true(find(images, 59, nonce, &own) >= 0);
    assert_int_equal(find(images, 55, nonce, &own), -1);
    /* Others take back what it has beyond its part. */
    for (uint8_t i = 3; i < 6; i++)
        keep_of(images, i, 1);
    for (uint8_t i = 3; i < 6; i++)
        assert_true(find(images, i, nonce, &own) >= 0);
    assert_int_equal(find(images, 1, nonce, &own), -1);
    assert_int_equal(find(images, 2, nonce, &own), -1);
    assert_true(find(images, 57, nonce, &own) >= 0);
    keep_of(images, 6, 3);
    assert_true(find(images, 6, nonce, &own) >= 0);
    assert_int_equal(srv_images_stats(images)->count, 6);
    srv_images_free(images);
}

static void
number_of_images_is_bounded_too(void **state)
{
    struct srv_images *images = NULL;
    uint8_t wide[4];

    assert_int_equal(srv_images_new(UINT64_MAX / 2, &images), 0);
    for (uint32_t i = 0; i < SRV_IMAGES_MAX + 3; i++) {
        struct wire_image_id id = {.name = {0}};

        memcpy(wide, &i, sizeof(wide));
        memcpy(id.name, wide, sizeof(wide));
        srv_images_keep(images, &id, file_new(SIZE, SEALS), 7, 1);
    }
    assert_int_equal(srv_images_stats(images)->count, SRV_IMAGES_MAX);
    assert_int_equal(srv_images_stats(images)->evicted, 3);
    srv_images_free(images);
}

/* A file that its sender could still change or cut would be everybody's trouble. */
static void
file_that_could_change_is_not_kept(void **state)
{
    static const int too_few[] = {0, F_SEAL_WRITE, SEALS & ~F_SEAL_SHRINK,
                                  SEALS & ~F_SEAL_WRITE, SEALS & ~F_SEAL_SEAL};
    struct srv_images *images = NULL;
    struct wire_image_id id = id_of(1);
    bool own;

    assert_int_equal(srv_images_new(10 * SIZE, &images), 0);
    for (size_t i = 0; i < ARRAY_SIZE(too_few); i++)
        srv_images_keep(images, &id, file_new(SIZE, too_few[i]), 7, 1);
    srv_images_keep(images, &id, file_new(11 * SIZE, SEALS), 7, 1);
    srv_images_keep(images, &id, file_new(SIZE - 1, SEALS), 7, 1);
    srv_images_keep(images, &id, open("/dev/null", O_RDONLY | O_CLOEXEC), 7, 1);
    assert_int_equal(srv_images_stats(images)->count, 0);
    assert_int_equal(srv_images_stats(images)->refused, ARRAY_SIZE(too_few) + 3);
    assert_int_equal(find(images, 1, nonce, &own), -1);
    srv_images_free(images);
}

static void
file_that_the_kernel_has_sealed_further_is_kept(void **state)
{
    struct srv_images *images = NULL;
    struct wire_image_id id = id_of(1);
    int fd = file_new(SIZE, SEALS | F_SEAL_EXEC);

    assert_int_equal(srv_images_new(10 * SIZE, &images), 0);
    srv_images_keep(images, &id, fd, 7, 1);
    assert_int_equal(srv_images_stats(images)->count, 1);
    srv_images_free(images);
}

/* Who found out that an image is not what its name says brings the true one. */
static void
same_content_again_replaces_the_older_one(void **state)
{
    struct srv_images *images = NULL;
    struct wire_image_id liar = id_of(1);
    struct stat st;
    bool own;

    assert_int_equal(srv_images_new(10 * SIZE, &images), 0);
    keep(images, 1, 8);
    srv_images_keep(images, &(struct wire_image_id){.name = {9}}, file_new(SIZE, SEALS),
                    7, 1);
    /* Another with that name, under a secret that is not its content's. */
    memset(liar.secret, 0, sizeof(liar.secret));
    srv_images_keep(images, &liar, file_new(2 * SIZE, SEALS), 9, 1);
    assert_int_equal(fstat(find(images, 1, nonce, &own), &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_false(own);
    keep(images, 1, 7);
    assert_int_equal(srv_images_stats(images)->count, 3);
    assert_true(find(images, 1, nonce, &own) >= 0);
    assert_true(own);
    srv_images_free(images);
}

static void
cache_of_no_bytes_keeps_nothing(void **state)
{
    struct srv_images *images = NULL;
    bool own;

    assert_int_equal(srv_images_new(0, &images), 0);
    keep(images, 1, 7);
    assert_int_equal(find(images, 1, nonce, &own), -1);
    assert_int_equal(srv_images_stats(images)->bytes, 0);
    srv_images_free(images);
}

/* A socket whose last close waits until *ret_reader has taken everything. */
static int
lingering(int *ret_reader)
{
    const struct linger wait = {.l_onoff = 1, .l_linger = 600};
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    static const char some[65536];

    assert_int_equal(bind(listener, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
    *ret_reader = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*ret_reader >= 0);
    close(listener);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
    while (send(fd, some, sizeof(some), MSG_DONTWAIT) > 0)
        ;
    return fd;
}

/* What a worker sends may take long to close: a large file, a socket. */
static void
close_of_what_is_not_kept_keeps_nobody_waiting(void **state)
{
    struct srv_disposal *disposal = NULL;
    struct srv_images *images = NULL;
    struct wire_image_id id = id_of(1);
    int reader;

    (void)state;
    assert_int_equal(srv_disposal_new(&disposal, NULL), 0);
    assert_int_equal(srv_images_new(10 * SIZE, &images), 0);
    srv_images_use_disposal(images, disposal);
    srv_images_keep(images, &id, lingering(&reader), 7, 1);
    assert_int_equal(srv_images_stats(images)->refused, 1);
    close(reader); /* the other end is reset, and nobody waits any more */
    srv_images_free(images);
    srv_disposal_free(disposal, true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(image_is_found_by_who_proves_to_have_it),
        cmocka_unit_test(name_alone_or_a_proof_of_another_attachment_opens_nothing),
        cmocka_unit_test(least_recently_used_goes_first_and_the_bound_holds),
        cmocka_unit_test(owner_with_most_pays_for_what_comes),
        cmocka_unit_test(number_of_images_is_bounded_too),
        cmocka_unit_test(file_that_could_change_is_not_kept),
        cmocka_unit_test(file_that_the_kernel_has_sealed_further_is_kept),
        cmocka_unit_test(same_content_again_replaces_the_older_one),
        cmocka_unit_test(cache_of_no_bytes_keeps_nothing),
        cmocka_unit_test(close_of_what_is_not_kept_keeps_nobody_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
